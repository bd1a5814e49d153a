"""The cluster jackknife against leaving out clusters one by one, with scipy's coefficients."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.stats

from traceana import correlate
from traceana.stats.correlation import (
    METHODS,
    clustered_interval,
    clustered_pvalue,
    influence_error,
    jackknife_errors,
    n_of_variance,
)

SCIPY = {
    "pearson": scipy.stats.pearsonr,
    "spearman": scipy.stats.spearmanr,
    "kendall": scipy.stats.kendalltau,
}


def one_by_one(x: np.ndarray, y: np.ndarray, cells: np.ndarray, method: str) -> float:
    """Return the error from scipy's coefficients without each cell."""
    z = np.array(
        [
            np.arctanh(SCIPY[method](x[cells != cell], y[cells != cell]).statistic)
            for cell in np.unique(cells)
        ]
    )
    m = len(z)
    return float(np.sqrt((m - 1) / m * ((z - np.mean(z)) ** 2).sum()))


@pytest.mark.parametrize("method", METHODS)
def test_the_error_is_that_without_each_cluster_in_turn(method: str) -> None:
    rng = np.random.default_rng(3)
    cells = rng.integers(0, 12, 150)
    x = rng.integers(0, 8, 150).astype(float)
    x[cells == 4] = 9.0  # a value that one cluster alone has
    y = 900 + np.round(x + rng.lognormal(1, 1, 150) + cells)
    found = jackknife_errors(x, y, cells, [method])[method]
    assert found == pytest.approx(one_by_one(x, y, cells, method), rel=1e-9)


def weighted_r(x: np.ndarray, y: np.ndarray, w: np.ndarray, method: str) -> float:
    """Return the coefficient of rows that count w times, ranks by comparing all pairs."""
    if method == "spearman":
        x, y = (
            ((v[:, None] > v) + 0.5 * (v[:, None] == v)) @ w for v in (x, y)
        )  # not centered: r does not depend on it
    a, b = x - np.average(x, weights=w), y - np.average(y, weights=w)
    return float((w * a) @ b / np.sqrt((w * a) @ a * ((w * b) @ b)))


def influence(x: np.ndarray, y: np.ndarray, cells: np.ndarray, method: str) -> float:
    of = scipy.stats.rankdata if method == "spearman" else np.asarray
    return influence_error(of(x), of(y), cells, method)


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_the_influence_of_a_cluster_is_the_derivative_in_its_weight(method: str) -> None:
    rng = np.random.default_rng(9)
    cells = np.array([0, 0, 0, 2, 2, 3, 3, 3, 5, 5, 6, 6, 0], np.int64)  # there is no cell 1 or 4
    x = 7 + rng.integers(0, 5, 13).astype(float)
    y = x + rng.integers(-2, 4, 13).astype(float) - 40
    h, slopes = 1e-5, []
    for cell in np.unique(cells):
        up, down = (weighted_r(x, y, 1 + h * s * (cells == cell), method) for s in (1, -1))
        slopes.append((up - down) / (2 * h))
    r = weighted_r(x, y, np.ones(13), method)
    expected = np.sqrt(5 / 4 * np.sum(np.square(slopes))) / (1 - r**2)
    assert influence(x, y, cells, method) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_three_rows_have_a_coefficient_and_a_perfect_one_has_a_limit(method: str) -> None:
    x, y = np.array([1.0, 2, 3, 4]), np.array([3.0, 9, 5, 4])
    cells = np.array([0, 3, 4, 9])
    found = jackknife_errors(x, y, cells, [method])[method]
    # without the first row r is -1 or, of values, less; a rank coefficient of 1 has arctanh 14.16
    r = [SCIPY[method](np.delete(x, i), np.delete(y, i)).statistic for i in range(4)]
    z = np.arctanh(np.clip(r, 1e-12 - 1, 1 - 1e-12))
    assert found == pytest.approx(np.sqrt(3 / 4 * ((z - z.mean()) ** 2).sum()), rel=1e-6)
    for rows in (slice(0, 3), slice(0, 1)):
        few = jackknife_errors(x[rows], y[rows], cells[rows], [method])[method]
        assert np.isnan(few)


def test_rounding_is_no_variance() -> None:
    x, y = 1e6 * np.array([0.1, 0.1, 0.1, 0.2, 0.3]), np.array([0.1, 0.3, 0.2, 0.5, 0.4])
    cells = np.array([0, 0, 1, 2, 2])  # without cell 2, x is constant
    for a, b in ((x, y), (y, x), (x / 1e9, y), (y, x / 1e9)):
        assert np.isnan(jackknife_errors(a, b, cells, ["pearson"])["pearson"])


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_many_clusters_have_the_error_of_leaving_each_out(method: str) -> None:
    rng = np.random.default_rng(6)
    cells = np.sort(rng.integers(0, 500, 3000))
    shared = rng.standard_normal((2, 500))
    x = np.round(rng.standard_normal(3000) + shared[0, cells])  # ties, correlated in clusters
    y = np.round(4 * (x + rng.standard_normal(3000) + shared[1, cells]))
    found = influence(x, y, cells, method)
    assert found == pytest.approx(one_by_one(x, y, cells, method), rel=0.01)
    naive = influence(x, y, np.arange(3000), method)
    assert found > 1.2 * naive


def test_independent_normal_rows_have_the_closed_form_of_influence() -> None:
    # (1 - r^2)^2 / n is the variance of Pearson's r, 1 / n on Fisher's scale, at every r
    rng, n = np.random.default_rng(12), 200_000
    x, noise = rng.standard_normal((2, n))
    found = influence(x, x + noise, np.arange(n), "pearson")
    assert found == pytest.approx(n**-0.5, rel=0.02)
    # Spearman's r of independent columns has variance 1 / n
    assert influence(x, noise, np.arange(n), "spearman") == pytest.approx(n**-0.5, rel=0.02)
    assert np.isnan(influence(np.ones(9), noise[:9], np.arange(9), "spearman"))


def test_rows_as_clusters_are_the_engines_jackknife() -> None:
    rng = np.random.default_rng(5)
    x, noise = rng.standard_normal((2, 60))
    x, y = np.exp(x), np.exp(x + noise)
    error = jackknife_errors(x, y, np.arange(60), ["pearson"])["pearson"]
    line = correlate(pl.DataFrame({"x": x, "y": y}), "x", "y").table.row(0, named=True)
    # the jackknife's error is the larger for such skewed values
    half = (np.arctanh(line["ci_high"]) - np.arctanh(line["ci_low"])) / 2
    assert half / scipy.stats.norm.ppf(0.975) == pytest.approx(error, rel=1e-9)


def test_clusters_of_equal_rows_are_worth_one_row_each() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((2, 200))
    cells, asked = np.arange(200), ["pearson", "spearman"]
    once = jackknife_errors(x, y, cells, asked)
    x10, y10, cells10 = (np.repeat(part, 10) for part in (x, y, cells))
    ten = jackknife_errors(x10, y10, cells10.astype(np.int64), asked)
    assert ten["pearson"] == pytest.approx(once["pearson"], rel=1e-9)
    assert ten["spearman"] == pytest.approx(once["spearman"], rel=0.01)
    variance = once["pearson"] ** 2
    assert n_of_variance(0, variance, "pearson") == pytest.approx(200, rel=0.25)


def test_a_coefficient_that_is_undefined_without_a_cluster_has_no_error() -> None:
    x, y = np.array([1.0, 1, 1, 2, 3]), np.array([1.0, 3, 2, 5, 4])
    cells = np.array([0, 0, 1, 2, 2])  # without cell 2, x is constant
    assert all(np.isnan(error) for error in jackknife_errors(x, y, cells, METHODS).values())


@pytest.mark.parametrize("method", METHODS)
def test_more_clusters_than_resamples_have_the_same_error(method: str) -> None:
    rng = np.random.default_rng(8)
    of = np.repeat(np.arange(600), 2)
    x, y = rng.standard_normal((2, 600))
    rows = pl.DataFrame({"x": x[of], "y": 0.3 * x[of] + y[of], "user": of})
    wide, narrow = (
        correlate(rows, "x", "y", method=method, cluster="user", resamples=n).table.row(
            0, named=True
        )
        for n in (700, 400)
    )
    assert wide["n_clusters"] == narrow["n_clusters"] == 600
    # Kendall's error is of 400 random groups, uncertain by 3.5 %
    tolerance = 0.15 if method == "kendall" else 0.02
    assert narrow["n_effective"] == pytest.approx(wide["n_effective"], rel=tolerance)


def test_p_is_of_students_t() -> None:
    # t(29) is beyond 2.045 five times in a hundred
    assert clustered_pvalue(float(np.tanh(0.20452296)), 0.1, 29) == pytest.approx(0.05, rel=1e-6)


def test_tests_of_nothing_reject_at_their_level() -> None:
    rng, rejected = np.random.default_rng(1), 0
    of = np.repeat(np.arange(40), 8)
    for _ in range(200):
        x, y = (rng.standard_normal(40)[of] + rng.standard_normal(320) for _ in range(2))
        error = jackknife_errors(x, y, of, ["pearson"])["pearson"]
        rejected += clustered_pvalue(np.corrcoef(x, y)[0, 1], error, 39) < 0.05
    # 5 % of 200 within three standard errors
    assert 1 <= rejected <= 19


def test_two_clusters_have_an_error_and_one_has_none() -> None:
    rng = np.random.default_rng(2)
    cells, x, y = np.arange(20) % 2, rng.random(20), rng.random(20)
    found = jackknife_errors(x, y, cells, ["pearson"])["pearson"]
    assert found == pytest.approx(one_by_one(x, y, cells, "pearson"), rel=1e-9)
    assert np.isnan(jackknife_errors(x, y, 0 * cells, ["pearson"])["pearson"])
    low, high = clustered_interval(0.3, 0.2, 4, confidence=0.9)
    half = 0.2 * scipy.stats.t.ppf(0.95, 4)
    assert np.arctanh([low, high]) == pytest.approx(np.arctanh(0.3) + np.array([-half, half]))
