"""Permutation tests against enumeration, exact tables and plain permutations."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats

from traceana.analysis import correlate
from traceana.stats import permutation
from traceana.stats.correlation import METHODS, kendall_tie_factor
from traceana.stats.influence import carrying_rows, excess_kurtosis
from traceana.stats.permutation import _drawn, _tails, group_mean_pvalues, row_pvalue
from traceana.stats.wild_bootstrap import effective_clusters, leverage, sign_flip_pvalue

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
    theirs = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr,
              "kendall": scipy.stats.kendalltau}[method]  # fmt: skip
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
        x, y = (np.exp(draw.standard_normal(20)[cluster] + draw.standard_normal(len(cluster)))
                for _ in range(2))  # fmt: skip
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


@pytest.mark.parametrize(("n", "orders"), [(9, 1), (10, 1111), (50, 205), (10_000, 1)])
def test_a_row_that_is_alone_takes_every_place(n: int, orders: int) -> None:
    # shifts of an indicator put it at each row once: the tails are ranks. Up to 9 rows all
    # permutations are tried, then random orders until there are 9,999
    at = 2
    x, y = (np.arange(n) == at).astype(float), ((np.arange(n) * 7 + 3) % n).astype(float)
    above, below = (y > y[at]).sum(), (y < y[at]).sum()
    least = min(above, below)
    expected = 2 * (1 + orders * least) / (1 + orders * (n - 1))
    for scale in (1.0, 1e200):
        found = row_pvalue(x * scale, y * scale - 1, rng=rng())
        assert found == pytest.approx(expected, rel=1e-12)


def test_one_row_more_has_a_known_distribution() -> None:
    draw = rng(12)
    x, y = draw.standard_normal((2, 10_001))
    z = np.corrcoef(x, y)[0, 1] * np.sqrt(10_000)
    assert row_pvalue(x, y, rng=rng()) == pytest.approx(2 * scipy.stats.norm.sf(abs(z)), rel=0.02)
    counted = row_pvalue(x[1:], y[1:], rng=rng()) * 5000
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


def test_nine_groups_of_equal_size_are_enumerated() -> None:
    # one mean is 1 and the others 0: its place has the third largest x of nine
    x = np.repeat(np.arange(9.0), 2)
    found = group_mean_pvalues(x, (x == 6).astype(float), MEANS[:1], rng=rng())
    assert found["group_mean", "pearson"] == pytest.approx(2 * 3 / 9)


def test_nine_rows_in_groups_are_enumerated() -> None:
    # of nine places for the only value, one is the group of the largest x
    x = np.array([0.0, 0, 0, 0, 1, 1, 1, 1, 2])
    found = group_mean_pvalues(x, (x == 2).astype(float), MEANS[:1], rng=rng())
    assert found["group_mean", "pearson"] == pytest.approx(2 / 9)


def test_equal_means_of_a_permutation_have_no_coefficient() -> None:
    x, y = np.array([1.0, 1, 2, 2]), np.array([1.0, 2, 1, 2])
    assert set(group_mean_pvalues(x, y, MEANS, rng=rng()).values()) == {1}


@pytest.mark.parametrize(("level", "method"), [key for key in MEANS if key[1] != "kendall"])
def test_the_statistic_of_means_is_scipys_coefficient(level: str, method: str) -> None:
    x, size = np.array([1.0, 2, 4, 8, 100]), np.array([2, 1, 5, 3, 1])
    means = 50 + rng(2).standard_normal((6, 5))
    often = size if level == "group_mean_weighted" else np.ones(5, int)
    theirs = scipy.stats.pearsonr if method == "pearson" else scipy.stats.spearmanr
    expected = [theirs(np.repeat(x, often), np.repeat(one, often)).statistic for one in means]
    found = permutation._statistic(level, method, x, size, means)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("pairs", [(106, 8, True), (110, 8, False), (100, 6, False)])
def test_a_kurtosis_above_one_has_no_known_form(pairs: tuple[int, int, bool]) -> None:
    # n rows of which so many are 1 or -1, and the others 0: the kurtosis is n / so many
    n, some, known = pairs
    d = np.zeros(n)
    d[: some // 2], d[some // 2 : some] = 1, -1
    assert ((n / some - 3) ** 2 / n < 1) == known
    found = permutation._type_three(d, np.ones(n, np.int64), d[::-1], d)
    assert found == (1 if known else None)  # a sum of 0


def test_a_skewness_above_one_has_no_known_form() -> None:
    # both columns mark k of n rows: the number marked in both is hypergeometric
    n, ones = 400, np.ones(400, np.int64)
    for k, known in ((17, False), (18, True)):  # at both the kurtosis is below 1
        d = np.where(np.arange(n) < k, 1 - k / n, -k / n)
        skewness = float(scipy.stats.hypergeom(n, k, k).stats("s"))
        assert (skewness < 1) == known
        found = permutation._type_three(1e200 * d, ones, np.roll(d, k - 3), d)
        if not known:
            assert found is None
            continue
        z = (3 - k * k / n) / scipy.stats.hypergeom(n, k, k).std()
        peer = scipy.stats.pearson3(skewness)
        assert found == pytest.approx(2 * min(peer.cdf(z), peer.sf(z)), rel=1e-9)
        # below the least value of the distribution
        far = permutation._type_three(d, ones, -d, d)
        assert far == np.finfo(float).tiny


def test_rank_coefficients_of_many_groups_have_students_t_of_their_permutations() -> None:
    draw = rng(5)
    size = np.repeat([340, 341], [15, 15])
    x = np.repeat(np.arange(30.0) ** 2, size)
    y = draw.standard_normal(len(x)) + 1e-4 * x
    values, starts = np.unique(x, return_index=True)
    asked = [("group_mean", "spearman"), ("group_mean_weighted", "spearman")]
    for level, method in asked:
        found = group_mean_pvalues(x, y, [(level, method)], rng=rng(3))[level, method]
        order = np.lexsort((y, x))
        centered = y[order] - y.mean()
        parts = _drawn(centered, starts, size, rng(3))
        null = np.vstack([next(parts), next(parts)])
        often = size if level == "group_mean_weighted" else np.ones(30, int)
        r = [
            scipy.stats.spearmanr(np.repeat(values, often), np.repeat(one, often)).statistic
            for one in [np.add.reduceat(centered, starts) / size, *null]
        ]
        if level == "group_mean_weighted":  # 29.99... effective groups
            assert found * 1001 / 2 == pytest.approx(round(found * 1001 / 2))
            continue
        t = (r[0] - np.mean(r[1:])) / (np.std(r[1:], ddof=1) * np.sqrt(1 + 1 / 200))
        assert found == pytest.approx(2 * scipy.stats.t.sf(abs(t), 199), rel=1e-9)


@pytest.mark.parametrize(("n", "r"), [(60, 0.9), (40, -0.8), (25, 0.7), (24, 0.6), (4, 0.9)])
def test_rows_that_carry_r_by_leaving_them_out(n: int, r: float) -> None:
    for seed in range(30):
        draw = rng(seed)
        a, b = draw.standard_t(1.5, (2, n))
        x, y = 40 + a, 1e-3 * (r * np.abs(a) ** 1.5 * np.sign(a) + b)
        whole = np.corrcoef(x, y)[0, 1]
        order = np.argsort(-np.sign(whole) * (x - x.mean()) * (y - y.mean()), kind="stable")
        expected: Any = None
        for left in range(1, max(n // 20, 1) + 1):
            without = np.corrcoef(x[order[left:]], y[order[left:]])[0, 1]
            if without * np.sign(whole) < abs(whole) / 2:
                expected = (left, pytest.approx(without))
                break
        assert carrying_rows(x, y, float(whole)) == expected


def test_at_most_a_thousand_rows_carry_r_and_three_are_left() -> None:
    # m rows at (10, 10) and 20,000 at (+-1, +-1): without k of them r is g / (20,000 + g)
    far, whole = 20_000, {}
    for m in range(1100, 1200):
        g = [(m - k) * 100 * far / (far + m - k) for k in range(m)]
        whole[m] = next(k for k in range(m) if g[k] / (far + g[k]) < g[0] / (far + g[0]) / 2)
    for m, k in whole.items():
        if k in (1000, 1001):
            x = np.concatenate([np.tile([1.0, -1], far // 2), np.full(m, 10.0)])
            y = np.concatenate([np.tile([1.0, 1, -1, -1], far // 4), np.full(m, 10.0)])
            found = carrying_rows(x, y, float(np.corrcoef(x, y)[0, 1]))
            assert (found is None) == (k == 1001)
            assert found is None or found[0] == k
    assert {1000, 1001} <= set(whole.values())
    one, other = np.array([0.0, 0, 0, 0, 10]), np.array([0.0, 2, 0, 2, 21])
    assert carrying_rows(one, other, 0.99) == (1, 0)
    assert carrying_rows(one / 64, other, 0.99) == (1, 0)
    assert carrying_rows(np.array([1.0, 2, 9]), np.array([2.0, 1, 8]), 0.98) is None


def test_the_excess_kurtosis_is_scipys() -> None:
    x = 5 + rng(1).standard_t(3, 60)
    for scale in (1.0, -1e200, 1e-200):
        assert excess_kurtosis(scale * x) == pytest.approx(scipy.stats.kurtosis(x), rel=1e-9)


@pytest.mark.parametrize("level", ["row", "group_mean", "group_mean_weighted"])
def test_the_score_is_the_numerator_of_the_coefficient(level: str) -> None:
    x, y = np.array([5.0, 5, 6, 9, 9, 9]), np.array([21.0, 25, 27, 26, 20, 31])
    values, group, size = np.unique(x, return_inverse=True, return_counts=True)
    mean = np.bincount(group, y) / size
    found = leverage(x, y, level, "pearson")
    assert found is not None
    d, u = found
    assert u.sum() == pytest.approx(0)
    expected = (values - values.mean()) @ mean if level == "group_mean" else (x - x.mean()) @ y
    assert d @ u == pytest.approx(expected)
    assert d @ u == pytest.approx(d @ y)
    assert leverage(x, y, level, "spearman") is None
    assert leverage(x, y, level, "kendall") is None


def test_sign_changes_of_13_clusters_are_enumerated_and_of_14_drawn() -> None:
    scores = 2.0 ** -np.arange(15)
    for n in (2, 13, 14, 15):
        # the largest is negative: the rest are less in sum, and no assignment is equal
        d = np.where(np.arange(n) == 0, -1, 1) * scores[:n]
        found = sign_flip_pvalue(d, np.full(n, 2.0), np.arange(n) * 3, rng=rng())
        # |sum| is the least of all, but those with the same signs of the others
        assert found == 1
        d[1:] = [-scores[1], *scores[2:n]]
        p = np.mean([abs(np.dot(s, d)) >= abs(d.sum()) - 1e-12 for s in product((-1, 1), repeat=n)])
        found = sign_flip_pvalue(d, np.full(n, 2.0), np.arange(n) * 3, rng=rng())
        if n <= 13:
            assert found == p
        else:
            assert found * 10_000 == pytest.approx(round(found * 10_000))
            assert found == pytest.approx(p, abs=0.02)


def test_the_normal_part_of_the_scores_has_their_variance() -> None:
    # 2,500 equal scores are normal together; one large score has two signs
    small, large = np.tile([1.0, -1], 1250), 90.0
    scores = np.append(small, large)
    n = len(scores)
    found = sign_flip_pvalue(scores, np.ones(n), np.arange(n), rng=rng())
    # P(|90 + N(0, 2500)| >= 90)
    normal = scipy.stats.norm(0, 50)
    assert found == pytest.approx(normal.sf(0) + normal.cdf(-180), abs=0.02)
    scores[:2500] = 1.0
    scores[:1200] = -1.0  # a sum of 100 + 90
    found = sign_flip_pvalue(scores, np.ones(n), np.arange(n), rng=rng())
    expected = normal.sf(100) + normal.sf(280)
    assert found == pytest.approx(expected, abs=4 * np.sqrt(expected / 10_000))
    assert found * 10_000 == pytest.approx(round(found * 10_000))
