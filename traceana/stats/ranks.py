"""Comparison of groups by ranks or rates, for independent rows or rows in clusters."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import scipy  # scipy.optimize is slow to import and loaded when used
from numpy.typing import ArrayLike
from scipy.special import chdtrc, chndtr, chndtrinc, fdtr, fdtrc, ncfdtrinc, ndtri, stdtr, stdtrit

from traceana.stats import permutation
from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats, Integers


class GroupDifference(NamedTuple):
    """Test and effect size; NaN without variation."""

    statistic: float
    """Sum over groups of n (mean - overall mean)^2 / variance, over the design effect."""
    df: float
    error_df: float
    pvalue: float
    effect: float
    """Fraction of the variance of the scores between groups: statistic / (N - 1)."""
    ci_low: float
    ci_high: float
    design_effect: float
    """Rows per effective row; 1 for independent rows."""


def between_groups(
    n: ArrayLike,
    total: ArrayLike,
    squares: float,
    /,
    *,
    null: Floats | None = None,
    spread: Floats | None = None,
    error_df: float = np.inf,
    spread_df: float = np.inf,
    confidence: float = 0.95,
) -> GroupDifference:
    """Test whether the mean scores of groups differ, and estimate the variance between them.

    Q = sum of n_g (mean_g - mean)^2 / s^2 is c times chi-squared with f degrees of freedom, c =
    tr(M^2) / tr(M), f = tr(M)^2 / tr(M^2), M the covariance of the roots of its terms (Brunner,
    Dette and Munk, JASA 92, 1997). The interval of Q / (N - 1) is that of the noncentrality.
    """
    check_confidence(confidence)
    count, sums = np.asarray(n, dtype=float), np.asarray(total, dtype=float)
    rows = count.sum()
    mean = sums.sum() / rows
    weight = count * (rows - 1) / (squares - rows * mean**2)
    q = float((weight * (sums / count - mean) ** 2).sum())
    c, f = _scale(null, weight)
    c_actual, f_actual = _scale(spread, weight)
    tail = (1 - confidence) / 2
    low, high = (
        _noncentrality(q / c_actual, f_actual, spread_df, p) * c_actual / rows
        for p in (1 - tail, tail)
    )
    effect = float(min(q / (rows - 1), 1))
    pvalue = float(chdtrc(f, q / c) if np.isinf(error_df) else fdtrc(f, error_df, q / c / f))
    if pvalue >= 1 - confidence:
        low *= 0
    return GroupDifference(
        statistic=q / c,
        df=f,
        pvalue=pvalue,
        error_df=error_df,
        effect=effect,
        ci_low=float(np.minimum(low, effect)),
        ci_high=float(np.clip(high, effect, 1)),
        design_effect=c,
    )


def cluster_covariance(
    cluster: Integers, group: Integers, n: Floats, total: Floats, /, *, center: float | None = None
) -> Floats:
    """Return the covariance of groups' means minus the overall mean, for independent clusters.

    Around `center` (the null hypothesis), else the jackknife CV3 (MacKinnon, Nielsen, Webb, 2023).
    """
    clusters, groups = int(cluster.max()) + 1, int(group.max()) + 1
    rows, sums = np.bincount(group, weights=n), np.bincount(group, weights=total)
    shares = np.bincount(cluster * groups + group, n, clusters * groups).reshape(-1, groups) / rows
    if center is None:
        alone = shares.max(axis=0) > 1 - 1e-12
        means = np.where(alone, sums.sum() / rows.sum(), sums / rows)
    else:
        means = np.full(groups, center)
    away = total - n * means[group]
    sums_of_cells = np.bincount(cluster * groups + group, away, clusters * groups)
    excess: Floats = sums_of_cells.reshape(-1, groups).astype(float)
    if center is None:
        excess = excess / np.where(alone, 1, 1 - shares)
    parts = excess / rows - excess.sum(axis=1, keepdims=True) / rows.sum()
    covariance = covariance_of_sum(parts)
    return covariance if center is not None else covariance * ((clusters - 1) / clusters) ** 2


def covariance_of_sum(parts: Floats, /) -> Floats:
    """Return the covariance of the sum of independent rows that sum to about 0; NaN of one."""
    if len(parts) < 2:
        return np.full((parts.shape[1], parts.shape[1]), np.nan)
    return parts.T @ parts * (len(parts) / (len(parts) - 1))


def _scale(covariance: Floats | None, weight: Floats) -> tuple[float, float]:
    if covariance is None:
        return 1.0, float(len(weight) - 1)
    root = np.sqrt(weight)
    m = root[:, None] * covariance * root
    first, second = float(np.trace(m)), float((m**2).sum())
    if first < 1e-12:  # nothing varies between clusters
        return np.nan, np.nan
    return second / first, first**2 / second


def _noncentrality(statistic: float, df: float, error_df: float, p: float) -> float:
    """Return the noncentrality for which the statistic is the p-quantile, or 0."""
    if np.isnan(statistic):
        return np.nan
    if np.isinf(error_df):
        if chndtr(statistic, df, 0) <= p:
            return 0.0
        return float(chndtrinc(statistic, df, p))
    if fdtr(df, error_df, statistic / df) <= p:
        return 0.0
    return float(ncfdtrinc(df, error_df, p, statistic / df))


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

    Brunner, Dette and Munk (JASA 92, 1997) with the covariance of placements (JRSS B 79, 2017);
    below 6 rows p is at least that of permutations. `equal_spreads`: as
    :func:`scipy.stats.kruskal`. The effect is epsilon squared, H / (N - 1). NaN with too few
    effective clusters.
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
        permuted = permutation.permuted_kruskal_wallis(group, rank)
        approximate = 0.0 if equal_spreads or np.isnan(test.pvalue) else test.pvalue
        test = test._replace(pvalue=max(permuted, approximate))
    if cluster is not None and permutation.too_few_clusters(_effective(cluster)):
        test = test._replace(pvalue=np.nan, ci_low=np.nan, ci_high=np.nan)
    return test, total / n


def _rank_covariance(
    group: Integers, placed: Floats, cluster: Integers | None, rank: Floats
) -> tuple[Floats, float]:
    """Return the covariance of mean ranks, and the degrees of freedom of its trace."""
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
    return permutation.effective_clusters(np.ones(len(cluster)), cluster)


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

    Brunner and Munzel's test (Biometrical Journal 42, 2000), below 15 rows permuted; the interval
    on the scale of the logit, with the estimate minus quantile times error where the test rejects.
    Below 6 rows, or without overlap, :func:`score_interval`. Clusters: Obuchowski (Biometrics 53,
    1997). `mann_whitney`: p as :func:`scipy.stats.mannwhitneyu`.
    """
    a, b = group == first, group == second
    both = a | b
    side, place = np.where(a, 0, 1)[both], placed[both][:, [first, second]]
    n = np.bincount(side, minlength=2).astype(float)
    chance = float(place[side == 0, 1].mean())
    rank = place @ n + 0.5
    cluster_code = None
    if cluster is not None:
        cluster_code = (np.cumsum(np.bincount(cluster[both]) > 0) - 1)[cluster[both]]
    if rank.min() == rank.max() or (cluster_code is not None and cluster_code.max() < 1):
        return Superiority(np.nan, chance, np.nan, np.nan)
    pvalue = _mean_rank_pvalue(side, rank, n, cluster_code)
    variance, df = _chance_variance(side, place, cluster_code, n, chance)
    defined = bool(np.all([variance > 0, df >= 1, 0 < chance < 1]))
    by_rows = cluster is None and not mann_whitney
    permuted = by_rows and n.min() < _SMALL
    reach = np.nan
    if permuted:
        in_smaller = side == int(n[1] < n[0])
        pvalue, reach = permutation.permuted_superiority(rank, in_smaller, confidence)
    elif defined:
        reach = float(stdtrit(df, (1 + confidence) / 2))
    elif by_rows:  # groups that do not overlap: no permutation that is drawn is as extreme
        pvalue = 1 / (permutation.RESAMPLES + 1)
    rejects = pvalue < 1 - confidence
    error = float(np.sqrt(variance)) if defined else np.nan
    if defined and not (permuted or mann_whitney):
        pvalue = float(2 * stdtr(df, -abs(chance - 0.5) / error))
    few = n if by_rows else None
    low, high = _chance_interval(chance, reach * error, few, confidence, rejects=rejects)
    return Superiority(pvalue, chance, float(low), float(high))


def _mean_rank_pvalue(side: Integers, rank: Floats, n: Floats, cluster: Integers | None) -> float:
    null = None
    if cluster is not None:
        center = (len(rank) + 1) / 2
        null = cluster_covariance(cluster, side, np.ones(len(rank)), rank, center=center)
    total = np.bincount(side, weights=rank)
    return between_groups(n, total, float((rank**2).sum()), null=null).pvalue


def _chance_interval(
    chance: float, half: float, n: Floats | None, confidence: float, *, rejects: bool
) -> tuple[float, float]:
    """Return the interval of a chance from half its length, or from scores for few rows n."""
    scored = None
    if n is not None and n.min() > 1 and (n.min() < FEW or chance in (0, 1)):
        scored = score_interval(chance, n, confidence)
    if scored and not (rejects and not np.isnan(half)):
        return scored if rejects else (min(scored[0], 0.5), max(scored[1], 0.5))
    if not np.isfinite(half):
        return np.nan, np.nan
    step, odds = half / (chance * (1 - chance)), chance / (1 - chance)
    low, high = scored or (
        odds * np.exp(away) / (1 + odds * np.exp(away)) for away in (-step, step)
    )
    if abs(chance - 0.5) > half and low <= 0.5 <= high:
        return (chance - half, high) if chance > 0.5 else (low, chance + half)
    return low, high


def score_interval(chance: float, n: Floats, confidence: float, /) -> tuple[float, float]:
    """Return Newcombe's score interval of superiority (Statistics in Medicine 25, 2006, 5)."""
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
