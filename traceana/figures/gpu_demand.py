"""GPUs asked for at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Line: GPUs asked for by the jobs that run, averaged over each bin of time. Jobs that began "
    "before the trace or were submitted after it are not in it: it is low at both ends."
)


@figure("gpu-demand", result="gpu_demand or gpu_demand_if_started_at_submission")
def plot_gpu_demand(
    demand: pl.DataFrame, /, *, ax: Axes | None = None, starts_assumed: bool
) -> Axes:
    """Draw the GPUs asked for against time.

    Parameters
    ----------
    demand
        [bin_start_s, gpus_mean] of one group, as `gpu_demand` or
        `gpu_demand_if_started_at_submission` returns it.
    ax
        Axes to draw on; by default those of a new figure.
    starts_assumed
        Whether it is from the latter, which the label then says.

    Raises
    ------
    DataError
        If a bin is there twice, or no GPUs are known.
    """
    known = demand.filter(pl.col("gpus_mean").is_not_null()).sort("bin_start_s")
    if known.is_empty() or not known["bin_start_s"].is_unique().all():
        raise DataError("plot_gpu_demand draws the GPUs of one group, each bin once")
    with use_style():
        ax = start_axes(ax, height_in=1.8)
        ax.plot(
            known["bin_start_s"] / 86_400, known["gpus_mean"], drawstyle="steps-post",
            color="#0072B2", linewidth=0.6, linestyle="-", gid="gpus",
        )  # fmt: skip
        ax.set_ylim(bottom=0)
        ax.margins(x=0)
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.locator_params(axis="y", nbins=4)
        ax.set_xlabel("Day of the trace")
        ax.set_ylabel(
            "GPUs, had jobs started\nwhen submitted" if starts_assumed else "GPUs asked for"
        )
        return ax


def describe_gpu_demand(demand: pl.DataFrame) -> str:
    """Say in one sentence what the figure of this demand shows."""
    gpus = demand["gpus_mean"].drop_nulls().to_numpy()
    left_out = max(demand["jobs_left_out"])
    but = f"; {left_out:,} jobs left out, a time or GPUs unknown" if left_out else ""
    return f"{len(gpus):,} bins, mean {gpus.mean():,.1f} GPUs, most {gpus.max():,.1f}{but}."
