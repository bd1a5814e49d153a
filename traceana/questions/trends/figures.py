"""Trends: one measure by period."""

from __future__ import annotations

from typing import Any, Final, cast

import polars as pl
from matplotlib.axes import Axes

from traceana.drawing.labels import Percent, as_dates, place_legend, use_dates
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, start_axes
from traceana.errors import DataError

_DAY_S: Final = 86_400
_UNITS_S: Final = {"d": _DAY_S, "h": 3600, "min": 60, "s": 1}
_TWO: Final = 2
"""Of a unit: below, a smaller one is the unit of an axis."""
_OF_ENDED: Final = ("runtime_s_median", "failure_rate")
_MANY: Final = 50
"""Times as many jobs end in another period as in one whose median and rate are not drawn."""
_MOST_TYPES: Final = 5
_STYLES: Final = ("-", "--", "-.", (0, (4, 1, 1, 1, 1, 1)), (0, (6, 2)))
_NAMES: Final = {
    "jobs": "Jobs submitted",
    "users": "Users",
    "jobs_mean": "Running jobs",
    "gpu_hours": "GPU-hours per day",
    "cpu_hours": "CPU-hours per day",
    "node_hours": "Node-hours per day",
    "utilization": "Utilization",
    "wait_s_median": "Median wait",
    "runtime_s_median": "Median runtime",
    "failure_rate": "Failure rate",
}
"""Measures that are drawn, and the label of each."""


@figure(
    "trends",
    result="trends",
    reading="Step: value of a period. Use is by overlap with the period; a job counts where it is "
    "submitted, its wait where it starts, its runtime and status where it ends. "
    "Without value: few jobs.",
    counts=(pl.sum("jobs"), "job"),
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
    measure
        Column to draw, such as jobs, gpu_hours, wait_s_median or failure_rate.
    timezone
        IANA name of the time zone if the times are Unix seconds: the axis then shows dates. By
        default it shows days on the clock of the trace.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0, 43200], "end_s": [3600, 129600], "gpus": [4, 1]})
    >>> traceana.figures.plot_trends(traceana.trends(jobs), measure="gpu_hours").get_ylabel()
    'GPU-hours per day'
    """
    if measure not in _NAMES:
        raise DataError(f"measure must be one of {', '.join(_NAMES)}; it is {measure!r}")
    if not trends[measure].count():
        raise DataError(f"plot_trends has nothing to draw: {measure} is null")
    values, label = trends[measure].cast(pl.Float64), _NAMES[measure]
    if measure in _OF_ENDED and "n_ended" in trends.columns:
        enough = trends["n_ended"] * _MANY >= trends["n_ended"].max()
        values = trends.select(pl.when(enough).then(values)).to_series()
    if measure.endswith("_hours"):
        values = values / ((trends["end_s"] - trends["start_s"]) / _DAY_S)
    elif measure.endswith("_s_median"):
        most = float(cast("float", values.max()))
        unit, size = next(
            each for each in _UNITS_S.items() if most >= _TWO * each[1] or each[1] == 1
        )
        values, label = values / size, f"{label} ({unit})"
    ax = start_axes(ax, height_in=1.8)
    _step(ax, trends, values, timezone, color=color_of(0), gid=measure)
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.yaxis.set_major_formatter("{x:,.10g}")
    if measure in ("failure_rate", "utilization"):
        ax.yaxis.set_major_formatter(Percent())
        ax.set_ylim(top=1.04 * ax.get_ylim()[1])
    ax.locator_params(axis="y", nbins=4)
    use_dates(ax, timezone)
    ax.set(ylabel=label, title=label)
    return ax


def _step(
    ax: Axes, periods: pl.DataFrame, values: pl.Series, timezone: str | None, **look: object
) -> None:
    """Draw a value of each period as steps."""
    edges = as_dates(pl.concat([periods["start_s"], periods["end_s"].tail(1)]), timezone)
    heights = [float("nan") if value is None else value for value in (*values, *values.tail(1))]
    options: dict[str, Any] = {"linewidth": 1.0, "linestyle": "-", **look}
    ax.plot(list(edges), heights, drawstyle="steps-post", **options)


@figure(
    "cluster-utilization",
    result="cluster_utilization",
    reading="Step: fraction of the GPUs of the cluster, or of a type, allocated in a period; "
    "dotted: allocated or down.",
    counts=(pl.first("gpus"), "GPU"),
)
def plot_cluster_utilization(
    utilization: pl.DataFrame, /, *, ax: Axes | None = None, timezone: str | None = None
) -> Axes:
    """Draw the fraction of the GPUs that was allocated by period, in all and by GPU type.

    Parameters
    ----------
    timezone
        As for `plot_trends`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_cluster_utilization
    >>> jobs = pl.DataFrame({"start_s": [0, 43200], "end_s": [3600, 129600], "gpus": [4, 1]})
    >>> plot_cluster_utilization(traceana.cluster_utilization(jobs, gpus=8)).get_ylabel()
    'Allocated'
    """
    periods = utilization.filter(pl.col("period") != "all")
    ax = start_axes(ax, height_in=2.2)
    types = periods["gpu_type"].unique(maintain_order=True).head(_MOST_TYPES)
    for place, name in enumerate(types):
        rows = periods.filter(gpu_type=name)
        look = {"color": color_of(place), "linestyle": _STYLES[place]}
        label = "all GPUs" if name == "all" else str(name)
        _step(ax, rows, rows["allocated"], timezone, label=label, gid=f"allocated-{place}", **look)
        if rows["down"].sum():
            both = rows["allocated"] + rows["down"].fill_null(0)
            _step(ax, rows, both, timezone, color=color_of(place), linestyle=":", gid="down")
    ax.set_ylim(0, max(1.0, *ax.get_ylim()))
    ax.margins(x=0)
    ax.yaxis.set_major_formatter(Percent())
    use_dates(ax, timezone)
    ax.set(ylabel="Allocated", title="GPUs allocated over time")
    if len(types) > 1:
        place_legend(ax)
    return ax
