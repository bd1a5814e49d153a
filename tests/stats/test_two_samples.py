"""The interval of the distance of two samples."""

from __future__ import annotations

import numpy as np
import scipy.stats

from traceana.stats.two_samples import ks_interval


def test_the_interval_of_the_distance_knows_its_ends_and_repeats() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=200), rng.normal(2, 1, 300)
    low, high = ks_interval(x, y, confidence=0.95, resamples=200, rng=np.random.default_rng(3))
    # of two normals a distance of 2 apart the largest gap is 2 Phi(1) - 1
    assert low < 2 * scipy.stats.norm.cdf(1) - 1 < high < 1
    again = ks_interval(x, y, confidence=0.95, resamples=200, rng=np.random.default_rng(3))
    assert again == (low, high)
    narrow = ks_interval(x, y, confidence=0.5, resamples=200, rng=np.random.default_rng(3))
    assert low < narrow[0] < narrow[1] < high


def test_small_and_tied_samples_of_one_distribution_are_covered() -> None:
    rng, covered = np.random.default_rng(4), 0
    for _ in range(200):
        x, y = rng.integers(0, 8, 15).astype(float), rng.integers(0, 8, 25).astype(float)
        low, _ = ks_interval(x, y, confidence=0.95, resamples=100, rng=rng)
        covered += low == 0
    assert covered >= 190 - 3 * 3.1
