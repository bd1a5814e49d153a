"""Jackknife errors of a correlation whose rows are dependent within clusters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from scipy.special import stdtr, stdtrit

from traceana.stats.arrays import Floats, Integers
from traceana.stats.correlation import SMALLEST_P, correlation

NEAR_ONE: Final = 1 - 1e-12
"""Largest coefficient whose arctanh is computed."""
_MIN_POINTS: Final = 3


def jackknife_errors(
    x: Floats, y: Floats, cells: Integers, methods: Iterable[str], /
) -> dict[str, float]:
    """Standard errors of correlations on Fisher's scale, by the cluster jackknife.

    sqrt((m - 1) / m sum of (z_g - mean z)^2) with z_g the arctanh without cell g of m (Miller,
    Biometrika 61, 1974; cells of several clusters: Kott, Journal of Official Statistics 17, 2001).
    NaN if a coefficient is undefined.
    """
    errors: dict[str, list[float]] = {}
    for method in methods:
        if method == "pearson":
            errors[method] = _without_each(x, y, cells)
        elif method == "spearman":
            errors[method] = _ranked_without_each(x, y, cells)
        else:
            kept = (cells != cell for cell in np.unique(cells))
            errors[method] = [
                correlation(x[rows], y[rows], method=method)
                if np.count_nonzero(rows) >= _MIN_POINTS
                else float("nan")
                for rows in kept
            ]
    return {method: _error(np.array(r)) for method, r in errors.items()}


def influence_error(x: Floats, y: Floats, clusters: Integers, method: str, /) -> float:
    """Standard error of Pearson's or Spearman's r on Fisher's scale, for many clusters.

    The infinitesimal jackknife (Efron, 1982, chapter 6): sqrt(m / (m - 1) sum of U_g^2) / (1 -
    r^2), U_g the summed influence of cluster g over n. NaN if x or y is constant.
    """
    n = len(x)
    if method == "pearson":
        a, b = x - x.mean(), y - y.mean()
        squares, changes = [np.mean(a * a), np.mean(b * b)], [a * a, b * b]
        moment, change = np.mean(a * b), a * b
    else:
        x_order, y_order = (
            np.unique(part, return_inverse=True, return_counts=True)[1:] for part in (x, y)
        )
        (a, x_ties), (b, y_ties) = _middle_ranks(*x_order), _middle_ranks(*y_order)
        squares = [(1 - np.mean(ties**2)) / 12 for ties in (x_ties, y_ties)]
        changes = [
            square - (ties**2 - np.mean(ties**2)) / 4
            for square, ties in zip(squares, (x_ties, y_ties), strict=True)
        ]
        moment = np.mean(a * b)
        change = a * b + _above(*x_order, b) + _above(*y_order, a) - 2 * moment
    if not min(squares) > 0:
        return float("nan")
    scale = np.sqrt(squares[0] * squares[1])
    r = moment / scale
    influence = (change - moment) / scale
    for square, changed in zip(squares, changes, strict=True):
        influence -= r / 2 * (changed / square - 1)
    sums = np.bincount(clusters, influence) / n
    m = np.count_nonzero(np.bincount(clusters))
    return float(np.sqrt(m / (m - 1) * (sums @ sums)) / max(1 - r * r, 1 - NEAR_ONE))


def clustered_interval(
    r: float, error: float, df: float, /, *, confidence: float
) -> tuple[float, float]:
    """Interval of a correlation: tanh(arctanh(r) -+ t(df) error)."""
    half = stdtrit(df, (1 + confidence) / 2) * error
    return float(np.tanh(np.arctanh(r) - half)), float(np.tanh(np.arctanh(r) + half))


def clustered_pvalue(r: float, error: float, df: float, /) -> float:
    """Two-sided p-value of no correlation: Student's t (df) of arctanh(r) / error."""
    return max(float(2 * stdtr(df, -abs(np.arctanh(r)) / error)), SMALLEST_P)


def _error(r: Floats) -> float:
    m = len(r)
    z = np.arctanh(np.clip(r, -NEAR_ONE, NEAR_ONE))
    return float(np.sqrt((m - 1) / m * np.sum((z - z.mean()) ** 2)))


def _without_each(x: Floats, y: Floats, cells: Integers) -> list[float]:
    """Return Pearson's r without the rows of each cell, from the sums over cells."""
    a, b = x - x.mean(), y - y.mean()
    sums = np.stack(
        [np.bincount(cells, part) for part in (np.ones(len(x)), a, b, a * a, b * b, a * b)]
    )
    sums = sums[:, sums[0] > 0]
    return [_pearson(without) for without in (sums.sum(axis=1)[:, None] - sums).T]


def _ranked_without_each(x: Floats, y: Floats, cells: Integers) -> list[float]:
    """Return Spearman's r without the rows of each cell: the others are ranked again."""
    in_order = np.argsort(x, kind="stable")
    x, y, cells = x[in_order], y[in_order], cells[in_order]
    group = np.append(0, np.cumsum(x[1:] != x[:-1]))
    size = np.bincount(group)
    _, rank, often = np.unique(y, return_inverse=True, return_counts=True)
    # rows of equal x and y are added at once: ranks are multiples of 1/2, sums are exact
    pairs, times = np.unique(group * len(often) + rank, return_counts=True)
    pair_rank = pairs % len(often)
    starts = np.searchsorted(pairs, np.arange(len(size)) * len(often))
    # NumPy sorts integers of at most 16 bits without comparing them
    cells = cells.astype(np.min_scalar_type(cells.max()))
    order = np.argsort(cells, kind="stable")
    estimates = []
    for part in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
        left = size - np.bincount(group[part], minlength=len(size))
        y_left = often - np.bincount(rank[part], minlength=len(often))
        y_rank = _centered_ranks(y_left)
        sums = np.add.reduceat(times * y_rank[pair_rank], starts)
        sums -= np.bincount(group[part], y_rank[rank[part]], len(size))
        r = _ratio(_centered_ranks(left), left, sums, float(y_left @ y_rank**2))
        estimates.append(r if len(x) - len(part) >= _MIN_POINTS else float("nan"))
    return estimates


def _pearson(moments: Floats) -> float:
    n, a, b, aa, bb, ab = moments
    if n < _MIN_POINTS:
        return float("nan")
    squares = (aa - a * a / n) * (bb - b * b / n)
    # what rounding leaves of a constant column is no variance
    if aa - a * a / n <= 1e-12 * aa or bb - b * b / n <= 1e-12 * bb:
        return float("nan")
    return float((ab - a * b / n) / np.sqrt(squares))


def _centered_ranks(counts: Integers) -> Floats:
    """Return the mean rank of each distinct value, in order, minus the mean of all ranks."""
    ranks: Floats = np.cumsum(counts) - (counts - 1) / 2 - (counts.sum() + 1) / 2
    return ranks


def _ratio(x_rank: Floats, size: Integers, y_sums: Floats, y_squares: float) -> float:
    squares = float(size @ x_rank**2) * y_squares
    return float(x_rank @ y_sums / np.sqrt(squares)) if squares else float("nan")


def _middle_ranks(at: Integers, often: Integers) -> tuple[Floats, Floats]:
    """Return the centered mean ranks over n, and the fraction of rows with each row's value.

    `at` is the place of each row among the distinct values, `often` the rows at each place.
    """
    ranks, ties = _centered_ranks(often) / len(at), often / len(at)
    return ranks[at], ties[at]


def _above(at: Integers, often: Integers, other: Floats) -> Floats:
    """Return the sum of `other` over rows of higher rank, and half of equal rank, divided by n."""
    sums = np.bincount(at, other, len(often))
    above: Floats = (sums[::-1].cumsum()[::-1] - sums / 2)[at] / len(at)
    return above
