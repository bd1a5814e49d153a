"""Distribution of the coefficient of variation over time steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from matplotlib.ticker import PercentFormatter

from traceana.errors import DataError
from traceana.figures.cov import label_cov
from traceana.figures.labels import natural_order
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Empirical distribution function: fraction of a job's time steps with a CoV of at most x. "
    "Time steps without a CoV are excluded."
)
_MOST_NAMED: Final = 7
"""Number of colors; more jobs are drawn gray and without names."""


@figure("cov-ecdf", result="iteration_cov", source="AntMan (OSDI'20): the distribution of CoV")
def plot_cov_ecdf(cov: pl.DataFrame, /, *, ax: Axes | None = None, ddof: int | None = None) -> Axes:
    """Draw the empirical distribution function of CoV, one line per job.

    Parameters
    ----------
    cov
        [job_id, cov], as `iteration_cov` returns it, or rows of `cov_samples`. Null CoVs are
        excluded.
    ddof
        The ddof of these CoVs, for the label; None if the publisher computed them.

    Returns
    -------
    Axes
        Up to seven jobs are named in a legend; more are drawn thin and gray, with the
        distribution over the time steps of all jobs on top.

    Raises
    ------
    DataError
        If there is no CoV.
    """
    known = cov.select(pl.col("job_id").cast(pl.String), "cov").drop_nulls("cov")
    if known.is_empty():
        raise DataError("plot_cov_ecdf needs a CoV; every value is null")
    jobs = natural_order(known["job_id"].unique())
    ax = start_axes(ax)
    if len(jobs) <= _MOST_NAMED:
        for job in jobs:
            _draw(ax, known.filter(pl.col("job_id") == job)["cov"], label=job)
    else:
        for job in jobs:
            own = known.filter(pl.col("job_id") == job)["cov"]
            _draw(ax, own, color="#9A9A9A", linewidth=0.4, linestyle="-")
        _draw(
            ax, known["cov"], color="#0072B2", linewidth=1.8, linestyle="-",
            label="all time steps",
        )  # fmt: skip
        ax.lines[0].set_label("one job")
    if len(jobs) <= _MOST_NAMED:
        ax.legend(loc="lower right")
    else:  # many lines leave no room within
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    ax.set_xlim(left=0)
    ax.set_ylim(0, 1)
    ax.set_xlabel(label_cov(ddof))
    ax.set_ylabel("Fraction of time steps")
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    return ax


def describe_cov_ecdf(cov: pl.DataFrame) -> str:
    """Return one sentence on the CoVs shown."""
    known = cov["cov"].drop_nulls().to_numpy()
    return (
        f"{len(known):,} CoVs of {cov['job_id'].n_unique():,} jobs, median {np.median(known):.3f}, "
        f"maximum {known.max():.3f}."
    )


def _draw(ax: Axes, values: pl.Series, **look: object) -> None:
    ax.ecdf(values.to_numpy(), **look)  # type: ignore[arg-type]
