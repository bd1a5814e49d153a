"""Simulated workers: speedup and batch sizes of each controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.figures.labels import name_lines, natural_order
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Look:
    """How a controller is drawn."""

    colour: str
    line: str
    marker: str


_LOOKS: Final = {
    "uniform": Look("#8A8A8A", "-", "s"),
    "static": Look("#E69F00", "-.", "^"),
    "measured": Look("#CC79A7", "--", "v"),
    "proportional": Look("#0072B2", "-", "o"),
    "damped": Look("#56B4E9", "--", "D"),
    "omnilearn": Look("#D55E00", ":", "X"),
    "oracle": Look("#009E73", "-", "*"),
}
_OTHER: Final = Look("#000000", ":", "P")


def look_of(controller: str, /) -> Look:
    """Return the look of a controller; those of users share one."""
    return _LOOKS.get(controller, _OTHER)


@figure(
    "batching-speedup",
    result="summarize_batching of one overhead and noise",
    source="Dynamic batching (ACSOS'20): speedup by heterogeneity",
    reading="Mark: mean over seeds; horizontal line: its 95 % confidence interval, often narrower "
    "than the mark; vertical line: mean over minimum cores, the maximum speedup without overhead "
    "and noise.",
)
def plot_batching_speedup(summary: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw speedups over uniform batches, one row per level of heterogeneity.

    Parameters
    ----------
    summary
        [level, mean_over_min, overhead_s, noise_cv, controller, speedup, speedup_ci_low,
        speedup_ci_high]: rows of one overhead and noise of a `summarize_batching` result.

    Returns
    -------
    Axes
        One series of marks per controller; levels in the order of the rows, the first on top.

    Raises
    ------
    DataError
        If the rows are not those of exactly one overhead and noise.
    """
    settings = summary.select("overhead_s", "noise_cv").unique().height
    if settings != 1:
        raise DataError(
            f"plot_batching_speedup draws one overhead and noise; the rows have {settings}"
        )
    levels = summary["level"].unique(maintain_order=True).to_list()
    ax = start_axes(ax, height_in=1.1 + 0.24 * len(levels))
    limit = summary.unique("level", maintain_order=True)["mean_over_min"]
    ax.scatter(limit, range(len(levels)), s=130, marker="|", color="#222222", gid="limit")
    for (name,), own in summary.group_by("controller", maintain_order=True):
        look = look_of(str(name))
        rows = [levels.index(level) for level in own["level"]]
        known = own["speedup_ci_low"].is_not_null()
        ax.hlines(
            [row for row, told in zip(rows, known, strict=True) if told],
            own.filter(known)["speedup_ci_low"], own.filter(known)["speedup_ci_high"],
            color=look.colour, linewidth=1,
        )  # fmt: skip
        ax.scatter(
            own["speedup"], rows, s=17, color=look.colour, marker=look.marker, zorder=4,
            label=name, gid=str(name), linewidths=0, alpha=0.85,
        )  # fmt: skip
    ax.set_yticks(range(len(levels)), levels)
    ax.set_ylim(len(levels) - 0.5, -0.5)
    ax.set_xlabel("Speedup over uniform batches")
    ax.set_ylabel("Cores of the workers")
    ax.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=4, borderaxespad=0.2,
        columnspacing=0.9, handletextpad=0.2,
    )  # fmt: skip
    return ax


def describe_batching_speedup(summary: pl.DataFrame) -> str:
    """Return one sentence on the summary shown."""
    last = summary.filter(level=summary["level"][int(str(summary["mean_over_min"].arg_max()))])
    told = ", ".join(
        f"{name!s} {speedup:.2f}"
        for name, speedup in zip(last["controller"], last["speedup"], strict=True)
    )
    overhead_s, cv = summary.select("overhead_s", "noise_cv").row(0)
    seeds = int(str(summary["n"].max()))
    return (
        f"Overhead {overhead_s:g} s, noise of CV {cv:g}, n = {seeds} seeds; at "
        f"{last['level'][0]!s}: {told}."
    )


@figure(
    "batching-trajectory",
    result="batches of simulate_batching",
    source="Dynamic batching (ACSOS'20): the controller's batches",
    reading="Line: batch size of a worker; it changes when the controller moves samples between "
    "workers. At each step the batch sizes add up to the global batch, unless it drifts.",
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
