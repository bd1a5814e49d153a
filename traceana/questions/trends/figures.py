"""Trends: one measure by period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DAY_S: Final = 86_400
_NAMES: Final = {
    "jobs": "Jobs submitted",
    "users": "Users",
    "jobs_mean": "Running jobs",
    "gpu_hours": "GPU-hours per day",
    "cpu_hours": "CPU-hours per day",
    "node_hours": "Node-hours per day",
    "utilization": "Utilization",
    "wait_s_median": "Median wait (min)",
    "runtime_s_median": "Median runtime (min)",
    "failure_rate": "Failure rate",
}
"""Measures that are drawn, and the label of each."""


@figure(
    "trends",
    result="trends",
    reading="Step: value of a period. Use is by overlap with the period; a job counts where it is "
    "submitted, its wait where it starts, its runtime and status where it ends.",
)
def plot_trends(
    trends: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    measure: str = "jobs",
    timezone: str | None = None,
) -> Axes:
    """Draw one measure of jobs by period.

    Parameters
    ----------
    trends
        What `trends` returns.
    measure
        Column to draw, such as jobs, gpu_hours, wait_s_median or failure_rate.
    timezone
        IANA name of the time zone if the times are Unix seconds: the axis then shows dates. By
        default it shows days on the clock of the trace.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_trends
    >>> jobs = pl.DataFrame({"start_s": [0, 43200], "end_s": [3600, 129600], "gpus": [4, 1]})
    >>> plot_trends(traceana.trends(jobs), measure="gpu_hours").get_ylabel()
    'GPU-hours per day'
    """
    if measure not in _NAMES:
        raise DataError(f"measure must be one of {', '.join(_NAMES)}; it is {measure!r}")
    if not trends[measure].count():
        raise DataError(f"plot_trends has nothing to draw: {measure} is null")
    values = trends[measure].cast(pl.Float64)
    if measure.endswith("_hours"):
        values = values / ((trends["end_s"] - trends["start_s"]) / _DAY_S)
    elif measure.endswith("_s_median"):
        values = values / 60
    ax = start_axes(ax, height_in=1.8)
    edges = pl.concat([trends["start_s"], trends["end_s"].tail(1)])
    at = edges / _DAY_S
    if timezone is not None:
        moments = pl.from_epoch((edges * 1000).cast(pl.Int64), time_unit="ms")
        local = moments.dt.replace_time_zone("UTC").dt.convert_time_zone(timezone)
        at = local.dt.replace_time_zone(None)
    heights = [*values, *values.tail(1)]
    ax.plot(
        list(at), [float("nan") if one is None else one for one in heights],
        drawstyle="steps-post", color=color_of(0), linewidth=1.0, linestyle="-", gid=measure,
    )  # fmt: skip
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.yaxis.set_major_formatter("{x:,.5g}")
    ax.locator_params(axis="y", nbins=4)
    if timezone is not None:
        ax.xaxis.set_major_locator(locator := AutoDateLocator(minticks=3, maxticks=7))  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    ax.set_xlabel("Day of the trace" if timezone is None else f"Date ({timezone})")
    ax.set_ylabel(_NAMES[measure])
    ax.set_title(_NAMES[measure])
    return ax


def describe_trends(trends: pl.DataFrame) -> str:
    """Return one sentence on the periods for the caption."""
    first, last = trends["period"][0], trends["period"][-1]
    return f"{trends.height} periods from {first} to {last}; {trends['jobs'].sum():,} jobs."
