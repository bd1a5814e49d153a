"""Intervals against closed forms, published examples and scipy's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from traceana.errors import DataError
from traceana.stats.intervals import (
    clustered_mean_interval,
    clustered_wilson_interval,
    mean_interval,
    ratio_interval,
    wilson_interval,
)

CONFIDENCES = st.floats(0.01, 0.999)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_students_t_with_one_and_two_degrees_of_freedom_has_a_closed_form(
    confidence: float,
) -> None:
    p = (1 + confidence) / 2
    quantiles = [math.tan(math.pi * (p - 0.5)), (2 * p - 1) / math.sqrt(2 * p * (1 - p))]
    low, high = mean_interval([10, 10], [1, 1], [2, 3], confidence=confidence)
    half = [quantiles[0] / math.sqrt(2), quantiles[1] / math.sqrt(3)]
    # scipy 1.15 has ten digits of a quantile
    np.testing.assert_allclose(high - 10, half, rtol=1e-10)
    np.testing.assert_allclose(10 - low, half, rtol=1e-10)


@given(
    values=st.lists(st.floats(0, 1e6), min_size=2, max_size=30),
    confidence=CONFIDENCES,
)
def test_the_interval_of_a_mean_is_scipys(values: list[float], confidence: float) -> None:
    mean, std = float(np.mean(values)), float(np.std(values, ddof=1))
    low, high = mean_interval(mean, std, len(values), confidence=confidence)
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * std / math.sqrt(len(values))
    assert low[0] == pytest.approx(mean - half, rel=1e-9, abs=1e-9)
    assert high[0] == pytest.approx(mean + half, rel=1e-9, abs=1e-9)
    assert low[0] <= mean <= high[0]


def test_a_mean_of_fewer_than_two_values_has_no_interval_and_equal_values_have_none_to_spare() -> (
    None
):
    low, high = mean_interval([np.nan, 5, 5, 5], [np.nan, np.nan, 0, 0], [0, 1, 1, 4])
    np.testing.assert_array_equal(low, [np.nan, np.nan, np.nan, 5])
    np.testing.assert_array_equal(high, [np.nan, np.nan, np.nan, 5])


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilsons_interval_as_published(successes: int, n: int, low: float, high: float) -> None:
    bounds = wilson_interval(successes, n)
    assert [round(bound[0], 4) for bound in bounds] == [low, high]


@given(n=st.integers(1, 10**9), share=st.floats(0, 1), confidence=CONFIDENCES)
def test_wilsons_bounds_hold_the_rate_and_are_what_the_score_test_just_allows(
    n: int, share: float, confidence: float
) -> None:
    k = round(share * n)
    (low,), (high,) = wilson_interval(k, n, confidence=confidence)
    assert 0 <= low <= k / n <= high <= 1
    z = stats.norm.ppf((1 + confidence) / 2)
    for bound in (low, high):
        if bound not in (0, 1):
            score = abs(k / n - bound)
            assert score == pytest.approx(z * math.sqrt(bound * (1 - bound) / n), abs=1e-9)
    mirrored = wilson_interval(n - k, n, confidence=confidence)
    assert (1 - mirrored[1][0], 1 - mirrored[0][0]) == pytest.approx((low, high), abs=1e-12)


def test_rounding_carries_no_bound_past_a_rate_of_0_or_1() -> None:
    n = np.arange(1, 100)
    for percent in range(1, 100):
        assert (wilson_interval(0 * n, n, confidence=percent / 100)[0] == 0).all()
        assert (wilson_interval(n, n, confidence=percent / 100)[1] == 1).all()


def test_a_rate_without_a_trial_has_no_interval() -> None:
    low, high = wilson_interval([0, 3], [0, 4])
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [True, False]
    assert [bound.size for bound in wilson_interval([], [])] == [0, 0]


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, math.nan])
def test_a_confidence_outside_its_range_is_refused(confidence: float) -> None:
    with pytest.raises(DataError, match="confidence must lie between 0 and 1"):
        mean_interval(1, 1, 5, confidence=confidence)
    with pytest.raises(DataError, match="confidence must lie between 0 and 1"):
        wilson_interval(1, 5, confidence=confidence)


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (math.nan, 5)])
def test_successes_beyond_the_trials_are_refused(successes: float, n: float) -> None:
    with pytest.raises(DataError, match="successes must be from 0 to n"):
        wilson_interval(successes, n)


def test_rows_in_clusters_have_fewer_degrees_of_freedom() -> None:
    low, high = clustered_mean_interval([3, 3, 3], [4, 4, 4], [1, 2, 3], confidence=0.5)
    # the upper quartile of t is 1 for one degree of freedom and sqrt(2 / 3) for two
    np.testing.assert_allclose(low, [np.nan, 1, 3 - 2 * math.sqrt(2 / 3)])
    np.testing.assert_allclose(high, [np.nan, 5, 3 + 2 * math.sqrt(2 / 3)])
    rates = clustered_wilson_interval([0.3, 0.3, 0, 1], [20, 20, 20, 20], [1, 6, 6, 6])
    assert np.isnan([rates[0][0], rates[1][0]]).all()
    t = stats.t.ppf(0.975, 5)
    # the bounds differ from the rate by as much as the score test just allows
    for low_or_high in rates:
        p = low_or_high[1]
        assert abs(p - 0.3) == pytest.approx(t * math.sqrt(p * (1 - p) / 20))
    assert rates[0][1] < 0.3 < rates[1][1]
    assert (rates[0][2], rates[1][3]) == (0, 1)
    assert rates[1][2] == pytest.approx(t**2 / (20 + t**2)) == 1 - rates[0][3]


def test_a_ratio_over_units_has_the_linearized_interval() -> None:
    x, y = np.array([1.0, 2, 3, 4, 6]), np.array([2.0, 3, 5, 9, 7])

    def sums(x: np.ndarray, y: np.ndarray) -> list[float]:
        return [x.sum(), y.sum(), x @ x, x @ y, y @ y, len(x)]

    columns = [(x, y), (x / x, y), (x[:1], y[:1]), (0 * x, y), (np.array([0.001, 0.099]), y[:2])]
    low, high = ratio_interval(np.transpose([sums(*both) for both in columns]), confidence=0.9)
    # Cochran: 26 / 16, residuals y - r x, and Kish's 256 / 66 units
    error = math.sqrt(5 / 4 * sum((y - 26 / 16 * x) ** 2)) / 16
    half = stats.t.ppf(0.95, 256 / 66 - 1) * error
    assert (low[0], high[0]) == pytest.approx((26 / 16 - half, 26 / 16 + half))
    # units of one size: the mean's
    mean = mean_interval(y.mean(), y.std(ddof=1), 5, confidence=0.9)
    assert (low[1], high[1]) == pytest.approx((mean[0][0], mean[1][0]))
    assert np.isnan([low[2:4], high[2:4]]).all()
    # one unit of two has nearly all: not less than one degree of freedom
    spread = math.sqrt(2 * sum((y[:2] - 50 * columns[4][0]) ** 2)) / 0.1
    assert high[4] - 50 == pytest.approx(math.tan(math.pi * 0.45) * spread)


def test_intervals_are_of_95_percent_and_of_any_unit() -> None:
    x, y = np.array([1.0, 2, 3, 4, 6]), np.array([2.0, 3, 5, 9, 7])
    for scale in (1.0, 1e-3):
        sums = [x.sum(), y.sum(), x @ x, x @ y, y @ y, 5]
        scaled = np.multiply(sums, [scale, scale, scale**2, scale**2, scale**2, 1])
        low, high = ratio_interval(scaled[:, None])
        error = math.sqrt(5 / 4 * sum((y - 26 / 16 * x) ** 2)) / 16
        half = stats.t.ppf(0.975, 256 / 66 - 1) * error
        assert (low[0], high[0]) == pytest.approx((26 / 16 - half, 26 / 16 + half))
    half = stats.t.ppf(0.975, 4) * 3
    np.testing.assert_allclose(clustered_mean_interval(7, 9, 5), [[7 - half], [7 + half]])
    half = stats.t.ppf(0.975, 3) * 3 / 2
    np.testing.assert_allclose(mean_interval(7, 3, 4), [[7 - half], [7 + half]])
