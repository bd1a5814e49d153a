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
    (a, u), (b, v) = (_mid_distribution(part) for part in (x, y))
    (uv, both), (uu, of_x), (vv, of_y) = (
        _covariance_influence(*pair) for pair in ((a, u, b, v), (a, u, a, u), (b, v, b, v))
    )
    rho = uv / np.sqrt(uu * vv)
    result: Floats = both / np.sqrt(uu * vv) - rho / 2 * (of_x / uu + of_y / vv)
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


def _mid_distribution(values: Floats) -> tuple[Whole, Floats]:
    """Return the rank of each value from 0 on, and its mid-distribution function less a half."""
    _, at, often = np.unique(values, return_inverse=True, return_counts=True)
    return at, ((np.cumsum(often) - often / 2) / len(values) - 0.5)[at]


def _covariance_influence(a: Whole, u: Floats, b: Whole, v: Floats) -> tuple[float, Floats]:
    """Covariance of two mid-distribution functions, and each row's influence on it.

    `a` and `b` are ranks, and `u` and `v` the functions less their mean, which is a half.
    """
    covariance = float(np.mean(u * v))
    return covariance, u * v + _moved(a, v) + _moved(b, u) - 3 * covariance


def _moved(at: Whole, v: Floats) -> Floats:
    """Mean over rows j of v(j) where the rank of j is above each row's, and half where equal."""
    total = np.bincount(at, v) / len(v)
    result: Floats = (total.sum() - np.cumsum(total) + total / 2)[at]
    return result
