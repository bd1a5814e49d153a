"""Rates, mean runtimes and runtime ratios by group, odds ratios, and curves by runtime."""

from __future__ import annotations

from textwrap import fill
from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from traceana.drawing.labels import (
    TICK_CHARACTERS,
    Percent,
    end_of_percent,
    name_columns,
    name_group,
    name_lines,
    small_size,
    use_log_axis,
)
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError
from traceana.questions.failures.tables import FailureModel
from traceana.questions.failures.tables_competing_risks import (
    CumulativeIncidence,
    SurvivalCurves,
)
from traceana.tables.formatting import plural

_TITLE_CHARACTERS: Final = 34
_LOG_FROM: Final = 20
"""Ratio of the largest to the smallest value from which the axis is logarithmic."""


def _start_rows(result: pl.DataFrame, ax: Axes | None) -> Axes:
    """Start axes with one named row per group, the first on top, and n at the right."""
    if result.is_empty():
        raise DataError("a figure by group has nothing to draw: the result has no row")
    by = result.columns[: result.columns.index("n")]
    names = [name_group(row, characters=TICK_CHARACTERS) for row in result.select(by).rows()]
    lines = max(name.count("\n") + 1 for name in names)
    ax = start_axes(ax, height_in=0.95 + (0.1 + 0.14 * lines) * len(names))
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_ylabel(name_columns(by))
    ax.grid(visible=False, axis="y")
    look: dict[str, Any] = {"va": "center", "fontsize": small_size(), "annotation_clip": False}
    for row, n in enumerate(result["n"]):
        ax.annotate(f"n = {n:,}", (1.04, row), xycoords=("axes fraction", "data"), **look)
    return ax


def _draw_rows(ax: Axes, result: pl.DataFrame, value: str) -> None:
    bars = result.select("ci_low", "ci_high").with_row_index().drop_nulls()
    ax.hlines(*bars, color=color_of(0), linewidth=1.4, gid="intervals")
    ax.scatter(
        result[value],
        range(result.height),
        s=16,
        color=color_of(0),
        zorder=4,
        clip_on=False,
        label="median" if value == "median_s" else "mean",
        gid="means",
    )


def _name_panel(ax: Axes, heading: str) -> None:
    """Write a title, which then names the groups instead of the label of the axis."""
    if heading:
        ax.set(title=fill(heading, _TITLE_CHARACTERS), ylabel="")


@figure(
    "outcome-rates",
    result="outcome_rates or failure_rates",
    reading="Dot: rate; bar: its 95 % confidence interval (Wilson); n: completed and failed rows.",
    counts=(pl.sum("n"), "row"),
)
def plot_outcome_rates(
    result: pl.DataFrame, /, *, ax: Axes | None = None, heading: str = ""
) -> Axes:
    """Draw the success or failure rate by group with its interval.

    One row per group in the result's order, from 0 % on.

    Parameters
    ----------
    heading
        Title of the figure.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4"] * 4 + ["V100"] * 4,
    ...                      "status": ["failed"] + ["completed"] * 5 + ["failed"] * 2})
    >>> traceana.figures.plot_outcome_rates(traceana.outcome_rates(jobs, "gpu")).get_xlabel()
    'Success rate'
    """
    ax = _start_rows(result, ax)
    _draw_rows(ax, result, "rate")
    ax.set_xlim(0, end_of_percent([*result["rate"], *result["ci_high"]]))
    ax.locator_params(axis="x", nbins=6, steps=[1, 2, 5, 10])
    ax.set_xlabel("Failure rate" if "failures" in result.columns else "Success rate")
    ax.xaxis.set_major_formatter(Percent())
    _name_panel(ax, heading)
    return ax


@figure(
    "runtime-by",
    result="runtime_by",
    reading="Dot: mean or median, as the axis states; bar: its 95 % confidence interval; diamond "
    "beside a mean: the median; n: number of runtimes.",
    counts=(pl.sum("n"), "runtime"),
)
def plot_runtime_by(
    result: pl.DataFrame, /, *, ax: Axes | None = None, heading: str = "", log_x: bool | None = None
) -> Axes:
    """Draw mean runtime by group with its interval, and the median.

    One row per group in the order of the result. Intervals that extend below 0 are clipped.

    Parameters
    ----------
    result
        What `runtime_by` returns; without mean_s, as the groups of `kaplan_meier`, the interval is
        that of the median.
    heading
        Title of the figure.
    log_x
        Whether the axis is logarithmic; None: if the largest mean or median is more than 20 times
        the smallest.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4"] * 6 + ["V100"] * 6, "runtime_s": range(1, 13)})
    >>> traceana.figures.plot_runtime_by(traceana.runtime_by(jobs, "gpu")).get_xlabel()
    'Mean runtime (s)'
    """
    ax = _start_rows(result, ax)
    shown = "mean_s" if "mean_s" in result.columns else "median_s"
    _draw_rows(ax, result, shown)
    name = shown.removesuffix("_s").capitalize()
    if shown == "mean_s":
        ax.scatter(
            result["median_s"],
            range(result.height),
            marker="D",
            s=14,
            facecolors="none",
            edgecolors=color_of(1),
            linewidths=0.9,
            zorder=5,
            label="median",
            gid="medians",
        )
    points = [*result[shown].drop_nulls(), *result["median_s"].drop_nulls()]
    if log_x is None:
        log_x = bool(points) and 0 < _LOG_FROM * min(points) < max(points)
    if log_x:
        # a limit of 0 or below has no place on this axis
        ends = [end for name in ("ci_low", "ci_high") for end in result[name].drop_nulls()]
        use_log_axis(ax, "x", [*points, *(end for end in ends if end > 0)], durations=True)
        ax.set_xlabel(f"{name} runtime (logarithmic)")
    else:
        ax.set_xlim(left=0)
        ax.locator_params(axis="x", nbins=4)
        ax.set_xlabel(f"{name} runtime (s)")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    _name_panel(ax, heading)
    if shown == "mean_s":
        ax.set_title(heading, pad=16)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return ax


@figure(
    "runtime-ratio",
    result="summarize_runtime_ratio",
    reading="Thin bar: 5 % to 95 % quantile of runtime over the mean of its group. Thick bar: 25 % "
    "to 75 %. Diamond: median. Tick: 99 %. Dashed line: the mean, which is 1 in every group. n: "
    "number of runtimes.",
)
def plot_runtime_ratio(result: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the quantiles of runtime ratios by group, one row per group.

    With a logarithmic axis; bars that reach 0 are clipped.

    Parameters
    ----------
    result
        What `summarize_runtime_ratio` returns; groups without a ratio are excluded.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_runtime_ratio
    >>> jobs = pl.DataFrame({"group": ["a", "a", "b", "b"], "runtime_s": [50.0, 150.0, 60.0, 90.0]})
    >>> plot_runtime_ratio(traceana.summarize_runtime_ratio(jobs, by="group")).get_xlabel()
    'Runtime / mean of the group (logarithmic)'
    """
    table = result.filter(pl.col("p95") > 0)
    if table.is_empty():
        raise DataError("plot_runtime_ratio has nothing to draw: no group has a ratio above 0")
    ax = _start_rows(table, ax)
    rows = range(table.height)
    drawn = table.select("p05", "p25", "median", "p75", "p95", "p99")
    values = [value for column in drawn for value in column if value > 0]
    left = 0.5 * min(values)
    at = {column.name: column.clip(left) for column in drawn}
    ax.hlines(rows, at["p05"], at["p95"], color=color_of(0), linewidth=1, gid="middle-90")
    ax.hlines(rows, at["p25"], at["p75"], color=color_of(0), linewidth=5, gid="middle-50")
    ax.scatter(
        at["median"],
        rows,
        marker="D",
        s=16,
        facecolors=shade(ax, 0),
        edgecolors=color_of(1),
        linewidths=1,
        zorder=5,
        gid="medians",
    )
    ax.scatter(at["p99"], rows, marker="|", s=36, color=color_of(0), linewidths=1.2, gid="p99")
    ax.axvline(1, color=shade(ax, 0.8), linewidth=0.8, linestyle="--", zorder=1, gid="mean")
    use_log_axis(ax, "x", values)
    ax.set_xlim(left=left)
    ax.set(xlabel="Runtime / mean of the group (logarithmic)", title="Runtime ratios")
    return ax


def describe_runtime_ratio(result: pl.DataFrame) -> str:
    """Return the number and size of the groups for the caption."""
    return f"{plural(result.height, 'group')} of up to {max(result['n']):,} runtimes."


_BEYOND: Final = 20.0
"""The axis ends at this multiple of the outermost dot, even if an interval is wider."""


@figure(
    "failure-odds",
    result="failure_model",
    reading="Dot: odds ratio of failure, all other features equal, on a logarithmic axis; bar: its "
    "95 % confidence interval; above 1 failure is more likely. n: rows.",
)
def plot_failure_odds(result: FailureModel, /, *, ax: Axes | None = None) -> Axes:
    """Draw the odds ratios of a model of failure with their intervals.

    One row per numeric feature and per level. A level without a finite odds ratio has no row.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8] * 10,
    ...                      "status": (["completed"] * 3 + ["failed"]) * 9
    ...                      + ["failed", "completed"] * 2})
    >>> result = traceana.failure_model(jobs, features="gpus")
    >>> result.plot().get_xlabel()
    'Odds ratio (logarithmic)'
    """
    finite = result.odds_ratios.drop_nulls(["odds_ratio", "ci_low", "ci_high"])
    if finite.is_empty():
        raise DataError("plot_failure_odds has nothing to draw: no odds ratio is finite")
    level = pl.format("{} {}\nversus {}", "feature", "level", "reference")
    columns = ("n", "odds_ratio", "ci_low", "ci_high")
    rows = finite.select(pl.coalesce(level, "feature").alias("term"), *columns)
    ax = _start_rows(rows, ax)
    ratios = [*rows["odds_ratio"], 1.0]
    low, high = min(rows["ci_low"]), max(rows["ci_high"])
    low, high = max(low, min(ratios) / _BEYOND), min(high, max(ratios) * _BEYOND)
    use_log_axis(ax, "x", [low, 1.0, high])
    ax.axvline(1, color=shade(ax, 0.5), linewidth=0.8, zorder=1, gid="no-difference")
    _draw_rows(ax, rows, "odds_ratio")
    ax.set(xlabel="Odds ratio (logarithmic)", ylabel="", title="Odds ratios of failure")
    return ax


def describe_failure_odds(result: FailureModel) -> str:
    """Return the rows of the fit for the caption."""
    return f"n = {result.fit['n'].item():,} rows."


_MOST_CURVES = 7
_MOST_STEPS: Final = 200  # maximum number of steps drawn per line
_LEAST_S = 1e-3  # shorter runtimes are outside of the logarithmic axis


@figure(
    "survival",
    result="kaplan_meier",
    reading="Line: fraction of rows that run longer than the runtime (Kaplan-Meier estimate); "
    "band: its pointwise 95 % confidence interval; dotted: half of the rows, where the lines "
    "cross it at their median.",
    counts=(pl.sum("n"), "row"),
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
    ended = result.groups.filter(pl.col("n_events") > 0)
    groups = ended.filter(pl.col("n").rank("ordinal", descending=True) <= _MOST_CURVES)
    curves = result.curves.rename({"survival": "fraction"})
    if groups.is_empty():
        raise DataError("plot_survival has nothing to draw: no row with a runtime has ended")
    ax = _draw_curves(ax, curves, groups.with_row_index("place"), result.by, start=1.0, top=1.0)
    ax.axhline(0.5, linestyle=":", color=shade(ax, 0.4))
    ax.set(ylabel="Still running", title=heading or "Survival of runtimes")
    return ax


def _draw_curves(
    ax: Axes | None,
    curves: pl.DataFrame,
    groups: pl.DataFrame,
    keys: list[str],
    *,
    start: float,
    top: float | None = None,
) -> Axes:
    """Draw [*keys, time_s, fraction, ci_low, ci_high] of groups, each in the color of its place."""
    times = [time for time in curves["time_s"] if time > _LEAST_S]
    if not times:
        raise DataError("curves have nothing to draw: no row has the event after 0 s")
    ax = start_axes(ax)
    use_log_axis(ax, "x", [*times, *groups["last_s"]], durations=True)
    left = min(times) / 1.5
    ax.set_xlim(left, max([*times, *groups["last_s"]]))
    colors = rcParams["axes.prop_cycle"].by_key()["color"]
    lines: list[tuple[str, Line2D]] = []
    for group in groups.iter_rows(named=True):
        is_group = (pl.col(key).eq_missing(pl.lit(group[key])) for key in keys)
        line = _line(curves.filter(*is_group).sort("time_s"), group["last_s"], left, start)
        name = name_group(group[key] for key in keys) if keys else "all"
        gid, color = name.replace(" ", "-"), colors[group["place"] % len(colors)]
        look: dict[str, Any] = {"drawstyle": "steps-post", "linestyle": "-", "color": color}
        (drawn,) = ax.plot(line["time_s"], line["fraction"], gid=f"line-{gid}", **look)
        band: dict[str, Any] = {"step": "post", "color": color, "alpha": 0.18, "linewidth": 0}
        ax.fill_between(*line["time_s", "ci_low", "ci_high"], gid=f"band-{gid}", **band)
        lines.append((name, drawn))
    ax.set_ylim(0, top or min(1.0, ax.get_ylim()[1]))
    ax.yaxis.set_major_formatter(Percent())
    ax.locator_params(axis="y", nbins=5)
    ax.set_xlabel("Runtime (logarithmic)")
    if keys:
        name_lines(ax, lines, heading=name_columns(keys), margin_from=0)
    return ax


def _line(steps: pl.DataFrame, last_s: float, left: float, start: float) -> pl.DataFrame:
    """Return the steps from the left end of the axis to the last time, at most some hundreds."""
    if steps.height > _MOST_STEPS:
        at = np.unique(np.linspace(0, steps.height - 1, _MOST_STEPS).astype(int))
        spread = np.geomspace(1, steps.height, _MOST_STEPS).astype(int) - 1
        steps = steps[np.union1d(at, spread)]
    shown = steps.select(pl.col("time_s", "fraction", "ci_low", "ci_high").cast(pl.Float64))
    before = shown.filter(pl.col("time_s") <= left).tail(1).with_columns(time_s=pl.lit(left))
    if before.is_empty():
        before = pl.DataFrame([(left, start, start, start)], schema=shown.schema, orient="row")
    last = shown.tail(1).with_columns(time_s=pl.lit(last_s, pl.Float64))
    return pl.concat([before, shown.filter(pl.col("time_s") > left), last])


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
    if some.is_empty():
        raise DataError(
            f"plot_cumulative_incidence has nothing to draw: no row is {only.events[0]}"
        )
    steps = steps.rename({"incidence": "fraction"})
    ax = _draw_curves(ax, steps, some, keys, start=0.0)
    title = heading or f"Cumulative incidence: {only.events[0]}"
    ax.set(ylabel="Fraction of rows", title=title)
    return ax


def describe_cumulative_incidence(result: CumulativeIncidence) -> str:
    """Return one sentence on the rows of the figure of a single event."""
    groups, drawn = result.groups, _largest_groups(result).height
    n, events, censored, excluded = (
        groups[name].sum() for name in ("n", "n_events", "n_censored", "n_excluded")
    )
    few = f" {drawn} of {groups.height} groups are drawn." if drawn < groups.height else ""
    return (
        f"n = {n:,} rows: {events:,} events, {censored:,} censored (still running when last seen); "
        f"{excluded:,} rows without a runtime are excluded.{few}"
    )


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
