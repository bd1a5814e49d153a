"""How far each row moves a rank correlation: the linear part of Spearman's and Kendall's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]


def spearman_influence(x: Floats, y: Floats, /) -> Floats:
    """Influence of each row on Spearman's rho; their mean is 0.

    rho is cov(F, G) / sqrt(cov(F, F) cov(G, G)) of the mid-distribution functions F of x and G of
    y. A row moves a covariance by its own product, and by moving the ranks of all that are above
    or equal to it (the two further terms of :func:`_covariance_influence`).
    """
    f, g = _mid_distribution(x), _mid_distribution(y)
    (fg, both), (ff, of_x), (gg, of_y) = (
        _covariance_influence(*pair) for pair in ((f, g), (f, f), (g, g))
    )
    rho = fg / np.sqrt(ff * gg)
    result: Floats = both / np.sqrt(ff * gg) - rho / 2 * (of_x / ff + of_y / gg)
    return result


def kendall_influence(x: Floats, y: Floats, /) -> Floats:
    """Influence of each row on Kendall's tau-b; their mean is 0.

    tau-b is S / sqrt(T U) with S the mean over pairs of sign(dx) sign(dy), and T and U the shares
    of pairs not tied in x and in y. Each is a mean over pairs, which a row moves by twice its own
    mean over all other rows less the whole (Hoeffding, 1948).
    """
    a, b = (np.unique(part, return_inverse=True)[1].astype(np.int64) for part in (x, y))
    n = len(a)
    s = concordance(a, b) / n
    t, u = ((n - np.bincount(part)[part]) / n for part in (a, b))
    tau = s.mean() / np.sqrt(t.mean() * u.mean())
    scaled = s / np.sqrt(t.mean() * u.mean()) - tau / 2 * (t / t.mean() + u / u.mean())
    result: Floats = 2 * (scaled - scaled.mean())
    return result


def concordance(a: Whole, b: Whole, /) -> Whole:
    """For each row, the number of rows concordant with it less the number discordant.

    Two rows of different `a` differ first, from the highest bit of it on, at one bit: at each bit
    the rows that share the higher bits are told apart by it, and counted by `b` in order.

    Parameters
    ----------
    a, b
        Ranks from 0 on, equal where values are.
    """
    if a.max() > b.max():  # the same count, and fewer bits to go through
        a, b = b, a
    by_b = np.argsort(b, kind="stable")
    width = int(b.max()) + 1
    result = np.zeros(len(a), dtype=np.int64)
    for bit in range(int(a.max()).bit_length()):
        # in the order of (block, b), so that each search goes on beside the one before
        order = by_b[np.argsort(a[by_b] >> (bit + 1), kind="stable")]
        block, upper = a[order] >> (bit + 1), (a[order] >> bit) & 1 == 1
        key = block * width + b[order]
        for side, sign in ((upper, 1), (~upper, -1)):
            others, at, first = key[~side], key[side], block[side] * width
            below = np.searchsorted(others, at) - np.searchsorted(others, first)
            up_to = np.searchsorted(others, first + width)
            above = up_to - np.searchsorted(others, at, side="right")
            result[order[side]] += sign * (below - above)
    return result


def _mid_distribution(values: Floats) -> Floats:
    _, at, often = np.unique(values, return_inverse=True, return_counts=True)
    result: Floats = ((np.cumsum(often) - often / 2) / len(values))[at]
    return result


def _covariance_influence(f: Floats, g: Floats) -> tuple[float, Floats]:
    """Covariance of two mid-distribution functions, and each row's influence on it."""
    u, v = f - 0.5, g - 0.5  # the mean of a mid-distribution function is a half
    covariance = float(np.mean(u * v))
    return covariance, u * v + _moved(f, v) + _moved(g, u) - 3 * covariance


def _moved(f: Floats, v: Floats) -> Floats:
    """Mean over rows j of v(j) where f(j) is above each row's, and half of it where equal."""
    _, at = np.unique(f, return_inverse=True)
    total = np.bincount(at, v) / len(v)
    result: Floats = (total.sum() - np.cumsum(total) + total / 2)[at]
    return result
