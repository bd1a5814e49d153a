"""Correlations with their intervals, one row per feature and group."""

from __future__ import annotations

from typing import Any, Final

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from traceana.drawing.labels import legend_above, name_tick, small_size
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError

_NEGLIGIBLE: Final = 0.1


@figure(
    "correlations",
    result="correlate, overall and by group",
    reading="Dot: correlation over rows; bar: its 95 % confidence interval; open dot: no interval; "
    "gray band: negligible (below 0.1); n: rows with both values.",
    counts=(pl.max("n"), "row"),
)
def plot_correlations(
    result: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    heading: str = "",
    x_label: str = "Correlation",
) -> Axes:
    """Draw correlations with their intervals, by feature, outcome and group.

    One row per feature and group below the feature's own, one color per outcome.

    Parameters
    ----------
    result
        [feature, outcome, group, n, r, ci_low, ci_high], each combination once: `group` is null
        overall, and `outcome` null if there is one series. Rows without r are left out.
    heading, x_label
        Texts of the title and the horizontal axis.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> found = pl.DataFrame({"feature": ["gpus", "cpus"], "outcome": "completed", "group": None,
    ...                       "n": 9, "r": [0.4, 0.1], "ci_low": [0.2, 0.0], "ci_high": 0.6})
    >>> traceana.figures.plot_correlations(found, x_label="Pearson's r").get_xlabel()
    "Pearson's r"
    """
    table = result.drop_nulls("r")
    if table.is_empty():
        raise DataError("plot_correlations has nothing to draw: no correlation is known")
    rows = table.select("feature", "group").unique(maintain_order=True).rows()
    outcomes = table["outcome"].unique(maintain_order=True).to_list()
    ax = start_axes(ax, height_in=0.85 + (0.06 + 0.09 * len(outcomes)) * len(rows))
    ax.axvspan(-_NEGLIGIBLE, _NEGLIGIBLE, color=shade(ax, 0.08), linewidth=0, zorder=0.5)
    ax.axvline(0, color=shade(ax, 0.5), linewidth=0.8, zorder=1, gid="zero")
    step = 0.7 / len(outcomes)
    dot: dict[str, Any] = {"s": 11, "linewidths": 0.8, "zorder": 4, "clip_on": False}
    beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center"}
    beside |= {"fontsize": small_size() - 1, "annotation_clip": False}
    for series, outcome in enumerate(outcomes):
        color, marks = color_of(series), table.filter(pl.col("outcome").eq_missing(outcome))
        for row in marks.iter_rows(named=True):
            at = rows.index((row["feature"], row["group"]))
            place = at + (series - (len(outcomes) - 1) / 2) * step
            low, high = row["ci_low"], row["ci_high"]
            certain = low is not None and high is not None
            if certain:
                ax.hlines(place, low, high, color=color, linewidth=1.2, gid=f"interval-{place:g}")
            dot |= {"facecolors": color if certain else shade(ax, 0), "edgecolors": color}
            ax.scatter(row["r"], place, gid=f"dot-{place:g}", **dot)
            ax.annotate(f"n = {row['n']:,}", (1.02, place), color=color, **beside)
    names = [name_tick(feature if group is None else group) for feature, group in rows]
    ax.set_yticks(range(len(rows)), names)
    for label, (_, group) in zip(ax.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if group is None else "normal")
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(-1, 1)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(x_label)
    ax.set_title(heading, pad=14 if len(outcomes) > 1 else None)
    if len(outcomes) > 1:
        colors = map(color_of, range(len(outcomes)))
        lines = [Line2D([], [], color=color, marker="o", markersize=3.5) for color in colors]
        legend_above(ax, handles=lines, labels=outcomes, ncols=len(outcomes), borderaxespad=0.1)
    return ax
