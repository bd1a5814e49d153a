"""Survival of runtimes, one line per group."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl
from matplotlib.ticker import PercentFormatter

from traceana.drawing.labels import name_columns, name_group, name_lines
from traceana.drawing.registry import figure
from traceana.drawing.scales import use_log_axis
from traceana.drawing.style import shade, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from traceana.questions.failures.tables_competing_risks import SurvivalCurves

_MOST_CURVES = 7
_LEAST_S = 1e-3
"""Shorter runtimes are outside of the logarithmic axis."""


@figure(
    "survival",
    result="kaplan_meier",
    reading="Line: fraction of rows that run longer than the runtime (Kaplan-Meier estimate); "
    "band: its pointwise 95 % confidence interval; dotted: half of the rows, where the lines "
    "cross it at their median.",
)
def plot_survival(result: SurvivalCurves, /, *, ax: Axes | None = None, heading: str = "") -> Axes:
    """Draw the survival function of runtimes, one line per group.

    A line and a band for each of the seven groups with the most rows. The axis of runtimes is
    logarithmic.

    Parameters
    ----------
    result
        What `kaplan_meier` returns.
    heading
        Title of the figure; by default "Survival of runtimes".

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [60, 90, 600], "status": "completed"})
    >>> ax = traceana.kaplan_meier(jobs).plot()
    >>> ax.get_title(loc="left")
    'Survival of runtimes'
    """
    keys, groups = result.by, _drawn(result)
    times = [time for time in result.curves["time_s"] if time > _LEAST_S]
    if groups.is_empty() or not times:
        raise DataError("plot_survival has nothing to draw: no row with a runtime has ended")
    own_figure = ax is None
    ax = start_axes(ax)
    use_log_axis(ax, "x", times, durations=True)
    left = min(times) / 1.5
    ax.set_xlim(left, max([*times, *groups["last_s"]]))
    ax.axhline(0.5, linestyle=":", color=shade(ax, 0.4))
    lines = []
    for group in groups.iter_rows(named=True):
        same = (pl.col(key).eq_missing(pl.lit(group[key])) for key in keys)
        at, survival, low, high = _steps(result.curves.filter(*same), left, group["last_s"])
        name = name_group(group[key] for key in keys) if keys else "all"
        (line,) = ax.plot(at, survival, drawstyle="steps-post", linestyle="-", gid=f"line-{name}")
        color = line.get_color()
        ax.fill_between(at, low, high, step="post", color=color, alpha=0.18, gid=f"band-{name}")
        lines.append((name, line))
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    ax.set_ylabel("Still running")
    ax.set_xlabel("Runtime (logarithmic)")
    ax.set_title(heading or "Survival of runtimes")
    if keys and own_figure:
        name_lines(ax, lines, heading=name_columns(keys), margin_from=0)
    return ax


def describe_survival(result: SurvivalCurves) -> str:
    """Return one sentence on the rows of the figure."""
    groups = result.groups
    n, events, censored, excluded = (
        groups[name].sum() for name in ("n", "n_events", "n_censored", "n_excluded")
    )
    drawn = _drawn(result).height
    few = f" {drawn} of {groups.height} groups are drawn." if drawn < groups.height else ""
    return (
        f"n = {n:,} rows: {events:,} ended, {censored:,} censored (still running when last seen); "
        f"{excluded:,} rows without a runtime are excluded.{few}"
    )


def _drawn(result: SurvivalCurves) -> pl.DataFrame:
    """Return the groups with the most rows of which some have ended, in their order."""
    ended = result.groups.filter(pl.col("n_events") > 0)
    return ended.filter(pl.col("n").rank("ordinal", descending=True) <= _MOST_CURVES)


def _steps(own: pl.DataFrame, left: float, last_s: float) -> list[list[float]]:
    """Return times, survival and both bounds of a line from the left end of the axis on."""
    before = own.filter(pl.col("time_s") <= left).tail(1)
    shown = pl.concat([before, own.filter(pl.col("time_s") > left)])
    bounds = shown.select(pl.col("survival", "ci_low", "ci_high").fill_null(math.nan))
    columns = [values.to_list() for values in bounds]
    if before.is_empty():
        columns = [[1.0, *values] for values in columns]
    at = [left, *shown["time_s"].tail(len(columns[0]) - 1), last_s]
    return [at, *([*values, values[-1]] for values in columns)]
