"""Correlation of independent pairs: Pearson's r, Spearman's rho, Kendall's tau-b.

Each with a p-value and an interval. What is not defined is NaN, and never a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import scipy  # scipy.stats is slow to import and loaded when used
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtr

from traceana.errors import DataError
from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats

METHODS: Final = ("pearson", "spearman", "kendall")
"""The coefficients there are."""

SMALLEST_P: Final = float(np.finfo(float).tiny)
"""Smallest p-value a double distinguishes from 0; smaller ones are reported as this bound."""


def correlation(
    x: ArrayLike, y: ArrayLike, /, *, method: str, weights: ArrayLike | None = None
) -> float:
    """Correlation of pairs: Pearson's r, Spearman's rho (r of mean ranks), Kendall's tau-b.

    NaN for fewer than two pairs, or if all x or all y are equal.
    """
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
    result: Floats = (np.cumsum(total) - (total - 1) / 2)[at]
    return result


def dot(a: Floats, b: Floats, /) -> float:
    """Return the dot product on one thread; those of BLAS double the CPU time of long vectors."""
    return float(np.einsum("i,i", a, b))


def correlation_pvalue(r: float, n: float, /, *, method: str) -> float:
    """Two-sided p-value of no correlation, from the coefficient and the number of pairs.

    Pearson and Spearman: t(n - 2) of r sqrt((n - 2) / (1 - r^2)). Kendall: normal with variance 2
    (2n + 5) / (9n (n - 1)). At least :data:`SMALLEST_P`; NaN if n is not above 2.
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
    """Two-sided p-value of no association by Kendall's tau.

    Exact for up to 33 pairs without ties, and normal with the variance that ties leave else.
    """
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

    se^2 is 1 / (n - 3) for Pearson, (1 + r^2 / 2) / (n - 3) for Spearman (Bonett and Wright,
    Psychometrika 65, 2000) and 0.437 / (n - 4) for Kendall (Fieller, Hartley and Pearson,
    Biometrika 44, 1957), but not below `error`. NaN if n is not above 3 (Kendall: 4).
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
    """Variance of arctanh(r) for n independent pairs, as in :func:`fisher_interval`."""
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
    result: Floats = away - np.average(away, weights=weights)
    return result


def carrying_rows(x: Floats, y: Floats, r: float, /) -> tuple[int, float] | None:
    """Return the fewest top rows without which r halves or changes sign, and r without them.

    Rows are left out in the order of their contribution to the covariance, up to 5 % of the rows
    and 1,000. None if r does not halve.
    """
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
