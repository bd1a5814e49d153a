"""Correlations with p-values and intervals, for independent pairs or rows in clusters.

What is not defined is NaN, and never a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import scipy  # scipy.stats is slow to import and loaded when used
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from traceana.errors import DataError
from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats, Integers

METHODS: Final = ("pearson", "spearman", "kendall")
"""The coefficients there are."""

SMALLEST_P: Final = float(np.finfo(float).tiny)
"""Smallest p-value a double distinguishes from 0; smaller ones are reported as this bound."""


def correlation(
    x: ArrayLike, y: ArrayLike, /, *, method: str, weights: ArrayLike | None = None
) -> float:
    """Pearson's r, Spearman's rho (of mean ranks), Kendall's tau-b; NaN if all x or y are equal."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(a) < 2 or a.min() == a.max() or b.min() == b.max():
        return float("nan")
    w = np.ones(len(a)) if weights is None else np.asarray(weights, dtype=float)
    if method == "kendall":
        often = w.astype(np.int64)
        # the p-value that comes with it would cost a million-fold exact count
        rows = np.repeat(a, often), np.repeat(b, often)
        tau = scipy.stats.kendalltau(
            *rows, method="asymptotic" if len(rows[0]) > 2 else "exact"
        ).statistic
        return float(tau)
    if method == "spearman":
        a, b = weighted_ranks(a, w), weighted_ranks(b, w)
    elif method != "pearson":
        raise DataError(f"method must be one of {', '.join(METHODS)}; it is {method!r}")
    # each on a scale of its own, so that no square is past the range of a double
    a, b = (part / np.abs(part).max() for part in (_centered(a, w), _centered(b, w)))
    weighted = w * a
    return float(np.clip(dot(weighted, b) / np.sqrt(dot(weighted, a) * dot(w * b, b)), -1, 1))


def weighted_ranks(values: Floats, weights: Floats | None = None, /) -> Floats:
    """Mean rank of each value where values count once, or as often as their weights say."""
    # two or three times as fast as scipy's rankdata
    _, at = np.unique(values, return_inverse=True)
    total = np.bincount(at, weights)
    return (np.cumsum(total) - (total - 1) / 2)[at]


def dot(a: Floats, b: Floats, /) -> float:
    """Return the dot product on one thread; those of BLAS double the CPU time of long vectors."""
    return float(np.einsum("i,i", a, b))


def correlation_pvalue(r: float, n: float, /, *, method: str) -> float:
    """Two-sided p-value of no correlation: t(n - 2) of r sqrt((n - 2) / (1 - r^2)).

    Kendall: normal with variance 2 (2n + 5) / (9n (n - 1)). NaN if n is not above 2.
    """
    if n <= 2:
        return float("nan")
    if method == "kendall":
        p = 2 * ndtr(-abs(r) / np.sqrt(2 * (2 * n + 5) / (9 * n * (n - 1))))
    elif abs(r) == 1:
        # ranks have n! orders
        p = 2 * math.exp(-math.lgamma(n + 1)) if method == "spearman" else 0.0
    else:
        p = 2 * stdtr(n - 2, -abs(r) * np.sqrt((n - 2) / (1 - r**2)))
    return max(float(p), SMALLEST_P)


def kendall_pvalue(x: ArrayLike, y: ArrayLike, /) -> float:
    """Two-sided p-value of Kendall's tau: exact for up to 33 pairs without ties, else normal."""
    test = scipy.stats.kendalltau(x, y)
    return max(float(test.pvalue), SMALLEST_P)


_FACTORS: Final[tuple[Callable[[Floats], Floats], ...]] = (
    np.ones_like,
    lambda t: t - 2,
    lambda t: 2 * t + 5,
)


def kendall_tie_factor(x: ArrayLike, y: ArrayLike, /) -> float:
    """How many times ties multiply the null variance of tau-b (Kendall, Rank Correlation, 1970)."""
    n = float(np.size(x))
    counts = [np.unique(part, return_counts=True)[1].astype(float) for part in (x, y)]
    pairs = n * (n - 1)
    tied, triples, weighted = (
        [float((t * (t - 1) * factor(t)).sum()) for t in counts] for factor in _FACTORS
    )
    variance = (pairs * (2 * n + 5) - sum(weighted)) / 18 + tied[0] * tied[1] / (2 * pairs)
    variance += triples[0] * triples[1] / (9 * pairs * (n - 2))
    scale = (pairs - tied[0]) * (pairs - tied[1]) / 4
    return variance / scale / (2 * (2 * n + 5) / (9 * pairs))


def fisher_interval(
    r: float, n: float, /, *, method: str, confidence: float = 0.95, error: float = 0.0
) -> tuple[float, float]:
    """Interval of a correlation by Fisher's transformation: tanh(arctanh(r) -+ q se).

    se^2 is that of :func:`fisher_variance` or `error`^2, the larger. NaN if n is not above 3 (4).
    """
    check_confidence(confidence)
    quantile = ndtri((1 + confidence) / 2)
    if n <= (4 if method == "kendall" else 3):
        return float("nan"), float("nan")
    if abs(r) == 1:
        return r, r
    half = quantile * max(np.sqrt(fisher_variance(r, n, method)), error)
    return float(np.tanh(np.arctanh(r) - half)), float(np.tanh(np.arctanh(r) + half))


def fisher_variance(r: float, n: float, method: str, /) -> float:
    """Variance of arctanh(r) for n independent pairs.

    Bonett and Wright (Psychometrika 65, 2000) for Spearman; Kendall: Fieller, Hartley and Pearson
    (Biometrika 44, 1957).
    """
    if method == "kendall":
        return 0.437 / (n - 4)
    return (1 + r**2 / 2 if method == "spearman" else 1) / (n - 3)


def n_of_variance(r: float, variance: float, method: str, /) -> float:
    """Return the n at which :func:`fisher_variance` is the variance given."""
    if method == "kendall":
        return 0.437 / variance + 4
    return (1 + r**2 / 2 if method == "spearman" else 1) / variance + 3


def _centered(values: Floats, weights: Floats) -> Floats:
    away = values - values[0]
    return away - np.average(away, weights=weights)


def carrying_rows(x: Floats, y: Floats, r: float, /) -> tuple[int, float] | None:
    """Return the fewest rows without which r halves or turns, and r then, or None."""
    a, b = x - x.mean(), y - y.mean()
    n, part = len(a), np.sign(r) * a * b
    most = min(max(n // 20, 1), 1000, n - 3)
    if most < 1:
        return None
    top = np.argpartition(-part, most - 1)[:most]
    top = top[np.argsort(-part[top], kind="stable")]
    left = n - np.arange(1, most + 1)
    sa, sb, saa, sbb, sab = (
        whole.sum() - np.cumsum(whole[top]) for whole in (a, b, a * a, b * b, a * b)
    )
    squares = (saa - sa**2 / left) * (sbb - sb**2 / left)
    without = (sab - sa * sb / left) / np.sqrt(np.where(squares > 0, squares, np.inf))
    halved = np.flatnonzero(without * np.sign(r) < abs(r) / 2)
    return (int(halved[0]) + 1, float(without[halved[0]])) if len(halved) else None


def excess_kurtosis(values: Floats, /) -> float:
    """Excess kurtosis of a sample, m4 / m2^2 - 3 (0 for a normal distribution)."""
    away = values - values.mean()
    away /= max(away.max(), -away.min())  # no square is past the range of a double
    away *= away
    return dot(away, away) / len(away) / float(away.mean()) ** 2 - 3


NEAR_ONE: Final = 1 - 1e-12
"""Largest coefficient whose arctanh is computed."""
_MIN_POINTS: Final = 3


def jackknife_errors(
    x: Floats, y: Floats, cells: Integers, methods: Iterable[str], /
) -> dict[str, float]:
    """Standard errors of correlations on Fisher's scale by the cluster jackknife; NaN if undefined.

    sqrt((m - 1) / m sum of (z_g - mean z)^2), z_g without cell g (Miller, Biometrika 61, 1974).
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
    m = len(np.unique(cells))
    scaled = {k: np.arctanh(np.clip(r, -NEAR_ONE, NEAR_ONE)) for k, r in errors.items()}
    return {k: float(np.sqrt((m - 1) / m * np.sum((z - z.mean()) ** 2))) for k, z in scaled.items()}


def influence_error(x: Floats, y: Floats, clusters: Integers, method: str, /) -> float:
    """Standard error of Pearson's or Spearman's r on Fisher's scale, for many clusters.

    The infinitesimal jackknife (Efron, 1982, chapter 6). For Spearman's r, x and y are mean ranks.
    """
    n = len(x)
    if method == "pearson":
        a, b = x - x.mean(), y - y.mean()
        squares, changes = [np.mean(a * a), np.mean(b * b)], [a * a, b * b]
        moment, change = np.mean(a * b), a * b
    else:
        keys = [(2 * ranks).astype(np.int64) for ranks in (x, y)]  # ranks are multiples of 1/2
        a, b = ((ranks - (n + 1) / 2) / n for ranks in (x, y))
        x_ties, y_ties = (np.bincount(key)[key] / n for key in keys)
        squares = [(1 - np.mean(ties**2)) / 12 for ties in (x_ties, y_ties)]
        changes = [
            square - (ties**2 - np.mean(ties**2)) / 4
            for square, ties in zip(squares, (x_ties, y_ties), strict=True)
        ]
        moment = np.mean(a * b)
        change = a * b + _above(keys[0], b) + _above(keys[1], a) - 2 * moment
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
        x_rank = _centered_ranks(left)
        squares = float(left @ x_rank**2) * float(y_left @ y_rank**2)
        enough = squares and len(x) - len(part) >= _MIN_POINTS
        estimates.append(float(x_rank @ sums / np.sqrt(squares)) if enough else float("nan"))
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
    return np.cumsum(counts) - (counts - 1) / 2 - (counts.sum() + 1) / 2


def _above(key: Integers, other: Floats) -> Floats:
    """Return the sum of `other` over rows of higher key, and half of equal key, divided by n."""
    sums = np.bincount(key, other)
    return (sums[::-1].cumsum()[::-1] - sums / 2)[key] / len(key)
