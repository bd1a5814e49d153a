"""Submissions by hour of the day or weekday."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = "Bar: jobs submitted per hour of observed time; dashed line: mean over all slots."
_FIRST_DAY: Final = 4
"""Weekday of second 0: 1970-01-01 was a Thursday."""
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@figure("arrivals", result="arrival_rhythm")
def plot_arrivals(
    rhythm: pl.DataFrame, /, *, ax: Axes | None = None, clock: str | None = None
) -> Axes:
    """Draw the rate of submissions by hour of the day or weekday.

    Parameters
    ----------
    rhythm
        [hour or weekday, jobs, observed_h, jobs_per_h] of one group, as `arrival_rhythm` returns
        it. A null rate (a slot that was not observed) has no bar.
    clock
        Name of the local time of the slots, such as "UTC+8". None: the clock counts from the
        beginning of the trace, so weekdays have no names and count from the first day.

    Raises
    ------
    DataError
        If the rows are not one group by hour or weekday.
    """
    per = "hour" if "hour" in rhythm.columns else "weekday"
    if per not in rhythm.columns or not rhythm[per].is_unique().all():
        raise DataError("plot_arrivals draws the hours or weekdays of one group")
    observed_h = sum(rhythm["observed_h"])
    slots = rhythm[per]
    if per == "weekday" and clock is None:
        slots = (slots - _FIRST_DAY) % len(_WEEKDAYS) + 1
    ax = start_axes(ax, height_in=1.8)
    ax.bar(slots, rhythm["jobs_per_h"].fill_null(0), 0.8, color="#0072B2")
    if observed_h:
        ax.axhline(
            sum(rhythm["jobs"]) / observed_h, color="#222222", linewidth=0.8, linestyle="--",
            gid="mean",
        )  # fmt: skip
    ax.set_ylim(bottom=0)
    ax.grid(visible=False, axis="x")
    ax.yaxis.set_major_formatter("{x:,.5g}")
    ax.locator_params(axis="y", nbins=4)
    ax.set_ylabel("Jobs per hour")
    if per == "hour":
        ax.set_xticks(range(0, 24, 3))
        what = "Hour of the day" if clock else "Hour of the trace's own day"
    else:
        ax.set_xticks(range(1, 8), _WEEKDAYS if clock else None)
        what = "Weekday" if clock else "Day of the trace's own week (1: its first day)"
    ax.set_xlabel(f"{what} ({clock})" if clock else what)
    return ax


def describe_arrivals(rhythm: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these arrivals shows."""
    per = "hour" if "hour" in rhythm.columns else "weekday"
    told = f"{sum(rhythm['jobs']):,} jobs over {sum(rhythm['observed_h']) / 24:,.1f} days"
    rates = rhythm.drop_nulls("jobs_per_h").sort("jobs_per_h", per).rows(named=True)
    if not rates:
        return f"{told}."
    least, most = (f"{row['jobs_per_h']:,.3g} jobs per hour" for row in (rates[0], rates[-1]))
    if per == "weekday":  # which day it is depends on the clock
        return f"{told}; by weekday from {least} to {most}."
    hours = (rates[0][per], rates[-1][per])
    return f"{told}; quietest hour {hours[0]} ({least}), busiest {hours[1]} ({most})."
