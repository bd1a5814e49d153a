"""Simulated workers: speedup and batch sizes of each controller."""

from __future__ import annotations

from typing import Any, Final

import polars as pl
from matplotlib.axes import Axes

from traceana.drawing import labels
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes

_LOOKS: Final = {
    "proportional": (0, "o"),
    "omnilearn": (1, "X"),
    "oracle": (2, "*"),
    "measured": (3, "v"),
    "static": (4, "^"),
    "damped": (5, "D"),
    "smoothed": (6, "h"),
}
"""Place among the colors of the style, and marker."""
_RIGHT: Final = {"loc": "lower right", "bbox_to_anchor": (1, 1)}


def look_of(controller: str, ax: Axes, /) -> tuple[str, str]:
    """Return the color and the marker of a controller on axes; those of users share one."""
    if controller == "uniform":
        return shade(ax, 0.6), "s"
    if controller not in _LOOKS:
        return shade(ax), "P"
    place, marker = _LOOKS[controller]
    return color_of(place), marker


@figure(
    "batching-speedup",
    result="summarize_batching of one overhead and noise",
    reading="Mark: mean over seeds; horizontal line: its 95 % confidence interval, often narrower "
    "than the mark; vertical line: mean over minimum cores, the maximum speedup without overhead "
    "and noise.",
    counts=(pl.max("n"), "seed"),
)
def plot_batching_speedup(summary: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw speedups over uniform batches, one row per level of heterogeneity.

    Parameters
    ----------
    summary
        Rows of one overhead and noise of what `summarize_batching` returns.

    Examples
    --------
    >>> import traceana
    >>> sweep = traceana.sweep_batching({"uneven": [36, 12]}, controllers=["uniform", "oracle"],
    ...                                 overheads_s=[0.1], noise_cvs=[0], steps=20)
    >>> traceana.figures.plot_batching_speedup(traceana.summarize_batching(sweep)).get_xlabel()
    'Speedup over uniform batches'
    """
    (_,) = summary.select("overhead_s", "noise_cv").unique().rows()
    levels = summary["level"].unique(maintain_order=True).to_list()
    ax = start_axes(ax, height_in=1.1 + 0.24 * len(levels))
    limit = summary.unique("level", maintain_order=True)["mean_over_min"]
    ax.scatter(limit, range(len(levels)), s=130, marker="|", color=shade(ax), gid="limit")
    row = pl.col("level").replace_strict(levels, range(len(levels)))
    placed = summary.with_columns(row=row)
    for (name,), of_controller in placed.group_by("controller", maintain_order=True):
        color, marker = look_of(str(name), ax)
        with_interval = of_controller.drop_nulls("speedup_ci_low")
        bounds = (with_interval["speedup_ci_low"], with_interval["speedup_ci_high"])
        ax.hlines(with_interval["row"], *bounds, color=color, linewidth=1)
        look: dict[str, Any] = {"s": 17, "marker": marker, "linewidths": 0, "alpha": 0.85}
        marks = (of_controller["speedup"], of_controller["row"])
        ax.scatter(*marks, color=color, zorder=4, label=name, gid=str(name), **look)
    ax.set_yticks(range(len(levels)), levels)
    ax.set_ylim(len(levels) - 0.5, -0.5)
    ax.set(xlabel="Speedup over uniform batches", ylabel="Cores of the workers")
    labels.legend_above(ax, **_RIGHT, ncols=4, columnspacing=0.9, handletextpad=0.2)
    return ax


_SYSTEMS: Final = {
    ("homogeneous", "uniform"): "equal workers, uniform",
    ("heterogeneous", "uniform"): "uniform",
    ("heterogeneous", "static"): "static",
    ("heterogeneous", "dynamic"): "dynamic",
}


@figure(
    "batching-clusters",
    result="compare_clusters",
    reading="Bar: simulated time relative to uniform batches on as many equal workers of the same "
    "total throughput; lower is better. Diamond: time that a published factor implies, of uniform "
    "batches for a slowdown and of dynamic ones for a speedup.",
    counts=(pl.n_unique("cluster"), "cluster"),
)
def plot_batching_clusters(comparison: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the time of each cluster under uniform, static and dynamic batch sizes.

    Examples
    --------
    >>> import traceana
    >>> from traceana.figures import plot_batching_clusters
    >>> ax = plot_batching_clusters(traceana.compare_clusters({"mine": [100, 300]}))
    >>> ax.get_xlabel()
    'Time relative to equal workers'
    """
    clusters = comparison["cluster"].unique(maintain_order=True).to_list()
    ax = start_axes(ax, height_in=0.9 + 0.16 * (comparison.height + len(clusters)))
    place = 0.0
    middles: list[float] = []
    for cluster in clusters:
        first = place
        for row in comparison.filter(cluster=cluster).iter_rows(named=True):
            _draw_system(ax, row, place, first=not middles)
            place += 1
        middles.append((first + place - 1) / 2)
        place += 0.8
    ax.axvline(1, color=shade(ax), linewidth=0.8, linestyle="--", zorder=0.5)
    ax.set_xlim(0, 3 * max(comparison["relative_time"]))  # with room for the longest text
    names = [name.replace(", ", ",\n").replace(" and ", "\nand ") for name in clusters]
    ax.set_yticks(middles, names)
    ax.set_ylim(place - 1, -0.8)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("Time relative to equal workers")
    labels.legend_above(ax, **_RIGHT, ncols=2, handlelength=1.0, columnspacing=0.9)
    return ax


def _draw_system(ax: Axes, row: dict[str, Any], height: float, *, first: bool) -> None:
    value, text = row["relative_time"], f"{row['relative_time']:.2f}"
    if row["workers"] == "published":
        slower = row["speedup"] is None
        factor, way = (value, "the time") if slower else (row["speedup"], "faster")
        text = f"{row['system']}: {factor:g} times {way}"
        label = None if "published" in ax.get_legend_handles_labels()[1] else "published"
        diamond: dict[str, Any] = {"marker": "D", "s": 11, "color": color_of(1), "zorder": 4}
        ax.scatter([value], [height], gid=f"published-{height:g}", label=label, **diamond)
    else:
        system = row["workers"], row["system"]
        colors = (shade(ax, 0.3), shade(ax, 0.6), color_of(4), color_of(0))
        name, color = _SYSTEMS[system], colors[list(_SYSTEMS).index(system)]
        ax.barh([height], [value], 0.9, color=color, label=name if first else None)
    look = {
        "fontsize": labels.small_size() - 1,
        "in_layout": False,
        "bbox": labels.on_background(ax),
    }
    labels.write_beside(ax, text, (value, height), (4, 0), **look)


@figure(
    "batching-trajectory",
    result="batches of simulate_batching",
    reading="Line: batch size of a worker; it changes when the controller moves samples between "
    "workers. At each step the batch sizes add up to the global batch, unless it drifts.",
    counts=(pl.n_unique("worker_id"), "worker"),
)
def plot_batching_trajectory(
    batches: pl.DataFrame, /, *, ax: Axes | None = None, steps: int | None = None
) -> Axes:
    """Draw each worker's batch size against the step, one line per worker.

    Parameters
    ----------
    batches
        `batches` of a `simulate_batching` result, which has the steps at which they changed.
    steps
        Steps of the job, where the lines end; by default the last change.

    Examples
    --------
    >>> import traceana
    >>> result = traceana.simulate_batching([(0.1, 100), (0.1, 300)], controller="proportional")
    >>> traceana.figures.plot_batching_trajectory(result.batches, steps=100).get_ylabel()
    'Batch size (samples)'
    """
    end = max(int(str(batches["step"].max())), 0 if steps is None else steps - 1)
    ax = start_axes(ax)
    lines = []
    for worker in labels.natural_order(batches["worker_id"].unique()):
        of_worker = batches.filter(pl.col("worker_id") == worker).sort("step")
        x, y = [*of_worker["step"], end], [*of_worker["batch"], of_worker["batch"][-1]]
        look: dict[str, Any] = {"drawstyle": "steps-post", "linewidth": 1.2}
        (line,) = ax.plot(x, y, gid=f"worker-{worker}", **look)
        lines.append((worker, line))
    ax.set_xlim(0, max(end, 1))
    ax.set_ylim(bottom=min(0, *batches["batch"]))
    ax.set(xlabel="Step", ylabel="Batch size (samples)")
    labels.name_lines(ax, lines, heading="worker")
    return ax


_BAND: Final = 0.7
"""Height of the part of a row that the controllers share."""


@figure(
    "batching-replay",
    result="steps of one job of replay_batching",
    reading="Line: time of a step (its slowest worker) if the controller had set the batches of "
    "the recorded workers. Shaded: a worker is in a straggler episode; darker: several are.",
    counts=(pl.n_unique("time_s"), "step"),
)
def plot_batching_replay(
    steps: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    episodes: pl.DataFrame | None = None,
    time: str = "time_s",
    unit: str = "s",
) -> Axes:
    """Draw the time of each step against the time of the trace, one line per controller.

    Parameters
    ----------
    steps
        Rows of one job of `steps` of a `replay_batching` result, of the controllers to show.
    episodes
        [onset_s, end_s] of that job, shaded; by default none.
    time
        Column of the time in the samples, for the label.
    unit
        Unit of the step times, for the label.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30, 60, 60],
    ...                         "worker_id": ["0", "1"] * 3, "batch_time": [1.0, 2.0] * 3})
    >>> replay = traceana.replay_batching(samples, controllers=["uniform", "oracle"])
    >>> traceana.figures.plot_batching_replay(replay.steps).get_ylabel()
    'Time of a step (s)'
    """
    (job,) = steps["job_id"].unique()
    ax = start_axes(ax)
    if episodes is not None:
        spans = episodes.select("onset_s", "end_s").unique(maintain_order=True)
        shaded: dict[str, Any] = {"color": color_of(1), "alpha": 0.13, "linewidth": 0}
        for number, span in enumerate(spans.iter_rows()):
            ax.axvspan(*span, gid=f"episode-{number}", **shaded)
    for (name,), of_controller in steps.group_by("controller", maintain_order=True):
        (color, _), rows = look_of(str(name), ax), of_controller.sort("time_s")
        look: dict[str, Any] = {"color": color, "drawstyle": "steps-post", "linewidth": 0.7}
        label = labels.name_group([name])
        ax.plot(rows["time_s"], rows["step_time"], label=label, gid=str(name), **look)
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.set_title(labels.name_group([job]), pad=16)
    ax.set(xlabel=labels.label_clock(time), ylabel=f"Time of a step ({unit})")
    labels.format_axis(ax.xaxis, bins=5)
    labels.format_axis(ax.yaxis)
    labels.legend_above(ax, ncols=4)
    return ax


@figure(
    "batching-iterations",
    result="workers of one job of replay_batching",
    reading="Mark: median iteration time of a worker; thick line: 25 % to 75 % quantile; thin "
    "line: 5 % to 95 % quantile. A step waits for the slowest worker; the others are idle until "
    "then.",
    counts=(pl.n_unique("worker_id"), "worker"),
)
def plot_batching_iterations(
    workers: pl.DataFrame, /, *, ax: Axes | None = None, unit: str = "s"
) -> Axes:
    """Draw quantiles of each worker's iteration times, one color per controller.

    Parameters
    ----------
    workers
        Rows of one job of `workers` of a `replay_batching` result, of the controllers to show.
    unit
        Unit of the times, for the label.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30, 60, 60],
    ...                         "worker_id": ["0", "1"] * 3, "batch_time": [1.0, 2.0] * 3})
    >>> replay = traceana.replay_batching(samples, controllers=["uniform", "oracle"])
    >>> traceana.figures.plot_batching_iterations(replay.workers).get_xlabel()
    'Iteration time (s)'
    """
    (job,) = workers["job_id"].unique()
    names = workers["controller"].unique(maintain_order=True).to_list()
    order = labels.natural_order(workers["worker_id"].unique())
    ax = start_axes(ax, height_in=1.0 + 0.24 * len(order))
    for number, name in enumerate(names):
        of_controller, (color, marker) = workers.filter(controller=name), look_of(name, ax)
        shift = (_BAND * (number + 0.5) / len(names)) - _BAND / 2
        rows = [order.index(worker) + shift for worker in of_controller["worker_id"]]
        ax.hlines(rows, of_controller["p05"], of_controller["p95"], color=color, linewidth=0.8)
        ax.hlines(rows, of_controller["p25"], of_controller["p75"], color=color, linewidth=2.6)
        look: dict[str, Any] = {"s": 13, "marker": marker, "edgecolors": shade(ax, 0)}
        label = {"label": labels.name_group([name]), "gid": name}
        ax.scatter(
            of_controller["median"], rows, color=color, zorder=4, linewidths=0.4, **label, **look
        )
    ax.set_yticks(range(len(order)), [labels.name_tick(worker) for worker in order])
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_title(labels.name_group([job]), pad=16)
    ax.set(xlabel=f"Iteration time ({unit})", ylabel="Worker")
    labels.format_axis(ax.xaxis)
    labels.legend_above(ax, ncols=4)
    return ax
