"""Autocorrelation and effective sample size, against definitions and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from traceana.errors import DataError
from traceana.stats.time_blocks import (
    autocorrelation,
    effective_sample_size,
)


def test_autocorrelation_by_hand() -> None:
    # about the mean of 2: -1, 0, 1, 0; sum of squares 2; products at lags 1, 2, 3: 0, -1, 0
    found = autocorrelation([1, 2, 3, 2], lags=5)
    np.testing.assert_allclose(found, [0, -0.5, 0, np.nan, np.nan], atol=1e-15)


@given(
    values=st.lists(st.integers(0, 1000), min_size=2, max_size=60).filter(lambda v: len({*v}) > 1)
)
@settings(max_examples=30)
def test_autocorrelation_is_the_sum_over_pairs(values: list[int]) -> None:
    x = np.array(values) - np.mean(values)
    expected = [(x[: len(x) - k] * x[k:]).sum() / (x**2).sum() for k in range(1, len(x))]
    np.testing.assert_allclose(autocorrelation(values, lags=len(x) - 1), expected, atol=1e-12)


def test_autocorrelation_does_not_depend_on_origin_or_unit() -> None:
    x = np.random.default_rng(2).normal(size=300).cumsum()
    expected = autocorrelation(x, lags=20)
    np.testing.assert_allclose(autocorrelation(1e-200 * x, lags=20), expected, rtol=1e-9)
    np.testing.assert_allclose(autocorrelation(x + 2.0**20, lags=20), expected, rtol=1e-8)
    whole = np.round(8 * x)
    far = autocorrelation(whole + 2.0**50, lags=20)  # differences of whole numbers are exact
    np.testing.assert_allclose(far, autocorrelation(whole, lags=20), rtol=1e-12)


def ar1(a: float, n: int, seed: int) -> np.typing.NDArray[np.float64]:
    noise = np.random.default_rng(seed).normal(size=n + 500)
    series: np.typing.NDArray[np.float64] = lfilter([1], [1, -a], noise)[500:]
    return series


@pytest.mark.parametrize("a", [-0.5, 0.0, 0.5, 0.9])
def test_an_autoregressive_series_has_its_closed_form(a: float) -> None:
    n = 50_000
    sizes = [effective_sample_size(ar1(a, n, seed)) for seed in range(8)]
    assert np.mean(sizes) == pytest.approx(n * (1 - a) / (1 + a), rel=0.1)


@pytest.mark.parametrize("hold", [1, 2, 5, 20])
def test_values_held_count_once(hold: int) -> None:
    rng = np.random.default_rng(3)
    n = 20_000
    sizes = []
    for _ in range(8):
        series = np.repeat(rng.normal(size=n // hold + 1), hold)
        start = rng.integers(hold)
        sizes.append(effective_sample_size(series[start : start + n]))
    assert np.mean(sizes) == pytest.approx(n / hold, rel=0.1)


def test_the_effective_size_of_a_short_series_by_hand() -> None:
    # about 2.4, r is 1, -.3, -.225, .2875 (and -.2625): sums of .7 and .0625
    found = effective_sample_size([1, 3, 3, 2, 3])
    assert found == pytest.approx(5 / (2 * (0.7 + 0.0625) - 1))
    # about 2.5, r is 1, .15, -.5, -.15: a sum of 1.15, then one below 0
    assert effective_sample_size([1, 2, 4, 3]) == pytest.approx(4 / (2 * 1.15 - 1))


@pytest.mark.parametrize("values", [[], [1.0], [1, 2, 3], [0.1] * 50])
def test_where_nothing_can_be_said_it_is_not_said(values: list[float]) -> None:
    assert np.isnan(effective_sample_size(values))


def test_an_alternating_series_stays_finite() -> None:
    # 50 sums of two lags of 1 / 100 each: a time of 0, and no time is below 2 / 100
    assert effective_sample_size([0.0, 1.0] * 50) == pytest.approx(100**2 / 2)


def test_what_is_no_series_is_refused() -> None:
    with pytest.raises(DataError, match="finite values"):
        effective_sample_size([1, np.nan, 2, 3])
    for lags in (0, 100_001, 1.0):
        with pytest.raises(DataError, match="lags must be a whole number from 1 to 100,000"):
            autocorrelation([1, 2], lags=lags)  # type: ignore[arg-type]
    assert len(autocorrelation([1, 2], lags=100_000)) == 100_000
