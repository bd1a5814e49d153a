"""How far values depend on those before them, and blocks of time as the independent unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from traceana.errors import DataError
from traceana.stats.arguments import check_count
from traceana.stats.arrays import Floats, Integers

MOST_LAGS: Final = 100_000


def autocorrelation(values: ArrayLike, /, *, lags: int) -> Floats:
    """Autocorrelation of a series at lags 1 to `lags`; NaN where a lag is not below n."""
    check_count("lags", lags, most=MOST_LAGS)
    x = _series(values)
    correlations = _correlations(x)[1 : lags + 1]
    return np.concatenate([correlations, np.full(lags - len(correlations), np.nan)])


def effective_sample_size(values: ArrayLike, /) -> float:
    """Number of independent values with as certain a mean; NaN for fewer than four, or equal ones.

    n / (1 + 2 sum_k r(k)), to Geyer's initial positive sequence (Statistical Science 7, 1992).
    """
    x = _series(values)
    r = _correlations(x)
    if len(x) < 4 or np.isnan(r[0]):
        return float("nan")
    pairs = r[: len(r) // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = np.minimum.accumulate(pairs > 0)
    time = 2 * pairs[positive].sum() - 1
    # an alternating series has a sum near -1 + 1: no time is shorter than that of two values
    return float(len(x) / max(time, 2 / len(x)))


def _series(values: ArrayLike) -> Floats:
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise DataError("a series of finite values is needed; leave missing ones out first")
    return x


def _correlations(x: Floats) -> Floats:
    """Autocorrelations at lags 0 to n - 1, by way of the power spectrum."""
    # equal values differ from their mean by its rounding: none of that is variation
    if not len(x) or x.min() == x.max():
        return np.full(len(x), np.nan)
    away = (x - x[0]) / np.ptp(x)
    away -= away.mean()
    size = 2 ** (2 * len(x)).bit_length()
    products: Floats = np.fft.irfft(np.abs(np.fft.rfft(away, size)) ** 2, size)[: len(x)]
    return products / products[0]


DAY_S: Final = 86_400.0
YEAR_S: Final = 366 * DAY_S
LONGEST_S: Final = 400 * YEAR_S
"""Span beyond which a time is wrong, such as an end in the year 9999, and no hour is counted."""
MIN_BLOCKS: Final = 10
"""Blocks of time below which `note` states that there are few."""
_UNITS_S: Final = (DAY_S, 21_600.0, 3600.0, 600.0, 60.0)
_FEWEST_UNITS: Final = 20
_SHORT: Final = 60
"""Units below which the test of their autocorrelation misses one of 0.5 too often."""
_TIMES: Final = 3


@dataclass(frozen=True)
class TimeBlocks:
    """Block of each row."""

    code: Integers
    """Code from 0 of each row's block, in the order of time; -1 where the time is missing."""
    n_blocks: int
    """Blocks with rows."""
    length_s: float
    """Length of a block."""
    autocorrelation: float
    """Between consecutive days (or shorter units), of their sums or means; NaN if undefined."""
    note: str | None
    """Why intervals over the blocks are uncertain."""


def time_blocks(
    times_s: ArrayLike, values: ArrayLike | None = None, /, *, length_s: float | None = None
) -> TimeBlocks:
    """Assign rows to blocks of consecutive days (or shorter units), long enough to be independent.

    A block is a unit if the autocorrelation of the units' sums or means is at most 1.645 /
    sqrt(units), else 3 times its integrated time, at most a tenth of the span.
    """
    time = np.asarray(times_s, dtype=float)
    value = np.ones(len(time)) if values is None else np.asarray(values, dtype=float)
    if time.shape != value.shape:
        raise DataError(f"times_s and values differ in length: {len(time)} and {len(value)}")
    present = np.isfinite(time)
    if not present.any():
        raise DataError("times_s has no finite time")
    since = time - time[present].min()
    span = float(since[present].max())
    unit = next((unit for unit in _UNITS_S if span >= (_FEWEST_UNITS - 1) * unit), _UNITS_S[-1])
    r, lasts = float("nan"), None
    if length_s is None:
        units = 1
        used = present & ~np.isnan(value)
        if used.any():
            units, r, lasts = _units_of_block(
                (since[used] // unit).astype(np.int64), value[used], counts=values is None
            )
        length_s = unit * units
    block = np.full(len(time), -1, dtype=np.int64)
    distinct, code = np.unique((since[present] // length_s).astype(np.int64), return_inverse=True)
    block[present] = code
    n = len(distinct)
    few = f"{n} blocks of time: fewer than {MIN_BLOCKS}, intervals are uncertain"
    return TimeBlocks(block, n, float(length_s), r, few if n < MIN_BLOCKS else lasts)


def _units_of_block(
    unit: Integers, value: Floats, *, counts: bool
) -> tuple[int, float, str | None]:
    """Return the units of a block, the autocorrelation of the units' sums, and a note."""
    n = int(unit.max()) + 1
    rank = value
    if not counts:
        _, at, often = np.unique(value, return_inverse=True, return_counts=True)
        rank = (often.cumsum() - (often - 1) / 2)[at]
        rank = rank - rank.mean()
    sums, rows = np.bincount(unit, rank, n), np.bincount(unit, minlength=n)
    # unequal units hide in their sums how much their means depend on each other
    series = [sums] if counts else [sums, sums[rows > 0] / rows[rows > 0]]
    lengths, correlations = [1.0], [float("nan")]
    for each in series:
        if len(each) < 4 or each.min() == each.max():
            continue
        correlations.append(float(autocorrelation(each, lags=1)[0]))
        if correlations[-1] > 1.645 / np.sqrt(len(each)):
            lengths.append(_TIMES * len(each) / effective_sample_size(each))
    longest, allowed = int(np.ceil(max(lengths))), max(n // MIN_BLOCKS, 1)
    r, note = float(np.fmax.reduce(correlations)), None
    # lengths that are needed are underestimated: see the page on error rates
    if longest > 1.5 * allowed:
        note = "dependence lasts longer than a tenth of the span: intervals are too narrow"
    elif n < _SHORT:
        few = f"dependence may go unnoticed in fewer than {_SHORT} days (or shorter units)"
        note = f"{few}: intervals may be too narrow"
    return min(longest, allowed), r, note
