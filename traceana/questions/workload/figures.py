"""Submissions, GPU demand, and Lorenz curves of GPU-hours."""

from __future__ import annotations

from itertools import cycle
from typing import Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from traceana.drawing.labels import (
    Percent,
    as_dates,
    place_legend,
    split_lines,
    use_dates,
    use_log_axis,
)
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, palette, shade, start_axes
from traceana.errors import DataError
from traceana.tables.formatting import duration, hours, listed

_VISIBLE: Final = 0.01
"""Fraction of the time axis that is wide enough to be shaded."""
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FAR: Final = 3
"""Capacities of more than this many times the largest demand are stated, not drawn."""


@figure(
    "arrivals",
    result="arrival_rhythm",
    reading="Bar: arrivals per hour of observed time; dashed line: mean over all of it. Of "
    "several traces: lines, as multiples of each trace's mean.",
    counts=(pl.sum("jobs"), "job"),
)
def plot_arrivals(
    rhythm: pl.DataFrame, /, *, ax: Axes | None = None, clock: str | None = None
) -> Axes:
    """Draw the rate of submissions by hour of the day or weekday, one line per group.

    Parameters
    ----------
    rhythm
        What `arrival_rhythm` returns. One group is drawn as bars; several as lines, divided by the
        mean rate of the group. An hour that was not observed has neither.
    clock
        Name of the local time of the hours, such as "UTC+8". None: the time of day is unknown,
        and hours count from the beginning of the trace.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 60, 3600, 90000]})
    >>> traceana.figures.plot_arrivals(traceana.arrival_rhythm(jobs, per="hour")).get_ylabel()
    'Jobs per hour'
    """
    slot = _slot(rhythm)
    lines = split_lines(rhythm, slot)
    ax = start_axes(ax, height_in=1.8 + 0.3 * (len(lines) - 1))  # names below
    for name, line in lines:
        observed_h, rates = sum(line["observed_h"]), line["jobs_per_h"]
        mean = sum(line["jobs"]) / observed_h if observed_h else 0
        if len(lines) > 1:
            relative, gid = rates / (mean or 1), f"hours-{name}"
            ax.plot(line[slot], relative, drawstyle="steps-mid", label=name, gid=gid)
            continue
        ax.bar(line[slot], rates.fill_null(0), 0.8, color=color_of(0))
        if observed_h:
            ax.axhline(
                mean, color=shade(ax), linewidth=0.8, linestyle="--", gid="mean", label="mean"
            )
            ax.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2)
    ax.set_ylim(bottom=0)
    ax.grid(visible=False, axis="x")
    ax.yaxis.set_major_formatter("{x:,.5g}")
    ax.locator_params(axis="y", nbins=4)
    ax.set_ylabel("Jobs per hour / mean" if len(lines) > 1 else "Jobs per hour")
    names = {"hour": "Hour of the day" if clock else "Hour, modulo 24", "weekday": "Weekday"}
    ax.set_title(f"Arrivals by {names[slot].lower()}")
    if slot == "hour":
        ax.set_xticks(range(0, 24, 3))
    else:
        ax.set_xticks(range(1, 8), _WEEKDAYS)
    ax.set_xlabel(f"{names[slot]} ({clock or 'clock of the trace; time of day unknown'})")
    if len(lines) > 1:
        place_legend(ax)
    return ax


def _slot(rhythm: pl.DataFrame) -> str:
    for slot in ("hour", "weekday"):
        if slot in rhythm.columns:
            return slot
    raise DataError("plot_arrivals draws arrival_rhythm: column hour or weekday is missing")


@figure(
    "interarrivals",
    result="interarrival_curve",
    reading="Line: fraction of the times between arrivals that are longer than x; dashed: the "
    "same for a Poisson process of equal rate. Daily and weekly cycles alone cause differences.",
)
def plot_interarrivals(curve: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the survival function of the times between submissions, one line per group.

    Both axes logarithmic; a time of 0 is drawn at the left end.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 30, 100, 400]})
    >>> traceana.figures.plot_interarrivals(traceana.interarrival_curve(jobs)).get_xlabel()
    'Interarrival time (logarithmic)'
    """
    lines = split_lines(curve, "n", "gap_s")
    ax = start_axes(ax)
    for (name, line), color in zip(lines, cycle(palette()), strict=False):
        longer = line.filter(pl.col("fraction_longer") > 0)
        ax.plot(
            longer["gap_s"],
            longer["fraction_longer"],
            color=color,
            linewidth=1.4,
            linestyle="-",
            drawstyle="steps-post",
            label=name or "arrivals",
            gid=f"gaps-{name}".rstrip("-"),
        )
        ax.plot(
            line["gap_s"],
            line["fraction_longer_poisson"],
            color=color,
            linestyle="--",
            linewidth=0.8,
            label=None if name else "Poisson process of the same rate",
            gid=f"poisson-{name}".rstrip("-"),
        )
    use_log_axis(ax, "x", curve["gap_s"], durations=True)
    use_log_axis(ax, "y", [1 / max(curve["n"]), 1.0])
    ax.set(xlabel="Interarrival time (logarithmic)", ylabel="Fraction longer (logarithmic)")
    ax.set_title("Interarrival times")
    if len(lines) > 1 or not lines[0][0]:
        place_legend(ax)
    return ax


def describe_interarrivals(curve: pl.DataFrame) -> str:
    """Return one sentence on what the figure of this curve shows."""
    lines = [rows for _, rows in split_lines(curve, "n", "gap_s")]
    n = listed(f"{max(rows['n']):,}" for rows in lines)
    longest = listed(duration(max(rows["gap_s"])) for rows in lines)
    if len(lines) > 1:
        return f"n = {n} interarrival times; the longest is {longest}."
    above = curve.filter(pl.col("gap_s") > 0)["gap_s"]
    at_once = curve.filter(gap_s=0)["fraction_longer"].to_list()
    least = f"{100 * (1 - at_once[0]):.1f} % are 0 s" if at_once else f"from {duration(min(above))}"
    return f"n = {n} interarrival times: {least}, the longest is {longest}."


@figure(
    "gpu-demand",
    result="gpu_demand",
    reading="Line: GPUs requested by running jobs, averaged over each time bin; gray: outside "
    "the observation window. Jobs without a row in the trace are not included.",
)
def plot_gpu_demand(
    demand: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    starts_assumed: bool = False,
    timezone: str | None = None,
    window: tuple[float | None, float | None] = (None, None),
    capacity: float | None = None,
) -> Axes:
    """Draw the requested GPUs against time, with the observation window and the capacity.

    Parameters
    ----------
    demand
        Rows of one group of what `gpu_demand` returns.
    starts_assumed
        Whether jobs are assumed to start when submitted; the label then states it.
    timezone
        IANA name of the time zone if the times are Unix seconds: the axis then shows dates. By
        default it shows days on the clock of the trace.
    window
        First and last second of the observation window; demand outside is shaded.
    capacity
        GPUs of the cluster.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0, 1800], "end_s": [3600, 7200], "gpus": [4, 8]})
    >>> traceana.figures.plot_gpu_demand(traceana.gpu_demand(jobs)).get_ylabel()
    'Requested GPUs'
    """
    table = demand.filter(pl.col("gpus_mean").is_not_null()).sort("bin_start_s")
    if table.is_empty() or not table["bin_start_s"].is_unique().all():
        raise DataError("plot_gpu_demand draws one group, each bin once")
    ax = start_axes(ax, height_in=1.8)
    ax.plot(
        as_dates(table["bin_start_s"], timezone),
        table["gpus_mean"],
        drawstyle="steps-post",
        color=color_of(0),
        linewidth=0.6,
        linestyle="-",
        gid="gpus",
    )
    _draw_window(ax, table["bin_start_s"], window, timezone)
    if capacity is not None and capacity <= _FAR * max(table["gpus_mean"]):
        ax.axhline(
            capacity,
            color=shade(ax, 0.8),
            linewidth=0.8,
            linestyle="--",
            gid="capacity",
            label=f"capacity: {capacity:,.0f} GPUs",
        )
    elif capacity is not None:
        ax.plot([], [], linestyle="", label=f"capacity: {capacity:,.0f} GPUs, beyond the axis")
    if ax.get_legend_handles_labels()[1]:
        place_legend(ax)
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.yaxis.set_major_formatter("{x:,.7g}")
    ax.locator_params(axis="y", nbins=4)
    use_dates(ax, timezone)
    ax.set_title("GPU demand")
    ax.set_ylabel(
        "GPUs if jobs had started\nwhen submitted" if starts_assumed else "Requested GPUs"
    )
    return ax


def _draw_window(
    ax: Axes, bins: pl.Series, window: tuple[float | None, float | None], timezone: str | None
) -> None:
    """Shade what is outside the observation window."""
    low, high = float(min(bins)), float(max(bins))
    first, last = window
    least = _VISIBLE * (high - low)
    outside = [(low, first)] if first is not None and first > low + least else []
    outside += [(last, high)] if last is not None and last < high - least else []
    label: str | None = "outside the observation window"
    for ends in outside:
        left, right = as_dates(pl.Series(ends, dtype=pl.Float64), timezone)
        ax.axvspan(left, right, color=shade(ax, 0.15), linewidth=0, gid="outside", label=label)
        label = None


def describe_gpu_demand(demand: pl.DataFrame) -> str:
    """Return one sentence on what the figure of this demand shows."""
    gpus = demand["gpus_mean"].drop_nulls().to_numpy()
    excluded = max(demand["n_excluded"])
    but = f"; {excluded:,} jobs without times or GPUs excluded" if excluded else ""
    return f"{len(gpus):,} bins, maximum {hours(gpus.max())} GPUs{but}."


_TOP: Final = 0.01


@figure(
    "concentration",
    result="lorenz_curve",
    reading="Line: fraction of the GPU-hours used by the largest jobs (Lorenz curve from its "
    "end); dot: the largest 1 % of these jobs; dotted: all jobs equal.",
)
def plot_concentration(curve: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the Lorenz curve of GPU-hours over jobs, one line per group.

    Parameters
    ----------
    curve
        What `lorenz_curve` returns, in steps of 1 % at most.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 1, 1, 8], "runtime_s": [60, 60, 600, 36000]})
    >>> traceana.figures.plot_concentration(traceana.lorenz_curve(jobs)).get_title(loc="left")
    'Concentration of GPU-hours'
    """
    lines = split_lines(curve, "fraction_of_jobs")
    ax = start_axes(ax, height_in=2.6 + 0.3 * (len(lines) - 1))  # names below
    least = min(0.1, 1 / (lines[0][1].height - 1))
    even = np.geomspace(least, 1, 120)
    ax.plot(even, even, color=shade(ax, 0.75), linestyle=":", linewidth=0.8, gid="equal")
    for name, rows in lines:
        jobs, hours = rows["fraction_of_jobs"].to_numpy(), rows["fraction_of_gpu_hours"].to_numpy()
        below = float(np.interp(1 - _TOP, jobs, hours))
        top = f"top 1 %: {100 * (1 - below):.1f} %"
        (line,) = ax.plot(
            even,
            1 - np.interp(1 - even, jobs, hours),
            linewidth=1.4,
            gid=f"curve-{name}" if name else "all",
            label=f"{name} ({top})" if len(lines) > 1 else f"all GPU jobs ({top})",
        )
        ax.scatter(_TOP, 1 - below, s=14, color=line.get_color(), zorder=4)
    ax.set_xscale("log")
    ax.set_xlim(least, 1)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    ax.yaxis.set_major_formatter(Percent())
    ax.set_xlabel("Fraction of GPU jobs, largest first (logarithmic)")
    ax.set(ylabel="Fraction of GPU-hours", title="Concentration of GPU-hours")
    place_legend(ax)
    return ax
