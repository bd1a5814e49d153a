"""Recorded jobs under several batch-size controllers: step and iteration times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.drawing.labels import format_axis, label_clock, name_group, name_tick, natural_order
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError
from traceana.questions.batching.figures import look_of
from traceana.tables.formatting import three_digits

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

_BAND: Final = 0.7
"""Height of the part of a row that the controllers share."""


@figure(
    "batching-replay",
    result="steps of one job of replay_batching",
    reading="Line: time of a step (its slowest worker) if the controller had set the batches of "
    "the recorded workers. Shaded: a worker is in a straggler episode; darker: several are.",
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
    >>> from traceana.figures import plot_batching_replay
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30, 60, 60],
    ...                         "worker_id": ["0", "1"] * 3, "batch_time": [1.0, 2.0] * 3})
    >>> replay = traceana.replay_batching(samples, controllers=["uniform", "oracle"])
    >>> plot_batching_replay(replay.steps).get_ylabel()
    'Time of a step (s)'
    """
    jobs = steps["job_id"].unique().to_list()
    if len(jobs) != 1:
        raise DataError(f"plot_batching_replay draws one job; found {len(jobs)} jobs in the steps")
    ax = start_axes(ax)
    if episodes is not None:
        spans = episodes.select("onset_s", "end_s").unique(maintain_order=True)
        for number, (onset_s, end_s) in enumerate(spans.iter_rows()):
            ax.axvspan(
                onset_s,
                end_s,
                color=color_of(1),
                alpha=0.13,
                linewidth=0,
                gid=f"episode-{number}",
            )
    for (name,), own in steps.group_by("controller", maintain_order=True):
        look, rows = look_of(str(name), ax), own.sort("time_s")
        ax.plot(
            rows["time_s"], rows["step_time"], color=look.color, drawstyle="steps-post",
            label=name, gid=str(name), linewidth=0.7,
        )  # fmt: skip
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.set_title(name_group(jobs[:1]), pad=16)
    ax.set_xlabel(label_clock(time))
    ax.set_ylabel(f"Time of a step ({unit})")
    format_axis(ax.xaxis, bins=5)
    format_axis(ax.yaxis)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)
    return ax


def describe_batching_replay(steps: pl.DataFrame) -> str:
    """Return one sentence on the steps shown."""
    parts = ", ".join(
        f"{name} {three_digits(own['step_time'].to_numpy().mean())}"
        for (name,), own in steps.group_by("controller", maintain_order=True)
    )
    return f"{steps['time_s'].n_unique():,} steps, mean {parts}."


@figure(
    "batching-iterations",
    result="workers of one job of replay_batching",
    reading="Mark: median iteration time of a worker; thick line: 25 % to 75 % quantile; thin "
    "line: 5 % to 95 % quantile. A step waits for the slowest worker; the others are idle until "
    "then.",
)
def plot_batching_iterations(
    workers: pl.DataFrame, /, *, ax: Axes | None = None, unit: str = "s"
) -> Axes:
    """Draw quantiles of each worker's iteration times, one color per controller.

    One row per worker, the first on top; controllers in the order of the rows.

    Parameters
    ----------
    workers
        Rows of one job of `workers` of a `replay_batching` result, of the controllers to show.
    unit
        Unit of the times, for the label.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_batching_iterations
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30, 60, 60],
    ...                         "worker_id": ["0", "1"] * 3, "batch_time": [1.0, 2.0] * 3})
    >>> replay = traceana.replay_batching(samples, controllers=["uniform", "oracle"])
    >>> plot_batching_iterations(replay.workers).get_xlabel()
    'Iteration time (s)'
    """
    jobs = workers["job_id"].unique().to_list()
    if len(jobs) != 1:
        raise DataError(
            f"plot_batching_iterations draws one job; found {len(jobs)} jobs in the workers"
        )
    names = workers["controller"].unique(maintain_order=True).to_list()
    order = natural_order(workers["worker_id"].unique())
    ax = start_axes(ax, height_in=1.0 + 0.24 * len(order))
    for number, name in enumerate(names):
        own, look = workers.filter(controller=name), look_of(name, ax)
        shift = (_BAND * (number + 0.5) / len(names)) - _BAND / 2
        rows = [order.index(worker) + shift for worker in own["worker_id"]]
        ax.hlines(rows, own["q05"], own["q95"], color=look.color, linewidth=0.8)
        ax.hlines(rows, own["q25"], own["q75"], color=look.color, linewidth=2.6)
        ax.scatter(
            own["median"], rows, s=13, color=look.color, marker=look.marker, zorder=4,
            label=name, gid=name, edgecolors=shade(ax, 0), linewidths=0.4,
        )  # fmt: skip
    ax.set_yticks(range(len(order)), [name_tick(one) for one in order])
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_title(name_group(jobs[:1]), pad=16)
    ax.set_xlabel(f"Iteration time ({unit})")
    ax.set_ylabel("Worker")
    format_axis(ax.xaxis)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)
    return ax


def describe_batching_iterations(workers: pl.DataFrame) -> str:
    """Return one sentence on the workers shown."""
    parts = [
        f"{name} medians from {three_digits(medians.min())} to {three_digits(medians.max())}"
        for name, medians in (
            (key, own["median"].to_numpy())
            for (key,), own in workers.group_by("controller", maintain_order=True)
        )
    ]
    return f"{workers['worker_id'].n_unique()} workers: {'; '.join(parts)}."
