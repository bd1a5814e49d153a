"""Ratio of each worker of a job to its peers over time."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from traceana.drawing.labels import (
    format_axis,
    label_clock,
    name_group,
    name_tick,
    natural_order,
    small_size,
)
from traceana.drawing.registry import figure
from traceana.drawing.style import shade, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from traceana.questions.stragglers.tables import StragglerResult

_SCALES: Final = (1.5, 2.0, 4.0, 8.0, 16.0)
"""Ratios at which a color scale may end, on both sides of 1."""
_SHARE_WITHIN: Final = 0.98
_BREAK_AFTER_STEPS: Final = 1.5
_RASTER_DPI: Final = 400
"""Resolution of the image of the ratios; text and outlines are vectors."""


@figure(
    "straggler-map",
    result="detect_stragglers of one job",
    reading="Color: a worker's time divided by the median of the other workers' times; red is "
    "slower, blue is faster; values beyond the color scale have the color of its end. Gray: no "
    "sample, or no peer has one. Outlined: straggler episodes. At the right: the worker's level, "
    "the median over the job divided by its peers'; bold: persistent straggler.",
)
def plot_straggler_map(
    result: StragglerResult,
    /,
    *,
    ax: Axes | None = None,
    job: object = None,
    time: str = "time_s",
) -> Axes:
    """Draw each worker's ratio to its peers against time, one row per worker.

    An image of the ratios (gray where a worker has no sample), a rectangle per episode, and each
    worker's level at the right. The color scale is logarithmic and symmetric about 1; it ends where
    98 % of the ratios are within it.

    Parameters
    ----------
    result
        What `detect_stragglers` returns.
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
    own = result if job is None else result.of_job(job)
    if own.jobs.height != 1:
        raise DataError(f"plot_straggler_map draws one job of {own.jobs.height}; pass job=")
    if own.ratios.is_empty() and own.levels["n_samples"].sum():
        raise DataError("the ratios of this job were not kept; pass its rows alone to the analysis")
    text = pl.col("worker_id").cast(pl.String)
    ratios, episodes, levels = (
        frame.with_columns(text) for frame in (own.ratios, own.episodes, own.levels)
    )
    workers = natural_order(ratios["worker_id"].unique())
    edges, shown = _lay_out(ratios, workers)
    limit = _end_of_scale(shown)
    own_figure = ax is None
    ax = start_axes(ax, height_in=1.3 + 0.15 * len(workers))
    figure = ax.get_figure(root=True)
    assert figure is not None  # noqa: S101  (axes without a figure cannot be drawn on)
    if own_figure:
        figure.set_dpi(_RASTER_DPI)
    colors = ax.pcolormesh(
        edges, np.arange(len(workers) + 1) - 0.5, shown, cmap="RdBu_r",
        norm=LogNorm(1 / limit, limit), rasterized=True, gid="ratios",
    )  # fmt: skip
    ax.set_facecolor(shade(ax, 0.3))
    ax.grid(visible=False)
    for number, episode in enumerate(episodes.iter_rows(named=True)):
        row = workers.index(episode["worker_id"])
        onset, end = episode["onset_s"], episode["end_s"]
        outline = Rectangle(
            (onset, row - 0.46), _after(edges, end) - onset, 0.92, fill=False,
            edgecolor="black", linewidth=0.9, zorder=4, gid=f"episode-{number}",
            path_effects=[withStroke(linewidth=2.1, foreground="white")],
        )  # fmt: skip
        ax.add_patch(outline)
    _write_levels(ax, workers, levels)
    ax.set_yticks(range(len(workers)), [name_tick(worker) for worker in workers])
    ax.set_ylim(len(workers) - 0.5, -0.5)
    ax.set_title(f"Stragglers of {name_group(own.key())}")
    ax.set_xlabel(label_clock(time))
    ax.set_ylabel("Worker")
    format_axis(ax.xaxis, bins=5)
    bar = figure.colorbar(
        colors, ax=ax, orientation="horizontal", extend="both", aspect=45, pad=0.02,
        ticks=[1 / limit, limit**-0.5, 1, limit**0.5, limit],
    )  # fmt: skip
    bar.minorticks_off()
    bar.ax.set_xticklabels([_name_ratio(tick) for tick in bar.get_ticks()])
    bar.set_label("Ratio to the peers' median (logarithmic)")
    return ax


def describe_straggler_map(result: StragglerResult) -> str:
    """Return one sentence on the ratios shown."""
    known = result.ratios["ratio_to_peers"].drop_nulls().to_numpy()
    return (
        f"{result.levels.height} workers, {len(known):,} ratios from {known.min():.2f} to "
        f"{known.max():.2f}."
    )


def _lay_out(ratios: pl.DataFrame, workers: list[str]) -> tuple[list[float], np.ndarray]:
    """Return the edges of the columns in time, and ratios by (worker, column), NaN if missing.

    A column ends where the next begins, but after at most 1.5 times the median interval.
    """
    wide = (
        ratios.pivot("worker_id", index="time_s", values="ratio_to_peers")
        .sort("time_s")
        .select("time_s", pl.col(workers).cast(pl.Float64).fill_null(float("nan")))
    )
    times = wide["time_s"].to_list()
    steps = [after - before for before, after in pairwise(times)] or [1.0]
    usual = median(steps)
    edges, columns = [], []
    for column, (time, step) in enumerate(
        zip(times, [*steps[: len(times) - 1], usual], strict=True)
    ):
        edges.append(time)
        columns.append(column)
        if step > _BREAK_AFTER_STEPS * usual:
            edges.append(time + usual)
            columns.append(-1)
    nothing = np.full((len(workers), 1), np.nan)
    by_column = np.hstack([wide.select(workers).to_numpy().T, nothing])
    return [*edges, times[-1] + usual], by_column[:, columns]


def _after(edges: list[float], time: float) -> float:
    """Return the end of the column that begins at a time."""
    return next(edge for edge in edges if edge > time)


def _end_of_scale(shown: np.ndarray) -> float:
    known = shown[np.isfinite(shown) & (shown > 0)]
    if not known.size:
        raise DataError("plot_straggler_map needs a ratio above 0; there is none")
    wide = np.exp(np.quantile(np.abs(np.log(known)), _SHARE_WITHIN))
    return next((scale for scale in _SCALES if scale >= wide), _SCALES[-1])


def _name_ratio(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio >= 1 else f"1/{1 / ratio:.3g}"


def _write_levels(ax: Axes, workers: list[str], levels: pl.DataFrame) -> None:
    for level in levels.iter_rows(named=True):
        ratio = level["ratio_to_peers"]
        ax.annotate(
            "\N{EN DASH}" if ratio is None else f"{ratio:.2f}",
            (1.02, workers.index(level["worker_id"])), xycoords=("axes fraction", "data"),
            va="center", fontsize=small_size(), annotation_clip=False,
            fontweight="bold" if level["is_slow"] else "normal", gid=f"level-{level['worker_id']}",
        )  # fmt: skip
    ax.annotate(
        "level", (1.02, 1), (0, 3), xycoords="axes fraction", textcoords="offset points",
        fontsize=small_size(), fontstyle="italic", annotation_clip=False,
    )  # fmt: skip
