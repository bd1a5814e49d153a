"""Mini-batch times, CoV and ratios to the peers of one job on one time axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.drawing.registry import figure
from traceana.drawing.style import start_axes
from traceana.errors import DataError
from traceana.questions.stragglers.figures_map import describe_straggler_map, plot_straggler_map
from traceana.questions.stragglers.figures_variation import plot_cov
from traceana.questions.stragglers.figures_worker_times import plot_worker_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from traceana.questions.stragglers.tables import StragglerResult

_PANEL_IN: Final = 1.15
_ROW_IN: Final = 0.13
_MOST_COLORED: Final = 5


@figure(
    "straggler-overview",
    result="detect_stragglers of one job",
    reading="Top: mini-batch time of each worker; the slowest stragglers are colored, others "
    "gray. Middle: CoV across the workers. Bottom: each worker's time divided by the median of the "
    "others' (red: slower; outlined: straggler episode; bold level: persistent straggler).",
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
    result
        What `detect_stragglers` returns for one job.
    samples
        Rows of `worker_samples` of the job.
    cov
        What `iteration_cov` returns for the job.
    time
        Column of the time in both.
    unit
        Unit of the mini-batch times, for the label.
    ddof
        The ddof of the CoVs, for the label.

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> from traceana.figures import plot_straggler_overview
    >>> step, worker = np.divmod(np.arange(400), 4)
    >>> seconds = np.where((worker == 2) & (20 <= step) & (step < 40), 3, 1) + 0.01 * (step % 5)
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": 30 * step, "worker_id": worker,
    ...                         "batch_time": seconds})
    >>> result, cov = traceana.detect_stragglers(samples), traceana.iteration_cov(samples, ddof=0)
    >>> len(plot_straggler_overview(result, samples=samples, cov=cov).figure.axes)
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


def describe_straggler_overview(result: StragglerResult) -> str:
    """Return one sentence on the ratios."""
    return describe_straggler_map(result)
