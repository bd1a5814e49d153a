"""Lorenz curves of GPU-hours over jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from matplotlib.ticker import PercentFormatter

from traceana.drawing.labels import place_legend, split_lines
from traceana.drawing.registry import figure
from traceana.drawing.style import shade, start_axes
from traceana.tables.formatting import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP: Final = 0.01


@figure(
    "concentration",
    result="lorenz_curve",
    reading="Line: fraction of the GPU-hours used by the largest jobs (Lorenz curve from its "
    "end); dot: the largest 1 % of these jobs; dotted: all jobs equal.",
)
def plot_concentration(curve: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the Lorenz curve of GPU-hours over jobs, one line per group.

    Parameters
    ----------
    curve
        What `lorenz_curve` returns, in steps of 1 % at most.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_concentration
    >>> jobs = pl.DataFrame({"gpus": [1, 1, 1, 8], "runtime_s": [60, 60, 600, 36000]})
    >>> plot_concentration(traceana.lorenz_curve(jobs)).get_title(loc="left")
    'Concentration of GPU-hours'
    """
    lines = split_lines(curve, "share_of_jobs")
    ax = start_axes(ax, height_in=2.6 + 0.3 * (len(lines) - 1))  # names below
    least = min(0.1, 1 / (lines[0][1].height - 1))
    even = np.geomspace(least, 1, 120)
    ax.plot(even, even, color=shade(ax, 0.75), linestyle=":", linewidth=0.8, gid="equal")
    for name, own in lines:
        jobs, hours = own["share_of_jobs"].to_numpy(), own["share_of_gpu_hours"].to_numpy()
        below = float(np.interp(1 - _TOP, jobs, hours))
        top = f"top 1 %: {100 * (1 - below):.1f} %"
        (line,) = ax.plot(
            even, 1 - np.interp(1 - even, jobs, hours), linewidth=1.4,
            gid=f"curve-{name}" if name else "all",
            label=f"{name} ({top})" if name else f"all GPU jobs ({top})",
        )  # fmt: skip
        ax.scatter(_TOP, 1 - below, s=14, color=line.get_color(), zorder=4)
    ax.set_xscale("log")
    ax.set_xlim(least, 1)
    ax.set_ylim(0, 1)
    ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    ax.set_xlabel("Fraction of GPU jobs, largest first (logarithmic)")
    ax.set_ylabel("Fraction of GPU-hours")
    ax.set_title("Concentration of GPU-hours")
    place_legend(ax)
    return ax


def describe_concentration(curve: pl.DataFrame) -> str:
    """Return one sentence on what the figure of this curve shows."""
    keys = curve.columns[: curve.columns.index("share_of_jobs")]
    lower = curve.filter(pl.col("share_of_jobs") <= 0.5)
    halves = lower.group_by(keys, maintain_order=True).last() if keys else lower.tail(1)
    shares = listed(f"{100 * half:.2f} %" for half in halves["share_of_gpu_hours"])
    return f"The smaller half of the GPU jobs uses {shares} of the GPU-hours."
