"""Permutation tests against enumeration, exact tables and plain permutations."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import polars as pl
import pytest
import scipy.stats

from traceana import correlate
from traceana.stats import permutation
from traceana.stats.correlation import METHODS, carrying_rows, kendall_tie_factor
from traceana.stats.permutation import (
    _drawn,
    _tails,
    effective_clusters,
    group_mean_pvalues,
    row_pvalue,
    sign_flip_pvalue,
    too_few_clusters,
)

MEANS = [(level, method) for level in ("group_mean", "group_mean_weighted") for method in METHODS]


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def doubled(resampled: list[float], observed: float) -> float:
    high, low = (
        np.mean([sign * r >= sign * observed - 1e-9 for r in resampled]) for sign in (1, -1)
    )
    return min(2 * min(float(high), float(low)), 1.0)


@pytest.mark.parametrize("method", ["spearman", "kendall"])
def test_six_monotone_points_have_the_exact_p(method: str) -> None:
    # 2 of 6! orders: .0028 in the tables of Spearman's rho and Kendall's tau
    rows = pl.DataFrame({"x": np.arange(6.0), "y": np.arange(6.0) ** 3})
    for level in ("row", "group_mean"):
        line = correlate(rows, "x", "y", method=method, level=level).table.row(0, named=True)
        assert line["pvalue"] == pytest.approx(2 / 720)
        assert line["ci_low"] is None
    ten = pl.concat([rows] * 10)  # groups of equal size
    line = correlate(ten, "x", "y", method=method, level="group_mean").table.row(0, named=True)
    assert line["pvalue"] == pytest.approx(2 / 720)


@pytest.mark.parametrize(
    ("rho", "pvalue"), [(1.0, 2 / 5040), (0.786, 0.048), (0.750, 0.066), (0.893, 0.012)]
)
def test_spearmans_exact_table_of_seven_points(rho: float, pvalue: float) -> None:
    # Zar, Biostatistical Analysis: one-sided P of 7 points are .024, .033 and .006
    for order in permutations(range(7)):
        found = 1 - 6 * sum((i - j) ** 2 for i, j in enumerate(order)) / 336
        if abs(found - rho) < 5e-4:
            assert row_pvalue(np.arange(7.0), np.array(order, float), rng=rng()) == pytest.approx(
                pvalue, abs=1e-3
            )
            return
    raise AssertionError


@pytest.mark.parametrize(("level", "method"), MEANS)
def test_few_rows_are_enumerated(level: str, method: str) -> None:
    x, y = np.array([1.0, 1, 2, 3, 3, 5]), np.array([1.03, 5.3, 2.1, 40.9, 3.9, 11.6])
    theirs = {
        "pearson": scipy.stats.pearsonr,
        "spearman": scipy.stats.spearmanr,
        "kendall": scipy.stats.kendalltau,
    }[method]
    values, group, size = np.unique(x, return_inverse=True, return_counts=True)
    often = size if level == "group_mean_weighted" else np.ones_like(size)

    def coefficient(order: list[int]) -> float:
        mean = np.bincount(group, y[order]) / size
        return float(theirs(np.repeat(values, often), np.repeat(mean, often)).statistic)

    orders = [list(order) for order in permutations(range(6))]
    found = group_mean_pvalues(x, y, [(level, method)], rng=rng())[level, method]
    expected = doubled([coefficient(order) for order in orders], coefficient(list(range(6))))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("n", [60, 24_000])
def test_drawn_permutations_agree_with_plain_ones(n: int) -> None:
    draw = rng(3)
    x = draw.choice([1.0, 2, 3, 5, 8, 13], n, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
    y = np.exp(2 * draw.standard_normal(n))
    values, group, size = np.unique(x, return_inverse=True, return_counts=True)

    def r(y: np.ndarray) -> float:
        return float(np.corrcoef(values, np.bincount(group, y) / size)[0, 1])

    key = ("group_mean", "pearson")
    expected = doubled([r(draw.permutation(y)) for _ in range(1500)], r(y))
    assert group_mean_pvalues(x, y, [key], rng=rng())[key] == pytest.approx(expected, abs=0.07)
    rows = [float(np.corrcoef(x, draw.permutation(y))[0, 1]) for _ in range(1500)]
    expected = doubled(rows, float(np.corrcoef(x, y)[0, 1]))
    assert row_pvalue(x, y, rng=rng()) == pytest.approx(expected, abs=0.07)


def test_ranked_means_of_many_groups_agree_with_plain_permutations() -> None:
    draw = rng(4)
    x, y = np.square(draw.integers(0, 40, 11_000).astype(float)), draw.lognormal(0, 2, 11_000)
    values, group, size = np.unique(x, return_inverse=True, return_counts=True)

    def rho(y: np.ndarray) -> float:
        return float(scipy.stats.spearmanr(values, np.bincount(group, y) / size).statistic)

    key = ("group_mean", "spearman")
    expected = doubled([rho(draw.permutation(y)) for _ in range(400)], rho(y))
    assert group_mean_pvalues(x, y, [key], rng=rng())[key] == pytest.approx(expected, abs=0.12)


def test_sign_changes_of_skewed_clusters_reject_at_their_level() -> None:
    draw, rejected = rng(9), 0
    for _ in range(300):
        cluster = np.repeat(np.arange(20), draw.geometric(1 / 8, 20))
        x, y = (
            np.exp(draw.standard_normal(20)[cluster] + draw.standard_normal(len(cluster)))
            for _ in range(2)
        )
        p = sign_flip_pvalue(x - x.mean(), y - y.mean(), cluster, rng=draw)
        rejected += p < 0.05
    assert rejected <= 15 + 3 * 3.8  # Student's t over rows rejects four times as often


def test_many_clusters_have_the_normal_limit_of_sign_changes() -> None:
    scores = rng(1).standard_normal(8000)
    z = abs(scores.sum()) / np.sqrt(scores @ scores)
    found = sign_flip_pvalue(scores, np.ones(8000), np.arange(8000), rng=rng())
    assert found == pytest.approx(2 * scipy.stats.norm.sf(z))


def test_a_few_large_scores_among_many_small_ones_have_the_p_of_all_sign_changes() -> None:
    draw = rng(4)
    scores = np.concatenate([draw.standard_normal(4000), [60.0, 45.0, -30.0]])
    signs = draw.integers(0, 2, (4000, len(scores)), dtype=np.int8) * 2.0 - 1
    p = np.mean(np.abs(signs @ scores) >= abs(scores.sum()))
    found = sign_flip_pvalue(scores, np.ones(len(scores)), np.arange(len(scores)), rng=rng())
    assert found == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 4000))


def test_a_drawn_p_is_never_below_one_in_resamples() -> None:
    x = np.repeat(np.arange(6.0), [3, 9, 50, 20, 7, 4])
    found = group_mean_pvalues(x, x + 1e-3 * rng().random(len(x)), MEANS, rng=rng())
    assert min(found.values()) >= 1 / 10_001
    assert row_pvalue(x, x, rng=rng()) >= 1 / 10_100
    assert row_pvalue(np.arange(10.0), np.arange(10.0), rng=rng()) >= 1 / 10_100  # of 10! orders


def test_group_means_of_skewed_rows_reject_at_their_level() -> None:
    draw, size = rng(11), np.array([1, 1, 2, 2, 4, 8, 16, 32, 64, 100])
    x, rejected = np.repeat(np.arange(10.0)[::-1], size), [0, 0]
    for _ in range(60):
        rows = pl.DataFrame({"x": x, "y": np.exp(2 * draw.standard_normal(len(x)))})
        line = correlate(rows, "x", "y", method="spearman", level="group_mean").table
        rejected[0] += line["pvalue"].item() < 0.05
        rejected[1] += line["pvalue_t"].item() < 0.05
    # 5 % of 60, and three standard errors; a test that rejects 32.7 % stays within once in 1,000
    assert rejected[0] <= 8
    # Student's t of the mean ranks rejects in 32.7 % of 40,000 samples, by numpy alone
    assert rejected[1] == pytest.approx(0.327 * 60, abs=3 * np.sqrt(0.327 * 0.673 * 60))


def test_one_row_that_decides_is_no_interval() -> None:
    x = np.arange(100.0)
    line = correlate(pl.DataFrame({"x": x, "y": np.where(x == 50, 300, x)}), "x", "y").table
    assert line["ci_low"].item() is None
    assert "decides" in line["note"].item()


def test_rows_that_carry_r_are_found() -> None:
    draw = rng(5)
    x, y = draw.standard_normal((2, 200))
    x[:4] = y[:4] = [20, 25, 30, 35]
    line = correlate(pl.DataFrame({"x": x, "y": y}), "x", "y").table.row(0, named=True)
    assert line["n_carrying"] == 4
    assert line["r_without"] == pytest.approx(np.corrcoef(x[4:], y[4:])[0, 1])
    even = draw.standard_normal(200)
    assert carrying_rows(even, even + draw.standard_normal(200), 0.7) is None


def test_sign_changes_of_few_clusters_are_enumerated() -> None:
    # ten clusters of one sign: 2 of 2^10 assignments are as extreme
    clusters = np.arange(10)
    assert sign_flip_pvalue(np.ones(10), np.ones(10), clusters, rng=rng()) == 2 / 1024
    assert effective_clusters(np.array([1.0, 1, 1, 1]), np.array([0, 1, 2, 3])) == 4
    assert effective_clusters(np.array([3.0, 1]), np.array([0, 1])) == 1.6


def test_few_clusters_have_no_test() -> None:
    draw = rng(2)
    rows = pl.DataFrame({"x": draw.integers(0, 9, 80), "y": draw.random(80), "u": [*range(8)] * 10})
    levels = ("row", "group_mean", "group_mean_weighted")
    table = correlate(rows, "x", "y", method=METHODS, level=levels, cluster="u").table
    assert table["pvalue"].null_count() == table["ci_low"].null_count() == 9
    assert table["note"].str.contains("no test").all()


def test_ties_widen_kendalls_null_variance_as_in_scipys_test() -> None:
    x, y = rng().integers(0, 4, (2, 80))
    theirs = scipy.stats.kendalltau(x, y, method="asymptotic")
    error = abs(theirs.statistic) / scipy.stats.norm.isf(theirs.pvalue / 2)
    untied = 2 * (2 * 80 + 5) / (9 * 80 * 79)
    assert kendall_tie_factor(x, y) == pytest.approx(error**2 / untied, rel=1e-6)


@pytest.mark.parametrize(("n", "tilt"), [(20_000, 0.01), (12_000, -0.02)])
def test_many_rows_have_the_type_iii_distribution_of_their_moments(n: int, tilt: float) -> None:
    draw = rng(12)
    x = draw.lognormal(0, 1, n)
    y = np.sign(tilt) * draw.lognormal(0, 0.8, n) + tilt * x
    a, b = x - x.mean(), y - y.mean()
    variance = (a @ a) * (b @ b) / (n - 1)
    skewness = n / ((n - 1) * (n - 2)) * (a**3).sum() * (b**3).sum() / variance**1.5
    assert 0.01 < abs(skewness) < 1
    peer = scipy.stats.pearson3(skewness)
    z = a @ b / np.sqrt(variance)
    expected = 2 * min(peer.cdf(z), peer.sf(z))
    assert 0.001 < expected < 0.9
    assert row_pvalue(x, y, rng=rng()) == pytest.approx(expected, rel=1e-6)
    assert row_pvalue(1e3 * x, y / 7, rng=rng()) == pytest.approx(expected, rel=1e-6)
    # one group per row has the same sum
    found = group_mean_pvalues(x, y, [("group_mean", "pearson")], rng=rng())
    assert found["group_mean", "pearson"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("level", "method"), MEANS)
def test_a_unit_changes_no_permutation(level: str, method: str) -> None:
    draw = rng(6)
    x, y = draw.integers(0, 9, 50).astype(float), draw.lognormal(0, 1, 50)
    key = (level, method)
    p = group_mean_pvalues(x, y, [key], rng=rng())[key]
    assert group_mean_pvalues(x / 1000, y / 1000, [key], rng=rng())[key] == p
    # squares of these would be 0
    assert group_mean_pvalues(x * 2.0**-700, y * 2.0**-700, [key], rng=rng())[key] == p


def test_the_normal_limit_begins_at_2000_equal_clusters() -> None:
    scores = np.where(np.arange(2000) < 1030, 1.0, -1.0)  # a sum of 60
    expected = 2 * scipy.stats.norm.sf(60 / np.sqrt(2000))
    found = sign_flip_pvalue(scores, np.ones(2000), np.arange(2000), rng=rng())
    assert found == pytest.approx(expected, rel=1e-12)
    drawn = sign_flip_pvalue(scores[:-1], np.ones(1999), np.arange(1999), rng=rng())
    assert drawn * 10_000 == pytest.approx(round(drawn * 10_000))
    # sums of an odd number of signs are odd: 61 or more
    assert drawn == pytest.approx(2 * scipy.stats.binom.sf(1029, 1999, 0.5), abs=0.012)


def test_blocks_in_random_order_are_permutations_of_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 10,007 rows: blocks of 10, and 7 rows after them; groups of one row but for one group
    starts = np.r_[:30, 30, 10_000:10_007]
    size = np.diff(starts, append=10_007)
    y = np.arange(10_007.0)
    found = list(_drawn(y, starts, size, rng()))
    assert [part.shape for part in found] == [(100, 38)] * 10
    for part in found:
        np.testing.assert_allclose(part @ size, y.sum(), rtol=1e-12)
        alone = np.delete(part, 30, axis=1).astype(int)
        assert (np.sort(alone)[:, 1:] > np.sort(alone)[:, :-1]).all()
        # blocks of the same ten rows, of which the last stay
        assert len({frozenset(block) for block in alone[:, :30].reshape(300, 10)}) < 290
        assert (alone[:, 30:] == alone[0, 30:]).all()
    # rows are in a new order after 5 orders of the blocks
    last = [part[0, 31:].tolist() for part in found]
    assert last[0] != y[-7:].tolist()
    assert last == [last[0]] * 5 + [last[5]] * 5 != [last[0]] * 10
    monkeypatch.setattr(permutation, "_WHOLE", 50)
    few = np.array(list(_drawn(y[:50], np.arange(50), np.ones(50, np.int64), rng())))
    assert few.shape == (100, 100, 50)
    np.testing.assert_array_equal(np.sort(few[::9, ::9], axis=2), np.tile(y[:50], (12, 12, 1)))


def test_equal_sums_are_in_both_tails_whatever_their_rounding() -> None:
    for scale in (1e-6, 1.0, 1e6):
        resampled = scale * np.array([-1, 1, 2 * (1 - 1e-12), 2 * (1 + 1e-12), 2 - 1e-6, 3])
        assert _tails(resampled, 2 * scale).tolist() == [3, 5]
    assert _tails(np.array([-1.0, 0, 1]), 0).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("n", "observed", "orders"), [(9, 0, 1), (10, 1, 1000), (50, 1, 200), (10_000, 1, 1)]
)
def test_a_row_that_is_alone_takes_every_place(n: int, observed: int, orders: int) -> None:
    # shifts of an indicator put it at each row once: the tails are ranks. Up to 9 rows all
    # permutations are tried, then the rows as they are and random orders until there are 9,999
    at = 2
    x, y = (np.arange(n) == at).astype(float), ((np.arange(n) * 7 + 3) % n).astype(float)
    above, below = (y > y[at]).sum(), (y < y[at]).sum()
    least = min(above, below)
    expected = 2 * (observed + orders * (least + 1)) / (observed + orders * n)
    for scale in (1.0, 1e200):
        found = row_pvalue(x * scale, y * scale - 1, rng=rng())
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [10, 30])
def test_outliers_of_one_row_meet_again_by_chance(n: int) -> None:
    # in one of n permutations
    x = (np.arange(n) == 0).astype(float)
    assert row_pvalue(x, x, rng=rng()) == pytest.approx(2 / n, rel=0.01)


def test_one_row_more_has_a_known_distribution() -> None:
    draw = rng(12)
    x, y = draw.standard_normal((2, 10_001))
    z = np.corrcoef(x, y)[0, 1] * np.sqrt(10_000)
    assert row_pvalue(x, y, rng=rng()) == pytest.approx(2 * scipy.stats.norm.sf(abs(z)), rel=0.02)
    counted = row_pvalue(x[1:], y[1:], rng=rng()) * 10_001 / 2
    assert counted == pytest.approx(round(counted), abs=1e-9)


def test_group_means_of_one_row_more_have_a_known_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permutation, "_WHOLE", 60)
    draw, key = rng(8), ("group_mean", "pearson")
    x, y = np.arange(61.0), draw.standard_normal(61)
    counted = group_mean_pvalues(x[1:], y[1:], [key], rng=rng())[key] * 10_001 / 2
    assert counted == pytest.approx(round(counted), abs=1e-6)
    known = group_mean_pvalues(x, y, [key], rng=rng())[key]
    assert known == pytest.approx(row_pvalue(x, y, rng=rng()), rel=1e-9)
    assert known * 10_001 / 2 % 1 > 1e-3


def test_from_ten_effective_clusters_on_there_is_a_test() -> None:
    assert too_few_clusters(10.0) is None
    assert too_few_clusters(9.97) == "equivalent to 9.9 units of equal size; 10 are needed"
