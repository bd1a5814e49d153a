"""How long the workers of a job take an iteration, under one controller and another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.figures.controllers import look_of
from traceana.figures.labels import natural_order
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = (
    "Mark: a worker's median iteration time; thick: the middle half of its iterations; thin: nine "
    "in ten. A step waits for the slowest worker, so what is left of the slowest is idle."
)
_BAND: Final = 0.7
"""Height of a worker's row that its controllers share."""


@figure(
    "batching-iterations",
    result="workers of one job of replay_batching",
    source="Dynamic batching (ACSOS'20): iteration times before and after",
)
def plot_batching_iterations(workers: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw quantiles of each worker's iteration times, a row a worker, a colour a controller.

    Parameters
    ----------
    workers
        [job_id, controller, worker_id, p05, p25, median, p75, p95]: rows of one job of `workers`
        of a `replay_batching` result, of the controllers to show.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        The first worker on top, controllers within a row in the order of their rows.

    Raises
    ------
    DataError
        If the rows are not those of exactly one job.
    """
    jobs = workers["job_id"].unique().to_list()
    if len(jobs) != 1:
        raise DataError(
            f"plot_batching_iterations draws one job, and these are workers of {len(jobs)}"
        )
    names = workers["controller"].unique(maintain_order=True).to_list()
    order = natural_order(workers["worker_id"].unique())
    with use_style():
        ax = start_axes(ax, height_in=1.0 + 0.24 * len(order))
        for number, name in enumerate(names):
            own, look = workers.filter(controller=name), look_of(name)
            shift = (_BAND * (number + 0.5) / len(names)) - _BAND / 2
            rows = [order.index(worker) + shift for worker in own["worker_id"]]
            ax.hlines(rows, own["p05"], own["p95"], color=look.colour, linewidth=0.8)
            ax.hlines(rows, own["p25"], own["p75"], color=look.colour, linewidth=2.6)
            ax.scatter(
                own["median"], rows, s=13, color=look.colour, marker=look.marker, zorder=4,
                label=name, gid=name, edgecolors="white", linewidths=0.4,
            )  # fmt: skip
        ax.set_yticks(range(len(order)), order)
        ax.set_ylim(len(order) - 0.5, -0.5)
        ax.set_title(str(jobs[0]), pad=16)
        ax.set_xlabel("Iteration time\n(1/1000 of the job's largest recorded)")
        ax.set_ylabel("Worker")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)
        return ax


def describe_batching_iterations(workers: pl.DataFrame) -> str:
    """Say in one sentence what the figure of these workers shows."""
    told = [
        f"{name} medians from {medians.min():,.0f} to {medians.max():,.0f}"
        for name, medians in (
            (key, own["median"].to_numpy())
            for (key,), own in workers.group_by("controller", maintain_order=True)
        )
    ]
    return f"{workers['worker_id'].n_unique()} workers: {'; '.join(told)}."
