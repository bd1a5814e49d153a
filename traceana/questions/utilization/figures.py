"""Allocation rate of GPUs over time."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes

from traceana.drawing.labels import Percent, split_lines
from traceana.drawing.registry import figure
from traceana.drawing.style import start_axes
from traceana.errors import DataError


@figure(
    "allocation-rate",
    result="allocation_rate",
    reading="Line: GPUs that running tasks requested over the GPUs of the machines, averaged over "
    "each time bin. Tasks with lost times are missing, so the rate is too low.",
    counts=(pl.n_unique("bin_start_s"), "time bin"),
)
def plot_allocation_rate(
    allocation: pl.DataFrame, /, *, ax: Axes | None = None, heading: str = ""
) -> Axes:
    """Draw the allocation rate against time, one line per group.

    Parameters
    ----------
    heading
        Title of the figure.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0, 1800], "end_s": [3600, 7200], "gpus": [4, 2]})
    >>> rate = traceana.allocation_rate(traceana.gpu_demand(jobs), pl.DataFrame({"gpus": [8]}))
    >>> traceana.figures.plot_allocation_rate(rate).get_ylabel()
    'Allocated GPUs'
    """
    if allocation.is_empty():
        raise DataError("plot_allocation_rate has nothing to draw: the result has no row")
    ax = start_axes(ax)
    for name, part in split_lines(allocation, "bin_start_s"):
        days, rate = part["bin_start_s"] / 86_400, part["allocation_rate"]
        ax.plot(days, rate, drawstyle="steps-post", label=name or None)
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.yaxis.set_major_formatter(Percent())
    ax.set(xlabel="Day of the trace", ylabel="Allocated GPUs", title=heading)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return ax
