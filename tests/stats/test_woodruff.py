"""Woodruff's interval of a quantile."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom, norm, t

from traceana.stats.quantiles import woodruff_interval
from traceana.stats.time_blocks import effective_sample_size


@pytest.mark.parametrize(("n", "quantile"), [(101, 0.5), (1001, 0.5), (1001, 0.9)])
def test_independent_rows_give_the_binomial_ranks(n: int, quantile: float) -> None:
    low, high = woodruff_interval(np.arange(1, n + 1), quantile=quantile)
    exact = binom.ppf([0.025, 0.975], n, quantile) + np.array([0, 1])
    assert np.abs(np.array([low, high]) - exact).max() <= 1


@pytest.mark.parametrize(("n", "ranks"), [(6, (1, 6)), (10, (2, 9)), (20, (6, 15)), (25, (8, 18))])
def test_the_median_of_few_rows_has_the_ranks_of_the_tables(n: int, ranks: tuple[int, int]) -> None:
    # Conover, Practical Nonparametric Statistics, 1999, section 3.2: binomial, at least 95 %
    assert woodruff_interval(np.arange(1, n + 1)) == ranks


def test_clusters_of_equal_rows_count_as_one_row() -> None:
    values = np.random.default_rng(3).normal(size=60)
    alone = woodruff_interval(values)
    often = woodruff_interval(np.repeat(values, 50), np.repeat(np.arange(60), 50))
    ordered = np.sort(values)
    ranks = [np.searchsorted(ordered, pair) for pair in (alone, often)]
    assert np.abs(ranks[0] - ranks[1]).max() <= 1
    narrow = woodruff_interval(np.repeat(values, 50))
    assert narrow[1] - narrow[0] < 0.5 * (often[1] - often[0])


def test_coverage_with_users_of_pareto_sizes() -> None:
    rng = np.random.default_rng(11)
    repetitions, covered = 600, 0
    for _ in range(repetitions):
        sizes = np.minimum(np.ceil(5 * (rng.pareto(1.5, 120) + 1)), 300).astype(int)
        users = np.repeat(np.arange(120), sizes)
        values = rng.normal(size=120)[users] + rng.normal(size=users.size)
        low, high = woodruff_interval(np.exp(values), users)
        covered += low <= 1 <= high
    assert 0.92 <= covered / repetitions <= 0.98


def test_too_few_rows_have_no_interval() -> None:
    assert np.isnan(woodruff_interval([1.0])).all()
    assert np.isnan(woodruff_interval([1.0, 2.0], [0, 0])).all()
    assert np.isnan(woodruff_interval([1.0, 2.0, 3.0])).any()


def test_quantiles_of_an_autoregressive_series_are_covered() -> None:
    a, n, times = 0.9, 1500, 200
    noise = np.random.default_rng(4).normal(size=(times, n + 200)) * np.sqrt(1 - a**2)
    series = lfilter([1], [1, -a], noise)[:, 200:]
    for quantile in (0.25, 0.5):
        truth = norm.ppf(quantile)
        bounds = [woodruff_interval(x, quantile=quantile, serial=True) for x in series]
        covered = np.mean([low <= truth <= high for low, high in bounds if not np.isnan(low)])
        assert covered > 0.95 - 3 * np.sqrt(0.95 * 0.05 / times)


def test_few_effective_values_have_no_interval() -> None:
    rng = np.random.default_rng(5)
    assert np.isnan(woodruff_interval(rng.normal(size=15), quantile=0.5, serial=True)).all()
    assert np.isnan(
        woodruff_interval(np.repeat(rng.normal(size=12), 50), quantile=0.5, serial=True)
    ).all()
    independent = rng.normal(size=400)
    low, high = woodruff_interval(independent, quantile=0.5, serial=True)
    # ranks n / 2 -+ 1.96 sqrt(n) / 2
    ordered = np.sort(independent)
    assert ordered[170] < low < ordered[190]
    assert ordered[210] < high < ordered[230]
    assert np.isnan(woodruff_interval(independent[:60], quantile=0.99, serial=True)).all()


def test_clusters_of_four_neighbors_by_hand() -> None:
    # ten sums of -+2 around the median: t(9) sqrt(10 / 9 * 10 * 2^2) / 40 = 0.377; ranks 5 and 36
    assert woodruff_interval(np.arange(1, 41), np.repeat(np.arange(10), 4)) == (5, 36)


@pytest.mark.parametrize(("quantile", "fewest"), [(0.5, 3), (0.25, 6), (0.75, 6)])
def test_clusters_that_agree_have_students_t_of_their_number(quantile: float, fewest: int) -> None:
    # sums over clusters do not vary: the error is that of independent rows
    for k in (fewest - 1, fewest, fewest + 1):
        values, clusters = np.arange(400 * k), np.arange(400 * k) % k
        found = woodruff_interval(values, clusters, quantile=quantile, confidence=0.9)
        n = 400 * k
        half = t.ppf(0.95, k - 1) * np.sqrt(quantile * (1 - quantile) / n)
        ends = (round((quantile - half) * n) - 1, round((quantile + half) * n))
        expected = ends if k >= fewest else (np.nan, np.nan)
        assert found == pytest.approx(expected, nan_ok=True)


def test_ranks_outside_the_data_are_no_limits() -> None:
    assert woodruff_interval([7, 5], confidence=0.01) == (5, 7)
    assert np.isnan(woodruff_interval([7], confidence=0.01)).all()
    assert np.isnan(woodruff_interval([], confidence=0.01)).all()
    # ranks -1 and 4 of 10, and 7 and 12
    assert np.isnan(woodruff_interval(np.arange(10), quantile=0.1)).all()
    assert np.isnan(woodruff_interval(np.arange(10), quantile=0.9)).all()


@pytest.mark.parametrize("hold", [1, 60, 100])
def test_a_series_has_the_error_of_its_effective_size(hold: int) -> None:
    n = 20 if hold == 1 else 4000
    x = np.repeat(np.random.default_rng(2).normal(size=n // hold + 1), hold)[:n]
    if hold == 1:  # 20 values that alternate: no more than 20 effective ones
        x = np.arange(20.0) + 100 * (np.arange(20) % 2)
    below = (x <= np.sort(x)[n // 2 - 1]).astype(float)
    k = min(effective_sample_size(below), n)
    assert k >= 20
    half = t.ppf(0.975, k - 1) * below.std() / np.sqrt(k - 1) * n
    ordered = np.sort(x)
    low, high = round(n / 2 - half), round(n / 2 + half) + 1
    found = woodruff_interval(x, serial=True)
    assert found == (ordered[low - 1], ordered[high - 1])
    if hold == 1:
        assert np.isnan(woodruff_interval(x[1:], serial=True)).all()
