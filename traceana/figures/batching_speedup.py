"""Speedup of each controller by heterogeneity of the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.figures.controllers import look_of
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = (
    "Mark: mean over seeds; horizontal line: its 95 % confidence interval, often narrower than the "
    "mark; vertical line: mean over minimum cores, the maximum speedup without overhead and noise."
)


@figure(
    "batching-speedup",
    result="summarize_batching of one overhead and noise",
    source="Dynamic batching (ACSOS'20): speedup by heterogeneity",
)
def plot_batching_speedup(summary: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw speedups over uniform batches, one row per level of heterogeneity.

    Parameters
    ----------
    summary
        [level, mean_over_min, overhead_s, noise_cv, controller, speedup, speedup_ci_low,
        speedup_ci_high]: rows of one overhead and noise of a `summarize_batching` result.

    Returns
    -------
    Axes
        One series of marks per controller; levels in the order of the rows, the first on top.

    Raises
    ------
    DataError
        If the rows are not those of exactly one overhead and noise.
    """
    settings = summary.select("overhead_s", "noise_cv").unique().height
    if settings != 1:
        raise DataError(
            f"plot_batching_speedup draws one overhead and noise; the rows have {settings}"
        )
    levels = summary["level"].unique(maintain_order=True).to_list()
    ax = start_axes(ax, height_in=1.1 + 0.24 * len(levels))
    limit = summary.unique("level", maintain_order=True)["mean_over_min"]
    ax.scatter(limit, range(len(levels)), s=130, marker="|", color="#222222", gid="limit")
    for (name,), own in summary.group_by("controller", maintain_order=True):
        look = look_of(str(name))
        rows = [levels.index(level) for level in own["level"]]
        known = own["speedup_ci_low"].is_not_null()
        ax.hlines(
            [row for row, told in zip(rows, known, strict=True) if told],
            own.filter(known)["speedup_ci_low"], own.filter(known)["speedup_ci_high"],
            color=look.colour, linewidth=1,
        )  # fmt: skip
        ax.scatter(
            own["speedup"], rows, s=17, color=look.colour, marker=look.marker, zorder=4,
            label=name, gid=str(name), linewidths=0, alpha=0.85,
        )  # fmt: skip
    ax.set_yticks(range(len(levels)), levels)
    ax.set_ylim(len(levels) - 0.5, -0.5)
    ax.set_xlabel("Speedup over uniform batches")
    ax.set_ylabel("Cores of the workers")
    ax.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=4, borderaxespad=0.2,
        columnspacing=0.9, handletextpad=0.2,
    )  # fmt: skip
    return ax


def describe_batching_speedup(summary: pl.DataFrame) -> str:
    """Return one sentence on the summary shown."""
    last = summary.filter(level=summary["level"][int(str(summary["mean_over_min"].arg_max()))])
    told = ", ".join(
        f"{name!s} {speedup:.2f}"
        for name, speedup in zip(last["controller"], last["speedup"], strict=True)
    )
    overhead_s, cv = summary.select("overhead_s", "noise_cv").row(0)
    seeds = int(str(summary["n"].max()))
    return (
        f"Overhead {overhead_s:g} s, noise of CV {cv:g}, n = {seeds} seeds; at "
        f"{last['level'][0]!s}: {told}."
    )
