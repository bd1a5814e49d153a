"""Slowdown of each worker, and the operations of a step as measured and ideal."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from traceana.drawing.labels import format_axis, name_tick, place_legend, small_size
from traceana.drawing.registry import figure
from traceana.drawing.style import MOST_MARKS, color_of, figure_of, shade, start_axes
from traceana.errors import DataError
from traceana.simulate.operations.tables import WorkerSlowdownResult

_MOST_NUMBERS: Final = 100
"""Cells up to which each has its number."""
_FAMILIES: Final = {
    "forward": ("forward-compute",),
    "backward": ("backward-compute",),
    "transfer": ("forward-send", "forward-recv", "backward-send", "backward-recv"),
    "optimizer": ("optimizer", "gc"),
}
_OTHERS: Final = "collective"
_COLORS: Final = {"forward": 0, "backward": 1, "transfer": 2, _OTHERS: 3, "optimizer": 4}
_SCENARIOS: Final = ("measured", "ideal")


@figure(
    "worker-slowdown",
    result="worker_slowdown",
    reading="Color and number: slowdown of the job if all operations were ideal but those of the "
    "worker's data-parallel rank, or of its stage, whichever is smaller. Outlined: the slowest "
    "3 % of the workers.",
    counts=(pl.count("worker"), "worker"),
)
def plot_worker_slowdown(result: WorkerSlowdownResult, /, *, ax: Axes | None = None) -> Axes:
    """Draw the slowdown of each worker by data-parallel rank and stage.

    Examples
    --------
    >>> import traceana
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> traceana.figures.plot_worker_slowdown(traceana.worker_slowdown(operations)).get_ylabel()
    'Stage'
    """
    workers = result.workers.sort("stage", "dp_rank")
    ranks = workers["dp_rank"].unique().sort().to_list()
    stages = workers["stage"].unique().sort().to_list()
    values = workers["slowdown"].to_numpy().reshape(len(stages), len(ranks))
    highest = max(1.1, float(values.max()))
    ax = start_axes(ax, height_in=1.1 + 0.25 * min(len(stages), 16))
    cells = ax.pcolormesh(
        np.arange(len(ranks) + 1) - 0.5,
        np.arange(len(stages) + 1) - 0.5,
        values,
        cmap="Reds",
        vmin=1,
        vmax=highest,
        rasterized=values.size > MOST_MARKS,
        gid="slowdown",
    )
    ax.grid(visible=False)
    middle = (1 + highest) / 2
    on_cell = {"facecolor": "none", "edgecolor": "none", "pad": 0}
    centered: dict[str, Any] = {"ha": "center", "va": "center", "bbox": on_cell}
    outline: dict[str, Any] = {"fill": False, "edgecolor": "black"}
    outline["linewidth"] = min(1.2, 12 / len(ranks))
    for row in workers.iter_rows(named=True):
        x, y = ranks.index(row["dp_rank"]), stages.index(row["stage"])
        if values.size <= _MOST_NUMBERS:
            color = "white" if row["slowdown"] > middle else "black"
            text = f"{row['slowdown']:.2f}"
            ax.text(x, y, text, color=color, fontsize=small_size(), **centered)
        if row["is_slowest"]:
            corner, name = (x - 0.46, y - 0.46), f"slowest-{row['worker']}"
            ax.add_patch(Rectangle(corner, 0.92, 0.92, gid=name, **outline))
    for axis, numbers, most in ((ax.xaxis, ranks, 8), (ax.yaxis, stages, 16)):
        every = -(-len(numbers) // most)
        axis.set_ticks(range(0, len(numbers), every), [str(each) for each in numbers[::every]])
    ax.set_xlim(-0.5, len(ranks) - 0.5)
    ax.set_ylim(len(stages) - 0.5, -0.5)
    ax.set(xlabel="Data-parallel rank", ylabel="Stage", title="Slowdown by worker")
    figure_of(ax).colorbar(cells, ax=ax, label="Slowdown", aspect=12)
    return ax


@figure(
    "step-timeline",
    result="operation_timeline of one step",
    reading="Bar: an operation, one row per stage; above as measured, below with ideal durations, "
    "on the same time axis. Narrow bars are transfers between stages, without waiting for others. "
    "Gaps are waiting time.",
    counts=((pl.col("scenario") == "measured").sum(), "operation"),
)
def plot_step_timeline(
    timeline: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    step: int | None = None,
    dp_rank: int | None = None,
) -> Axes:
    """Draw the operations of a step as measured and with ideal durations.

    Parameters
    ----------
    step, dp_rank
        Step and data-parallel rank to draw; not needed if there is one.

    Examples
    --------
    >>> import traceana
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> timeline = traceana.operation_timeline(operations, steps=[0])
    >>> traceana.figures.plot_step_timeline(timeline, dp_rank=1).get_xlabel()
    'Time since the step began (s)'
    """
    rows = timeline
    for name, value in (("step", step), ("dp_rank", dp_rank)):
        rows = rows if value is None else rows.filter(pl.col(name) == value)
        if rows[name].n_unique() != 1:
            listed = ", ".join(map(str, timeline[name].unique().sort().head(10)))
            raise DataError(f"plot_step_timeline draws one {name}; pass {name}= of {listed}")
    stages = rows["stage"].unique().sort().to_list()
    ax = start_axes(ax, height_in=1.2 + 0.36 * min(len(stages), 16))
    places = {
        (scenario, stage): number * (len(stages) + 0.6) + place
        for number, scenario in enumerate(_SCENARIOS)
        for place, stage in enumerate(stages)
    }
    family = {kind: name for name, kinds in _FAMILIES.items() for kind in kinds}
    named = rows.with_columns(family=pl.col("kind").replace_strict(family, default=_OTHERS))
    for name, place in _COLORS.items():
        color, edge, width = color_of(place), shade(ax, 0), 0.2
        away, thick = -0.1, 0.5
        if name == "transfer":
            edge, width = color, 0.4
            away, thick = 0.33, 0.22
        parts = named.filter(family=name).group_by("scenario", "stage", maintain_order=True)
        for number, ((scenario, stage), part) in enumerate(parts):
            ax.broken_barh(
                part.select("begin_s", pl.col("end_s") - pl.col("begin_s")).rows(),
                (places[str(scenario), stage] + away - thick / 2, thick),
                facecolors=color,
                edgecolors=edge,
                linewidth=width,
                rasterized=rows.height > MOST_MARKS,
                label="" if number else name,
            )
    ends = rows.group_by("scenario").agg(pl.col("end_s").max())
    for scenario, end in ends.sort("scenario").rows():
        low, high = (places[scenario, stage] for stage in (stages[0], stages[-1]))
        ax.plot([end, end], [low - 0.5, high + 0.5], color=shade(ax), linewidth=0.8, gid=scenario)
    ax.set_yticks(list(places.values()), [name_tick(f"{name} {stage}") for name, stage in places])
    ax.set_ylim(max(places.values()) + 0.6, -0.6)
    ax.set_xlim(left=0)
    ax.grid(visible=False, axis="y")
    format_axis(ax.xaxis, bins=6)
    ax.set(xlabel="Time since the step began (s)", ylabel="Stage")
    ax.set_title(f"Step {rows['step'][0]}, data-parallel rank {rows['dp_rank'][0]}")
    place_legend(ax)
    return ax
