"""Rank-based comparison of groups, for independent rows or rows in clusters."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import scipy  # scipy.optimize is slow to import and loaded when used
from scipy.special import ndtri, stdtr, stdtrit

from traceana.stats.arrays import Floats, Integers
from traceana.stats.between_groups import (
    GroupDifference,
    between_groups,
    cluster_covariance,
    covariance_of_sum,
)
from traceana.stats.permutation import RESAMPLES, permuted_kruskal_wallis, permuted_superiority
from traceana.stats.wild_bootstrap import effective_clusters, too_few_clusters

_SMALL: Final = 15
"""Rows of a group below which permutations replace Student's t."""
FEW: Final = 6
"""Rows of a group below which the test of all groups is approximate, and intervals are scores'."""


class Superiority(NamedTuple):
    """Comparison of two groups; NaN where undefined."""

    pvalue: float
    superiority: float
    """Probability that a value of the first is larger, ties counted half."""
    ci_low: float
    ci_high: float


def placements(values: Floats, group: Integers, /) -> Floats:
    """Return the fraction of each group below each value, ties counted half (row x group)."""
    _, at = np.unique(values, return_inverse=True)
    result = np.empty((len(values), int(group.max()) + 1))
    for column in range(result.shape[1]):
        often = np.bincount(at[group == column], minlength=int(at.max()) + 1)
        upto = np.cumsum(often)
        result[:, column] = (2 * upto - often)[at] / (2 * upto[-1])
    return result


def rank_anova(
    group: Integers,
    placed: Floats,
    cluster: Integers | None,
    /,
    *,
    confidence: float,
    equal_spreads: bool = False,
) -> tuple[GroupDifference, Floats]:
    """Test whether groups have the same mean rank; return the test and the mean ranks.

    The ANOVA-type statistic of Brunner, Dette and Munk (JASA 92, 1997), with the covariance of the
    mean ranks from the placements (JRSS B 79, 2017), has an F distribution; below 6 rows p is not
    below that of permutations of Kruskal and Wallis' statistic. `equal_spreads`: Kruskal and
    Wallis' test as :func:`scipy.stats.kruskal`. The effect is epsilon squared, H / (N - 1). Too few
    effective clusters: no p and no interval.
    """
    n = np.bincount(group).astype(float)
    rank = placed @ n + 0.5
    total = np.bincount(group, weights=rank)
    spread, error_df = _rank_covariance(group, placed, cluster, rank)
    null: Floats | None = spread
    if equal_spreads:
        null, error_df = None, np.inf
        if cluster is not None:
            center = (len(rank) + 1) / 2
            null = cluster_covariance(cluster, group, np.ones(len(rank)), rank, center=center)
    test = between_groups(
        n,
        total,
        float((rank**2).sum()),
        null=null,
        spread=spread,
        error_df=error_df,
        spread_df=np.inf if cluster is None or equal_spreads else error_df,
        confidence=confidence,
    )
    if cluster is None and n.min() < (FEW - equal_spreads):
        permuted = permuted_kruskal_wallis(group, rank)
        approximate = 0.0 if equal_spreads or np.isnan(test.pvalue) else test.pvalue
        test = test._replace(pvalue=max(permuted, approximate))
    if cluster is not None and too_few_clusters(_effective(cluster)):
        test = test._replace(pvalue=np.nan, ci_low=np.nan, ci_high=np.nan)
    return test, total / n


def _rank_covariance(
    group: Integers, placed: Floats, cluster: Integers | None, rank: Floats
) -> tuple[Floats, float]:
    """Return the covariance of the groups' mean ranks, and the degrees of freedom of its trace.

    A value adds its own rank, and one to the rank of each larger value. Clusters: the jackknife of
    :func:`~traceana.stats.between_groups.cluster_covariance`.
    """
    above = 1 - placed
    n = np.bincount(group)
    means = np.stack([above[group == g].mean(axis=0) for g in range(len(n))])
    mean_rank = np.bincount(group, weights=rank) / n
    if cluster is not None:
        cells = np.bincount(cluster * len(n) + group, minlength=(int(cluster.max()) + 1) * len(n))
        fraction = cells.reshape(-1, len(n)) / n
        alone = fraction.max(axis=0) > 1 - 1e-12
        means[alone], mean_rank[alone] = 0.5, (len(rank) + 1) / 2
    parts = above - means[group]
    parts[np.arange(len(group)), group] += (rank - mean_rank[group]) / n[group]
    if cluster is None:
        of = [
            parts[group == g].T @ parts[group == g] * (m / max(m - 1, 1)) for g, m in enumerate(n)
        ]
        covariance, df = np.sum(of, axis=0), n - 1
        traces = np.array([float(n @ np.diag(each)) for each in of])
    else:
        parts /= np.where(alone, 1, 1 - fraction)[cluster, group][:, None]
        parts = np.stack([np.bincount(cluster, weights=part) for part in parts.T], axis=1)
        covariance = covariance_of_sum(parts) * (1 - 1 / len(parts)) ** 2
        df = np.array([_effective(cluster[group == g]) - 1 for g in range(len(n))])
        traces = n * np.diag(covariance)
    estimable = df > 1e-9
    squares = float((traces[estimable] ** 2 / df[estimable]).sum())
    return covariance, float(np.trace(covariance * n) ** 2 / squares) if squares > 0 else np.inf


def _effective(cluster: Integers) -> float:
    return effective_clusters(np.ones(len(cluster)), cluster)


def superiority(
    group: Integers,
    placed: Floats,
    cluster: Integers | None,
    first: int,
    second: int,
    /,
    *,
    confidence: float,
    mann_whitney: bool = False,
) -> Superiority:
    """Compare two groups by the probability of superiority, with its test and interval.

    Brunner and Munzel's test (Biometrical Journal 42, 2000); below 15 rows
    :func:`permuted_superiority`. The interval is on the scale of the logit; where the test rejects
    1/2 and it would include it, its bound towards 1/2 is the estimate minus quantile times error.
    Below 6 rows, or without overlap, it is :func:`score_interval`, extended to 1/2 where the test
    does not reject. Clusters: Obuchowski's variance (Biometrics 53, 1997) with t of the smaller
    effective number of clusters minus 1. `mann_whitney`: p as :func:`scipy.stats.mannwhitneyu`.
    """
    a, b = group == first, group == second
    both = a | b
    side, place = np.where(a, 0, 1)[both], placed[both][:, [first, second]]
    n = np.bincount(side, minlength=2).astype(float)
    chance = float(place[side == 0, 1].mean())
    rank = place @ n + 0.5
    if rank.min() == rank.max():
        return Superiority(np.nan, chance, np.nan, np.nan)
    cluster_code = null = None
    if cluster is not None:
        cluster_code = (np.cumsum(np.bincount(cluster[both]) > 0) - 1)[cluster[both]]
        if cluster_code.max() < 1:
            return Superiority(np.nan, chance, np.nan, np.nan)
        center = (len(rank) + 1) / 2
        null = cluster_covariance(cluster_code, side, np.ones(len(rank)), rank, center=center)
    total = np.bincount(side, weights=rank)
    pvalue = between_groups(n, total, float((rank**2).sum()), null=null).pvalue
    variance, df = _chance_variance(side, place, cluster_code, n, chance)
    defined = variance > 0 and df >= 1 and 0 < chance < 1
    by_rows = cluster is None and not mann_whitney
    permuted = by_rows and n.min() < _SMALL
    if permuted:
        in_smaller = side == int(n[1] < n[0])
        pvalue, reach = permuted_superiority(rank, in_smaller, confidence)
    elif defined:
        reach = float(stdtrit(df, (1 + confidence) / 2))
    elif by_rows:  # groups that do not overlap: no permutation that is drawn is as extreme
        pvalue = 1 / (RESAMPLES + 1)
    scored = by_rows and n.min() > 1 and (n.min() < FEW or chance in (0, 1))
    rejects = pvalue < 1 - confidence
    if scored and not (rejects and defined):
        low, high = score_interval(chance, n, confidence)
        if not rejects:
            low, high = min(low, 0.5), max(high, 0.5)
        return Superiority(pvalue, chance, low, high)
    if not defined or not np.isfinite(reach):
        return Superiority(pvalue, chance, np.nan, np.nan)
    error = float(np.sqrt(variance))
    if not (permuted or mann_whitney):
        pvalue = float(2 * stdtr(df, -abs(chance - 0.5) / error))
    step = reach * error / (chance * (1 - chance))
    odds = chance / (1 - chance)
    low, high = (odds * np.exp(away) / (1 + odds * np.exp(away)) for away in (-step, step))
    if scored:
        low, high = score_interval(chance, n, confidence)
    if abs(chance - 0.5) > reach * error and low <= 0.5 <= high:
        low, high = (
            (chance - reach * error, high) if chance > 0.5 else (low, chance + reach * error)
        )
    return Superiority(pvalue, chance, float(low), float(high))


def score_interval(chance: float, n: Floats, confidence: float, /) -> tuple[float, float]:
    """Return Newcombe's score interval of the probability of superiority.

    Statistics in Medicine 25, 2006, method 5: the t with |chance - t| <= z sqrt(V(t)), V(t) = t (1
    - t) (1 + k ((1 - t) / (2 - t) + t / (1 + t))) / (m n) and k = (m + n) / 2 - 1.
    """
    z, k = float(ndtri((1 + confidence) / 2)), float(n.sum()) / 2 - 1

    def outside(t: float) -> float:
        variance = t * (1 - t) * (1 + k * ((1 - t) / (2 - t) + t / (1 + t))) / float(n.prod())
        return abs(chance - t) - z * float(np.sqrt(variance))

    edge = 1e-12
    inside = min(max(chance, 1e-9), 1 - 1e-9)
    low = scipy.optimize.brentq(outside, edge, inside) if chance > 0 else 0.0
    high = scipy.optimize.brentq(outside, inside, 1 - edge) if chance < 1 else 1.0
    return float(low), float(high)


def _chance_variance(
    side: Integers, place: Floats, cluster: Integers | None, n: Floats, chance: float
) -> tuple[float, float]:
    parts = np.where(side == 0, place[:, 1] - chance, 1 - chance - place[:, 0]) / n[side]
    if cluster is None:
        squares = np.bincount(side, weights=parts**2)
        if n.min() < 2:
            return np.nan, np.nan
        each = squares * n / (n - 1)
        with np.errstate(invalid="ignore"):  # no variance where groups do not overlap
            df = each.sum() ** 2 / (each**2 / (n - 1)).sum()
        return float(each.sum()), float(df)
    clusters = cluster.max() + 1
    fewest = min(_effective(cluster[side == 0]), _effective(cluster[side == 1]))
    sums = np.bincount(cluster, weights=parts)
    return float((sums**2).sum() * clusters / (clusters - 1)), float(fewest - 1)
