"""Woodruff's interval of a quantile."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from traceana.stats.quantiles import woodruff_interval


@pytest.mark.parametrize(("n", "quantile"), [(101, 0.5), (1001, 0.5), (1001, 0.9)])
def test_independent_rows_give_the_binomial_ranks(n: int, quantile: float) -> None:
    low, high = woodruff_interval(np.arange(1, n + 1), quantile=quantile)
    exact = binom.ppf([0.025, 0.975], n, quantile) + np.array([0, 1])
    assert np.abs(np.array([low, high]) - exact).max() <= 2


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
