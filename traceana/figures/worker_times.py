"""Mini-batch time of each worker of a job over time."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.figure import Figure

from traceana.errors import DataError
from traceana.figures.labels import name_lines, natural_order
from traceana.figures.registry import figure
from traceana.figures.style import WIDTH_IN, start_axes, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "A step holds the last reported value; a line is broken where its worker has no sample "
    "for more than one and a half of its usual steps."
)
_BREAK_AFTER_STEPS: Final = 1.5


@figure(
    "worker-times",
    result="worker_samples of one job",
    source="AntMan (OSDI'20): mini-batch time of the ten workers of four jobs",
)
def plot_worker_times(samples: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw each worker's mini-batch time against time, one line a worker.

    Parameters
    ----------
    samples
        Rows of `worker_samples` of one job: job_id, worker_id, time_s, batch_time.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        With one step line a worker. A gap is left where a worker has no sample for more
        than 1.5 times its median step. Names stand at the lines' ends where they fit.

    Raises
    ------
    DataError
        If the rows are not those of exactly one job.
    """
    jobs = samples["job_id"].unique().to_list()
    if len(jobs) != 1:
        raise DataError(f"plot_worker_times draws one job, and these are samples of {len(jobs)}")
    with use_style():
        ax = start_axes(ax)
        rows = samples.sort("time_s")
        lines = []
        for worker in natural_order(rows["worker_id"].unique()):
            own = rows.filter(pl.col("worker_id") == worker)
            times, values = _break_lines(own["time_s"].to_list(), own["batch_time"].to_list())
            (line,) = ax.plot(times, values, drawstyle="steps-post", gid=f"worker-{worker}")
            lines.append((worker, line))
        ax.set_ylim(bottom=0)
        ax.margins(x=0)
        ax.set_title(str(jobs[0]))
        ax.set_xlabel("Time since the job began (s)")
        ax.set_ylabel("Mini-batch time\n(1/1000 of the job's largest)")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.locator_params(axis="x", nbins=5)
        ax.yaxis.set_major_formatter("{x:,.0f}")
        name_lines(ax, lines, heading="worker")
        return ax


def draw_worker_times(samples: pl.DataFrame) -> Figure:
    """Draw the workers of several jobs, a panel a job, two panels a row."""
    jobs = natural_order(samples["job_id"].unique())
    columns = min(2, len(jobs))
    rows = math.ceil(len(jobs) / columns)
    with use_style():
        figure = Figure(figsize=(WIDTH_IN * columns, 2.6 * rows))
        for place, job in enumerate(jobs, start=1):
            plot_worker_times(
                samples.filter(pl.col("job_id") == job), figure.add_subplot(rows, columns, place)
            )
        return figure


def describe_worker_times(samples: pl.DataFrame) -> str:
    """Say in one sentence what the figure of these samples shows."""
    times, values = samples["time_s"].to_numpy(), samples["batch_time"].to_numpy()
    return (
        f"{samples['worker_id'].n_unique()} workers, {samples.height:,} samples from "
        f"{times.min():,.0f} s to {times.max():,.0f} s, "
        f"values from {values.min():,.0f} to {values.max():,.0f}."
    )


def _break_lines(times: list[float], values: list[float]) -> tuple[list[float], list[float]]:
    """Put a NaN one step after each sample that is followed by a gap."""
    steps = [after - before for before, after in pairwise(times)]
    if not steps:
        return times, values
    usual = median(steps)
    broken_times, broken_values = [], []
    for time, value, step in zip(times, values, [*steps, usual], strict=True):
        broken_times.append(time)
        broken_values.append(value)
        if step > _BREAK_AFTER_STEPS * usual:
            broken_times += [time + usual, time + usual]
            broken_values += [value, math.nan]
    return broken_times, broken_values
