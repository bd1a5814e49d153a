"""Comparison of groups by ranks against scipy, closed forms and brute force."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

from traceana.stats.rank_permutation import (
    _subsets,
    permuted_kruskal_wallis,
    permuted_superiority,
)
from traceana.stats.ranks import placements, rank_anova, superiority


def normal_groups(*sizes: int, shift: float = 0.4) -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(len(sizes)), sizes)
    return group, rng.normal(size=len(group)) * (1 + group) + shift * group


def test_placements_by_hand() -> None:
    found = placements(np.array([1.0, 2, 2, 3]), np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(found, [[0.25, 0], [0.75, 0.25], [0.75, 0.25], [1, 0.75]])


def test_superiority_of_independent_rows() -> None:
    group, values = normal_groups(20, 15, shift=1)
    a, b = values[group == 0], values[group == 1]
    found = superiority(group, placements(values, group), None, 0, 1, confidence=0.9)
    assert found.pvalue == pytest.approx(stats.brunnermunzel(a, b).pvalue, rel=1e-9)
    chance = (a[:, None] > b).mean()
    assert found.superiority == pytest.approx(chance)
    # Brunner and Munzel's variance from the placements, and Welch's degrees of freedom
    parts = [
        (a[:, None] > b).mean(axis=1).var(ddof=1) / 20,
        (a[:, None] > b).mean(axis=0).var(ddof=1) / 15,
    ]
    df = sum(parts) ** 2 / (parts[0] ** 2 / 19 + parts[1] ** 2 / 14)
    half = stats.t.ppf(0.95, df) * np.sqrt(sum(parts)) / (chance * (1 - chance))
    ends = expit(logit(chance) + np.array([-half, half]))
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(ends), rel=1e-9)
    turned = superiority(group, placements(values, group), None, 1, 0, confidence=0.9)
    assert (turned.superiority, turned.ci_low, turned.ci_high) == pytest.approx(
        (1 - chance, 1 - ends[1], 1 - ends[0])
    )


def test_where_the_test_rejects_the_interval_excludes_one_half() -> None:
    group = np.repeat([0, 1], 16)
    values = np.arange(32.0)
    for shift in range(17):  # from no overlap to the same place
        moved = np.where(group == 1, values - shift - 0.5, values)
        found = superiority(group, placements(moved, group), None, 0, 1, confidence=0.95)
        if np.isfinite(found.ci_low):
            assert (found.ci_low <= 0.5 <= found.ci_high) == (found.pvalue >= 0.05)
            assert found.ci_low < found.superiority < found.ci_high


def test_mann_and_whitneys_test_has_ties() -> None:
    rng = np.random.default_rng(1)
    group, values = np.repeat([0, 1, 2], [8, 12, 9]), rng.integers(0, 5, 29).astype(float)
    placed = placements(values, group)
    found = superiority(group, placed, None, 0, 2, confidence=0.95, mann_whitney=True)
    peer = stats.mannwhitneyu(
        values[group == 0], values[group == 2], use_continuity=False, method="asymptotic"
    )
    assert found.pvalue == pytest.approx(peer.pvalue, rel=1e-9)
    assert found.superiority == pytest.approx(peer.statistic / 72)


def test_groups_of_14_are_permuted_and_groups_of_15_are_not() -> None:
    for size, permuted in ((14, True), (15, False)):
        group, values = normal_groups(size, 40)
        found = superiority(group, placements(values, group), None, 0, 1, confidence=0.95)
        peer = stats.brunnermunzel(values[group == 0], values[group == 1]).pvalue
        assert (found.pvalue == pytest.approx(peer, rel=1e-9)) != permuted


def test_groups_that_do_not_overlap_have_a_test_alone() -> None:
    group = np.repeat([0, 1], 20)
    found = superiority(group, placements(np.arange(40.0), group), None, 0, 1, confidence=0.95)
    assert found.superiority == 0
    assert found.pvalue <= 2e-4
    assert np.isnan([found.ci_low, found.ci_high]).all()
    same = superiority(group, placements(np.ones(40), group), None, 0, 1, confidence=0.95)
    assert same.superiority == 0.5
    assert np.isnan([same.pvalue, same.ci_low, same.ci_high]).all()


def test_superiority_of_clusters_by_brute_force() -> None:
    rng = np.random.default_rng(6)
    cluster = rng.integers(0, 12, 150)
    group = rng.integers(0, 3, 150)
    values = rng.normal(size=12)[cluster] + rng.normal(size=150)
    found = superiority(group, placements(values, group), cluster, 0, 2, confidence=0.95)
    a, b = np.flatnonzero(group == 0), np.flatnonzero(group == 2)
    above = (values[a][:, None] > values[b]).astype(float)
    chance = above.mean()
    sums = np.zeros(12)
    np.add.at(sums, cluster[a], (above.mean(axis=1) - chance) / len(a))
    np.add.at(sums, cluster[b], (above.mean(axis=0) - chance) / len(b))
    error = np.sqrt(12 / 11 * (sums**2).sum())
    # Kish: (sum n)^2 / sum n^2, of the group with fewer
    sizes = [np.bincount(cluster[one]) for one in (a, b)]
    df = min(n.sum() ** 2 / (n**2).sum() for n in sizes) - 1
    assert found.pvalue == pytest.approx(2 * stats.t.sf(abs(chance - 0.5) / error, df), rel=1e-9)
    half = stats.t.ppf(0.975, df) * error / (chance * (1 - chance))
    assert logit([found.ci_low, found.ci_high]) == pytest.approx(
        logit(chance) + np.array([-half, half]), rel=1e-9
    )
    one = superiority(group, placements(values, group), 0 * cluster, 0, 2, confidence=0.95)
    assert one.superiority == chance
    assert np.isnan([one.pvalue, one.ci_low, one.ci_high]).all()


def test_kruskal_and_wallis_test_is_scipys_from_5_rows_on() -> None:
    group, values = normal_groups(5, 8, 9)
    test, ranks = rank_anova(
        group, placements(values, group), None, confidence=0.95, equal_spreads=True
    )
    peer = stats.kruskal(*(values[group == g] for g in range(3)))
    assert (test.statistic, test.pvalue) == pytest.approx(tuple(peer), rel=1e-9)
    assert test.effect == pytest.approx(peer.statistic / 21)
    place = stats.rankdata(values)
    np.testing.assert_allclose(ranks, [place[group == g].mean() for g in range(3)])
    group, values = normal_groups(4, 8, 9)
    few, _ = rank_anova(group, placements(values, group), None, confidence=0.95, equal_spreads=True)
    assert few.pvalue == permuted_kruskal_wallis(group, stats.rankdata(values))


def test_the_rank_anova_of_two_groups_is_brunner_and_munzels() -> None:
    # its statistic is the square of Brunner and Munzel's, with Welch's degrees of freedom
    group, values = normal_groups(12, 17)
    test, _ = rank_anova(group, placements(values, group), None, confidence=0.95)
    peer = stats.brunnermunzel(values[group == 0], values[group == 1])
    assert test.statistic == pytest.approx(peer.statistic**2, rel=1e-9)
    assert test.pvalue == pytest.approx(peer.pvalue, rel=1e-6)
    assert test.df == pytest.approx(1)


def mean_ranks(values: np.ndarray, group: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Mean rank of each group if rows of the same group have these weights."""
    below = (values[:, None] > values) + 0.5 * (values[:, None] == values)
    groups, n = np.unique(group), np.bincount(group)
    shares = [np.where(group == g, weight, 0) / weight[group == g].sum() for g in groups]
    chances = np.array([[a @ below @ b for b in shares] for a in shares])
    result: np.ndarray = chances @ n + 0.5
    return result


@pytest.mark.parametrize("first", [8, 2])
def test_the_rank_anova_has_the_infinitesimal_jackknifes_covariance(first: int) -> None:
    group, values = normal_groups(first, 11, 22 - first)
    n, one = np.bincount(group), np.ones(33)
    mean = mean_ranks(values, group, one)
    influence = np.array(
        [
            (mean_ranks(values, group, one + 1e-6 * (np.arange(33) == i)) - mean) / 1e-6
            for i in range(33)
        ]
    )
    of = [influence[group == g].T @ influence[group == g] * m / (m - 1) for g, m in enumerate(n)]
    covariance, traces = np.sum(of, axis=0), np.array([n @ np.diag(each) for each in of])
    error_df = traces.sum() ** 2 / (traces**2 / (n - 1)).sum()
    m = covariance * np.sqrt(np.outer(n, n))
    df = np.trace(m) ** 2 / (m**2).sum()
    test, ranks = rank_anova(group, placements(values, group), None, confidence=0.95)
    np.testing.assert_allclose(ranks, mean)
    assert (test.df, test.error_df) == pytest.approx((df, error_df), rel=1e-4)
    if first >= 6:  # otherwise p is not below that of permutations
        f = (n * (mean - 17) ** 2).sum() / np.trace(m)
        assert test.pvalue == pytest.approx(stats.f.sf(f, df, error_df), rel=1e-4)


def test_the_rank_anova_of_clusters() -> None:
    # clusters of a row each are as independent rows, where groups are of equal size
    group, values = normal_groups(9, 9, 9)
    placed = placements(values, group)
    plain, _ = rank_anova(group, placed, None, confidence=0.95)
    single, _ = rank_anova(group, placed, np.arange(27), confidence=0.95)
    for name in ("statistic", "df", "effect", "ci_low", "ci_high", "design_effect"):
        assert getattr(single, name) == pytest.approx(getattr(plain, name)), name
    # of a cluster's rows in a group, sum of n_g variance_g over (effective clusters - 1)
    clusters = np.arange(27) % 6
    found, _ = rank_anova(group, placed, clusters, confidence=0.95)
    assert found.error_df <= 3 * 5


def test_clusters_of_equal_spread_have_the_covariance_around_the_mean_rank() -> None:
    group, values = normal_groups(9, 12, 11)
    cluster = np.arange(32) % 7
    rank = stats.rankdata(values)
    null = np.zeros((3, 3))
    for c in range(7):
        own = np.bincount(group[cluster == c], (rank - 16.5)[cluster == c], 3)
        moved = own / np.bincount(group) - own.sum() / 32
        null += 7 / 6 * np.outer(moved, moved)
    weight = np.bincount(group) / rank.var(ddof=1)
    m = null * np.sqrt(np.outer(weight, weight))
    test, _ = rank_anova(
        group, placements(values, group), cluster, confidence=0.95, equal_spreads=True
    )
    assert test.design_effect == pytest.approx((m**2).sum() / np.trace(m))
    assert test.error_df == np.inf


def test_a_rank_anova_of_few_rows_is_no_smaller_than_its_permutations() -> None:
    group, values = normal_groups(5, 9, 9, shift=3)
    few, _ = rank_anova(group, placements(values, group), None, confidence=0.95)
    assert few.pvalue >= permuted_kruskal_wallis(group, stats.rankdata(values))


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
    base = mean_ranks(values, group, np.ones(40))
    influence = np.array(
        [
            (mean_ranks(values, group, 1 + 1e-6 * (np.arange(40) == i)) - base) / 1e-6
            for i in range(40)
        ]
    )
    sums = np.stack([np.bincount(cluster, column) for column in influence.T], axis=1)
    covariance = sums.T @ sums * m / (m - 3)
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
