"""Rank-based comparison of groups, for independent rows or rows in clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import stdtrit

from traceana.stats.between_groups import (
    GroupDifference,
    between_groups,
    cluster_covariance,
    covariance_of_sum,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


class Superiority(NamedTuple):
    """Comparison of two groups; NaN where undefined."""

    pvalue: float
    superiority: float
    """Probability that a value of the first is larger, ties counted half."""
    ci_low: float
    ci_high: float


def placements(values: Floats, group: Integers, /) -> Floats:
    """Return the fraction of each group below each value, ties counted half (row x group)."""
    result = np.empty((len(values), int(group.max()) + 1))
    for column in range(result.shape[1]):
        own = np.sort(values[group == column])
        below = np.searchsorted(own, values) + np.searchsorted(own, values, side="right")
        result[:, column] = below / (2 * len(own))
    return result


def kruskal_wallis(
    group: Integers, placed: Floats, cluster: Integers | None, /, *, confidence: float
) -> tuple[GroupDifference, Floats]:
    """Return Kruskal and Wallis' test (JASA 47, 1952) with ties, and the mean rank of each group.

    The effect is epsilon squared, H / (N - 1) (Kelley, PNAS 21, 1935). Independent rows have the
    values of :func:`scipy.stats.kruskal`; clusters: see :func:`between_groups`.

    Parameters
    ----------
    group, cluster
        Codes from 0 of each value; cluster None for independent values.
    placed
        From :func:`placements`. Not all values are equal.
    confidence
        Coverage of the effect's interval, in (0, 1).
    """
    n = np.bincount(group).astype(float)
    rank = placed @ n + 0.5
    total = np.bincount(group, weights=rank)
    null = None
    if cluster is not None:
        centre = (len(rank) + 1) / 2
        null = cluster_covariance(cluster, group, np.ones(len(rank)), rank, centre=centre)
    test = between_groups(
        n,
        total,
        float((rank**2).sum()),
        null=null,
        spread=_rank_covariance(group, placed, cluster, rank),
        confidence=confidence,
    )
    return test, total / n


def _rank_covariance(
    group: Integers, placed: Floats, cluster: Integers | None, rank: Floats
) -> Floats:
    """Return the covariance of the groups' mean ranks.

    A value adds its own rank, and one to the rank of each larger value. Clusters are compared with
    k means of their own, which leaves clusters - k degrees of freedom.
    """
    above = 1 - placed
    n = np.bincount(group)
    means = np.stack([above[group == g].mean(axis=0) for g in range(len(n))])
    parts = above - means[group]
    own = np.bincount(group, weights=rank) / n
    parts[np.arange(len(group)), group] += (rank - own[group]) / n[group]
    if cluster is not None:
        parts = np.stack([np.bincount(cluster, weights=part) for part in parts.T], axis=1)
        left = max(len(parts) - len(n), 1)
        return covariance_of_sum(parts) * ((len(parts) - 1) / left)
    return covariance_of_sum(parts)


def superiority(
    group: Integers,
    placed: Floats,
    cluster: Integers | None,
    first: int,
    second: int,
    /,
    *,
    confidence: float,
) -> Superiority:
    """Compare two groups by the Mann-Whitney test and the probability of superiority.

    p-value: normal approximation with ties, without continuity correction; the values of
    :func:`scipy.stats.mannwhitneyu` for independent rows. Interval: on the logit scale, with the
    variance of Brunner and Munzel (Biometrical Journal 42, 2000) and Student's t with their
    degrees of freedom; for clusters the variance of Obuchowski (Biometrics 53, 1997) and the
    smaller number of clusters minus one.
    """
    a, b = group == first, group == second
    both = a | b
    side, place = np.where(a, 0, 1)[both], placed[both][:, [first, second]]
    n = np.bincount(side, minlength=2).astype(float)
    chance = float(place[side == 0, 1].mean())
    rank = place @ n + 0.5
    if rank.min() == rank.max():
        return Superiority(np.nan, chance, np.nan, np.nan)
    own = null = None
    if cluster is not None:
        own = np.unique(cluster[both], return_inverse=True)[1].astype(np.int64)
        if own.max() < 1:
            return Superiority(np.nan, chance, np.nan, np.nan)
        centre = (len(rank) + 1) / 2
        null = cluster_covariance(own, side, np.ones(len(rank)), rank, centre=centre)
    total = np.bincount(side, weights=rank)
    pvalue = between_groups(n, total, float((rank**2).sum()), null=null).pvalue
    variance, df = _chance_variance(side, place, own, n, chance)
    if not (variance > 0 and df >= 1 and 0 < chance < 1):
        return Superiority(pvalue, chance, np.nan, np.nan)
    half = stdtrit(df, (1 + confidence) / 2) * np.sqrt(variance) / (chance * (1 - chance))
    odds = chance / (1 - chance)
    low, high = (odds * np.exp(step) for step in (-half, half))
    return Superiority(pvalue, chance, float(low / (1 + low)), float(high / (1 + high)))


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
    fewest = min(len(np.unique(cluster[side == 0])), len(np.unique(cluster[side == 1])))
    sums = np.bincount(cluster, weights=parts)
    return float((sums**2).sum() * clusters / (clusters - 1)), float(fewest - 1)


def median_interval(
    values: Floats, cluster: Integers | None, /, *, confidence: float
) -> tuple[float, float]:
    """Return the distribution-free interval of a median (Woodruff, JASA 47, 1952).

    The quantiles 1/2 -+ t se, with se the standard error of the fraction below the median for
    independent clusters; Student's t with clusters - 1 degrees of freedom.

    Returns
    -------
    (ci_low, ci_high)
        NaN for too few values.
    """
    ordered = np.sort(values)
    n = len(ordered)
    middle = np.median(ordered)
    sums = (values < middle) + 0.5 * (values == middle) - 0.5
    if cluster is not None:
        sums = np.bincount(np.unique(cluster, return_inverse=True)[1], weights=sums)
    clusters = len(sums)
    if clusters < 2:
        return np.nan, np.nan
    # ties at the median hide the variance: it is at least that of independent values
    variance = max((sums**2).sum() / n**2, 0.25 / n) * clusters / (clusters - 1)
    half = float(stdtrit(clusters - 1, (1 + confidence) / 2) * np.sqrt(variance))
    if half >= 0.5:
        return np.nan, np.nan
    low, high = int(np.floor(n * (0.5 - half))), int(np.ceil(n * (0.5 + half))) - 1
    return float(ordered[low]), float(ordered[high])
