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

READING: Final = (
    "Dot: mean; bar: its 95 % confidence interval; diamond: median; n: number of runtimes."
)
_LOG_FROM: Final = 20
"""Ratio of the largest to the smallest value from which the axis is logarithmic."""


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
        One row per group in the order of the result. The axis is logarithmic if the largest mean
        or median is more than 20 times the smallest. Intervals that extend below 0 are clipped.
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
            # a limit of 0 or below has no place on this axis
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
    """Return a sentence on the result for the caption."""
    below = (result["ci_low"] < 0).sum()
    cut = " Intervals clipped at the left extend below 0." if below else ""
    groups = f"{result.height} group{'s' if result.height != 1 else ''}"
    return f"{groups}, n = {result['n'].sum():,} runtimes.{cut}"
