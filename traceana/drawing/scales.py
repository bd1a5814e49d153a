"""Logarithmic axes on which a 0 has its place, and axes of days or dates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from traceana.tables.formatting import duration, duration_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_ZERO_WIDTH = 0.5
"""Decades that a 0 is away from the least value above it."""
_FEW = 1e4
"""Largest over smallest value up to which decades are divided by small ticks."""
_SHORT = 30.0
"""Largest over smallest value below which there are ticks at 2 and 5."""

_NARROW = 3.0
"""Largest over smallest value below which ticks are equally spaced."""


def use_log_axis(
    ax: Axes, side: Literal["x", "y"], values: Iterable[float], /, *, durations: bool = False
) -> None:
    """Make an axis logarithmic over values that are 0 or more; a 0 is drawn at its lower end."""
    numbers = list(values)
    positive = [value for value in numbers if value > 0]
    if not positive:
        return
    low, high = min(positive), max(positive)
    axis, scale, limit, most = (
        (ax.xaxis, ax.set_xscale, ax.set_xlim, 5)
        if side == "x"
        else (ax.yaxis, ax.set_yscale, ax.set_ylim, 8)
    )
    subs = (1.0, 2.0, 5.0) if high < _SHORT * low else (1.0,)
    limits = (low / 1.5, high * 1.5)
    has_zero = len(positive) < len(numbers)
    if has_zero:
        # linear below the least value: a 0 is half a decade away from it
        scale("symlog", linthresh=low, linscale=_ZERO_WIDTH)
        above = LogLocator(subs=subs, numticks=most).tick_values(low, high)
        axis.set_major_locator(FixedLocator([0, *(tick for tick in above if tick >= low)]))
        limits = (-0.6 * low, high * 1.5)
    else:
        scale("log")
        axis.set_major_locator(_decades(low, high, subs, most))
    limit(*limits)
    # between whole decades, unless there are more than a few of them, minor ticks show the scale
    few = len(subs) == 1 and high < _FEW * low and not has_zero
    axis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=12) if few else NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda at, _: duration(at) if durations else _plain(at)))
    if durations:
        _mark_durations(axis, duration_ticks(low / 1.2, high * 1.2, most), has_zero=has_zero)


def _decades(low: float, high: float, subs: tuple[float, ...], most: int) -> Locator:
    if high >= _NARROW * low:
        return LogLocator(subs=subs, numticks=most)
    ticks = MaxNLocator(most - 1, steps=[1, 2, 5]).tick_values(low, high)
    return FixedLocator([tick for tick in ticks if tick > 0])


def _mark_durations(axis: Axis, ticks: Sequence[float], *, has_zero: bool) -> None:
    if len(ticks) > 1:
        axis.set_major_locator(FixedLocator([0.0, *ticks] if has_zero else ticks))
        axis.set_minor_locator(NullLocator())


def _plain(value: float) -> str:
    """Write a number without a power of ten."""
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def use_dates(ax: Axes, timezone: str | None, /) -> None:
    """Make an axis of :func:`as_dates`, with its label; None: days on the clock of the trace."""
    if timezone is not None:
        ax.xaxis.set_major_locator(locator := AutoDateLocator(minticks=3, maxticks=7))  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    ax.set_xlabel("Day of the trace" if timezone is None else f"Date ({timezone})")


def as_dates(seconds: pl.Series, timezone: str | None, /) -> pl.Series:
    """Return times as local datetimes, or in days on the clock of the trace."""
    if timezone is None:
        return seconds / 86_400
    at = (seconds * 1000).cast(pl.Int64).cast(pl.Datetime("ms", "UTC"))
    return at.dt.convert_time_zone(timezone).dt.replace_time_zone(None)
