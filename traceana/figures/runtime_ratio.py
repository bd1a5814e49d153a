"""Quantiles of runtimes relative to the mean of their group, one row per group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.ticker import LogLocator, NullFormatter

from traceana.errors import DataError
from traceana.figures.groups import name_rows, split_groups
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Thin bar: 5 % to 95 % quantile of runtime over the mean of its group; thick bar: 25 % to "
    "75 %; diamond: median; tick: 99 %; dashed line: the mean, which is 1 in every group. "
    "n: number of runtimes."
)


@figure(
    "runtime-ratio",
    result="summarize_runtime_ratio",
    source="Zeus (NSDI'23): runtime ratios by data set",
)
def plot_runtime_ratio(result: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the quantiles of runtime ratios by group, one row per group.

    Parameters
    ----------
    result
        [*by, n, p05, p25, median, p75, p95, p99], as `summarize_runtime_ratio` returns it; groups
        without a ratio are excluded.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        With a logarithmic axis; bars that reach 0 are clipped.

    Raises
    ------
    DataError
        If no group has a ratio above 0.
    """
    known = result.filter(pl.col("p95") > 0)
    if known.is_empty():
        raise DataError("plot_runtime_ratio has nothing to draw: no group has a ratio above 0")
    groups = split_groups(known)
    rows = range(known.height)
    drawn = known.select("p05", "p25", "median", "p75", "p95", "p99")
    left = 0.5 * min(value for column in drawn for value in column if value > 0)
    at = {column.name: column.clip(left) for column in drawn}
    with use_style():
        ax = start_axes(ax, height_in=groups.height_in)
        ax.hlines(rows, at["p05"], at["p95"], color="#0072B2", linewidth=1, gid="middle-90")
        ax.hlines(rows, at["p25"], at["p75"], color="#0072B2", linewidth=5, gid="middle-50")
        ax.scatter(
            at["median"], rows, marker="D", s=16, facecolors="white", edgecolors="#D55E00",
            linewidths=1, zorder=5, gid="medians",
        )  # fmt: skip
        ax.scatter(at["p99"], rows, marker="|", s=36, color="#0072B2", linewidths=1.2, gid="p99")
        ax.axvline(1, color="#4D4D4D", linewidth=0.8, linestyle="--", zorder=1, gid="mean")
        ax.set_xscale("log")
        ax.set_xlim(left=left)
        ax.xaxis.set_major_locator(LogLocator(numticks=6))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=12))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("Runtime / mean runtime of the group (logarithmic)")
        name_rows(ax, groups)
        return ax


def describe_runtime_ratio(result: pl.DataFrame) -> str:
    """Return a sentence on the result for the caption."""
    known = result.filter(pl.col("p95") > 0)
    reaches_0 = (known["p05"] == 0).any()
    cut = " Bars clipped at the left reach 0." if reaches_0 else ""
    return f"{known.height} groups, {known['n'].sum():,} runtimes.{cut}"
