"""Tests of equal mean scores of groups, for independent rows or rows in clusters.

The score is a rank (Kruskal-Wallis) or 1 for a failure (chi-squared): both tests are one quadratic
form of the groups' means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, chndtr, chndtrinc, fdtr, fdtrc, ncfdtrinc

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

    Q = sum of n_g (mean_g - mean)^2 / s^2 is approximately c times chi-squared with f degrees of
    freedom, c = tr(M^2) / tr(M) and f = tr(M)^2 / tr(M^2) with M the covariance of the roots of its
    terms (Satterthwaite; Brunner, Dette and Munk, JASA 92, 1997); c = 1 and f = groups - 1 for
    independent rows. The interval of Q / (N - 1) contains the noncentralities for which Q is not
    extreme, and 0 where the test does not reject.
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

    Around `center` it is that of the null hypothesis. Around the groups' own means a cluster's
    deviation is divided by 1 - its fraction of the group (jackknife CV3, MacKinnon, Nielsen and
    Webb, 2023); a group of one cluster deviates from the overall mean.
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
    """Return the covariance of the sum of independent parts (rows) that sum to about 0.

    Of a single part it is unknown: NaN.
    """
    if len(parts) < 2:
        return np.full((parts.shape[1], parts.shape[1]), np.nan)
    result: Floats = parts.T @ parts * (len(parts) / (len(parts) - 1))
    return result


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
