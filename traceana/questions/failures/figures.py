"""One row per group: success rates, mean runtimes and runtime ratios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

from traceana.drawing.labels import TICK_CHARACTERS, name_columns, name_group, small_size
from traceana.drawing.registry import figure
from traceana.drawing.scales import use_log_axis
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError
from traceana.tables.formatting import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOG_FROM: Final = 20
"""Ratio of the largest to the smallest value from which the axis is logarithmic."""


@dataclass(frozen=True)
class Groups:
    """The groups of a result: their names, their sizes, and the columns of by."""

    names: list[str]
    counts: list[int]
    by: str

    @property
    def height_in(self) -> float:
        """Height in inches of a figure with one row per group."""
        lines = max(name.count("\n") + 1 for name in self.names)
        return 0.95 + (0.1 + 0.14 * lines) * len(self.names)


def split_groups(result: pl.DataFrame, /) -> Groups:
    """Return the groups of a result: the columns before `n` are those of by.

    Raises a DataError if there is no group.
    """
    if result.is_empty():
        raise DataError("a figure by group has nothing to draw: the result has no row")
    by = result.columns[: result.columns.index("n")]
    names = [name_group(row, characters=TICK_CHARACTERS) for row in result.select(by).rows()]
    return Groups(names, result["n"].to_list(), name_columns(by))


def draw_rows(
    ax: Axes, groups: Groups, /, *, mean: pl.Series, low: pl.Series, high: pl.Series
) -> None:
    """Draw a dot and an interval per row, the first on top, without null intervals."""
    rows = range(len(groups.names))
    known = [row for row in rows if low[row] is not None and high[row] is not None]
    ax.hlines(
        known, [low[row] for row in known], [high[row] for row in known],
        color=color_of(0), linewidth=1.4, gid="intervals",
    )  # fmt: skip
    ax.scatter(
        mean, rows, s=16, color=color_of(0), zorder=4, clip_on=False, label="mean", gid="means"
    )
    name_rows(ax, groups)


def name_rows(ax: Axes, groups: Groups, /) -> None:
    """Name the rows, the first on top, with n at the right."""
    rows = range(len(groups.names))
    ax.set_yticks(rows, groups.names)
    ax.set_ylim(len(groups.names) - 0.5, -0.5)
    ax.set_ylabel(groups.by)
    ax.grid(visible=False, axis="y")
    for row, count in zip(rows, groups.counts, strict=True):
        ax.annotate(
            f"n = {count:,}", (1.04, row), xycoords=("axes fraction", "data"), va="center",
            fontsize=small_size(), annotation_clip=False,
        )  # fmt: skip


def name_panel(ax: Axes, heading: str, /) -> None:
    """Write a title, which then names the groups instead of the label of the axis."""
    if heading:
        ax.set_title(heading)
        ax.set_ylabel("")


@figure(
    "outcome-rates",
    result="outcome_rates or failure_rates",
    reading="Dot: rate; bar: its 95 % confidence interval (Wilson); n: completed and failed rows.",
)
def plot_outcome_rates(
    result: pl.DataFrame, /, *, ax: Axes | None = None, heading: str = ""
) -> Axes:
    """Draw the success or failure rate by group with its interval.

    One row per group in the result's order, from 0 % to 100 %.

    Parameters
    ----------
    result
        What `outcome_rates` or `failure_rates` returns.
    heading
        Title of the figure.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_outcome_rates
    >>> jobs = pl.DataFrame({"gpu": ["T4"] * 4 + ["V100"] * 4,
    ...                      "status": ["failed"] + ["completed"] * 5 + ["failed"] * 2})
    >>> plot_outcome_rates(traceana.outcome_rates(jobs, "gpu")).get_xlabel()
    'Success rate'
    """
    groups = split_groups(result)
    ax = start_axes(ax, height_in=groups.height_in)
    draw_rows(ax, groups, mean=result["rate"], low=result["ci_low"], high=result["ci_high"])
    ax.set_xlim(0, 1)
    ax.set_xlabel(f"{_counted(result)} rate".capitalize())
    ax.xaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    name_panel(ax, heading)
    return ax


def describe_outcome_rates(result: pl.DataFrame) -> str:
    """Return one sentence on the rows of the figure."""
    counted = "successes" if _counted(result) == "success" else "failures"
    return (
        f"{result.height} groups, {result[counted].sum():,} {counted} among "
        f"{result['n'].sum():,} successes and failures."
    )


def _counted(result: pl.DataFrame) -> str:
    return "failure" if "failures" in result.columns else "success"


@figure(
    "runtime-by",
    result="runtime_by",
    reading="Dot: mean or median, as the axis states; bar: its 95 % confidence interval; diamond "
    "beside a mean: the median; n: number of runtimes.",
)
def plot_runtime_by(
    result: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    heading: str = "",
    log_x: bool | None = None,
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
    >>> from traceana.figures import plot_runtime_by
    >>> jobs = pl.DataFrame({"gpu": ["T4"] * 6 + ["V100"] * 6, "runtime_s": range(1, 13)})
    >>> plot_runtime_by(traceana.runtime_by(jobs, "gpu")).get_xlabel()
    'Mean runtime (s)'
    """
    groups = split_groups(result)
    ax = start_axes(ax, height_in=groups.height_in)
    shown = "mean_s" if "mean_s" in result.columns else "median_s"
    draw_rows(ax, groups, mean=result[shown], low=result["ci_low"], high=result["ci_high"])
    name = shown.removesuffix("_s").capitalize()
    ax.collections[-1].set_label(name.lower())
    if shown == "mean_s":
        ax.scatter(
            result["median_s"], range(result.height), marker="D", s=14, facecolors="none",
            edgecolors=color_of(1), linewidths=0.9, zorder=5, label="median", gid="medians",
        )  # fmt: skip
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
    name_panel(ax, heading)
    if shown == "mean_s":
        ax.set_title(heading, pad=16)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return ax


def describe_runtime_by(result: pl.DataFrame) -> str:
    """Return a sentence on the result for the caption."""
    below = (result["ci_low"] < 0).sum()
    cut = " Intervals clipped at the left extend below 0." if below else ""
    groups = f"{result.height} group{'s' if result.height != 1 else ''}"
    return f"{groups}, n = {result['n'].sum():,} runtimes.{cut}"


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
    known = result.filter(pl.col("p95") > 0)
    if known.is_empty():
        raise DataError("plot_runtime_ratio has nothing to draw: no group has a ratio above 0")
    groups = split_groups(known)
    rows = range(known.height)
    drawn = known.select("p05", "p25", "median", "p75", "p95", "p99")
    left = 0.5 * min(value for column in drawn for value in column if value > 0)
    at = {column.name: column.clip(left) for column in drawn}
    ax = start_axes(ax, height_in=groups.height_in)
    ax.hlines(rows, at["p05"], at["p95"], color=color_of(0), linewidth=1, gid="middle-90")
    ax.hlines(rows, at["p25"], at["p75"], color=color_of(0), linewidth=5, gid="middle-50")
    ax.scatter(
        at["median"], rows, marker="D", s=16, facecolors=shade(ax, 0), edgecolors=color_of(1),
        linewidths=1, zorder=5, gid="medians",
    )  # fmt: skip
    ax.scatter(at["p99"], rows, marker="|", s=36, color=color_of(0), linewidths=1.2, gid="p99")
    ax.axvline(1, color=shade(ax, 0.8), linewidth=0.8, linestyle="--", zorder=1, gid="mean")
    ax.set_xscale("log")
    ax.set_xlim(left=left)
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=12))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("Runtime / mean of the group (logarithmic)")
    ax.set_title("Runtime ratios")
    name_rows(ax, groups)
    return ax


def describe_runtime_ratio(result: pl.DataFrame) -> str:
    """Return a sentence on the result for the caption."""
    known = result.filter(pl.col("p95") > 0)
    reaches_0 = (known["p05"] == 0).any()
    cut = " Bars clipped at the left reach 0." if reaches_0 else ""
    sizes = " to ".join(f"{n:,}" for n in dict.fromkeys((min(known["n"]), max(known["n"]))))
    return f"{plural(known.height, 'group')} of {sizes} runtimes.{cut}"
