"""Tests of equal means of groups against R, scipy and brute force over clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from traceana.errors import DataError
from traceana.stats.ranks import between_groups, cluster_covariance


def noncentral(q: float, df: float, p: float) -> float:
    """The noncentrality with which q is the p-quantile, by bisection."""
    low, high = 0.0, 1e4
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if stats.ncx2.cdf(q, df, middle) > p else (low, middle)
    return low


def test_party_and_gender_as_r_has_it(r_values: dict[str, Any]) -> None:
    known = r_values["party"]
    first, second = np.array(known["first"]), np.array(known["second"])
    n, rows = first + second, first.sum() + second.sum()
    found = between_groups(n, first, float(first.sum()), confidence=0.9)
    # with a variance of ddof 1, and Pearson's has ddof 0
    assert found.statistic == pytest.approx(known["statistic"] * (rows - 1) / rows, rel=1e-12)
    assert found.effect == pytest.approx(known["cramers_v"] ** 2, rel=1e-12)
    assert found.pvalue == pytest.approx(stats.chi2.sf(found.statistic, 2), rel=1e-9)
    assert (found.df, found.error_df, found.design_effect) == (2, np.inf, 1)
    ends = [noncentral(found.statistic, 2, p) / rows for p in (0.95, 0.05)]
    assert (found.ci_low, found.ci_high) == pytest.approx(ends, rel=1e-6)


def test_kruskal_and_wallis_as_r_has_it(r_values: dict[str, Any]) -> None:
    known = r_values["plant_growth"]
    group = np.unique(known["group"], return_inverse=True)[1]
    rank = stats.rankdata(known["weight"])
    found = between_groups(np.bincount(group), np.bincount(group, rank), float(rank @ rank))
    values = (known["statistic"], known["df"], known["pvalue"])
    assert (found.statistic, found.df, found.pvalue) == pytest.approx(values, rel=1e-9)
    f = between_groups(
        np.bincount(group), np.bincount(group, rank), float(rank @ rank), error_df=9.5
    )
    assert f.pvalue == pytest.approx(stats.f.sf(known["statistic"] / 2, 2, 9.5), rel=1e-9)


def test_groups_alike_have_no_effect_and_groups_apart_all() -> None:
    alike = between_groups([10, 10], [5, 5], 10)
    assert (alike.statistic, alike.pvalue, alike.effect, alike.ci_low) == (0, 1, 0, 0)
    assert 0 <= alike.ci_high <= 1
    apart = between_groups([10, 10], [0, 10], 10)
    assert (apart.statistic, apart.effect) == pytest.approx((19, 1))
    assert apart.ci_high == 1
    with pytest.raises(DataError, match="confidence must lie between"):
        between_groups([10, 10], [5, 5], 10, confidence=1)


def make_clusters() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    cluster = rng.integers(0, 9, 120)
    return cluster, rng.integers(0, 3, 120), rng.normal(size=9)[cluster] + rng.normal(size=120)


def test_the_covariance_of_clusters_by_brute_force() -> None:
    cluster, group, score = make_clusters()
    one = np.ones(120)
    found = cluster_covariance(cluster, group, one, score, center=score.mean())
    parts = np.zeros((9, 3))
    for c, g, s in zip(cluster, group, score, strict=True):
        parts[c, g] += (s - score.mean()) / (group == g).sum()
        parts[c] -= (s - score.mean()) / 120
    np.testing.assert_allclose(found, 9 / 8 * sum(np.outer(p, p) for p in parts), rtol=1e-12)
    own = np.array([score[group == g].mean() for g in range(3)])
    # the jackknife: each group's mean without one cluster
    n = np.bincount(group)
    moved = (
        np.array(
            [[score[(group == g) & (cluster != c)].mean() for g in range(3)] for c in range(9)]
        )
        - own
    )
    moved -= moved @ n[:, None] / 120
    np.testing.assert_allclose(
        cluster_covariance(cluster, group, one, score), 8 / 9 * moved.T @ moved, rtol=1e-9
    )


def test_a_group_of_one_cluster_varies_by_its_distance_from_the_mean() -> None:
    cluster, group = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 1, 1])
    score = np.array([5.0, 7, 1, 2, 4, 2])
    found = cluster_covariance(cluster, group, np.ones(6), score)
    # deviations: 6 - 3.5; 1.5 - 2.25 and 3 - 2.25, each over 1 - 2 / 4 and times 2 of 4 rows
    moved = np.array([[2.5, 0], [0, -0.75], [0, 0.75]])
    moved -= moved @ np.array([[2], [4]]) / 6
    np.testing.assert_allclose(found, 2 / 3 * moved.T @ moved)


def test_the_scale_of_clusters_is_satterthwaites() -> None:
    cluster, group, score = make_clusters()
    n, total = np.bincount(group), np.bincount(group, score)
    one = np.ones(120)
    null = cluster_covariance(cluster, group, one, score, center=score.mean())
    spread = cluster_covariance(cluster, group, one, score)
    found = between_groups(n, total, float(score @ score), null=null, spread=spread)
    weight = n / score.var(ddof=1)
    scales = []
    for covariance in (null, spread):
        values = np.linalg.eigvalsh(covariance * np.sqrt(np.outer(weight, weight)))
        scales.append(((values**2).sum() / values.sum(), values.sum() ** 2 / (values**2).sum()))
    q = float((weight * (total / n - score.mean()) ** 2).sum())
    (c, df), (wide, wide_df) = scales
    assert (found.statistic, found.df, found.design_effect) == pytest.approx((q / c, df, c))
    assert found.pvalue == pytest.approx(stats.chi2.sf(q / c, df))
    assert found.effect == pytest.approx(q / 119)
    ends = [noncentral(q / wide, wide_df, p) * wide / 120 for p in (0.975, 0.025)]
    assert (found.ci_low, found.ci_high) == pytest.approx(ends, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("p", [0.97, 0.9, 0.03])
def test_an_end_of_the_interval_may_be_near_no_difference(p: float) -> None:
    # Q is so little beyond its quantile that the lower noncentrality is below 1
    n, total = [30, 30, 30], [15.0, 10.0, 18.0]
    q = between_groups(n, total, 43.0).statistic
    confidence = 2 * float(stats.chi2.cdf(q, 2)) * (1 - 0.03 * p) - 1
    found = between_groups(n, total, 43.0, confidence=confidence)
    end = noncentral(q, 2, (1 + confidence) / 2)
    assert 0 < end < 1
    assert found.ci_low * 90 == pytest.approx(end, rel=1e-5)


def test_clusters_may_vary_less_than_rows() -> None:
    # two groups: M has one root, which is its trace
    covariance = 0.002 * np.array([[1.0, -1], [-1, 1]])
    weight = 20 / (5 / 19)  # of groups of 10 with the scores 0 and 1: 5 / 19 is the variance
    found = between_groups([10, 10], [4, 6], 10, null=covariance, spread=covariance)
    assert found.design_effect == pytest.approx(weight * 0.002)
    assert found.statistic == pytest.approx(2 * weight / 2 * 0.1**2 / (weight * 0.002))
    assert found.df == pytest.approx(1)


def test_clusters_without_variation_have_no_test() -> None:
    found = between_groups([10, 10], [5, 5], 10, null=np.zeros((2, 2)), spread=np.zeros((2, 2)))
    assert np.isnan([found.statistic, found.df, found.pvalue, found.ci_low, found.ci_high]).all()
    assert found.effect == 0
