"""Coefficient of variation of the workers' mini-batch time, tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.figures.labels import name_lines, natural_order
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = "CoV is the standard deviation over the mean of the workers at one time."


@figure("cov", result="iteration_cov", source="AntMan (OSDI'20): CoV of five sampled jobs")
def plot_cov(cov: pl.DataFrame, /, *, ax: Axes | None = None, ddof: int | None) -> Axes:
    """Draw CoV against time, one line a job.

    Parameters
    ----------
    cov
        [job_id, time_s, cov], as `iteration_cov` returns it, or rows of `cov_samples`. A null CoV
        (fewer workers than asked for, or a mean of 0) breaks the line.
    ax
        Axes to draw on; by default those of a new figure.
    ddof
        The ddof of these CoVs, for the label; None where the publisher computed them.
    """
    with use_style():
        ax = start_axes(ax)
        lines = []
        for job in natural_order(cov["job_id"].unique()):
            own = cov.filter(pl.col("job_id") == job).sort("time_s")
            (line,) = ax.plot(
                own["time_s"].to_numpy(),
                own["cov"].cast(pl.Float64).fill_null(float("nan")).to_numpy(),
                drawstyle="steps-post",
                zorder=2 + 1 / (1 + own.height),  # a short job lies over a long one, not under it
                gid=f"cov-{job}",
            )
            lines.append((job, line))
        ax.set_ylim(bottom=0)
        ax.margins(x=0)
        ax.set_xlabel("Time since the job began (s)")
        ax.set_ylabel(label_cov(ddof))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.locator_params(axis="x", nbins=5)
        if len(lines) == 1:
            ax.set_title(lines[0][0])
        else:
            name_lines(ax, lines, heading="job")
        return ax


def label_cov(ddof: int | None) -> str:
    """Return the axis label of a CoV, which says which standard deviation it divides."""
    return "CoV (as published)" if ddof is None else f"CoV (ddof {ddof})"


def describe_cov(cov: pl.DataFrame) -> str:
    """Say in one sentence what the figure of these CoVs shows."""
    known = cov["cov"].drop_nulls().to_numpy()
    if not known.size:
        return f"{cov.height:,} ticks, none with a CoV."
    left_out = f"; {cov['cov'].null_count():,} without one" if cov["cov"].null_count() else ""
    over = ""
    if "n_workers" in cov.columns:
        workers = cov.drop_nulls("cov")["n_workers"]
        fewest, most = min(workers), max(workers)
        over = f", over {most} workers" if fewest == most else f", over {fewest} to {most} workers"
    return f"{len(known):,} CoVs from {known.min():.3f} to {known.max():.3f}{over}{left_out}."
