"""Two samples beside each other, against scipy and against counting."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from traceana.stats.two_samples import ks_distance_two, ks_interval, superiority

SAMPLES = st.lists(st.integers(0, 9).map(float), min_size=2, max_size=12).map(np.array)


@given(SAMPLES, SAMPLES)
def test_superiority_is_the_share_of_pairs(x: np.ndarray, y: np.ndarray) -> None:
    pairs = (x[:, None] > y).mean() + (x[:, None] == y).mean() / 2
    found = superiority(x, y, confidence=0.95)
    assert np.isclose(found.estimate, pairs)
    assert np.isclose(superiority(y, x, confidence=0.95).estimate, 1 - pairs)
    if not np.isnan(found.low):
        assert 0 < found.low <= found.estimate <= found.high < 1


@given(SAMPLES, SAMPLES)
def test_the_distance_is_that_of_scipy(x: np.ndarray, y: np.ndarray) -> None:
    peer = scipy.stats.ks_2samp(x, y, method="asymp")
    assert np.isclose(ks_distance_two(x, y), peer.statistic, atol=1e-12)


def test_the_test_of_superiority_is_that_of_brunner_and_munzel() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 20, 40), rng.integers(3, 25, 70)
    peer = scipy.stats.brunnermunzel(x, y)
    found = superiority(x.astype(float), y.astype(float), confidence=0.95)
    assert np.isclose(found.pvalue, peer.pvalue, rtol=1e-9)


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


@pytest.mark.parametrize("x", [np.array([1.0]), np.array([1.0, 2.0])])
def test_without_overlap_nothing_more_is_told(x: np.ndarray) -> None:
    found = superiority(x, np.array([5.0, 6.0]), confidence=0.95)
    assert found.estimate == 0
    assert np.isnan(found[1:]).all()
