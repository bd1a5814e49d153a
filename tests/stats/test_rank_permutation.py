"""Permuted groups, and groups of clusters, against all subsets, scipy and closed forms."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

from traceana.stats.permutation import (
    _subsets,
    permuted_kruskal_wallis,
    permuted_superiority,
)
from traceana.stats.ranks import placements, rank_anova, superiority


def normal_groups(*sizes: int, shift: float = 0.4) -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(len(sizes)), sizes)
    return group, rng.normal(size=len(group)) * (1 + group) + shift * group


def mean_ranks(values: np.ndarray, group: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Mean rank of each group if rows of the same group have these weights."""
    below = (values[:, None] > values) + 0.5 * (values[:, None] == values)
    groups, n = np.unique(group), np.bincount(group)
    shares = [np.where(group == g, weight, 0) / weight[group == g].sum() for g in groups]
    chances = np.array([[a @ below @ b for b in shares] for a in shares])
    result: np.ndarray = chances @ n + 0.5
    return result


def test_subsets_are_compared_by_hand() -> None:
    # one value among 20: the largest is as far out as the smallest
    alone = np.arange(21.0)
    assert permuted_superiority(alone, alone == 20, 0.95)[0] == pytest.approx(2 / 21)
    assert permuted_superiority(alone, alone == 10, 0.95)[0] == 1
    # of the distances from the middle 0, 1, 1, ..., 10, 10 (of 20) the 20th is 10
    assert permuted_superiority(alone, alone == 3, 0.95)[1] == pytest.approx(9.5 / 20, abs=0.026)


def test_permuted_groups_are_those_of_scipy() -> None:
    group, values = normal_groups(3, 4, shift=1)
    place = stats.rankdata(values)
    peer = stats.permutation_test(
        (place[group == 0], place[group == 1]),
        lambda a, b: stats.kruskal(a, b).statistic,
        alternative="greater",
    )
    assert permuted_kruskal_wallis(group, place) == pytest.approx(peer.pvalue)
    # no rank of three groups of three is between: 3! of the 1,680 arrangements
    found = permuted_kruskal_wallis(np.repeat([0, 1, 2], 3), np.arange(1.0, 10))
    assert found == pytest.approx(6 / 1680, abs=0.002)
    assert found * 10_000 == pytest.approx(round(found * 10_000))


@pytest.mark.parametrize("larger", [60, 600])
def test_drawn_subsets_agree_with_brunner_and_munzel(larger: int) -> None:
    group, values = normal_groups(14, larger, shift=0.5)
    peer = stats.brunnermunzel(values[group == 0], values[group == 1])
    pvalue, critical = permuted_superiority(values, group == 0, 0.95)
    assert pvalue * 10_000 == pytest.approx(round(pvalue * 10_000))
    assert pvalue == pytest.approx(peer.pvalue, abs=0.03)
    assert 1.9 < critical < 2.4  # Student's t of 13 to 30 degrees of freedom is 2.16 to 2.04


@pytest.mark.parametrize("rows", [5, 6])
def test_all_subsets_of_tied_values_have_brunner_and_munzels_statistic(rows: int) -> None:
    values = np.array([1.0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5])[: 2 * rows]
    own = np.isin(np.arange(2 * rows), [2, 4, 7, 8, 9, 11][:rows])
    peer = stats.brunnermunzel(values[own], values[~own]).statistic
    above = (values[:, None] > values) + (values[:, None] == values) / 2
    mine = np.array(list(combinations(range(2 * rows), rows)))
    others = mine[::-1]  # the complements
    pairs = above[mine[:, :, None], others[:, None, :]]
    p = pairs.mean(axis=(1, 2))
    error = np.sqrt(sum(pairs.mean(axis=axis).var(axis=1, ddof=1) for axis in (1, 2)) / rows)
    with np.errstate(divide="ignore"):  # of groups that do not overlap
        t = np.abs(p - 0.5) / error
        at = (mine == np.flatnonzero(own)).all(axis=1)
        assert t[at] == pytest.approx(abs(peer))
        if rows < 6:
            t = np.abs(logit(p)) * p * (1 - p) / error
    pvalue, critical = permuted_superiority(values, own, 0.9)
    assert pvalue == pytest.approx((t >= t[at] - 1e-9).mean())
    assert critical == pytest.approx(np.sort(t)[int(0.9 * len(t))])


def test_random_subsets_are_of_all_positions_alike() -> None:
    for size, n in ((30, 4), (90, 4), (1300, 62), (300, 2)):
        drawn = _subsets(size, n)
        assert drawn.shape == (9999, n)
        assert (np.diff(drawn, axis=1) > 0).all()
        often = np.bincount(drawn.ravel(), minlength=size)
        assert len(often) == size
        p = n / size
        z = (often - 9999 * p) / np.sqrt(9999 * p * (1 - p))
        assert np.abs(z).max() < 5
        assert z.std() < 1.4


@pytest.mark.parametrize(("size", "exact"), [(20_000, True), (20_001, False)])
def test_a_value_among_20000_is_compared_with_each(size: int, exact: bool) -> None:
    values = np.arange(float(size))
    p, critical = permuted_superiority(values, values == 20, 0.9)
    if exact:  # 21 at either end
        assert p == pytest.approx(42 / size)
        assert critical == pytest.approx(0.45, abs=1e-4)
    assert (p * size == pytest.approx(round(p * size))) == exact
    assert (p * 10_000 == pytest.approx(round(p * 10_000))) == (not exact) or exact


@pytest.mark.parametrize(("a", "b"), [(2, 3), (5, 5), (6, 5), (7, 6), (3, 9)])
def test_permuted_superiority_is_brunner_and_munzels_over_all_subsets(a: int, b: int) -> None:
    rng = np.random.default_rng(a + 20 * b)
    values = np.concatenate([rng.integers(0, 6, a) + 1, rng.integers(0, 5, b)]).astype(float)
    smaller = np.arange(a + b) < a if a <= b else np.arange(a + b) >= a

    def statistic(own: np.ndarray) -> float:
        x, y = values[own], values[~own]
        above = (x[:, None] > y) + 0.5 * (x[:, None] == y)
        chance = above.mean()
        error = np.sqrt(
            above.mean(axis=1).var(ddof=1) / len(x) + above.mean(axis=0).var(ddof=1) / len(y)
        )
        if error < 1e-12:
            return np.inf if abs(chance - 0.5) > 1e-12 else 0.0
        away = abs(chance - 0.5)
        if len(x) < 6:  # on the scale of the logit
            away = abs(logit(chance)) * chance * (1 - chance)
        return float(away / error)

    subsets = list(combinations(range(a + b), int(smaller.sum())))
    found = np.array([statistic(np.isin(np.arange(a + b), list(s))) for s in subsets])
    observed = statistic(smaller)
    pvalue, critical = permuted_superiority(values, smaller, 0.8)
    assert pvalue == pytest.approx((found >= observed - 1e-9).mean())
    assert critical == pytest.approx(np.sort(found)[int(0.8 * len(found))])


def test_permuted_groups_of_unequal_size_are_enumerated_from_either_side() -> None:
    rank = np.arange(1.0, 8)
    for group in (np.array([0, 0, 1, 1, 1, 1, 1]), np.array([0, 0, 0, 0, 0, 1, 1])):
        h = [sum(s) ** 2 / 2 + (28 - sum(s)) ** 2 / 5 for s in combinations(rank.tolist(), 2)]
        two = rank[group == (0 if group[2] else 1)].sum()
        actual = two**2 / 2 + (28 - two) ** 2 / 5
        expected = np.mean([each >= actual - 1e-9 for each in h])
        assert permuted_kruskal_wallis(group, rank) == pytest.approx(expected)


def test_clusters_have_the_effective_number_of_each_group() -> None:
    # groups of one cluster, of few unequal and of many clusters
    group = np.repeat([0, 1, 2], [12, 12, 16])
    cluster = np.concatenate(
        [np.repeat([0, 1, 2], [8, 3, 1]), np.repeat([2, 3, 4, 5], 3), np.arange(16) % 9 + 3]
    )
    values = np.random.default_rng(5).normal(size=40) + 0.3 * cluster
    placed = placements(values, group)
    found, ranks = rank_anova(group, placed, cluster, confidence=0.9)
    # the influence of a row on the mean ranks, by comparing all pairs
    n, m = np.bincount(group), 12
    # a cluster's rows draw the mean of their group: the jackknife
    size = np.array([[((cluster == c) & (group == g)).sum() for g in range(3)] for c in range(m)])
    base = mean_ranks(values, group, np.ones(40))
    influence = np.array(
        [
            (mean_ranks(values, group, 1 + 1e-6 * (np.arange(40) == i)) - base) / 1e-6
            for i in range(40)
        ]
    )
    influence = influence / (1 - size / n)[cluster, group][:, None]
    sums = np.stack([np.bincount(cluster, column) for column in influence.T], axis=1)
    covariance = sums.T @ sums * (m - 1) / m
    np.testing.assert_allclose(ranks, base)
    traces = n * np.diag(covariance)
    df = np.array([1 / np.square(np.bincount(cluster[group == g]) / n[g]).sum() for g in range(3)])
    assert found.error_df == pytest.approx(
        traces.sum() ** 2 / (traces**2 / (df - 1)).sum(), rel=1e-4
    )
    root = np.sqrt(np.outer(n, n)) * covariance
    assert found.df == pytest.approx(np.trace(root) ** 2 / (root**2).sum(), rel=1e-4)
    alone, _ = rank_anova(group, placed, np.where(group == 0, 0, cluster + 1), confidence=0.9)
    assert np.isfinite(alone.error_df)


def test_mann_and_whitneys_test_of_clusters_is_the_two_groups_quadratic_form() -> None:
    rng = np.random.default_rng(8)
    group, cluster = np.repeat([0, 1], [14, 10]), np.arange(24) % 5
    values = rng.normal(size=5)[cluster] + rng.normal(size=24)
    found = superiority(
        group, placements(values, group), cluster, 0, 1, confidence=0.9, mann_whitney=True
    )
    rank = stats.rankdata(values)
    sums = np.zeros(5)
    np.add.at(sums, cluster, (rank - 12.5) * np.where(group == 0, 1 / 14, -1 / 10))
    z = (rank[group == 0].mean() - rank[group == 1].mean()) / np.sqrt(5 / 4 * (sums**2).sum())
    assert found.pvalue == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-9)


@pytest.mark.parametrize("turned", [False, True])
def test_a_test_that_rejects_keeps_its_interval_from_one_half(turned: bool) -> None:
    # groups of 15 whose overlap is small: the logit's interval is the wider one
    group, values = np.repeat([0, 1], 15), np.arange(30.0)
    found, seen = [], 0
    for shift in np.arange(-14.5, -1):
        moved = np.where(group == 1, values + shift, values)
        moved = -moved if turned else moved
        one = superiority(group, placements(moved, group), None, 0, 1, confidence=0.999)
        x, y = moved[group == 0], moved[group == 1]
        above = x[:, None] > y
        parts = [above.mean(axis=k).var(ddof=1) / 15 for k in (0, 1)]
        chance, error = above.mean(), np.sqrt(sum(parts))
        df = sum(parts) ** 2 / (sum(p**2 for p in parts) / 14)
        reach = stats.t.ppf(0.9995, df) * error
        ends = expit(logit(chance) + np.array([-1, 1]) * reach / (chance * (1 - chance)))
        if abs(chance - 0.5) > reach and ends[0] <= 0.5 <= ends[1]:
            seen += 1
            ends[0 if turned else 1] = chance + (-reach if turned else reach)
        found.append((one.ci_low, one.ci_high) == pytest.approx(tuple(ends), rel=1e-9))
    assert all(found)
    assert seen
