"""Distribution of mini-batch time over all workers of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.ticker import PercentFormatter

from traceana.errors import DataError
from traceana.figures.labels import format_axis, natural_order
from traceana.figures.registry import figure
from traceana.figures.style import start_axes
from traceana.results.formatting import three_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Empirical distribution function: fraction of a job's samples, of all its workers, with a "
    "mini-batch time of at most x."
)


@figure(
    "batch-time-ecdf",
    result="worker_samples",
    source="AntMan (OSDI'20, Fig. 5b): the distribution of mini-batch time",
)
def plot_batch_time_ecdf(
    samples: pl.DataFrame, /, *, ax: Axes | None = None, unit: str = "s"
) -> Axes:
    """Draw the empirical distribution function of mini-batch time, one line per job.

    Parameters
    ----------
    samples
        [job_id, batch_time]: rows of `worker_samples`. Null times are excluded.
    unit
        Unit of the times, for the label.

    Raises
    ------
    DataError
        If there is no mini-batch time.
    """
    known = samples.select(pl.col("job_id").cast(pl.String), "batch_time").drop_nulls("batch_time")
    if known.is_empty():
        raise DataError("plot_batch_time_ecdf needs a mini-batch time; every value is null")
    ax = start_axes(ax)
    for job in natural_order(known["job_id"].unique()):
        own = known.filter(pl.col("job_id") == job)["batch_time"]
        ax.ecdf(own.to_numpy(), label=job, gid=f"ecdf-{job}")
    ax.legend(loc="best")
    ax.set_xlim(left=0)
    ax.set_ylim(0, 1)
    ax.set_xlabel(f"Mini-batch time ({unit})")
    ax.set_ylabel("Fraction of samples")
    format_axis(ax.xaxis)
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    return ax


def describe_batch_time_ecdf(samples: pl.DataFrame) -> str:
    """Return one sentence on the samples shown."""
    known = samples.drop_nulls("batch_time")
    medians = known.group_by("job_id").agg(pl.col("batch_time").median())["batch_time"].to_numpy()
    return (
        f"{known.height:,} samples of {len(medians):,} jobs, with medians from "
        f"{three_digits(medians.min())} to {three_digits(medians.max())}."
    )
