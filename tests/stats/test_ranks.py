"""Comparison of groups by ranks against scipy, closed forms and brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

from traceana.stats.permutation import (
    permuted_kruskal_wallis,
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
            assert found.ci_low <= found.superiority < found.ci_high


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


def test_groups_that_do_not_overlap_have_a_score_interval() -> None:
    group = np.repeat([0, 1], 20)
    found = superiority(group, placements(np.arange(40.0), group), None, 0, 1, confidence=0.95)
    assert found.superiority == 0
    assert found.pvalue <= 2e-4
    # Newcombe, Statistics in Medicine 25, 2006, method 5
    t = found.ci_high
    variance = t * (1 - t) * (1 + 19 * ((1 - t) / (2 - t) + t / (1 + t))) / 400
    assert found.ci_low == 0
    assert t == pytest.approx(1.959964 * variance**0.5, rel=1e-6)
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
    assert (single.df, single.effect) == pytest.approx((plain.df, plain.effect))
    # the jackknife of 27 rows in groups of 9 instead of variances with 9 - 1
    factor = 26 / 27 * 9 / 8
    assert single.design_effect == pytest.approx(plain.design_effect * factor)
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
