"""Rows that carry Pearson's r, and how heavy the tails of a sample are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceana.stats.correlation import dot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


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
