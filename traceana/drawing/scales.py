"""Logarithmic axes on which a 0 has its place, and whose ticks are plain numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from traceana.tables.formatting import duration, duration_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes

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
    known = list(values)
    positive = [value for value in known if value > 0]
    if not positive:
        return
    low, high = min(positive), max(positive)
    axis = ax.xaxis if side == "x" else ax.yaxis
    scale = ax.set_xscale if side == "x" else ax.set_yscale
    subs = (1.0, 2.0, 5.0) if high < _SHORT * low else (1.0,)
    most = 5 if side == "x" else 8
    limits = (low / 1.5, high * 1.5)
    if len(positive) < len(known):
        # linear below the least value: a 0 is half a decade away from it
        scale("symlog", linthresh=low, linscale=_ZERO_WIDTH)
        above = LogLocator(subs=subs, numticks=most).tick_values(low, high)
        axis.set_major_locator(FixedLocator([0, *(tick for tick in above if tick >= low)]))
        limits = (-0.6 * low, high * 1.5)
    else:
        scale("log")
        axis.set_major_locator(LogLocator(subs=subs, numticks=most))
        if high < _NARROW * low:
            ticks = MaxNLocator(most - 1, steps=[1, 2, 5]).tick_values(low, high)
            axis.set_major_locator(FixedLocator([tick for tick in ticks if tick > 0]))
    (ax.set_xlim if side == "x" else ax.set_ylim)(*limits)
    # between whole decades, unless there are more than a few of them, minor ticks show the scale
    few = len(subs) == 1 and high < _FEW * low and len(positive) == len(known)
    axis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=12) if few else NullLocator())
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda at, _: duration(at) if durations else _plain(at)))
    if durations and len(ticks := duration_ticks(low / 1.2, high * 1.2, most)) > 1:
        zero = [0.0] if len(positive) < len(known) else []
        axis.set_major_locator(FixedLocator([*zero, *ticks]))
        axis.set_minor_locator(NullLocator())


def _plain(value: float) -> str:
    """Write a number without a power of ten."""
    return f"{value:,.10f}".rstrip("0").rstrip(".")
