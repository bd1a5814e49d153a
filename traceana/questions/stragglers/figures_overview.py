"""Mini-batch times, CoV and ratios to the peers of one job on one time axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from traceana.drawing.labels import (
    find_clock,
    format_axis,
    label_clock,
    legend_above,
    name_group,
    name_lines,
    name_tick,
    natural_order,
    small_size,
)
from traceana.drawing.registry import figure
from traceana.drawing.style import (
    WIDTH_IN,
    check_groups,
    figure_of,
    palette,
    shade,
    start_axes,
    use_style,
)
from traceana.errors import DataError
from traceana.questions.stragglers.figures_variation import plot_cov
from traceana.questions.stragglers.tables import StragglerResult

Floats = NDArray[np.float64]
_MAX_IN_LEGEND: Final = 5
_SPELLED: Final = 2


@figure(
    "worker-times",
    result="worker_samples of one job",
    reading="A horizontal line is the last reported value; a line is interrupted where its worker "
    "has no sample for more than 1.5 times its median sampling interval.",
    counts=(pl.count("batch_time"), "sample"),
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

    Parameters
    ----------
    samples
        Rows of `worker_samples` of one job: [job_id, worker, time, value].
    time, worker, value
        Columns of the time (by default time_s or step), the worker and the mini-batch time.
    unit
        Unit of the value, for the label.
    stragglers
        Workers to color, the others being gray, such as those of `detect_stragglers`; by default
        each worker has a color.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30],
    ...                         "worker_id": ["0", "1"] * 2, "batch_time": [1.0, 1.2, 1.0, 3.0]})
    >>> traceana.figures.plot_worker_times(samples).get_ylabel()
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
    workers = natural_order(rows[worker].unique())
    check_groups(len(workers))
    for name in workers:
        of_worker = rows.filter(pl.col(worker) == name)
        times, values = _break_lines(
            *(of_worker[name].to_numpy().astype(float) for name in (clock, value))
        )
        look: dict[str, Any] = {}
        if slow is not None and name in slow:
            color = palette()[slow.index(name) % len(palette())]
            look = {"color": color, "zorder": 3, "linestyle": "-"}
        elif slow is not None:
            look = {"color": shade(ax, 0.4), "linewidth": 0.6, "linestyle": "-"}
        (line,) = ax.plot(times, values, drawstyle="steps-post", gid=f"worker-{name}", **look)
        lines.append((name, line))
    if slow:
        _write_legend(ax, lines, slow)
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.set_title(
        f"Mini-batch time of the workers, {name_group(jobs[:1])}", pad=18 if slow else None
    )
    ax.set(xlabel=label, ylabel=f"Mini-batch time ({unit})")
    format_axis(ax.xaxis, bins=5)
    format_axis(ax.yaxis)
    name_lines(ax, lines, heading="" if slow else "worker")
    return ax


def _write_legend(ax: Axes, lines: list[tuple[str, Line2D]], slow: list[str]) -> None:
    """State what the colors mean: each straggler has its own, the other workers share gray."""
    colored = [(line, name_tick(name)) for name, line in lines if name in slow]
    colored = [
        (line, name if place and len(colored) > _SPELLED else f"straggler {name}")
        for place, (line, name) in enumerate(colored)
    ]
    if len(colored) > _MAX_IN_LEGEND:
        colored = [(colored[0][0], "stragglers, a color each")]
    rest = "other workers" if len(colored) <= _SPELLED else "others"
    gray = [(line, rest) for name, line in lines if name not in slow][:1]
    marks, texts = zip(*colored, *gray, strict=True)
    look = {"ncols": len(texts), "borderaxespad": 0.1, "handlelength": 1.2, "columnspacing": 0.9}
    legend_above(ax, handles=marks, labels=texts, **look)


def draw_worker_times(samples: pl.DataFrame, /, **options: str) -> Figure:
    """Draw the mini-batch times of several jobs, one panel per job.

    Parameters
    ----------
    samples
        Rows of `worker_samples`, of any jobs.
    options
        Those of :func:`plot_worker_times`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30],
    ...                         "worker_id": ["0", "1"] * 2, "batch_time": [1.0, 1.2, 1.0, 3.0]})
    >>> figure = traceana.figures.draw_worker_times(samples)
    >>> len(figure.axes)
    1
    """
    jobs = natural_order(samples["job_id"].unique())
    columns = min(2, len(jobs))
    rows = math.ceil(len(jobs) / columns)
    with use_style():
        figure = Figure(figsize=(WIDTH_IN * columns, 2.6 * rows))
        for place, job in enumerate(jobs, start=1):
            of_job = samples.filter(pl.col("job_id").cast(pl.String) == job)
            plot_worker_times(of_job, ax=figure.add_subplot(rows, columns, place), **options)
        return figure


def _find_gaps(times: Floats) -> tuple[NDArray[np.int64], Floats, float]:
    """Return the places after gaps, the ends of what precedes them, and the usual step."""
    steps = np.diff(times)
    usual = float(np.median(steps)) if len(steps) else 1.0
    after = np.flatnonzero(steps > _BREAK_AFTER_STEPS * usual) + 1
    return after, times[after - 1] + usual, usual


def _break_lines(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Insert a NaN one sampling interval after each sample that precedes a gap."""
    after, ends, _ = _find_gaps(times)
    lasting = np.column_stack([values[after - 1], np.full(len(after), np.nan)])
    twice = np.repeat(after, 2)
    return np.insert(times, twice, np.repeat(ends, 2)), np.insert(values, twice, lasting.ravel())


_SCALES: Final = {1.5: 1.2, 2.0: 1.5, 4.0: 2.0, 8.0: 3.0, 16.0: 4.0}
"""Ratios at which a color scale may end, on both sides of 1."""
_SHARE_WITHIN: Final = 0.98
_BREAK_AFTER_STEPS: Final = 1.5
_RASTER_DPI: Final = 400  # resolution of the image of the ratios; text and outlines are vectors


@figure(
    "straggler-map",
    result="detect_stragglers of one job",
    reading="Color: a worker's time divided by the median of the other workers' times; red is "
    "slower, blue is faster; values beyond the color scale have the color of its end. Gray: no "
    "sample, or no peer has one. Outlined: straggler episodes. At the right: the worker's level, "
    "the median over the job divided by its peers'; bold: persistent straggler.",
    counts=(pl.count("is_slow"), "worker"),
)
def plot_straggler_map(
    result: StragglerResult, /, *, ax: Axes | None = None, job: object = None, time: str = "time_s"
) -> Axes:
    """Draw each worker's ratio to its peers against time, one row per worker.

    An image of the ratios (gray where a worker has no sample), a rectangle per episode, and each
    worker's level at the right. The color scale is logarithmic and symmetric about 1; it ends where
    98 % of the ratios are within it.

    Parameters
    ----------
    job
        Key of the job to draw; not needed if the result has one job.
    time
        Column of the time in the samples, for the label.

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> step, worker = np.divmod(np.arange(400), 4)
    >>> slow = (worker == 2) & (step >= 20) & (step < 40)
    >>> seconds = np.where(slow, 3, 1) + 0.01 * ((7 * step + worker) % 5)
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": 30 * step, "worker_id": worker,
    ...                         "batch_time": seconds})
    >>> traceana.detect_stragglers(samples).plot(job="a").get_title(loc="left")
    'Stragglers of a'
    """
    of_job = result if job is None else result.of_job(job)
    if of_job.jobs.height != 1:
        raise DataError(f"plot_straggler_map draws one job of {of_job.jobs.height}; pass job=")
    if of_job.ratios.is_empty() and of_job.levels["n_samples"].sum():
        raise DataError("the ratios of this job were not kept; pass its rows alone to the analysis")
    text = pl.col("worker_id").cast(pl.String)
    ratios, episodes, levels = (
        frame.with_columns(text) for frame in (of_job.ratios, of_job.episodes, of_job.levels)
    )
    workers = natural_order(ratios["worker_id"].unique())
    edges, shown = _lay_out(ratios, workers)
    limit = _end_of_scale(shown)
    own_figure = ax is None
    ax = start_axes(ax, height_in=1.3 + 0.15 * len(workers))
    if own_figure:
        figure_of(ax).set_dpi(_RASTER_DPI)
    scale: dict[str, Any] = {"cmap": "RdBu_r", "norm": LogNorm(1 / limit, limit)}
    between = np.arange(len(workers) + 1) - 0.5
    colors = ax.pcolormesh(edges, between, shown, rasterized=True, gid="ratios", **scale)
    ax.set_facecolor(shade(ax, 0.3))
    ax.grid(visible=False)
    look: dict[str, Any] = {"fill": False, "edgecolor": "black", "linewidth": 0.9, "zorder": 4}
    look["path_effects"] = [withStroke(linewidth=2.1, foreground="white")]
    for number, episode in enumerate(episodes.iter_rows(named=True)):
        onset, row = episode["onset_s"], workers.index(episode["worker_id"])
        after = edges[np.searchsorted(edges, episode["end_s"], side="right")]
        outline = (onset, row - 0.46), after - onset, 0.92
        ax.add_patch(Rectangle(*outline, gid=f"episode-{number}", **look))
    _write_levels(ax, workers, levels)
    ax.set_yticks(range(len(workers)), [name_tick(worker) for worker in workers])
    ax.set_ylim(len(workers) - 0.5, -0.5)
    ax.set(
        title=f"Stragglers of {name_group(of_job.key())}", xlabel=label_clock(time), ylabel="Worker"
    )
    format_axis(ax.xaxis, bins=5)
    place: dict[str, Any] = {"orientation": "horizontal", "aspect": 45, "pad": 0.02}
    above = (_SCALES[limit], limit)
    ticks = [*(1 / tick for tick in reversed(above)), 1, *above]
    bar = figure_of(ax).colorbar(colors, ax=ax, extend="both", ticks=ticks, **place)
    bar.minorticks_off()
    names = [f"{tick:.3g}" if tick >= 1 else f"1/{1 / tick:.3g}" for tick in bar.get_ticks()]
    bar.ax.set_xticklabels(names)
    bar.set_label("Ratio to the peers' median (logarithmic)")
    return ax


def _lay_out(ratios: pl.DataFrame, workers: list[str]) -> tuple[Floats, Floats]:
    """Return the edges of the columns in time, and ratios by (worker, column), NaN if missing."""
    wide = ratios.pivot("worker_id", index="time_s", values="ratio_to_peers").sort("time_s")
    times = wide["time_s"].to_numpy().astype(float)
    after, ends, usual = _find_gaps(times)
    columns = np.insert(np.arange(len(times)), after, -1)
    nothing = np.full((len(workers), 1), np.nan)
    by_column = np.hstack([wide.select(workers).to_numpy().T.astype(float), nothing])
    return np.append(np.insert(times, after, ends), times[-1] + usual), by_column[:, columns]


def _end_of_scale(shown: Floats) -> float:
    positive = shown[np.isfinite(shown) & (shown > 0)]
    if not positive.size:
        raise DataError("plot_straggler_map needs a ratio above 0; there is none")
    wide = np.exp(np.quantile(np.abs(np.log(positive)), _SHARE_WITHIN))
    return next((scale for scale in _SCALES if scale >= wide), max(_SCALES))


def _write_levels(ax: Axes, workers: list[str], levels: pl.DataFrame) -> None:
    look: dict[str, Any] = {"fontsize": small_size(), "annotation_clip": False}
    beside = look | {"xycoords": ("axes fraction", "data"), "va": "center"}
    for worker, ratio, is_slow in levels.select("worker_id", "ratio_to_peers", "is_slow").rows():
        text, at = "\N{EN DASH}" if ratio is None else f"{ratio:.2f}", workers.index(worker)
        weight = "bold" if is_slow else "normal"
        ax.annotate(text, (1.02, at), fontweight=weight, gid=f"level-{worker}", **beside)
    look |= {"xycoords": "axes fraction", "textcoords": "offset points", "fontstyle": "italic"}
    ax.annotate("level", (1.02, 1), (0, 3), **look)


_PANEL_IN: Final = 1.15
_ROW_IN: Final = 0.13
_MOST_COLORED: Final = 5


@figure(
    "straggler-overview",
    result="detect_stragglers of one job",
    reading="Top: mini-batch time of each worker; the slowest stragglers are colored, others "
    "gray. Middle: CoV across the workers. Bottom: each worker's time divided by the median of the "
    "others' (red: slower; outlined: straggler episode; bold level: persistent straggler).",
    counts=(pl.count("is_slow"), "worker"),
)
def plot_straggler_overview(
    result: StragglerResult,
    /,
    *,
    ax: Axes | None = None,
    samples: pl.DataFrame,
    cov: pl.DataFrame,
    time: str = "time_s",
    unit: str = "s",
    ddof: int | None = 0,
) -> Axes:
    """Draw the times, the CoV and the straggler map of one job in stacked panels.

    Returned are the axes of the map; two more above it share its time axis.

    Parameters
    ----------
    samples, cov
        Rows of `worker_samples` of the job, and what `iteration_cov` returns for it.
    time
        Column of the time in both.
    unit, ddof
        Unit of the mini-batch times and ddof of the CoVs, for the labels.

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> step, worker = np.divmod(np.arange(400), 4)
    >>> seconds = np.where((worker == 2) & (20 <= step) & (step < 40), 3, 1) + 0.01 * (step % 5)
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": 30 * step, "worker_id": worker,
    ...                         "batch_time": seconds})
    >>> result, cov = traceana.detect_stragglers(samples), traceana.iteration_cov(samples, ddof=0)
    >>> len(traceana.figures.plot_straggler_overview(result, samples=samples, cov=cov).figure.axes)
    4
    """
    map_in = 1.0 + _ROW_IN * result.levels.height
    ax = start_axes(ax, height_in=map_in + 2 * _PANEL_IN)
    figure, spec = ax.get_figure(root=True), ax.get_subplotspec()
    if figure is None or spec is None:
        raise DataError("plot_straggler_overview divides its axes; pass axes of a subplot")
    grid = spec.subgridspec(3, 1, height_ratios=(_PANEL_IN, 0.8 * _PANEL_IN, map_in))
    ax.set_subplotspec(grid[2])
    top, middle = (figure.add_subplot(grid[row], sharex=ax) for row in (0, 1))
    plot_straggler_map(result, ax=ax, time=time)
    hit = pl.col("is_slow") | pl.col("worker_id").is_in(result.episodes["worker_id"].implode())
    by_level = result.levels.filter(hit).sort("ratio_to_peers", descending=True, nulls_last=True)
    slow = by_level["worker_id"].head(_MOST_COLORED).to_list()
    limits, title = ax.get_xlim(), ax.get_title()
    plot_cov(cov, ax=middle, ddof=ddof, time=time)
    plot_worker_times(samples, ax=top, time=time, unit=unit, stragglers=sorted(slow, key=str))
    for panel in (middle, top):
        panel.set_xlabel("")
        panel.tick_params(labelbottom=False)
        panel.set_title("")
    ax.set_title("")
    top.set_title(title, pad=18 if slow else None)
    top.set_ylabel(f"Time ({unit})")
    ax.set_xlim(limits)
    return ax
