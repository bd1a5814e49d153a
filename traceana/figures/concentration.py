"""Lorenz curves of GPU-hours over jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from matplotlib.ticker import PercentFormatter

from traceana.errors import DataError
from traceana.figures.labels import name_group
from traceana.figures.registry import figure
from traceana.figures.style import palette, shade, start_axes
from traceana.results.display import key_heading
from traceana.results.formatting import in_sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOPS: Final = (0.1, 0.01)


@figure(
    "concentration",
    result="lorenz_curve",
    reading="Line: fraction of the GPU-hours used by the smallest jobs (Lorenz curve); dotted "
    "diagonal: all jobs equal. Dots: where the largest 10 % and 1 % of jobs begin, with their part "
    "of the GPU-hours.",
)
def plot_concentration(
    curve: pl.DataFrame, /, *, ax: Axes | None = None, groups: pl.DataFrame | None = None
) -> Axes:
    """Draw the Lorenz curve of GPU-hours over jobs.

    Parameters
    ----------
    curve
        [share_of_jobs, share_of_gpu_hours] of all jobs, as `lorenz_curve` returns it, in steps of
        1 % at most.
    groups
        The same by group, as `lorenz_curve` returns it with `by`: thin and grey behind.

    Raises
    ------
    DataError
        If the curve has no point, or a fraction of jobs occurs twice.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_concentration
    >>> jobs = pl.DataFrame({"gpus": [1, 1, 1, 8], "runtime_s": [60, 60, 600, 36000]})
    >>> plot_concentration(traceana.lorenz_curve(jobs)).get_title(loc="left")
    'Concentration of GPU-hours'
    """
    if curve.is_empty() or not curve["share_of_jobs"].is_unique().all():
        raise DataError("plot_concentration draws one curve, each fraction of jobs once")
    jobs, hours = curve["share_of_jobs"].to_numpy(), curve["share_of_gpu_hours"].to_numpy()
    ax = start_axes(ax)
    ax.axline((0, 0), (1, 1), color=shade(ax, 0.75), linestyle=":", linewidth=0.8, gid="equal")
    if groups is not None:
        keys = groups.columns[: groups.columns.index("share_of_jobs")]
        for group, own in groups.partition_by(keys, as_dict=True, maintain_order=True).items():
            gid = f"group-{name_group(group)}".replace(" ", "-")
            ax.plot(
                own["share_of_jobs"], own["share_of_gpu_hours"], color=shade(ax, 0.45),
                linewidth=0.5, linestyle="-", gid=gid,
            )  # fmt: skip
        ax.lines[-1].set_label(f"one {', '.join(in_sentence(key_heading(key)) for key in keys)}")
    ax.plot(
        jobs, hours, color=palette()[0], linewidth=1.6, linestyle="-", gid="all", label="all jobs"
    )
    for top in _TOPS:
        below = float(np.interp(1 - top, jobs, hours))
        ax.scatter(1 - top, below, s=14, color=palette()[1], zorder=4, gid=f"top-{top}")
        ax.annotate(
            f"top {top:.0%}: {100 * (1 - below):.1f} %".replace("%:", " %:"),
            (1 - top, below), (-5, 3), textcoords="offset points", ha="right", va="bottom",
            bbox={"facecolor": shade(ax, 0), "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
        )  # fmt: skip
    if groups is not None:
        ax.legend(loc="upper left")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    ax.set_xlabel("Fraction of jobs, smallest first")
    ax.set_ylabel("Fraction of GPU-hours")
    ax.set_title("Concentration of GPU-hours")
    return ax


def describe_concentration(curve: pl.DataFrame) -> str:
    """Return one sentence on what the figure of this curve shows."""
    half = curve.filter(pl.col("share_of_jobs") <= 0.5).tail(1)["share_of_gpu_hours"].item()
    return f"The smaller half of the jobs uses {100 * half:.2f} % of the GPU-hours."
