"""Energy or time to the target versus the batch size, at the best and the largest limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.scales import use_log_axis
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = (
    "Dot: mean over the runs of a batch size; vertical line: range from the run with the fewest "
    "epochs to the one with the most. Best limit: least energy at that batch size. Batch sizes are "
    "evenly spaced."
)
_MEASURES: Final = {
    "eta": ("Energy to the target (MJ)", "j", 1e6),
    "tta": ("Time to the target (h)", "s", 3600.0),
}
_LIMITS: Final = {
    "largest": ("largest power limit", "#E69F00", "s"),
    "best": ("best power limit", "#0072B2", "o"),
}

_UPRIGHT: Final = 9
"""With more batch sizes their labels are rotated."""
_LOG_FROM: Final = 30
"""Ratio of the largest to the smallest value above which the axis is logarithmic."""


@figure("batch-sweep", result="batch_size_sweep", source="Zeus (NSDI'23): batch-size sweeps")
def plot_batch_sweep(
    sweep: pl.DataFrame, /, *, ax: Axes | None = None, measure: str = "eta"
) -> Axes:
    """Draw the energy or time of each batch size, one line per power limit.

    Parameters
    ----------
    sweep
        What `batch_size_sweep` returns.
    measure
        eta (energy) or tta (time).

    Returns
    -------
    Axes
        Two lines over the batch sizes with the range of the runs, from 0 on; on a logarithmic
        axis where the largest mean is more than 30 times the smallest.

    Raises
    ------
    DataError
        If the measure is another or there is no batch size.
    """
    if measure not in _MEASURES:
        raise DataError(f"measure must be one of {', '.join(_MEASURES)}; it is {measure!r}")
    if sweep.is_empty():
        raise DataError("plot_batch_sweep has nothing to draw: no batch size is feasible")
    label, unit, scale = _MEASURES[measure]
    ax = start_axes(ax)
    sizes = sweep["batch_size"].unique().sort().to_list()
    for limit, (name, colour, marker) in _LIMITS.items():
        rows = sweep.filter(limit=limit).sort("batch_size")
        mean, low, high = (rows[f"{measure}{end}_{unit}"] / scale for end in ("", "_low", "_high"))
        at = [sizes.index(size) for size in rows["batch_size"]]
        ax.plot(at, mean, color=colour, marker=marker, markersize=3.2, linestyle="-", label=name)
        ax.vlines(at, low, high, color=colour, linewidth=2.2, linestyle="-", gid=limit)
    ax.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    ax.tick_params(axis="x", rotation=90 if len(sizes) > _UPRIGHT else 0)
    means = sweep[f"{measure}_{unit}"] / scale
    if 0 < _LOG_FROM * min(means) < max(means):
        ends = (sweep[f"{measure}{end}_{unit}"] / scale for end in ("_low", "_high"))
        use_log_axis(ax, "y", [value for end in ends for value in end])
        label = label.replace(")", ", logarithmic)")
    else:
        ax.set_ylim(bottom=0)
    ax.set_xlabel("Batch size")
    ax.set_ylabel(label)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    return ax


def describe_batch_sweep(sweep: pl.DataFrame) -> str:
    """Return one sentence on what the figure of this sweep shows."""
    energy, time = (
        f"{row['batch_size']} with {row['power_limit_w']:g} W"
        for row in (
            sweep.sort(measure, "batch_size").row(0, named=True) for measure in ("eta_j", "tta_s")
        )
    )
    return (
        f"{sweep['batch_size'].n_unique()} batch sizes; the least energy is at {energy}, the least "
        f"time at {time}."
    )
