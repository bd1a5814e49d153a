"""Submissions and GPU demand over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.scales import use_log_axis
from traceana.figures.style import palette, shade, start_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIRST_DAY: Final = 4
"""Weekday of second 0: 1970-01-01 was a Thursday."""
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@figure(
    "arrivals",
    result="arrival_rhythm",
    reading="Bar: jobs submitted per hour of observed time; dashed line: mean over all slots.",
)
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

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_arrivals
    >>> jobs = pl.DataFrame({"submit_s": [0, 60, 3600, 90000]})
    >>> plot_arrivals(traceana.arrival_rhythm(jobs, per="hour")).get_ylabel()
    'Jobs per hour'
    """
    per = "hour" if "hour" in rhythm.columns else "weekday"
    if per not in rhythm.columns or not rhythm[per].is_unique().all():
        raise DataError("plot_arrivals draws the hours or weekdays of one group")
    observed_h = sum(rhythm["observed_h"])
    slots = rhythm[per]
    if per == "weekday" and clock is None:
        slots = (slots - _FIRST_DAY) % len(_WEEKDAYS) + 1
    ax = start_axes(ax, height_in=1.8)
    ax.bar(slots, rhythm["jobs_per_h"].fill_null(0), 0.8, color=palette()[0])
    if observed_h:
        ax.axhline(
            sum(rhythm["jobs"]) / observed_h, color=shade(ax), linewidth=0.8, linestyle="--",
            gid="mean", label="mean",
        )  # fmt: skip
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2)
    ax.set_ylim(bottom=0)
    ax.grid(visible=False, axis="x")
    ax.yaxis.set_major_formatter("{x:,.5g}")
    ax.locator_params(axis="y", nbins=4)
    ax.set_ylabel("Jobs per hour")
    ax.set_title("Submissions by hour of the day" if per == "hour" else "Submissions by weekday")
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


@figure(
    "interarrivals",
    result="interarrival_curve",
    reading="Line: fraction of the times between submissions that are longer than x; dashed: the "
    "same for a Poisson process of equal rate. Above it at the right: more long pauses; below it "
    "at the left: more submissions close together. Daily and weekly cycles alone cause both.",
)
def plot_interarrivals(curve: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the fraction of times between submissions that are longer than each.

    Parameters
    ----------
    curve
        [n, gap_s, share_longer, share_longer_poisson] of one group, as `interarrival_curve`
        returns it.

    Returns
    -------
    Axes
        Both axes logarithmic; a time of 0 is drawn at the left end.

    Raises
    ------
    DataError
        If there is no time, or one occurs twice.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_interarrivals
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 30, 100, 400]})
    >>> plot_interarrivals(traceana.interarrival_curve(jobs)).get_xlabel()
    'Time between submissions (logarithmic)'
    """
    if curve.is_empty() or not curve["gap_s"].is_unique().all():
        raise DataError("plot_interarrivals draws the curve of one group, each time once")
    longer = curve.filter(pl.col("share_longer") > 0)
    least = 1 / curve["n"][0]
    ax = start_axes(ax)
    ax.plot(
        longer["gap_s"], longer["share_longer"], color=palette()[0], linewidth=1.4,
        drawstyle="steps-post", linestyle="-", label="submissions", gid="gaps",
    )  # fmt: skip
    ax.plot(
        curve["gap_s"], curve["share_longer_poisson"], color=shade(ax, 0.8), linestyle="--",
        label="Poisson process of the same rate", gid="poisson",
    )  # fmt: skip
    use_log_axis(ax, "x", curve["gap_s"], durations=True)
    use_log_axis(ax, "y", [least, 1.0])
    ax.set_xlabel("Time between submissions (logarithmic)")
    ax.set_ylabel("Fraction longer (logarithmic)")
    ax.set_title("Times between submissions")
    ax.legend(loc="lower left")
    return ax


def describe_interarrivals(curve: pl.DataFrame) -> str:
    """Return one sentence on what the figure of this curve shows."""
    above = curve.filter(pl.col("gap_s") > 0)["gap_s"]
    at_once = curve.filter(gap_s=0)["share_longer"].to_list()
    least = f"{100 * (1 - at_once[0]):.1f} % are 0 s" if at_once else f"from {min(above):,.3g} s"
    return (
        f"n = {curve['n'][0]:,} times between submissions: {least}, the longest is "
        f"{max(above):,.0f} s."
    )


@figure(
    "gpu-demand",
    result="gpu_demand",
    reading="Line: GPUs requested by running jobs, averaged over each time bin. Jobs that began "
    "before the trace or were submitted after it are missing, so demand is low at both ends.",
)
def plot_gpu_demand(
    demand: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    starts_assumed: bool = False,
    timezone: str | None = None,
) -> Axes:
    """Draw the requested GPUs against time.

    Parameters
    ----------
    demand
        [bin_start_s, gpus_mean] of one group, as `gpu_demand` returns it.
    starts_assumed
        Whether jobs are assumed to start when submitted; the label then states it.
    timezone
        IANA name of the time zone if the times are Unix seconds: the axis then shows dates. By
        default it shows days on the clock of the trace.

    Raises
    ------
    DataError
        If a bin occurs twice, or no GPUs are known.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_gpu_demand
    >>> jobs = pl.DataFrame({"start_s": [0, 1800], "end_s": [3600, 7200], "gpus": [4, 8]})
    >>> plot_gpu_demand(traceana.gpu_demand(jobs)).get_ylabel()
    'Requested GPUs'
    """
    known = demand.filter(pl.col("gpus_mean").is_not_null()).sort("bin_start_s")
    if known.is_empty() or not known["bin_start_s"].is_unique().all():
        raise DataError("plot_gpu_demand draws one group, each bin once")
    ax = start_axes(ax, height_in=1.8)
    ax.plot(
        _times(known["bin_start_s"], timezone), known["gpus_mean"], drawstyle="steps-post",
        color=palette()[0], linewidth=0.6, linestyle="-", gid="gpus",
    )  # fmt: skip
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.locator_params(axis="y", nbins=4)
    if timezone is not None:
        ax.xaxis.set_major_locator(locator := AutoDateLocator(maxticks=6))  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    ax.set_xlabel("Day of the trace" if timezone is None else f"Date ({timezone})")
    ax.set_title("GPU demand")
    ax.set_ylabel(
        "GPUs if jobs had started\nwhen submitted" if starts_assumed else "Requested GPUs"
    )
    return ax


def _times(seconds: pl.Series, timezone: str | None) -> Any:  # noqa: ANN401  numbers or datetimes
    if timezone is None:
        return seconds / 86_400
    at = pl.from_epoch((seconds * 1000).cast(pl.Int64), time_unit="ms")
    return at.dt.replace_time_zone("UTC").dt.convert_time_zone(timezone).dt.replace_time_zone(None)


def describe_gpu_demand(demand: pl.DataFrame) -> str:
    """Return one sentence on what the figure of this demand shows."""
    gpus = demand["gpus_mean"].drop_nulls().to_numpy()
    excluded = max(demand["n_excluded"])
    but = f"; {excluded:,} jobs without times or GPUs excluded" if excluded else ""
    return f"{len(gpus):,} bins, mean {gpus.mean():,.1f} GPUs, maximum {gpus.max():,.1f}{but}."
