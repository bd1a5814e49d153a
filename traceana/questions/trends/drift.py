"""Linear change per week of comparable jobs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from traceana.stats.time_blocks import DAY_S, MIN_BLOCKS, autocorrelation, time_blocks

WEEK: Final = 7
_BIAS: Final = 1.5
_LARGEST_R: Final = 0.97
_FLAT: Final = 1e-12
_HIGH_R: Final = 0.7
"""Autocorrelation of days above which intervals of 95 % cover less than 93 %."""


def slope_over_time(
    week: NDArray[Any], values: NDArray[Any], strata: NDArray[Any], /
) -> tuple[float, float, float, float, str | None]:
    """Return the slope within strata, its interval, p and a note; NaN with few blocks of days."""
    rows = np.bincount(strata)
    x, y = (axis - (np.bincount(strata, axis) / rows)[strata] for axis in (week, values))
    squares, products = x @ x, x @ y
    whole = float(products / squares) if squares > 0 else np.nan
    rest = values - whole * week
    middle = np.bincount(strata, rest) / rows
    blocks = time_blocks(week * WEEK * DAY_S, rest - middle[strata])
    if blocks.n_blocks < MIN_BLOCKS:
        return whole, np.nan, np.nan, np.nan, blocks.note
    left = _slopes_without_blocks(x, y, strata, blocks.code)
    share = (blocks.n_blocks - 1) / blocks.n_blocks
    variance, df = share * float(((left - left.mean()) ** 2).sum()), blocks.n_blocks - 1.0
    # blocks of a tenth of the span are too short for dependence that lasts
    days, of_day = np.unique(week, return_inverse=True)
    daily = np.bincount(of_day, rest - middle[strata]) / np.bincount(of_day)
    n, r = len(days), float(autocorrelation(daily, lags=1)[0])
    r = min(max((n * r + _BIAS) / (n - 4 * _BIAS), 0.0), _LARGEST_R)
    scores = np.bincount(of_day, x * (rest - middle[strata]))
    inflated = float(scores @ scores) / float(squares) ** 2 * (1 + r) / (1 - r)
    if inflated > variance:
        variance, df = inflated, max(n * (1 - r) / (1 + r) - 2, 1.0)
    error = float(np.sqrt(variance))
    reach = float(stdtrit(df, 0.975)) * error
    p = float(2 * stdtr(df, -abs(whole) / error)) if error > 0 else np.nan
    note = f"autocorrelation {r:.2g} of days: intervals are too narrow" if r > _HIGH_R else None
    return whole, whole - reach, whole + reach, p, note


def _slopes_without_blocks(
    x: NDArray[Any], y: NDArray[Any], strata: NDArray[Any], block: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the slopes within strata without each block; x and y have mean 0 in each stratum."""
    n_strata = int(strata.max()) + 1
    cells, of_cell = np.unique(block * n_strata + strata, return_inverse=True)
    block_of, stratum_of = np.divmod(cells, n_strata)
    n_left = np.bincount(strata)[stratum_of] - np.bincount(of_cell)
    sums = [np.bincount(of_cell, axis) for axis in (x, y)]

    def left(axis: NDArray[Any], cell_sums: NDArray[Any]) -> NDArray[Any]:
        # what is left of a stratum has another mean
        moved = sums[0] * cell_sums / np.maximum(n_left, 1)
        return float(x @ axis) - np.bincount(block, x * axis) - np.bincount(block_of, moved)

    squares, products = (left(*pair) for pair in zip((x, y), sums, strict=True))
    squares[squares <= _FLAT * (x @ x)] = np.nan
    slopes: NDArray[np.float64] = products / squares
    return slopes
