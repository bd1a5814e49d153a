"""Mini-batch time of each worker of a job over time."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from matplotlib.figure import Figure

from traceana.drawing.labels import find_clock, format_axis, name_group, name_lines, natural_order
from traceana.drawing.registry import figure
from traceana.drawing.style import WIDTH_IN, palette, shade, start_axes, use_style
from traceana.errors import DataError
from traceana.tables.formatting import three_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_BREAK_AFTER_STEPS: Final = 1.5
_MAX_IN_LEGEND: Final = 5
_SPELLED: Final = 2


@figure(
    "worker-times",
    result="worker_samples of one job",
    reading="A horizontal line is the last reported value; a line is interrupted where its worker "
    "has no sample for more than 1.5 times its median sampling interval.",
)
def plot_worker_times(
    samples: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    time: str | None = None,
    worker: str = "worker_id",
    value: str = "batch_time",
    unit: str = "s",
    stragglers: Sequence[object] | None = None,
) -> Axes:
    """Draw each worker's mini-batch time against time, one line per worker.

    One step line per worker, with a gap where the worker has no sample for more than 1.5 times its
    median sampling interval. Names are at the ends of the lines if they fit.

    Parameters
    ----------
    samples
        Rows of `worker_samples` of one job: [job_id, worker, time, value].
    time
        Column of the time; by default time_s or step.
    worker, value
        Columns of the worker and the mini-batch time.
    unit
        Unit of the value, for the label.
    stragglers
        Workers to color, the others being gray, such as those of `detect_stragglers`; by default
        each worker has a color.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_worker_times
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30],
    ...                         "worker_id": ["0", "1"] * 2, "batch_time": [1.0, 1.2, 1.0, 3.0]})
    >>> plot_worker_times(samples).get_ylabel()
    'Mini-batch time (s)'
    """
    jobs = samples["job_id"].unique().to_list()
    if len(jobs) != 1:
        raise DataError(f"plot_worker_times draws one job; the samples have {len(jobs)}")
    clock, label = find_clock(samples, time)
    ax = start_axes(ax)
    rows = samples.with_columns(pl.col(worker).cast(pl.String)).sort(clock)
    lines = []
    slow = None if stragglers is None else natural_order(set(stragglers))
    for name in natural_order(rows[worker].unique()):
        own = rows.filter(pl.col(worker) == name)
        times, values = _break_lines(own[clock].to_list(), own[value].to_list())
        look: dict[str, Any] = {}
        if slow is not None:
            colors = palette()
            look = (
                {"color": colors[slow.index(name) % len(colors)], "zorder": 3, "linestyle": "-"}
                if name in slow
                else {"color": shade(ax, 0.4), "linewidth": 0.6, "linestyle": "-"}
            )
        (line,) = ax.plot(times, values, drawstyle="steps-post", gid=f"worker-{name}", **look)
        lines.append((name, line))
    if slow:
        _write_legend(ax, lines, slow)
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.set_title(
        f"Mini-batch time of the workers, {name_group(jobs[:1])}", pad=18 if slow else None
    )
    ax.set_xlabel(label)
    ax.set_ylabel(f"Mini-batch time ({unit})")
    format_axis(ax.xaxis, bins=5)
    format_axis(ax.yaxis)
    name_lines(ax, lines, heading="" if slow else "worker")
    return ax


def _write_legend(ax: Axes, lines: list[tuple[str, Line2D]], slow: list[str]) -> None:
    """State what the colors mean: each straggler has its own, the other workers share gray."""
    colored = [(line, name) for name, line in lines if name in slow]
    colored = [(line, name if place and len(colored) > _SPELLED else f"straggler {name}")
               for place, (line, name) in enumerate(colored)]  # fmt: skip
    if len(colored) > _MAX_IN_LEGEND:
        colored = [(colored[0][0], "stragglers, a color each")]
    rest = "other workers" if len(colored) <= _SPELLED else "others"
    gray = [(line, rest) for name, line in lines if name not in slow][:1]
    marks, texts = zip(*colored, *gray, strict=True)
    ax.legend(
        marks, texts, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(texts), borderaxespad=0.1,
        handlelength=1.2, columnspacing=0.9,
    )  # fmt: skip


def draw_worker_times(samples: pl.DataFrame, /, **options: str) -> Figure:
    """Draw the mini-batch times of several jobs, one panel per job.

    `options` are those of :func:`plot_worker_times`.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import draw_worker_times
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30],
    ...                         "worker_id": ["0", "1"] * 2, "batch_time": [1.0, 1.2, 1.0, 3.0]})
    >>> figure = draw_worker_times(samples)
    >>> len(figure.axes)
    1
    """
    jobs = natural_order(samples["job_id"].unique())
    columns = min(2, len(jobs))
    rows = math.ceil(len(jobs) / columns)
    with use_style():
        figure = Figure(figsize=(WIDTH_IN * columns, 2.6 * rows))
        for place, job in enumerate(jobs, start=1):
            own = samples.filter(pl.col("job_id").cast(pl.String) == job)
            plot_worker_times(own, ax=figure.add_subplot(rows, columns, place), **options)
        return figure


def describe_worker_times(samples: pl.DataFrame) -> str:
    """Return one sentence on the samples shown."""
    clock, _ = find_clock(samples)
    times, values = samples[clock].to_numpy(), samples["batch_time"].drop_nulls().to_numpy()
    unit = " s" if clock == "time_s" else ""
    at = "" if unit else f"{clock} "
    return (
        f"{samples['worker_id'].n_unique()} workers, {samples.height:,} samples from "
        f"{at}{times.min():,.0f}{unit} to {at}{times.max():,.0f}{unit}, "
        f"values from {three_digits(values.min())} to {three_digits(values.max())}."
    )


def _break_lines(times: list[Any], values: list[float]) -> tuple[list[Any], list[float]]:
    """Insert a NaN one sampling interval after each sample that precedes a gap."""
    steps = [after - before for before, after in pairwise(times)]
    if not steps:
        return times, values
    usual = median(steps)
    broken_times: list[Any] = []
    broken_values: list[float] = []
    for time, value, step in zip(times, values, [*steps, usual], strict=True):
        broken_times.append(time)
        broken_values.append(value)
        if step > _BREAK_AFTER_STEPS * usual:
            broken_times += [time + usual, time + usual]
            broken_values += [value, math.nan]
    return broken_times, broken_values
