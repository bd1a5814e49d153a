"""The interval of the distance of two samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

from traceana.stats import permutation
from traceana.stats.permutation import ks_interval


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


class Drawn(np.random.Generator):
    """Resamples that were written down, in their order."""

    def __init__(self, counts: list[list[int]]) -> None:
        super().__init__(np.random.PCG64(1))
        self.counts = {sum(row): [r for r in counts if len(r) == len(row)] for row in counts}
        self.sizes: list[int] = []

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> np.ndarray:
        assert pvals == pytest.approx(np.full(n, 1 / n))
        self.sizes.append(size)
        rows, self.counts[n] = self.counts[n][:size], self.counts[n][size:]
        return np.array(rows)


@pytest.mark.parametrize("at_once", [1, 7, 14, 1000])
def test_the_quantile_of_the_change_of_the_difference_by_hand(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(permutation, "_AT_ONCE", at_once)
    x, y = np.array([3.0, 1, 4]), np.array([2.0, 3, 3, 9])
    firsts = [[1, 2, 0], [0, 0, 3], [1, 1, 1]]
    seconds = [[4, 0, 0, 0], [0, 1, 3, 0], [1, 0, 0, 3]]
    changes = []
    grid = np.unique([*x, *y])

    def gap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result: np.ndarray = (a[:, None] <= grid).mean(axis=0) - (b[:, None] <= grid).mean(axis=0)
        return result

    for first, second in zip(firsts, seconds, strict=True):
        resampled = gap(np.repeat(x, first), np.repeat(y, second))
        changes.append(np.abs(resampled - gap(x, y)).max())
    # Kolmogorov's quantile is below that of the resamples
    rng = Drawn(firsts + seconds)
    low, high = ks_interval(x, y, confidence=0.02, resamples=3, rng=rng)
    reach = np.quantile(changes, 0.02)
    assert reach > scipy.stats.kstwobign.ppf(0.02) * np.sqrt(1 / 3 + 1 / 4)
    distance = np.abs(gap(x, y)).max()
    assert (low, high) == pytest.approx((max(0, distance - reach), min(1, distance + reach)))
    assert rng.sizes == {1: [1] * 6, 7: [1] * 6, 14: [2, 2, 1, 1], 1000: [3, 3]}[at_once]


def test_the_distance_of_small_samples_is_as_uncertain_as_kolmogorovs() -> None:
    # resamples of samples without overlap have no change beyond 0 and 1
    x, y = np.zeros(40), np.ones(90)
    low, high = ks_interval(x, y, confidence=0.9, resamples=5, rng=np.random.default_rng(1))
    assert low == pytest.approx(1 - scipy.stats.kstwobign.ppf(0.9) * np.sqrt(1 / 40 + 1 / 90))
    assert high == 1
