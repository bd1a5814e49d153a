"""How much has ended in one way by each runtime, group by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from matplotlib import colors, rcParams
from matplotlib.ticker import PercentFormatter

from traceana.errors import DataError
from traceana.figures.labels import name_columns, name_group, name_lines, small_size
from traceana.figures.registry import figure
from traceana.figures.scales import use_log_axis
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Line: share that has ended this way by each runtime, where other ways to end compete "
    "(Aalen and Johansen); band: its pointwise 95 % interval, rows taken as independent. Below: "
    "rows at risk, that is known to run at least that long."
)
_MOST_STEPS: Final = 200
"""Steps of a line that are drawn: more would fall together."""
_MOST_GROUPS: Final = 7


@figure("cumulative-incidence", result="cumulative_incidence, one event, with its curves")
def plot_cumulative_incidence(
    groups: pl.DataFrame, /, *, ax: Axes | None = None, curves: pl.DataFrame, at_risk: pl.DataFrame
) -> Axes:
    """Draw the cumulative incidence of one way to end, a line a group.

    Parameters
    ----------
    groups
        [*by, event, n, n_events, n_censored, n_left_out, incidence, last_s] of one event, as in
        the frame of that name that `cumulative_incidence` returns.
    ax
        Axes to draw on; by default those of a new figure.
    curves
        The frame of that name.
    at_risk
        [*by, time_s, n_at_risk] as `rows_at_risk` returns it, of the runtimes that the axis shall
        show.

    Returns
    -------
    Axes
        With a line and a band for each of the first seven groups in which something ended so,
        and the numbers at risk beneath. The axis of runtimes is logarithmic; what ended at 0 s is
        where a line begins.

    Raises
    ------
    DataError
        If the groups are not of exactly one event, or nothing ended that way.
    """
    events = groups["event"].unique().to_list()
    if len(events) != 1:
        raise DataError(f"plot_cumulative_incidence draws one event; these are {len(events)}")
    keys = groups.columns[: groups.columns.index("event")]
    # a group has the same colour whatever the event
    numbered = groups.with_row_index("place")
    some = numbered.filter(pl.col("n_events") > 0, pl.col("place") < _MOST_GROUPS)
    steps = curves.join(some.select(*keys, "event"), on=[*keys, "event"], nulls_equal=True)
    times = [time for time in steps["time_s"] if time > 0]
    if not times:
        raise DataError(f"plot_cumulative_incidence has nothing to draw: nothing {events[0]}")
    with use_style():
        own_figure = ax is None
        ax = start_axes(ax, height_in=2.4 + 0.13 * some.height)
        use_log_axis(ax, "x", [*times, *some["last_s"]])
        shown = at_risk["time_s"].unique().sort()
        left = min(*times, *shown) / 1.5
        ax.set_xlim(left=left, right=max(*times, *shown, *some["last_s"]))
        ax.set_xticks(shown)
        lines = []
        colour = rcParams["axes.prop_cycle"].by_key()["color"]
        for group in some.iter_rows(named=True):
            own = _of_group(steps, group, keys).sort("time_s")
            name = name_group(group[key] for key in keys) if keys else "all"
            line = _step(own, group["last_s"], left)
            (drawn,) = ax.plot(
                line["time_s"],
                line["incidence"],
                drawstyle="steps-post",
                linestyle="-",
                color=colour[group["place"]],
                gid=_id("line", name),
            )
            ax.fill_between(
                line["time_s"], line["ci_low"].cast(pl.Float64), line["ci_high"].cast(pl.Float64),
                step="post", color=drawn.get_color(), alpha=0.18, linewidth=0,
                gid=_id("band", name),
            )  # fmt: skip
            lines.append((name, drawn))
        ax.set_ylim(0, None)
        ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
        ax.locator_params(axis="y", nbins=5)
        ax.set_ylabel(f"Ended: {events[0]}")
        ax.set_xlabel("Runtime (s, logarithmic)")
        _write_at_risk(ax, some, at_risk, keys, [str(line.get_color()) for _, line in lines])
        if keys:
            if own_figure:  # the table takes height from the panel, and names need to know how much
                figure = ax.get_figure(root=True)
                assert figure is not None  # noqa: S101  (axes stand on a figure)
                figure.draw_without_rendering()
            name_lines(ax, lines, heading=name_columns(keys), margin_from=0)
        return ax


def describe_cumulative_incidence(groups: pl.DataFrame) -> str:
    """Say in one sentence what the figure of these groups shows."""
    n, events, censored, out = (
        groups[name].sum() for name in ("n", "n_events", "n_censored", "n_left_out")
    )
    drawn = (groups["n_events"].head(_MOST_GROUPS) > 0).sum()
    none = groups.filter(n_events=0).height
    why = ": nothing ended so in the rest" if drawn + none == groups.height else ""
    few = f" {drawn} of {groups.height} groups are drawn{why}." if drawn < groups.height else ""
    return (
        f"n = {n:,} rows: {events:,} ended so, {censored:,} are censored (still running when last "
        f"seen); {out:,} more have no known time and are left out.{few}"
    )


def _of_group(frame: pl.DataFrame, group: dict[str, object], keys: list[str]) -> pl.DataFrame:
    return frame.filter(*(pl.col(key).eq_missing(pl.lit(group[key])) for key in keys))


def _id(*parts: str) -> str:
    return "-".join(parts).replace(" ", "-")


def _step(own: pl.DataFrame, last_s: float, left: float) -> pl.DataFrame:
    """Return the steps to draw: from the left end, not too many, and on to the last time."""
    if own.height > _MOST_STEPS:
        at = np.unique(np.linspace(0, own.height - 1, _MOST_STEPS).astype(int))
        spread = np.geomspace(1, own.height, _MOST_STEPS).astype(int) - 1
        own = own[np.union1d(at, spread)]
    columns = ("time_s", "incidence", "ci_low", "ci_high")
    shown = own.select(pl.col(columns).cast(pl.Float64))
    before = shown.filter(pl.col("time_s") <= left).tail(1).with_columns(time_s=pl.lit(left))
    if before.is_empty():
        before = pl.DataFrame([(left, 0.0, 0.0, 0.0)], schema=shown.schema, orient="row")
    last = shown.tail(1).with_columns(time_s=pl.lit(last_s, pl.Float64))
    return pl.concat([before, shown.filter(pl.col("time_s") > left), last])


def _write_at_risk(
    ax: Axes, some: pl.DataFrame, at_risk: pl.DataFrame, keys: list[str], names: list[str]
) -> None:
    """Write beneath the panel how many of each group are at risk at each tick."""
    size = small_size()
    first, gap = -37.0, -1.3 * size
    ax.annotate(
        "At risk", (0, 0), (-14, first), xycoords="axes fraction", textcoords="offset points",
        ha="right", va="center", fontsize=size, fontstyle="italic", annotation_clip=False,
    )  # fmt: skip
    for row, (group, colour) in enumerate(
        zip(some.iter_rows(named=True), names, strict=True), start=1
    ):
        own = _of_group(at_risk, group, keys)
        height = first + row * gap
        name = name_group(group[key] for key in keys) if keys else "all"
        ax.annotate(
            name, (0, 0), (-14, height), xycoords="axes fraction", textcoords="offset points",
            ha="right", va="center", fontsize=size, color=colors.to_hex(colour),
            fontweight="bold", annotation_clip=False,
        )  # fmt: skip
        for time, rows in own.select("time_s", "n_at_risk").rows():
            ax.annotate(
                f"{rows:,}", (time, 0), (0, height),
                xycoords=("data", "axes fraction"), textcoords="offset points", ha="center",
                va="center", fontsize=size, annotation_clip=False,
                gid=_id("risk", name, f"{time:g}"),
            )  # fmt: skip
