"""Mean runtime by group with its interval, and the median."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.ticker import LogLocator, NullFormatter

from traceana.figures.groups import draw_rows, split_groups
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = "Dot: mean, with its 95 % interval as a bar; diamond: median; n: runtimes known."
_LOG_FROM: Final = 20
"""Largest over smallest value from which a logarithmic axis shows more than a linear one."""


@figure(
    "runtime-by",
    result="runtime_by",
    source="Analyzing ML Training Tasks (Alibaba PAI): mean runtime by GPU type",
)
def plot_runtime_by(result: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw mean runtime by group with its interval, and the median.

    Parameters
    ----------
    result
        [*by, n, mean_s, ci_low, ci_high, median_s], as `runtime_by` returns it.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        One row a group in the result's order. The axis is logarithmic (and says so) where
        the largest mean or median is more than 20 times the smallest. An interval that
        reaches below 0 is cut at the axis' left end.
    """
    groups = split_groups(result)
    with use_style():
        ax = start_axes(ax, height_in=groups.height_in)
        draw_rows(ax, groups, mean=result["mean_s"], low=result["ci_low"], high=result["ci_high"])
        rows = range(result.height)
        ax.scatter(
            result["median_s"], rows, marker="D", s=14, facecolors="none", edgecolors="#D55E00",
            linewidths=0.9, zorder=5, label="median", gid="medians",
        )  # fmt: skip
        points = [*result["mean_s"].drop_nulls(), *result["median_s"].drop_nulls()]
        if points and 0 < _LOG_FROM * min(points) < max(points):
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(numticks=4))
            ax.xaxis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=12))
            ax.xaxis.set_minor_formatter(NullFormatter())
            # an interval that reaches 0 or below has no end on this axis; any other is drawn whole
            lowest = min(points + [low for low in result["ci_low"].drop_nulls() if low > 0])
            ax.set_xlim(left=lowest / 2)
            ax.set_xlabel("Runtime (s, logarithmic)")
        else:
            ax.set_xlim(left=0)
            ax.locator_params(axis="x", nbins=4)
            ax.set_xlabel("Runtime (s)")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
        return ax


def describe_runtime_by(result: pl.DataFrame) -> str:
    """Say in one sentence what the figure of this result shows."""
    below = (result["ci_low"] < 0).sum()
    cut = " An interval that leaves the figure at the left reaches below 0." if below else ""
    groups = f"{result.height} group{'s' if result.height != 1 else ''}"
    return f"{groups}, n = {result['n'].sum():,} runtimes.{cut}"
