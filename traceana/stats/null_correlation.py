"""Correlations where there is nothing to find, with the same x and the same clusters.

What a coefficient does by chance depends on how x and y are distributed, on what clusters share
and, for group means, on how many rows each group has: all of that is kept, and y is drawn anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri, stdtr, stdtrit
from scipy.stats import kendalltau, rankdata, weightedtau

from traceana.stats.correlation import SMALLEST_P, weighted_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

MOST_VALUES: Final = 50_000_000
"""Values drawn in all: more than 50,000 rows are given fewer resamples than 1,000, never below 100,
by which an error is known to a tenth."""

_FEWEST: Final = 100
_AT_ONCE: Final = 4_000_000
_STEPS: Final = 2**16  # of normal scores, from one furthest to the other
_FURTHEST: Final = 6.0
_NEAR_ONE: Final = 1 - 1e-12  # whose arctanh is still a number


class Null(NamedTuple):
    """What arctanh(r) is where x and y are independent; NaN where it cannot be told."""

    centre: float
    """Its mean, which is not 0 where groups of few rows have other means than the rest."""
    error: float
    """What makes Student's t (clusters - 1) reach 95 % of its distance from the centre."""


def null_correlations(
    x: Floats,
    y: Floats,
    clusters: Whole,
    asked: Sequence[tuple[str, str]],
    /,
    *,
    resamples: int,
    rng: np.random.Generator,
) -> dict[tuple[str, str], Null]:
    """Return what each (level, method) asked does by chance alone.

    Each resample has all x as they are, and a y drawn from the values of y: with u normal of each
    cluster, e normal of each row and s the share of the variance of the normal scores of y that is
    between clusters (analysis of variance, one way), y is its own quantile at
    Phi(sqrt(s) u + sqrt(1 - s) e). So y keeps its distribution, and its rows are alike within
    clusters as they are; independent rows are a permutation test, but for drawing with
    replacement. Where y has few distinct values its scores understate what clusters share.

    Parameters
    ----------
    x, y
        Of each row.
    clusters
        Whose each row is: whole numbers from 0 on, two of them at least.
    asked
        Pairs of a level (``row``, ``group_mean``, ``group_mean_weighted``) and a method; over rows
        Pearson's alone.
    resamples, rng
        How many times, fewer where :data:`MOST_VALUES` is reached, and by what.
    """
    of = np.unique(clusters, return_inverse=True)[1].astype(np.int64)
    values, group, size = np.unique(x, return_inverse=True, return_counts=True)
    by_group = csr_array((np.ones(len(x)), (np.arange(len(x)), group)))
    found: dict[tuple[str, str], list[Floats]] = {key: [] for key in asked}
    for drawn in _draw_independent(y, of, resamples, rng):
        means = (drawn @ by_group) / size
        for level, method in asked:
            if level == "row":
                r = _correlations(x, drawn, np.ones(len(x)))
            else:
                weights = np.ones(len(size)) if level == "group_mean" else size.astype(float)
                r = _of_means(values, means, weights, method)
            found[level, method].append(r)
    return {key: _summary(np.concatenate(parts), int(of.max())) for key, parts in found.items()}


def null_pvalue(r: float, null: Null, clusters: int, /) -> float:
    """Two-sided p-value of independence: t(clusters - 1) of (arctanh(r) - centre) / error."""
    away = abs(np.arctanh(r) - null.centre) / null.error
    return max(float(2 * stdtr(clusters - 1, -away)), SMALLEST_P)


def shared_by_clusters(y: Floats, clusters: Whole, /) -> float:
    """Share of the variance between clusters, from 0 to 1: that of a one-way random effect.

    With M the mean squares and m = (N - sum of sizes^2 / N) / (clusters - 1),
    v = (M between - M within) / m and the share v / (v + M within), not below 0 (Donner, Int.
    Statistical Review 54, 1986).
    """
    size = np.bincount(clusters)
    n, k = len(y), len(size)
    mean = np.bincount(clusters, y) / size
    between = float(size @ (mean - y.mean()) ** 2) / (k - 1)
    within = float(((y - mean[clusters]) ** 2).sum()) / max(n - k, 1)
    own = max(between - within, 0) / ((n - (size**2).sum() / n) / (k - 1))
    return own / (own + within) if own > 0 else 0.0


def _draw_independent(
    y: Floats, of: Whole, resamples: int, rng: np.random.Generator
) -> Iterator[Floats]:
    n = len(y)
    shared = shared_by_clusters(ndtri((rankdata(y) - 0.5) / n), of)
    # y at so many normal scores: a look in a table takes a fraction of the time of Phi
    share = ndtr(np.linspace(-_FURTHEST, _FURTHEST, _STEPS + 1))
    y_at = np.sort(y)[np.minimum((share * n).astype(np.int64), n - 1)]
    own, common = np.sqrt([1 - shared, shared]) * _STEPS / (2 * _FURTHEST)
    resamples = min(resamples, max(MOST_VALUES // n, _FEWEST))
    at_once = max(1, _AT_ONCE // n)
    for done in range(0, resamples, at_once):
        size = min(at_once, resamples - done)
        place = rng.standard_normal((size, n), dtype=np.float32)
        place *= np.float32(own)
        of_cluster = rng.standard_normal((size, of.max() + 1), dtype=np.float32)
        place += (of_cluster * np.float32(common) + np.float32(_STEPS / 2))[:, of]
        yield y_at.take(place.astype(np.int32), mode="clip")


def _of_means(values: Floats, means: Floats, weights: Floats, method: str) -> Floats:
    if method == "kendall":
        # scipy takes weights that multiply as a function of the place, in many times the time
        place, weigh = np.arange(len(values)), weights.__getitem__
        if (weights == 1).all():
            return np.array([kendalltau(values, row).statistic for row in means])
        taus = (
            weightedtau(values, row, rank=place, weigher=weigh, additive=False) for row in means
        )
        return np.array([tau.statistic for tau in taus])
    if method == "spearman":
        return _correlations(weighted_ranks(values, weights), _ranks(means, weights), weights)
    return _correlations(values, means, weights)


def _summary(r: Floats, df: int) -> Null:
    r = r[np.isfinite(r)]
    if len(r) < 2:
        return Null(np.nan, np.nan)
    z = np.arctanh(np.clip(r, -_NEAR_ONE, _NEAR_ONE))
    centre = float(z.mean())
    reached = float(np.quantile(np.abs(z - centre), 0.95))
    return Null(centre, float(reached / stdtrit(df, 0.975)))


def _correlations(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Correlation of x with each row of y; NaN where a row does not vary."""
    u = weights * (x - np.average(x, weights=weights))
    away = y - np.average(y, weights=weights, axis=1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        r: Floats = away @ u / np.sqrt((u**2 / weights).sum() * (away**2 @ weights))
    return r


def _ranks(values: Floats, weights: Floats) -> Floats:
    """Weighted ranks along rows; equal values, few among such means, keep their order."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = weights[order]
    ranks = np.empty_like(values)
    np.put_along_axis(ranks, order, np.cumsum(ordered, axis=1) - (ordered - 1) / 2, axis=1)
    return ranks
