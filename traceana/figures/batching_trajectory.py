"""Batch size of each worker over the steps of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.figures.labels import name_lines, natural_order
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Line: batch size of a worker; it changes when the controller moves samples between workers. "
    "At each step the batch sizes add up to the global batch, unless it drifts."
)


@figure(
    "batching-trajectory",
    result="batches of simulate_batching",
    source="Dynamic batching (ACSOS'20): the controller's batches",
)
def plot_batching_trajectory(
    batches: pl.DataFrame, /, *, ax: Axes | None = None, steps: int | None = None
) -> Axes:
    """Draw each worker's batch size against the step, one line per worker.

    Parameters
    ----------
    batches
        [step, worker_id, batch]: `batches` of a `simulate_batching` result, which has the steps
        at which they changed.
    steps
        Steps of the job, where the lines end; by default the last change.

    Returns
    -------
    Axes
        One step line per worker, named at its end if the names fit.

    Raises
    ------
    DataError
        If there are no rows.
    """
    if batches.is_empty():
        raise DataError("plot_batching_trajectory needs a row of batches; there is none")
    end = max(int(str(batches["step"].max())), 0 if steps is None else steps - 1)
    ax = start_axes(ax)
    lines = []
    for worker in natural_order(batches["worker_id"].unique()):
        own = batches.filter(pl.col("worker_id") == worker).sort("step")
        (line,) = ax.plot(
            [*own["step"], end], [*own["batch"], own["batch"][-1]], drawstyle="steps-post",
            gid=f"worker-{worker}", linewidth=1.2,
        )  # fmt: skip
        lines.append((worker, line))
    ax.set_xlim(0, max(end, 1))
    ax.set_ylim(bottom=min(0, *batches["batch"]))
    ax.set_xlabel("Step")
    ax.set_ylabel("Batch size (samples)")
    name_lines(ax, lines, heading="worker")
    return ax


def describe_batching_trajectory(batches: pl.DataFrame) -> str:
    """Return one sentence on the batches shown."""
    first, last = (batches.filter(pl.col("step") == step) for step in _ends(batches))
    told = (", ".join(f"{batch:,}" for batch in rows["batch"]) for rows in (first, last))
    changes = batches["step"].n_unique() - 1
    return (
        f"{batches['worker_id'].n_unique()} workers from {' to '.join(told)} samples in "
        f"{changes:,} {'adjustment' if changes == 1 else 'adjustments'}."
    )


def _ends(batches: pl.DataFrame) -> tuple[int, int]:
    return int(str(batches["step"].min())), int(str(batches["step"].max()))
