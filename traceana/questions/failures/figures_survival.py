"""Survival and cumulative incidence of one event by runtime, one line per group."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from traceana.drawing.labels import (
    Percent,
    name_columns,
    name_group,
    name_lines,
    use_log_axis,
)
from traceana.drawing.registry import figure
from traceana.drawing.style import shade, start_axes
from traceana.errors import DataError
from traceana.questions.failures.tables_competing_risks import (
    CumulativeIncidence,
    SurvivalCurves,
)

_MOST_CURVES = 7
_MOST_STEPS: Final = 200
"""Maximum number of steps drawn per line."""
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
    ax = start_axes(ax)
    use_log_axis(ax, "x", times, durations=True)
    left = min(times) / 1.5
    ax.set_xlim(left, max([*times, *groups["last_s"]]))
    ax.axhline(0.5, linestyle=":", color=shade(ax, 0.4))
    lines = []
    for group in groups.iter_rows(named=True):
        steps = _of_group(result.curves, group, keys).rename({"survival": "fraction"})
        lines.append(_draw_line(ax, steps, group, keys, left=left, start=1.0))
    _finish(ax, "Still running", heading or "Survival of runtimes", lines, keys)
    ax.set_ylim(0, 1)
    return ax


def describe_survival(result: SurvivalCurves) -> str:
    """Return one sentence on the rows of the figure."""
    return _describe(result.groups, _drawn(result).height, "ended")


def _describe(groups: pl.DataFrame, drawn: int, ended: str, why: str = "") -> str:
    n, events, censored, excluded = (
        groups[name].sum() for name in ("n", "n_events", "n_censored", "n_excluded")
    )
    few = f" {drawn} of {groups.height} groups are drawn{why}." if drawn < groups.height else ""
    return (
        f"n = {n:,} rows: {events:,} {ended}, {censored:,} censored (still running when last seen);"
        f" {excluded:,} rows without a runtime are excluded.{few}"
    )


def _drawn(result: SurvivalCurves) -> pl.DataFrame:
    """Return the groups with the most rows of which some have ended, in their order."""
    ended = result.groups.filter(pl.col("n_events") > 0)
    return ended.filter(pl.col("n").rank("ordinal", descending=True) <= _MOST_CURVES)


def _of_group(frame: pl.DataFrame, group: dict[str, Any], keys: list[str]) -> pl.DataFrame:
    return frame.filter(*(pl.col(key).eq_missing(pl.lit(group[key])) for key in keys))


def _name(group: dict[str, Any], keys: list[str], **options: int) -> str:
    return name_group((group[key] for key in keys), **options) if keys else "all"


def _id(*parts: str) -> str:
    return "-".join(parts).replace(" ", "-")


def _draw_line(
    ax: Axes,
    steps: pl.DataFrame,
    group: dict[str, Any],
    keys: list[str],
    *,
    left: float,
    start: float,
    color: str | None = None,
) -> tuple[str, Line2D]:
    """Draw [time_s, fraction, ci_low, ci_high] of a group from the left end of the axis on."""
    if steps.height > _MOST_STEPS:
        at = np.unique(np.linspace(0, steps.height - 1, _MOST_STEPS).astype(int))
        spread = np.geomspace(1, steps.height, _MOST_STEPS).astype(int) - 1
        steps = steps[np.union1d(at, spread)]
    shown = steps.select(pl.col("time_s", "fraction", "ci_low", "ci_high").cast(pl.Float64))
    before = shown.filter(pl.col("time_s") <= left).tail(1).with_columns(time_s=pl.lit(left))
    if before.is_empty():
        before = pl.DataFrame([(left, start, start, start)], schema=shown.schema, orient="row")
    last = shown.tail(1).with_columns(time_s=pl.lit(group["last_s"], pl.Float64))
    line = pl.concat([before, shown.filter(pl.col("time_s") > left), last])
    name = _name(group, keys)
    (drawn,) = ax.plot(
        line["time_s"],
        line["fraction"],
        drawstyle="steps-post",
        linestyle="-",
        color=color,
        gid=_id("line", name),
    )
    ax.fill_between(
        line["time_s"],
        line["ci_low"],
        line["ci_high"],
        step="post",
        color=drawn.get_color(),
        alpha=0.18,
        linewidth=0,
        gid=_id("band", name),
    )
    return name, drawn


def _finish(
    ax: Axes, y_label: str, heading: str, lines: list[tuple[str, Line2D]], keys: list[str]
) -> None:
    ax.set_ylim(0, min(1.0, ax.get_ylim()[1]))
    ax.yaxis.set_major_formatter(Percent())
    ax.set(ylabel=y_label, xlabel="Runtime (logarithmic)", title=heading)
    ax.locator_params(axis="y", nbins=5)
    if keys:
        name_lines(ax, lines, heading=name_columns(keys), margin_from=0)


@figure(
    "cumulative-incidence",
    result="cumulative_incidence",
    reading="Line: cumulative incidence of the event by runtime, with the other events as "
    "competing risks (Aalen-Johansen estimate); band: its pointwise 95 % confidence interval.",
)
def plot_cumulative_incidence(
    result: CumulativeIncidence,
    /,
    *,
    ax: Axes | None = None,
    event: str | None = None,
    heading: str = "",
) -> Axes:
    """Draw the cumulative incidence of one event, one line per group.

    A line and a band for each of the seven groups with the most rows and the event. The axis of
    runtimes is logarithmic.

    Parameters
    ----------
    event
        The event; None if the result has a single one.
    heading
        Title of the figure; by default that of the event.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_cumulative_incidence
    >>> jobs = pl.DataFrame({"runtime_s": [60, 90, 600], "status": ["failed"] + ["completed"] * 2})
    >>> ax = plot_cumulative_incidence(traceana.cumulative_incidence(jobs), event="failed")
    >>> ax.get_title(loc="left")
    'Cumulative incidence: failed'
    """
    if event is None and len(result.events) != 1:
        first = result.events[0]
        raise DataError(f"pass event=, one of {', '.join(result.events)}: plot(event={first!r})")
    only = result.only(event or result.events[0])
    keys, some = only.by, _largest_groups(only)
    steps = only.curves.join(some.select(*keys, "event"), on=[*keys, "event"], nulls_equal=True)
    times = [time for time in steps["time_s"] if time > _LEAST_S]
    if not times:
        raise DataError(
            f"plot_cumulative_incidence has nothing to draw: no row is {only.events[0]}"
        )
    ax = start_axes(ax)
    use_log_axis(ax, "x", [*times, *some["last_s"]], durations=True)
    left = min(times) / 1.5
    ax.set_xlim(left, max([*times, *some["last_s"]]))
    colors = rcParams["axes.prop_cycle"].by_key()["color"]
    lines = []
    for group in some.iter_rows(named=True):
        of_group = _of_group(steps, group, keys).sort("time_s").rename({"incidence": "fraction"})
        color = colors[group["place"] % len(colors)]
        lines.append(_draw_line(ax, of_group, group, keys, left=left, start=0.0, color=color))
    heading = heading or f"Cumulative incidence: {only.events[0]}"
    _finish(ax, "Fraction of rows", heading, lines, keys)
    return ax


def describe_cumulative_incidence(result: CumulativeIncidence) -> str:
    """Return one sentence on the rows of the figure of a single event."""
    groups, drawn = result.groups, _largest_groups(result).height
    none = groups.filter(n_events=0).height
    why = ": the others have no event" if drawn + none == groups.height else ""
    return _describe(groups, drawn, "events", why)


def _largest_groups(incidence: CumulativeIncidence) -> pl.DataFrame:
    """Return the largest groups with an event after 0 s; each has a place of its own in colors."""
    groups = incidence.groups
    rank = pl.col("n").rank("ordinal", descending=True)
    place = rank - 1 if groups.height > _MOST_CURVES else pl.row_index()
    timed = incidence.curves.filter(pl.col("time_s") > _LEAST_S)
    return (
        groups.with_columns(place=place)
        .join(
            timed, on=[*incidence.by, "event"], how="semi", nulls_equal=True, maintain_order="left"
        )
        .filter(rank <= _MOST_CURVES)
    )
