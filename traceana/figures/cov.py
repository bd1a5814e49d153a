"""Coefficient of variation across workers over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.figures.labels import find_clock, format_axis, name_lines, natural_order
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = "CoV: standard deviation across workers divided by their mean, at one time."


@figure("cov", result="iteration_cov", source="AntMan (OSDI'20): CoV of five sampled jobs")
def plot_cov(
    cov: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    ddof: int | None = None,
    time: str | None = None,
) -> Axes:
    """Draw CoV against time, one line per job.

    Parameters
    ----------
    cov
        [job_id, time, cov], as `iteration_cov` returns it, or rows of `cov_samples`. A null CoV
        breaks the line.
    ddof
        The ddof of these CoVs, for the label; None if the publisher computed them.
    time
        Column of the time; by default time_s, step or sample.
    """
    clock, label = find_clock(cov, time)
    cov = cov.with_columns(pl.col("job_id").cast(pl.String))
    ax = start_axes(ax)
    lines = []
    for job in natural_order(cov["job_id"].unique()):
        own = cov.filter(pl.col("job_id") == job).sort(clock)
        (line,) = ax.plot(
            own[clock].to_numpy(),
            own["cov"].cast(pl.Float64).fill_null(float("nan")).to_numpy(),
            drawstyle="steps-post",
            zorder=2 + 1 / (1 + own.height),  # short jobs on top of long ones
            gid=f"cov-{job}",
        )
        lines.append((job, line))
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.set_xlabel(label)
    ax.set_ylabel(label_cov(ddof))
    format_axis(ax.xaxis, bins=5)
    if len(lines) == 1:
        ax.set_title(lines[0][0])
    else:
        name_lines(ax, lines, heading="job")
    return ax


def label_cov(ddof: int | None) -> str:
    """Return the axis label of a CoV with its ddof."""
    return "CoV (as published)" if ddof is None else f"CoV (ddof {ddof})"


def describe_cov(cov: pl.DataFrame) -> str:
    """Return one sentence on the CoVs shown."""
    known = cov["cov"].drop_nulls().to_numpy()
    if not known.size:
        return f"{cov.height:,} time steps, none with a CoV."
    left_out = f"; {cov['cov'].null_count():,} without one" if cov["cov"].null_count() else ""
    over = ""
    if "n_workers" in cov.columns:
        workers = cov.drop_nulls("cov")["n_workers"]
        fewest, most = min(workers), max(workers)
        over = f", over {most} workers" if fewest == most else f", over {fewest} to {most} workers"
    return f"{len(known):,} CoVs from {known.min():.3f} to {known.max():.3f}{over}{left_out}."
