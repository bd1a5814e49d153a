"""Mean runtime versus a feature, one point per distinct value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.scales import use_log_axis
from traceana.figures.style import MOST_MARKS, palette, shade, start_axes

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

_LARGEST_DISC: Final = 320.0
"""Area in square points of the largest group's disc."""
_DISC: Final = (0, 0.447, 0.698, 0.28)
_RASTER_DPI: Final = 300
_LEVELS: Final = ("row", "group_mean", "group_mean_weighted")


@figure(
    "runtime-against",
    result="mean_by_value of runtimes",
    source="Analyzing ML Training Tasks (Alibaba PAI): mean runtime against GPU %, CPU %, memory "
    "and size",
    reading="Point: one distinct value of the feature, at the mean runtime of its rows, whatever "
    "their number.",
)
def plot_runtime_against(
    means: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    x_label: str,
    log_x: bool = False,
    log_y: bool = False,
    heading: str = "",
) -> Axes:
    """Draw mean runtime versus a feature.

    Parameters
    ----------
    means
        [value, n, mean] of one group, as `mean_by_value` returns it for runtimes in s.
    x_label
        Label of the feature, with its unit.
    log_x
        Whether its axis is logarithmic; a feature of 0 is then at the left end.
    log_y
        Whether the axis of runtimes is logarithmic.
    heading
        Title of the figure.

    Raises
    ------
    DataError
        If there is no point, or a value occurs twice.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_runtime_against
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8, 8], "runtime_s": [60.0, 50.0, 90.0, 200.0, 99.0]})
    >>> means = traceana.mean_by_value(jobs, "gpus", "runtime_s")
    >>> plot_runtime_against(means, x_label="GPUs", log_x=True).get_xlabel()
    'GPUs, logarithmic'
    """
    if means.is_empty() or not means["value"].is_unique().all():
        raise DataError("plot_runtime_against draws the means of one group, each value once")
    ax = start_axes(ax)
    ax.scatter(
        means["value"], means["mean"], s=9, color=palette()[0], linewidths=0, zorder=3,
        clip_on=False, gid="means", rasterized=means.height > MOST_MARKS,
    )  # fmt: skip
    if log_x:
        use_log_axis(ax, "x", means["value"])
    else:
        ax.xaxis.set_major_formatter("{x:,.6g}")
        ax.locator_params(axis="x", nbins=6)
    if log_y:
        use_log_axis(ax, "y", means["mean"])
    else:
        ax.set_ylim(0)
        ax.locator_params(axis="y", nbins=6)
        ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set_title(heading)
    ax.set_xlabel(f"{x_label}, logarithmic" if log_x else x_label)
    ax.set_ylabel("Mean runtime (s, logarithmic)" if log_y else "Mean runtime (s)")
    return ax


def describe_runtime_against(means: pl.DataFrame) -> str:
    """Return a sentence on the means for the caption."""
    alone = (means["n"] == 1).sum()
    return (
        f"{means.height:,} distinct values, n = {means['n'].sum():,} rows; {alone:,} points have "
        f"one row, and the largest has {max(means['n']):,}."
    )


@figure(
    "group-means",
    result="mean_by_value, with joint_counts and correlate",
    reading="Gray: density of rows. Black points: mean runtime at each distinct value; the area of "
    "a disc is proportional to its number of rows. r: Pearson's correlation of the values (not of "
    "their logarithms): over rows with its 95 % confidence interval; over unweighted means, and "
    "over means weighted by their number of rows, with p of a permutation test (rows in clusters: "
    "wild cluster bootstrap). Rows of 0 s are not shown on the logarithmic axis.",
)
def plot_group_means(
    means: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    counts: pl.DataFrame,
    correlations: pl.DataFrame,
    x_label: str,
) -> Axes:
    """Draw group means over the density of rows, with the correlation of each level.

    Parameters
    ----------
    means
        [value, n, mean] of one group, as `mean_by_value` returns it for runtimes in s.
    counts
        [x_low, x_high, y_low, y_high, n] of the same rows, as `joint_counts` returns it.
    correlations
        [level, n, n_groups, r, ci_low, ci_high, pvalue, n_effective] of the same rows, as
        `correlate` returns it: one row per level to display.
    x_label
        Label of the feature, with its unit.

    Returns
    -------
    Axes
        Both axes are logarithmic; a feature of 0 is at the left end. The density is an image
        within the figure.

    Raises
    ------
    DataError
        If there is no mean above 0, or a value or level occurs twice.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_group_means
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8, 8], "runtime_s": [60.0, 50.0, 90.0, 200.0, 99.0]})
    >>> means = traceana.mean_by_value(jobs, "gpus", "runtime_s")
    >>> counts = traceana.joint_counts(jobs, "gpus", "runtime_s")
    >>> r = traceana.correlate(jobs, "gpus", "runtime_s").table
    >>> plot_group_means(means, counts=counts, correlations=r, x_label="GPUs").get_xlabel()
    'GPUs, logarithmic'
    """
    drawn = means.filter(means["mean"] > 0)
    if drawn.is_empty() or not drawn["value"].is_unique().all():
        raise DataError("plot_group_means draws the means of one group, each value once")
    if not correlations["level"].is_unique().all():
        raise DataError("plot_group_means displays one correlation per level")
    cells = counts.filter(counts["y_high"] > 0)
    own_figure = ax is None
    ax = start_axes(ax, height_in=3.1)
    if own_figure:
        figure = ax.get_figure(root=True)
        assert figure is not None  # noqa: S101  (axes stand on a figure)
        figure.set_dpi(_RASTER_DPI)
    use_log_axis(ax, "x", drawn["value"])
    ends = [*cells["y_low"], *cells["y_high"], *drawn["mean"]]
    use_log_axis(ax, "y", [end for end in ends if end > 0])
    ax.grid(visible=False)
    _draw_rows(ax, cells, least=min(v for v in (*drawn["value"], math.inf) if v > 0))
    many = drawn.height > MOST_MARKS
    area = _LARGEST_DISC * drawn["n"] / max(drawn["n"])
    ax.scatter(
        drawn["value"], drawn["mean"], s=area, facecolors=_DISC,
        edgecolors=palette()[0], linewidths=0.7, zorder=3, clip_on=False, gid="discs",
        rasterized=many,
    )  # fmt: skip
    ax.scatter(
        drawn["value"], drawn["mean"], s=2.5, color=shade(ax), linewidths=0, zorder=4,
        clip_on=False, gid="means", rasterized=many,
    )  # fmt: skip
    ax.set_xlabel(f"{x_label}, logarithmic")
    ax.set_ylabel("Runtime (s, logarithmic)")
    _tell(ax, correlations)
    return ax


def describe_group_means(means: pl.DataFrame) -> str:
    """Return a sentence on the means for the caption."""
    n = means["n"].sum()
    most = means.sort("n", descending=True).row(0, named=True)
    return (
        f"n = {n:,} rows with {means.height:,} distinct values; {100 * most['n'] / n:.1f} % of the "
        f"rows have the value {most['value']:,.6g}."
    )


def _draw_rows(ax: Axes, cells: pl.DataFrame, *, least: float) -> None:
    if cells.is_empty():
        return
    # a bin of 0 is a strip around it
    corners = [
        ((-least / 8, least / 8) if high == 0 else (low, high))
        for low, high in cells.select("x_low", "x_high").rows()
    ]
    boxes = np.array(
        [
            [(left, low), (right, low), (right, high), (left, high)]
            for (left, right), (low, high) in zip(
                corners, cells.select("y_low", "y_high").rows(), strict=True
            )
        ]
    )
    greys = LinearSegmentedColormap.from_list("", colormaps["Greys"](np.linspace(0.18, 0.65, 64)))
    rows = PolyCollection(
        list(boxes), array=cells["n"].to_numpy(), cmap=greys, norm=LogNorm(1, max(*cells["n"], 2)),
        linewidths=0, antialiaseds=False, rasterized=True, gid="rows", zorder=1,
    )  # fmt: skip
    ax.add_collection(rows, autolim=False)


def _tell(ax: Axes, correlations: pl.DataFrame) -> None:
    """Write r of each level above the panel."""
    found = {row["level"]: row for row in correlations.iter_rows(named=True)}
    point: dict[str, Any] = {"linestyle": "none", "marker": "o"}
    marks: dict[str, Any] = {
        "row": Patch(facecolor="#A8A8A8"),
        "group_mean": Line2D(
            [], [], **point, color=shade(ax), markersize=2.5, markeredgewidth=0
        ),
        "group_mean_weighted": Line2D(
            [], [], **point, color=palette()[0], markersize=7, markerfacecolor=_DISC,
            markeredgewidth=0.7,
        ),
    }  # fmt: skip
    told = [level for level in _LEVELS if level in found]
    ax.legend(
        [marks[level] for level in told], [_label_correlation(found[level]) for level in told],
        loc="lower left", bbox_to_anchor=(-0.08, 1), borderaxespad=0.2, handlelength=1.1,
        handletextpad=0.5, labelspacing=0.25,
    )  # fmt: skip


def _label_correlation(row: dict[str, Any]) -> str:
    name = {"row": "rows", "group_mean": "means", "group_mean_weighted": "weighted"}
    if row["r"] is None:
        return f"{name[row['level']]}: no r"
    points = f"{row['n']:,} rows" if row["level"] == "row" else f"{row['n_groups']:,} points"
    if row["level"] == "group_mean_weighted" and row["n_effective"] is not None:
        points = f"{row['n_effective']:.1f} effective"
    head = f"{name[row['level']]}: r = {row['r']:.2f}"
    if row["level"] != "row":
        tested = "not tested" if row["pvalue"] is None else f"p {_pvalue(row['pvalue'])}"
        return f"{head}, {tested}, {points}"
    if row["ci_low"] is None:
        return f"{head}, no interval, {points}"
    return f"{head} ({row['ci_low']:.2f} to {row['ci_high']:.2f}), {points}"


def _pvalue(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"
