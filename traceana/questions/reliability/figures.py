"""Faults over time, machines down, and faults per machine against chance."""

from __future__ import annotations

from typing import Final

import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from traceana.drawing.labels import format_axis
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError
from traceana.questions.reliability.tables import ReliabilityResult

_DAY_S: Final = 86_400


@figure(
    "faults-over-time",
    result="machine_reliability",
    reading="Bar: faults that begin in a period over machines and days; line: its 95 % interval, "
    "scaled by the dispersion over machines, unless it is far wider; dashed: mean of the whole "
    "window.",
    counts=(pl.sum("n"), "fault"),
)
def plot_faults_over_time(result: ReliabilityResult, /, *, ax: Axes | None = None) -> Axes:
    """Draw the faults per 1,000 node-days by period.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> faults = pl.DataFrame({"machine_id": ["a", "b"], "start_s": [0, 900], "end_s": [10, 990]})
    >>> traceana.figures.plot_faults_over_time(traceana.machine_reliability(faults)).get_ylabel()
    'Faults per 1,000 node-days'
    """
    ax = start_axes(ax)
    periods = result.periods
    left = (periods["start_s"] - result.window_s[0]) / _DAY_S
    width = (periods["end_s"] - periods["start_s"]) / _DAY_S
    ax.bar(left, periods["rate"], width * 0.9, align="edge", color=color_of(0))
    mean = result.overall["rate"].item()
    ax.axhline(mean, color=shade(ax), linewidth=0.8, linestyle="--", gid="mean")
    ax.margins(x=0)
    # without wide intervals, so that the rates are seen
    top = 4 * max(periods["rate"].drop_nulls().to_list(), default=0.0)
    at = (left + width * 0.45).alias("at")
    shown = periods.select("ci_low", "ci_high", at).filter(pl.col("ci_high") <= top)
    ax.vlines(shown["at"], shown["ci_low"], shown["ci_high"], color=shade(ax), linewidth=0.8)
    ax.set_ylim(0, ax.get_ylim()[1] if top else 1.0)
    format_axis(ax.yaxis)
    ax.set(
        xlabel="Day of the window", ylabel="Faults per 1,000 node-days", title="Faults over time"
    )
    return ax


@figure(
    "machines-down",
    result="machine_reliability",
    reading="Line: machines with at least one fault at a time.",
    counts=(pl.sum("n"), "fault"),
)
def plot_machines_down(result: ReliabilityResult, /, *, ax: Axes | None = None) -> Axes:
    """Draw the number of machines that are down over time.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> faults = pl.DataFrame({"machine_id": ["a", "b"], "start_s": [0, 900], "end_s": [10, 990]})
    >>> traceana.figures.plot_machines_down(traceana.machine_reliability(faults)).get_ylabel()
    'Machines down'
    """
    if result.down is None:
        raise DataError("plot_machines_down has nothing to draw: the log has no ends of faults")
    ax = start_axes(ax)
    first, last = result.window_s
    days = [*((result.down["time_s"] - first) / _DAY_S), (last - first) / _DAY_S]
    down = result.down["machines_down"].to_list()
    ax.plot(days, [*down, *down[-1:]], drawstyle="steps-post", linewidth=0.9)
    ax.margins(x=0)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    ax.set(xlabel="Day of the window", ylabel="Machines down", title="Machines down at a time")
    return ax


@figure(
    "faults-per-machine",
    result="machine_reliability",
    reading="Points: machines with at least so many faults; lines: expectation if all machines had "
    "the same rate (Poisson), and if their rates differ (negative binomial). Points far above "
    "the Poisson line are machines that fail again and again.",
    counts=(pl.sum("n"), "fault"),
)
def plot_faults_per_machine(result: ReliabilityResult, /, *, ax: Axes | None = None) -> Axes:
    """Draw the number of machines by their number of faults, against chance.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> faults = pl.DataFrame({"machine_id": ["a", "b"], "start_s": [0, 900], "end_s": [10, 990]})
    >>> traceana.figures.plot_faults_per_machine(traceana.machine_reliability(faults)).get_xlabel()
    'Faults (at least)'
    """
    ax = start_axes(ax)
    counts = result.counts
    faults = counts["faults"]
    ax.plot(faults, counts["poisson"], color=shade(ax), linestyle="--", label="Poisson")
    ax.plot(faults, counts["negative_binomial"], color=color_of(1), label="negative binomial")
    ax.plot(faults, counts["machines"], "o", color=color_of(0), markersize=4, label="machines")
    ax.set_yscale("log")
    ax.set_ylim(bottom=0.5)
    ax.yaxis.set_major_formatter("{x:,.5g}")
    ax.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    ax.set(xlabel="Faults (at least)", ylabel="Machines", title="Faults per machine")
    ax.legend()
    return ax
