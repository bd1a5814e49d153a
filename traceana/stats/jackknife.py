"""Pearson's r of independent pairs, and how far it moves where one pair is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEAST: Final = 1e-12
"""A share of a sum of squares that is no more than rounding."""
NEAR_ONE: Final = 1 - 1e-12
"""Whose arctanh is still a number."""

_AT_ONCE: Final = 2**14  # pairs, so that all that is told of them stays in a processor's cache


def pearson_jackknife(x: Floats, y: Floats, /) -> tuple[float, float]:
    """Pearson's r, and the jackknife's error of arctanh(r).

    With z_i the arctanh of r of all pairs but i, the error is sqrt((n - 1) / n sum of
    (z_i - mean z_i)^2) (Miller, Biometrika 61, 1974). Without pair i a sum of squares S is
    S - n / (n - 1) (its own square), all about the mean of all pairs.

    Parameters
    ----------
    x, y
        Finite values, one each a pair, neither all equal.

    Returns
    -------
    (r, error)
        NaN for both where a sum of squares is no number, and for the error where without one pair
        x or y is constant, or where r is 1 or -1.
    """
    n = len(x)
    a, b = x - x.mean(), y - y.mean()
    with np.errstate(over="ignore"):
        of_a, of_b = np.sqrt(a @ a), np.sqrt(b @ b)
        if not 0 < of_a * of_b < np.inf:
            return float("nan"), float("nan")
        r = float(np.clip(a @ b / (of_a * of_b), -1, 1))
    times = np.sqrt(n / (n - 1))
    a *= times / of_a
    b *= times / of_b
    furthest = max(a.max(), -a.min(), b.max(), -b.min())
    if abs(r) == 1 or 1 - furthest**2 <= LEAST:
        return r, float("nan")
    total = squares = 0.0
    for start in range(0, n, _AT_ONCE):
        u, v = a[start : start + _AT_ONCE], b[start : start + _AT_ONCE]
        left = (r - u * v) / np.sqrt((1 - u * u) * (1 - v * v))
        away = np.arctanh(np.clip(left, -NEAR_ONE, NEAR_ONE)) - np.arctanh(r)
        total += away.sum()
        squares += away @ away
    return r, float(np.sqrt((n - 1) / n * (squares - total**2 / n)))
