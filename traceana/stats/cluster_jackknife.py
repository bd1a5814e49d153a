"""Delete-one-cluster jackknife of a correlation whose rows are dependent within clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import stdtr, stdtrit

from traceana.stats.correlation import SMALLEST_P, correlation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

NEAR_ONE: Final = 1 - 1e-12
"""Largest coefficient whose arctanh is computed."""
_MIN_POINTS: Final = 3


def jackknife_errors(
    x: Floats, y: Floats, cells: Integers, asked: Sequence[tuple[str, str]], /
) -> dict[tuple[str, str], float]:
    """Standard errors of correlations on Fisher's scale, by the cluster jackknife.

    With z_g the arctanh of the coefficient without cell g of m cells, the error is
    sqrt((m - 1) / m sum of (z_g - mean z)^2) (Miller, Biometrika 61, 1974; for clusters Cameron
    and Miller, Journal of Human Resources 50, 2015, section VI). A cell is one cluster, or a random
    group of clusters: the delete-a-group jackknife (Kott, Journal of Official Statistics 17, 2001).

    Parameters
    ----------
    x, y
        The rows.
    cells
        The cell of each row: integers from 0.
    asked
        Pairs of a level (``row``, ``group_mean``, ``group_mean_weighted``) and a method.

    Returns
    -------
    dict
        The error by (level, method); NaN if a coefficient without one of the cells is undefined.
    """
    found: dict[tuple[str, str], list[float]] = {key: [] for key in asked}
    in_order = np.argsort(x, kind="stable")
    x, y, cells = x[in_order], y[in_order], cells[in_order]
    values, starts, group, size = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    _, rank, often = np.unique(y, return_inverse=True, return_counts=True)
    total = np.bincount(group, y)
    a, b = x - x.mean(), y - y.mean()
    moments = np.stack([np.ones(len(x)), a, b, a * a, b * b, a * b])
    everything = moments.sum(axis=1)
    order = np.argsort(cells, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
        left = size - np.bincount(group[part], minlength=len(size))
        there = left > 0
        rest = total - np.bincount(group[part], y[part], len(size))
        point, mean, weight = values[there], rest[there] / left[there], left[there]
        for level, method in asked:
            if (len(point) if level != "row" else len(x) - len(part)) < _MIN_POINTS:
                r = float("nan")
            elif level != "row":
                weights = weight if level == "group_mean_weighted" else None
                r = correlation(point, mean, method=method, weights=weights)
            elif method == "pearson":
                r = _pearson(everything - moments[:, part].sum(axis=1))
            elif method == "spearman":
                y_left = often - np.bincount(rank[part], minlength=len(often))
                y_rank = _centered_ranks(y_left)
                ranks = y_rank[rank]
                sums = np.add.reduceat(ranks, starts)
                sums -= np.bincount(group[part], ranks[part], len(size))
                r = _ratio(_centered_ranks(left), left, sums, float(y_left @ y_rank**2))
            else:
                kept = np.delete(np.arange(len(x)), part)
                r = correlation(x[kept], y[kept], method=method)
            found[level, method].append(r)
    return {key: _error(np.array(r)) for key, r in found.items()}


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
    if m < 2 or np.isnan(r).any():
        return float("nan")
    z = np.arctanh(np.clip(r, -NEAR_ONE, NEAR_ONE))
    return float(np.sqrt((m - 1) / m * np.sum((z - z.mean()) ** 2)))


def _pearson(moments: Floats) -> float:
    n, a, b, aa, bb, ab = moments
    squares = (aa - a * a / n) * (bb - b * b / n)
    # what rounding leaves of a constant column is no variance
    if aa - a * a / n <= 1e-12 * aa or bb - b * b / n <= 1e-12 * bb:
        return float("nan")
    return float(np.clip((ab - a * b / n) / np.sqrt(squares), -1, 1))


def _centered_ranks(counts: Integers) -> Floats:
    """Return the mean rank of each distinct value, in order, minus the mean of all ranks."""
    ranks: Floats = np.cumsum(counts) - (counts - 1) / 2 - (counts.sum() + 1) / 2
    return ranks


def _ratio(x_rank: Floats, size: Integers, y_sums: Floats, y_squares: float) -> float:
    squares = float(size @ x_rank**2) * y_squares
    return float(np.clip(x_rank @ y_sums / np.sqrt(squares), -1, 1)) if squares else float("nan")
