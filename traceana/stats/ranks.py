"""Rank-based comparison of groups, for independent rows or rows in clusters."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.special import logit, stdtr, stdtrit

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


_SMALL: Final = 15  # rows of a group below which permutations replace Student's t
_MOST_PERMUTED: Final = (
    300  # rows that are permuted; more only in a group far larger than the other
)
_FEW: Final = 5  # rows of a group below which permutations replace chi-squared
_EXACT: Final = 20_000
_RESAMPLES: Final = 9_999


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
    values of :func:`scipy.stats.kruskal`, but where a group has fewer than 5 the p-value is from
    permutations: exact for two groups up to 20,000 of them, else with 9,999 at random. Clusters:
    see :func:`between_groups`.

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
    if cluster is None and n.min() < _FEW:
        test = test._replace(pvalue=_permuted_statistic(group, rank))
    return test, total / n


def _permuted_statistic(group: Integers, rank: Floats) -> float:
    """Return the permutation p-value of Kruskal and Wallis' statistic."""
    n = np.bincount(group)
    if len(n) == 2 and comb(len(rank), int(n[0])) <= _EXACT:
        one = rank[np.array(list(combinations(range(len(rank)), int(n[0]))))].sum(axis=1)
        sums = np.stack([one, rank.sum() - one], axis=1)
    else:
        rng = np.random.default_rng(1)
        mixed = rng.permuted(np.broadcast_to(rank, (_RESAMPLES, len(rank))), axis=1)
        mixed = np.vstack([rank[np.argsort(group, kind="stable")], mixed])
        sums = np.add.reduceat(mixed, np.concatenate([[0], n.cumsum()[:-1]]), axis=1)
    found = (sums**2 / n).sum(axis=1)
    actual = (np.bincount(group, weights=rank) ** 2 / n).sum()
    return float((found >= actual * (1 - 1e-12)).mean())


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
    mann_whitney: bool = False,
) -> Superiority:
    """Compare two groups by the probability of superiority, with its test and interval.

    Independent rows: both use one statistic, the logit of the probability over its standard error
    by Brunner and Munzel (Biometrical Journal 42, 2000), so that p < 1 - `confidence` where the
    interval excludes 1/2. It is compared with Student's t with their degrees of freedom or, for a
    group of fewer than 15 rows, with its permutation distribution (Neubert and Brunner,
    Computational Statistics & Data Analysis 51, 2007): exact up to 20,000 permutations, else
    9,999 at random. Groups need not have equal variances.

    Clusters, or `mann_whitney`: p-value by the normal approximation with ties, without continuity
    correction; the values of :func:`scipy.stats.mannwhitneyu` for independent rows. The interval
    has the variance of Obuchowski (Biometrics 53, 1997) for clusters, and the smaller number of
    clusters minus one degrees of freedom.
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
        if cluster is None and not mann_whitney:
            pvalue = _permuted(side, place @ n, np.inf, confidence)[0]
        return Superiority(pvalue, chance, np.nan, np.nan)
    error = np.sqrt(variance) / (chance * (1 - chance))
    reach = stdtrit(df, (1 + confidence) / 2)
    if cluster is None and not mann_whitney:
        t = abs(float(logit(chance))) / error
        pvalue = float(2 * stdtr(df, -t))
        if n.min() < _SMALL:
            pvalue, reach = _permuted(side, place @ n, t, confidence)
    if not np.isfinite(reach):
        return Superiority(pvalue, chance, np.nan, np.nan)
    half = reach * error
    odds = chance / (1 - chance)
    low, high = (odds * np.exp(step) for step in (-half, half))
    return Superiority(pvalue, chance, float(low / (1 + low)), float(high / (1 + high)))


def _permuted(side: Integers, rank: Floats, t: float, confidence: float) -> tuple[float, float]:
    """Return the permutation p-value of a statistic of superiority, and its critical value.

    A group far larger than the other is thinned to evenly spaced order statistics, since only the
    order of the values matters and its own part of the variance is then negligible.
    """
    if len(rank) > _MOST_PERMUTED:
        larger = int((side == 1).sum() > (side == 0).sum())
        rows = np.flatnonzero(side == larger)
        kept = np.linspace(0, len(rows) - 1, _MOST_PERMUTED - int((side != larger).sum()))
        rows = rows[np.argsort(rank[rows])][kept.round().astype(int)]
        rows = np.concatenate([rows, np.flatnonzero(side != larger)])
        side, rank = side[rows], rank[rows]
    size, first = len(rank), int((side == 0).sum())
    if comb(size, first) <= _EXACT:
        chosen = np.array(list(combinations(range(size), first)))
    else:
        random = np.random.default_rng(1).random((_RESAMPLES, size))
        chosen = random.argpartition(first - 1, axis=1)[:, :first]
        chosen[0] = np.flatnonzero(side == 0)
    own = np.zeros((len(chosen), size))
    np.put_along_axis(own, chosen, 1.0, axis=1)
    above = (rank[:, None] > rank[None]) + 0.5 * (rank[:, None] == rank[None])
    # placement of each value in the first and in the second group
    below_first, below_second = own @ above.T / first, (1 - own) @ above.T / (size - first)
    chance = (own * below_second).sum(axis=1) / first
    a = (own * (below_second - chance[:, None]) ** 2).sum(axis=1) / max(first * (first - 1), 1)
    others = size - first
    b = ((1 - own) * (1 - chance[:, None] - below_first) ** 2).sum(axis=1)
    error = np.sqrt(a + b / max(others * (others - 1), 1))
    inside = (chance > 1e-12) & (chance < 1 - 1e-12) & (error > 0)
    p, se = np.where(inside, chance, 0.5), np.where(inside, error, 1.0)
    away = np.abs(chance - 0.5) > 1e-12
    found = np.where(inside, np.abs(logit(p)) * p * (1 - p) / se, np.where(away, np.inf, 0.0))
    if size == _MOST_PERMUTED:
        found[0] = t  # the first permutation is the rows as they are
    # rounding must not part equal permutations
    pvalue = float((found >= t * (1 - 1e-9)).mean())
    ordered = np.sort(found)
    critical = ordered[min(int(np.floor(confidence * len(found))), len(found) - 1)]
    return pvalue, float(critical)


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
