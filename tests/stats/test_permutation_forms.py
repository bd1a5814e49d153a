"""Permutations that are enumerated or have a known form, and the rows that decide."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats

from traceana.stats import permutation
from traceana.stats.correlation import METHODS, carrying_rows, excess_kurtosis
from traceana.stats.permutation import _drawn, group_mean_pvalues, leverage, sign_flip_pvalue

MEANS = [(level, method) for level in ("group_mean", "group_mean_weighted") for method in METHODS]


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


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
