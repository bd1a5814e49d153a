"""Names beside lines instead of a legend, names of groups, and scales with plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from textwrap import fill
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from matplotlib import font_manager, rcParams, ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.dates import (
    DAILY,
    AutoDateFormatter,
    AutoDateLocator,
    ConciseDateFormatter,
    num2date,
)
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from traceana.drawing.style import check_groups, figure_of, shade
from traceana.errors import DataError
from traceana.tables.display import key_heading
from traceana.tables.formatting import duration, duration_ticks

_LINE_SPACING: Final = 1.15
_LEGEND_CHARACTERS: Final = 52
TICK_CHARACTERS: Final = 28
_MOST_LINES: Final = 4
_SHORT: Final = 10
"""Characters of the longest label up to which a legend has three columns."""
_BELOW_IN: Final = -0.42
"""From the axes to a legend below their label."""
_PERCENT_TICKS: Final = 5
_MARGIN: Final = 1.05
"""Position of the names, in widths of the axes."""


_CLOCKS: Final = {"time_s": "Time since the job began (s)", "step": "Step", "sample": "Sample"}


def natural_order(names: Iterable[Any], /) -> list[str]:
    """Return names as text, sorted so that job_2 comes before job_10."""
    return sorted(map(str, names), key=lambda name: (len(name), name))


def find_clock(frame: pl.DataFrame, time: str | None = None, /) -> tuple[str, str]:
    """Return the time column of a frame, by default a known one with values, and its label."""
    names = list(_CLOCKS) if time is None else [time]
    clocks = [name for name in names if name in frame.columns]
    if not clocks:
        raise DataError(
            f"column {' or '.join(names)} is missing; found {', '.join(frame.columns)}; pass time="
        )
    clock = next((name for name in clocks if frame[name].count()), clocks[0])
    return clock, label_clock(clock)


def label_clock(time: str, /) -> str:
    """Return the axis label of a time column."""
    return _CLOCKS.get(time, time.replace("_", " ").capitalize())


def format_axis(axis: Axis, /, *, bins: int | None = None) -> None:
    """Format the numbers of an axis with thousands separators; dates remain as they are."""
    if isinstance(axis.get_major_formatter(), AutoDateFormatter):
        return
    axis.set_major_formatter("{x:,.10g}")
    if bins:
        axis.axes.locator_params(axis="x" if axis is axis.axes.xaxis else "y", nbins=bins)


def name_columns(columns: Iterable[str], /) -> str:
    """Return the headings of columns as the label of an axis."""
    return ", ".join(key_heading(column) for column in columns)


def name_group(values: Iterable[object], /, *, characters: int = 60) -> str:
    """Return one name for a group: its columns' values, shortened; null becomes "not stated"."""
    name = ", ".join("not stated" if value is None else _plain(value) for value in values)
    if name.startswith("_"):  # matplotlib leaves such labels out of legends
        name = f"\N{ZERO WIDTH SPACE}{name}"
    half = characters // 2
    return "\n".join(
        line if len(line) <= characters else f"{line[:half]}…{line[-half:]}"
        for line in name.split("\n", _MOST_LINES)[:_MOST_LINES]
    )


def name_tick(value: object, /) -> str:
    """Return the name of a group as short as the label of a tick must be."""
    return name_group([value], characters=TICK_CHARACTERS)


def shorten_legends(ax: Axes, /) -> None:
    """Shorten the names in the legends of a figure, whatever a trace calls its groups."""
    for axes in figure_of(ax).axes:
        legend = axes.get_legend()
        for text in legend.get_texts() if legend else ():
            text.set_text(name_group([text.get_text()]))


def split_lines(
    result: pl.DataFrame, first: str, unique: str | None = None, /
) -> list[tuple[str, pl.DataFrame]]:
    """Return the name and the rows of each line: of a group, or of all rows (an empty name)."""
    unique = unique or first
    keys = result.columns[: result.columns.index(first)]
    parts = result.partition_by(keys, maintain_order=True) if keys else [result]
    check_groups(len(parts))
    if result.is_empty() or not all(part[unique].is_unique().all() for part in parts):
        raise DataError(f"a line needs rows, and each {unique} once per group")
    return [(name_group(part.select(keys).row(0)) if keys else "", part) for part in parts]


class Percent(ticker.PercentFormatter):
    """Percent with the decimals that a tick needs: 5 %, 2.5 %; `whole` is 100 %."""

    def __init__(self, whole: float = 1.0) -> None:
        super().__init__(xmax=whole, symbol=" %")

    def format_pct(self, x: float, display_range: float) -> str:  # noqa: ARG002  of matplotlib
        """Write a tick."""
        return f"{self.convert_to_pct(x):.6g}{self.symbol}"


def end_of_percent(values: Iterable[float | None], /) -> float:
    """Return the end of an axis of fractions: a round number that the largest fits in, up to 1."""
    largest = max((value for value in values if value is not None), default=0.0)
    ticks = ticker.MaxNLocator(_PERCENT_TICKS, steps=[1, 2, 5, 10]).tick_values(0, largest)
    return min(1.0, float(ticks[-1])) if largest > 0 else 1.0


def place_legend(ax: Axes, /) -> None:
    """Put the legend below the axes, with long names on several lines."""
    below = ScaledTranslation(0, _BELOW_IN, figure_of(ax).dpi_scale_trans)
    handles, labels = ax.get_legend_handles_labels()
    space = "\N{NO-BREAK SPACE}"  # between a number and its unit
    wrapped = [fill(label.replace(" %", f"{space}%"), _LEGEND_CHARACTERS) for label in labels]
    ax.legend(
        handles,
        [label.replace(space, " ") for label in wrapped],
        loc="upper left",
        bbox_to_anchor=(-0.12, 0),
        bbox_transform=ax.transAxes + below,
        borderaxespad=0,
        fontsize=small_size(),
        ncols=3 if max(map(len, labels), default=0) <= _SHORT else 1,
    )


def legend_above(ax: Axes, /, **look: object) -> None:
    """Put the legend above the axes, from their left end unless `look` has another place."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2}
    ax.legend(**place | look)


def write_beside(
    ax: Axes,
    text: str,
    at: tuple[float, float],
    shift: tuple[float, float],
    /,
    **look: Any,  # noqa: ANN401  of annotate
) -> None:
    """Write a text beside a point, moved by so many points to the right and up."""
    ax.annotate(text, at, shift, textcoords="offset points", va="center", **look)


def on_background(ax: Axes, /) -> dict[str, object]:
    """Return the box behind a text that covers lines of the grid."""
    return {"facecolor": shade(ax, 0), "edgecolor": "none", "pad": 0.4}


def name_rows(ax: Axes, names: Sequence[object], /, *, below: float = 0.5) -> None:
    """Name the rows of a figure, the first on top, without lines of the grid between them."""
    ax.set_yticks(range(len(names)), [name_tick(name) for name in names])
    ax.set_ylim(len(names) - below, below - 1)
    ax.grid(visible=False, axis="y")


def name_lines(
    ax: Axes, lines: Sequence[tuple[str, Line2D]], /, *, heading: str, margin_from: float = 0.9
) -> None:
    """Write names at the ends of lines, from `margin_from` in the margin; none if too many."""
    to_axes = ax.transData - ax.transAxes  # whatever the scales
    size = small_size()
    tall = ax.bbox.height / figure_of(ax).dpi * 72
    gap = _LINE_SPACING * size / tall
    if len(lines) * gap > 1:
        return
    inside: list[tuple[float, str, tuple[float, float]]] = []
    at_margin: list[tuple[float, str, Line2D, tuple[float, float]]] = []
    for name, line in lines:
        points = np.asarray(line.get_xydata(), dtype=float)
        points = points[np.isfinite(points).all(axis=1)]
        if not len(points):
            continue
        name = name_tick(name)  # noqa: PLW2901
        x, y = points[-1].tolist()
        across, height = to_axes.transform((x, y)).tolist()
        if across < margin_from:
            inside.append((height, name, (x, y)))
        else:
            at_margin.append((height, name, line, (x, y)))
    inside.sort()
    box = {"facecolor": shade(ax, 0), "edgecolor": "none", "alpha": 0.75, "pad": 0.5}
    apart = spread([entry[0] for entry in inside], gap=gap)
    for height, (wanted, name, end) in zip(apart, inside, strict=True):
        up = (height - wanted) * tall + size / 2
        write_beside(ax, name, end, (2, up), fontsize=size, bbox=box)
    at_margin.sort(key=lambda entry: entry[0])
    heights = spread([entry[0] for entry in at_margin], gap=gap)
    gray = shade(ax, 0.4)
    for height, (_, name, line, end) in zip(heights, at_margin, strict=True):
        rule = {"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.6, "relpos": (0, 0.5)}
        ax.annotate(
            name,
            end,
            (_MARGIN, height),
            textcoords="axes fraction",
            va="center",
            fontsize=size,
            annotation_clip=False,
            arrowprops={**rule, "shrinkA": 0, "shrinkB": 0},
            color=shade(ax) if line.get_color() == gray else line.get_color(),
        )
    if at_margin:
        ax.annotate(
            heading,
            (_MARGIN, 1),
            (0, size),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=size,
            fontstyle="italic",
            annotation_clip=False,
        )


def small_size() -> float:
    """Return the size in points of a figure's smallest text, that of its ticks."""
    return font_manager.FontProperties(size=rcParams["xtick.labelsize"]).get_size_in_points()


def spread(wanted: Sequence[float], /, *, gap: float) -> list[float]:
    """Move ascending heights within [0, 1], up and down alike, until they are `gap` apart."""
    up, down = list(wanted), list(wanted)
    for before, after in pairwise(range(len(up))):
        up[after] = max(up[after], up[before] + gap)
    for after, before in pairwise(reversed(range(len(down)))):
        down[before] = min(down[before], down[after] - gap)
    middle = [(upper + other) / 2 for upper, other in zip(up, down, strict=True)]
    last = len(middle) - 1
    return [
        min(max(height, index * gap), 1 - (last - index) * gap)
        for index, height in enumerate(middle)
    ]


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


_ZERO_WIDTH = 0.5
"""Decades that a 0 is away from the least value above it."""
_FEW = 1e4
"""Largest over smallest value up to which decades are divided by small ticks."""
_SHORT_SPAN = 30.0
"""Largest over smallest value below which there are ticks at 2 and 5."""

_LEAST_S = 1e-3
_NARROW = 3.0
"""Largest over smallest value below which ticks are equally spaced."""


def use_log_axis(
    ax: Axes,
    side: Literal["x", "y"],
    values: Iterable[float],
    /,
    *,
    durations: bool = False,
    write: Callable[[float], str] | None = None,
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
    subs = _subs(low, high)
    limits = (low / 1.5, high * 1.5)
    has_zero = len(positive) < len(numbers)
    if has_zero:
        # linear below the least value: a 0 is half a decade away from it
        scale("symlog", linthresh=low, linscale=_ZERO_WIDTH)
        above = ticker.LogLocator(subs=subs, numticks=most).tick_values(low, high)
        axis.set_major_locator(ticker.FixedLocator([0, *(tick for tick in above if tick >= low)]))
        limits = (-0.6 * low, high * 1.5)
    else:
        scale("log")
        axis.set_major_locator(_decades(low, high, subs, most))
    limit(*limits)
    # between whole decades, unless there are more than a few of them, minor ticks show the scale
    few = len(subs) == 1 and high < _FEW * low and not has_zero
    axis.set_minor_locator(
        ticker.LogLocator(subs=range(2, 10), numticks=12) if few else ticker.NullLocator()
    )
    axis.set_minor_formatter(ticker.NullFormatter())
    write = write or (duration if durations else _unpowered)
    axis.set_major_formatter(ticker.FuncFormatter(lambda at, _: write(at)))
    if durations:
        ticks = duration_ticks(low / 1.2, high * 1.2, most)
        if len(ticks) > 1:
            axis.set_major_locator(DurationLocator([0.0, *ticks] if has_zero else ticks))
            axis.set_minor_locator(ticker.NullLocator())


def _subs(low: float, high: float) -> tuple[float, ...]:
    """Return what is labeled of each power of ten: of a short axis, or one with one power, more."""
    decades = math.floor(math.log10(1.5 * high)) - math.ceil(math.log10(low / 1.5))
    return (1.0, 2.0, 5.0) if high < _SHORT_SPAN * low or decades < 1 else (1.0,)


def _decades(low: float, high: float, subs: tuple[float, ...], most: int) -> ticker.Locator:
    if high >= _NARROW * low:
        return ticker.LogLocator(subs=subs, numticks=most)
    few = ticker.MaxNLocator(most - 2, steps=[1, 2, 5, 10], min_n_ticks=1)
    ticks = few.tick_values(low, high)
    return ticker.FixedLocator([tick for tick in ticks if tick > 0])


class DurationLocator(ticker.FixedLocator):
    """Ticks at round durations, which can be chosen again for other ends of the axis."""

    locs: NDArray[np.float64]

    def between(self, low: float, high: float, /) -> ticker.FixedLocator:
        """Return the ticks of an axis with these ends."""
        return ticker.FixedLocator(duration_ticks(max(low, _LEAST_S), high, len(self.locs) + 1))


def _unpowered(value: float) -> str:
    return f"{value:,.10f}".rstrip("0").rstrip(".")


_DATES: Final = ("%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S.%f")
"""Ticks of years, months, days, and so on; the label of the axis has the years."""


def use_dates(ax: Axes, timezone: str | None, /) -> None:
    """Make an axis of :func:`as_dates`, with its label; None: days on the clock of the trace."""
    if timezone is None:
        ax.set_xlabel("Day of the trace")
        return
    years = _years(ax)
    # a January of several years is its year, in the room of a month
    january = "%Y" if len(years) > 1 else "%b"
    firsts = ["", january, "%d %b", "%d %b", "%H:%M", "%H:%M"]
    locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    locator.maxticks[DAILY] = 5  # longer than names of months
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(
        ConciseDateFormatter(locator, formats=[*_DATES], zero_formats=firsts, show_offset=False)  # type: ignore[no-untyped-call]
    )
    between = " and " if len(years) == 2 else " to "
    named = f" in {between.join(dict.fromkeys([years[0], years[-1]]))}" if years else ""
    ax.set_xlabel(f"Date{named} ({timezone})")


def _years(ax: Axes) -> list[str]:
    ends = ax.xaxis.get_data_interval()
    if not np.isfinite(ends).all():
        return []
    first, last = (num2date(end).year for end in ends)  # type: ignore[no-untyped-call]
    return [str(year) for year in range(first, last + 1)]


def as_dates(seconds: pl.Series, timezone: str | None, /) -> pl.Series:
    """Return times as local datetimes, or in days on the clock of the trace."""
    if timezone is None:
        return seconds / 86_400
    at = (seconds * 1000).cast(pl.Int64).cast(pl.Datetime("ms", "UTC"))
    return at.dt.convert_time_zone(timezone).dt.replace_time_zone(None)
