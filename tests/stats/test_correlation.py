"""Correlations against R's documented values, scipy, and brute force."""

from __future__ import annotations

import tomllib
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana.errors import DataError
from traceana.stats.correlation import (
    METHODS,
    correlation,
    correlation_pvalue,
    fisher_interval,
    fisher_variance,
    kendall_pvalue,
    n_of_variance,
    weighted_ranks,
)
from traceana.stats.multiplicity import ADJUSTMENTS, adjust_pvalues

REFERENCE = tomllib.loads(
    (Path(__file__).parents[1] / "reference" / "correlation.toml").read_text(encoding="utf-8")
)
THEIRS = {
    "pearson": scipy.stats.pearsonr,
    "spearman": scipy.stats.spearmanr,
    "kendall": scipy.stats.kendalltau,
}


def tied(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, n).astype(float)
    return x, x + rng.integers(-3, 8, n)


def test_r_documents_the_same() -> None:
    x, y = REFERENCE["hunter"]["x"], REFERENCE["hunter"]["y"]
    pearson, kendall = REFERENCE["hunter"]["pearson"], REFERENCE["hunter"]["kendall"]
    r = correlation(x, y, method="pearson")
    assert r == pytest.approx(pearson["r"], abs=5e-8)
    assert correlation_pvalue(r, 9, method="pearson") == pytest.approx(pearson["pvalue"], abs=5e-5)
    assert correlation(x, y, method="kendall") == pytest.approx(kendall["r"], abs=5e-8)
    assert kendall_pvalue(x, y) == pytest.approx(kendall["pvalue"], abs=5e-5)


@pytest.mark.parametrize("method", METHODS)
def test_scipy_gives_the_same(method: str) -> None:
    x, y = tied(50)
    theirs = THEIRS[method](x, y)
    r = correlation(x, y, method=method)
    assert r == pytest.approx(theirs.statistic, rel=1e-12)
    if method != "kendall":
        assert correlation_pvalue(r, 50, method=method) == pytest.approx(theirs.pvalue, rel=1e-9)
    if method == "pearson":
        low, high = theirs.confidence_interval(0.9)
        ours = fisher_interval(r, 50, method=method, confidence=0.9)
        assert ours == pytest.approx((low, high), rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_is_so_many_rows(method: str) -> None:
    x, y = tied(30)
    often = np.random.default_rng(1).integers(1, 5, 30)
    repeated = correlation(np.repeat(x, often), np.repeat(y, often), method=method)
    assert correlation(x, y, method=method, weights=often) == pytest.approx(repeated, rel=1e-12)


def test_a_large_mean_costs_no_digits() -> None:
    x, y = tied(40)
    there = correlation(x + 2.0**40, y + 2.0**40, method="pearson")
    assert there == pytest.approx(correlation(x, y, method="pearson"), rel=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_no_coefficient_is_past_one(method: str) -> None:
    assert correlation([1, 2], [5, 3], method=method) == pytest.approx(-1)
    for seed in range(40):
        x = np.random.default_rng(seed).lognormal(0, 1, 7)
        for slope in (0.1, -0.3):
            r = correlation(x, slope * x, method=method)
            assert abs(r) <= 1
            assert r == pytest.approx(np.sign(slope))


def test_no_square_leaves_the_range_of_a_double() -> None:
    x, y = tied(40)
    r = correlation(x, y, method="pearson")
    for scale in (1e200, 1e-200):
        assert correlation(x * scale, y / scale, method="pearson") == pytest.approx(r, rel=1e-12)


def test_ranks_of_weighted_values_are_means_over_so_many_rows() -> None:
    values = np.array([3.0, 1, 3, 2])
    assert weighted_ranks(values).tolist() == [3.5, 1, 3.5, 2]
    # ranks 5 to 7, 1, 5 to 7, and 2 to 4
    assert weighted_ranks(values, np.array([2.0, 1, 1, 3])).tolist() == [6, 1, 6, 3]


def test_what_is_not_defined_is_nan() -> None:
    assert np.isnan(correlation([1, 1, 1], [1, 2, 3], method="pearson"))
    assert np.isnan(correlation([1], [2], method="pearson"))
    for method, fewest in (("pearson", 4), ("spearman", 4), ("kendall", 5)):
        assert np.isnan(correlation_pvalue(0.5, 2, method=method))
        assert np.isnan(correlation_pvalue(np.nan, 9, method=method))
        assert np.isnan(fisher_interval(np.nan, 9, method=method)).all()
        assert np.isnan(fisher_interval(0.5, fewest - 1, method=method)).all()
        assert np.isfinite(fisher_interval(0.5, fewest, method=method)).all()
        assert fisher_interval(-1.0, 9, method=method) == (-1, -1)
    # t with one degree of freedom is Cauchy's
    expected = 2 * scipy.stats.cauchy.sf(0.5 / np.sqrt(0.75))
    assert correlation_pvalue(-0.5, 3, method="pearson") == pytest.approx(expected)
    assert correlation_pvalue(-1, 5, method="pearson") == np.finfo(float).tiny
    assert correlation_pvalue(0.9, 1e6, method="pearson") == np.finfo(float).tiny
    with pytest.raises(DataError, match="confidence must lie between 0 and 1"):
        fisher_interval(0.5, 9, method="pearson", confidence=95)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
@settings(max_examples=30)
def test_adjusted_p_is_what_statsmodels_and_scipy_say(pvalues: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests  # noqa: PLC0415 - takes 2 s

    for method in ADJUSTMENTS:
        ours = adjust_pvalues(pvalues, method=method)
        if method == "none":
            assert ours.tolist() == pvalues
            continue
        with mock.patch("gc.collect"):  # statsmodels collects after each of Holm's
            theirs = multipletests(pvalues, method=method)[1]
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-300)


def test_what_was_not_tested_is_no_part_of_the_family() -> None:
    adjusted = adjust_pvalues([0.01, np.nan, 0.04])
    np.testing.assert_allclose(adjusted, [0.02, np.nan, 0.04])
    with pytest.raises(DataError, match="adjust must be one of none, bonferroni"):
        adjust_pvalues([0.1], method="sidak")
    with pytest.raises(DataError, match="p-values must lie from 0 to 1"):
        adjust_pvalues([1.1])


@pytest.mark.parametrize("n", [5, 12, 50.5])
def test_fishers_variance_by_method(n: float) -> None:
    # Fieller, Hartley and Pearson (Biometrika 44, 1957); Bonett and Wright (Psychometrika 65, 2000)
    variances = {"pearson": 1 / (n - 3), "spearman": 1.18 / (n - 3), "kendall": 0.437 / (n - 4)}
    for method, variance in variances.items():
        assert fisher_variance(-0.6, n, method) == pytest.approx(variance)
        assert n_of_variance(-0.6, variance, method) == pytest.approx(n)
        ends = fisher_interval(-0.6, n, method=method, confidence=0.9)
        half = scipy.stats.norm.ppf(0.95) * np.sqrt(variance)
        assert np.arctanh(ends) == pytest.approx(np.arctanh(-0.6) + np.array([-half, half]))
        wide = fisher_interval(-0.6, n, method=method, confidence=0.9, error=2 * variance**0.5)
        assert np.arctanh(wide) == pytest.approx(np.arctanh(-0.6) + 2 * np.array([-half, half]))


def test_kendalls_p_has_the_variance_without_ties() -> None:
    # tau of 10 pairs: 2 (2 * 10 + 5) / (9 * 10 * 9)
    expected = 2 * scipy.stats.norm.sf(0.4 / np.sqrt(50 / 810))
    assert correlation_pvalue(-0.4, 10, method="kendall") == pytest.approx(expected)
    # all of 5 ranks in order: 2 of 5!
    assert correlation_pvalue(1, 5, method="spearman") == pytest.approx(2 / 120)
