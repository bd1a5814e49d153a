"""Energy of the best batch size and power limit, and versus the batch size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.ticker import PercentFormatter

from traceana.drawing.labels import name_group, name_tick, small_size
from traceana.drawing.registry import figure
from traceana.drawing.scales import use_log_axis
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

_CHOICES: Final = {
    "batch_size": ("batch size only", 5),
    "power_limit": ("power limit only", 4),
    "both": ("both", 0),
}
_BAR: Final = 0.26
_MEASURES: Final = {
    "eta": ("Energy to the target (MJ)", "j", 1e6),
    "tta": ("Time to the target (h)", "s", 3600.0),
}
_LIMITS: Final = {
    "largest": ("largest power limit", 4, "s"),
    "best": ("best power limit", 0, "o"),
}
_UPRIGHT: Final = 9
"""With more batch sizes their labels are rotated."""
_LOG_FROM: Final = 30
"""Ratio of the largest to the smallest value above which the axis is logarithmic."""


@figure(
    "energy-savings",
    result="energy_savings of one GPU and objective",
    reading="Bar: energy or cost of the best choice to the target, relative to the default batch "
    "size at the largest power limit (dashed line); less is better.",
)
def plot_energy_savings(savings: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the ratio of each choice to the baseline, three bars per data set.

    One group of bars per data set, in alphabetical order from the top, each with its ratio.

    Parameters
    ----------
    savings
        Rows of one GPU and one objective of what `energy_savings` returns. A null ratio has no bar
        and is labeled unknown.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_energy_savings
    >>> savings = pl.DataFrame(
    ...     {"gpu": "V100", "dataset": "cifar100", "objective": "energy",
    ...      "choice": ["batch_size", "power_limit", "both"], "ratio": [0.9, 0.8, 0.7]}
    ... )
    >>> plot_energy_savings(savings).get_title(loc="left")
    'V100'
    """
    kinds = savings.select("gpu", "objective").unique().rows()
    if len(kinds) != 1:
        raise DataError(
            "plot_energy_savings draws one GPU and objective, and these are rows of "
            f"{len(kinds)} pairs"
        )
    ((gpu, objective),) = kinds
    datasets = savings["dataset"].unique().sort().to_list()
    ax = start_axes(ax, height_in=1.0 + 0.42 * len(datasets))
    for place, (choice, (name, color)) in enumerate(_CHOICES.items()):
        ratio = dict(savings.filter(choice=choice).select("dataset", "ratio").rows())
        rows = [row + (place - 1) * _BAR for row in range(len(datasets))]
        known = [
            (row, ratio[dataset])
            for row, dataset in zip(rows, datasets, strict=True)
            if ratio.get(dataset) is not None
        ]
        ax.barh(
            [row for row, _ in known], [value for _, value in known], _BAR,
            color=color_of(color), label=name,
        )  # fmt: skip
        for row, dataset in zip(rows, datasets, strict=True):
            value = ratio.get(dataset)
            ax.annotate(
                "unknown" if value is None else f"{100 * value:.1f} %", (value or 0, row),
                (2, 0), textcoords="offset points", va="center", fontsize=small_size() - 1,
                bbox={"facecolor": shade(ax, 0), "edgecolor": "none", "pad": 0.4},
            )  # fmt: skip
    ax.axvline(1, color=shade(ax), linewidth=0.8, linestyle="--", zorder=0.5)
    ax.set_xlim(0, 1.14)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
    ax.xaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %", decimals=0))
    ax.set_yticks(range(len(datasets)), [name_tick(one) for one in datasets])
    ax.set_ylim(len(datasets) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.set_title(name_group([gpu]), pad=16)
    ax.set_xlabel(f"{objective.capitalize()} to the target, relative to the default")
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.1,
        handlelength=1.0, columnspacing=0.9,
    )  # fmt: skip
    return ax


def describe_energy_savings(savings: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these savings shows."""
    ratio = savings.filter(choice="both")["ratio"].drop_nulls().to_list()
    datasets = savings["dataset"].n_unique()
    if not ratio:
        return f"{datasets} data sets, none with a baseline."
    return (
        f"{len(ratio)} of {datasets} data sets; both together need {100 * min(ratio):.1f} % to "
        f"{100 * max(ratio):.1f} %."
    )


@figure(
    "batch-sweep",
    result="batch_size_sweep",
    reading="Dot: mean over the runs of a batch size; vertical line: range from the run with the "
    "fewest epochs to the one with the most. Best limit: least energy at that batch size. Batch "
    "sizes are evenly spaced.",
)
def plot_batch_sweep(
    sweep: pl.DataFrame, /, *, ax: Axes | None = None, measure: str = "eta"
) -> Axes:
    """Draw the energy or time of each batch size, one line per power limit.

    Two lines over the batch sizes with the range of the runs, from 0 on; on a logarithmic axis
    where the largest mean is more than 30 times the smallest.

    Parameters
    ----------
    sweep
        What `batch_size_sweep` returns.
    measure
        "eta" (energy) or "tta" (time).

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_batch_sweep
    >>> sweep = pl.DataFrame(
    ...     {"limit": "best", "batch_size": [128, 1024], "eta_j": [45000.0, 40500.0],
    ...      "eta_low_j": [40000.0, 38000.0], "eta_high_j": [50000.0, 43000.0]}
    ... )
    >>> plot_batch_sweep(sweep).get_ylabel()
    'Energy to the target (MJ)'
    """
    if measure not in _MEASURES:
        raise DataError(f"measure must be one of {', '.join(_MEASURES)}; it is {measure!r}")
    if sweep.is_empty():
        raise DataError("plot_batch_sweep has nothing to draw: no batch size is feasible")
    label, unit, scale = _MEASURES[measure]
    ax = start_axes(ax)
    sizes = sweep["batch_size"].unique().sort().to_list()
    for limit, (name, color, marker) in _LIMITS.items():
        rows = sweep.filter(limit=limit).sort("batch_size")
        mean, low, high = (rows[f"{measure}{end}_{unit}"] / scale for end in ("", "_low", "_high"))
        at = [sizes.index(size) for size in rows["batch_size"]]
        (line,) = ax.plot(
            at, mean, color=color_of(color), linestyle="-", marker=marker, markersize=3.2,
            label=name,
        )  # fmt: skip
        ax.vlines(at, low, high, color=line.get_color(), linestyle="-", linewidth=2.2, gid=limit)
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
