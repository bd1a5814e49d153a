"""Tightness of deadlines by cluster, of published and synthetic plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.figures.labels import natural_order, small_size
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Tightness: time from submission to deadline over the runtime at the requested GPUs. Thin "
    "line: 5 % to 95 %; thick: 25 % to 75 %; dot: median. Left of the dashed line a deadline can "
    "be met with more GPUs only; the percentage is the fraction to the right of it."
)
_COLOURS: Final = ("#0072B2", "#D55E00")
_STEP: Final = 0.36


@figure("deadline-tightness", result="deadline_tightness by cluster, with the kind of plans")
def plot_deadline_tightness(tightness: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw quantiles of tightness, one line per cluster and kind of plans.

    Parameters
    ----------
    tightness
        What `deadline_tightness` returns by cluster; with a column `plans`, of one or two kinds of
        plans.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        One row per cluster from the top, with one line for each kind of plans.

    Raises
    ------
    DataError
        If there is no row, or more than two kinds of plans.
    """
    if "plans" not in tightness.columns:
        tightness = tightness.with_columns(plans=pl.lit("plans"))
    kinds = tightness["plans"].unique(maintain_order=True).to_list()
    if not 0 < len(kinds) <= len(_COLOURS):
        raise DataError(
            f"plot_deadline_tightness draws one or two kinds of plans, not {len(kinds)}"
        )
    clusters = natural_order(tightness["cluster"].unique())
    with use_style():
        ax = start_axes(ax, height_in=0.9 + 0.27 * len(clusters))
        for place, (kind, colour) in enumerate(zip(kinds, _COLOURS, strict=False)):
            rows = tightness.filter(plans=kind)
            at = [
                clusters.index(cluster) + _STEP * (place - (len(kinds) - 1) / 2)
                for cluster in rows["cluster"]
            ]
            for ends, width in ((("p05", "p95"), 0.9), (("p25", "p75"), 3.2)):
                low, high = (rows[f"tightness_{end}"] for end in ends)
                ax.hlines(at, low, high, color=colour, linewidth=width, linestyle="-")
            ax.scatter(
                rows["tightness_median"], at, s=11, facecolors="white", edgecolors=colour,
                linewidths=0.9, zorder=4, label=kind, gid=f"{kind}-medians",
            )  # fmt: skip
            for row, share in zip(at, rows["share_met"], strict=True):
                ax.annotate(
                    f"{100 * share:.0f} %", (1, row), (2, 0), xycoords=("axes fraction", "data"),
                    textcoords="offset points", va="center", fontsize=small_size() - 1.5,
                    color=colour, annotation_clip=False,
                )  # fmt: skip
        ax.axvline(1, color="#222222", linewidth=0.8, linestyle="--", zorder=0.5)
        ax.set_yticks(range(len(clusters)), clusters)
        ax.set_ylim(len(clusters) - 0.4, -0.6)
        ax.grid(visible=False, axis="y")
        ax.set_xlabel("(Deadline - submission) / runtime")
        ax.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2, handletextpad=0.1
        )
        return ax


def describe_deadline_tightness(tightness: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these quantiles shows."""
    if "plans" not in tightness.columns:
        tightness = tightness.with_columns(plans=pl.lit("plans"))
    parts = [
        f"{kind!s}: {rows['n'].sum():,} deadlines, medians {min(rows['tightness_median']):.2f} to "
        f"{max(rows['tightness_median']):.2f}"
        for (kind,), rows in tightness.group_by("plans", maintain_order=True)
    ]
    return f"{tightness['cluster'].n_unique()} clusters; {'; '.join(parts)}."
