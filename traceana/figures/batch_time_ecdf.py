"""Distribution of mini-batch time over all workers of a job, job by job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.ticker import PercentFormatter

from traceana.errors import DataError
from traceana.figures.labels import natural_order
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Empirical distribution: the share of a job's samples, all of its workers together, whose "
    "mini-batch time is at most x. Each job has a scale of its own."
)


@figure(
    "batch-time-ecdf",
    result="worker_samples",
    source="AntMan (OSDI'20, Fig. 5b): the distribution of mini-batch time",
)
def plot_batch_time_ecdf(samples: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the empirical distribution function of mini-batch time, one line a job.

    Parameters
    ----------
    samples
        [job_id, batch_time]: rows of `worker_samples`. Null times are left out.
    ax
        Axes to draw on; by default those of a new figure.

    Raises
    ------
    DataError
        If no mini-batch time is known.
    """
    known = samples.filter(pl.col("batch_time").is_not_null())
    if known.is_empty():
        raise DataError("plot_batch_time_ecdf has no mini-batch time to draw: every value is null")
    with use_style():
        ax = start_axes(ax)
        for job in natural_order(known["job_id"].unique()):
            own = known.filter(pl.col("job_id") == job)["batch_time"]
            ax.ecdf(own.to_numpy(), label=job, gid=f"ecdf-{job}")
        ax.legend(loc="best")
        ax.set_xlim(left=0)
        ax.set_ylim(0, 1)
        ax.set_xlabel("Mini-batch time (1/1000 of the job's largest)")
        ax.set_ylabel("Share of samples")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
        return ax


def describe_batch_time_ecdf(samples: pl.DataFrame) -> str:
    """Say in one sentence what the figure of these samples shows."""
    known = samples.filter(pl.col("batch_time").is_not_null())
    medians = known.group_by("job_id").agg(pl.col("batch_time").median())["batch_time"].to_numpy()
    return (
        f"{known.height:,} samples of {len(medians):,} jobs, whose medians range from "
        f"{medians.min():,.0f} to {medians.max():,.0f}."
    )
