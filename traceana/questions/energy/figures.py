"""Energy of the best batch size and power limit, and versus the batch size."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.ticker import LogLocator, NullLocator

from traceana.drawing import labels
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, figure_of, shade, start_axes

_CHOICES: Final = {
    "batch_size": ("batch size only", 2),
    "power_limit": ("power limit only", 4),
    "both": ("both", 0),
}
_BAR: Final = 0.26
_MEASURES: Final = {
    "eta": ("Energy to the target (MJ)", "j", 1e6),
    "tta": ("Time to the target (h)", "s", 3600.0),
}
_LIMITS: Final = {"largest": ("largest power limit", 4, "s"), "best": ("best power limit", 0, "o")}
_UPRIGHT: Final = 9  # with more batch sizes their labels are rotated
_LOG_FROM: Final = 30
"""Ratio of the largest to the smallest value above which the axis is logarithmic."""


@figure(
    "energy-savings",
    result="energy_savings of one GPU and objective",
    reading="Bar: energy or cost of the best choice to the target, relative to the default batch "
    "size at the largest power limit (dashed line); lower is better.",
    counts=(pl.n_unique("dataset"), "data set"),
)
def plot_energy_savings(savings: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the ratio of each choice to the baseline, three bars per data set.

    Parameters
    ----------
    savings
        Rows of one GPU and one objective of what `energy_savings` returns. A null ratio has no bar
        and is labeled unknown.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> savings = pl.DataFrame(
    ...     {"gpu": "V100", "dataset": "cifar100", "objective": "energy",
    ...      "choice": ["batch_size", "power_limit", "both"], "ratio": [0.9, 0.8, 0.7]}
    ... )
    >>> traceana.figures.plot_energy_savings(savings).get_title(loc="left")
    'V100, cifar100'
    """
    ((gpu, objective),) = savings.select("gpu", "objective").unique().rows()
    datasets = savings["dataset"].unique().sort().to_list()
    ax = start_axes(ax, height_in=1.0 + 0.42 * len(datasets))
    for place, (choice, (name, color)) in enumerate(_CHOICES.items()):
        ratio = dict(savings.filter(choice=choice).select("dataset", "ratio").rows())
        at = {row + (place - 1) * _BAR: ratio.get(dataset) for row, dataset in enumerate(datasets)}
        bars = {row: value for row, value in at.items() if value is not None}
        ax.barh([*bars], [*bars.values()], _BAR, color=color_of(color), label=name)
        for row, value in at.items():
            text = "unknown" if value is None else f"{100 * value:.1f} %"
            look = {"fontsize": labels.small_size() - 1, "bbox": labels.on_background(ax)}
            labels.write_beside(ax, text, (value or 0, row), (2, 0), **look)
    ax.axvline(1, color=shade(ax), linewidth=0.8, linestyle="--", zorder=0.5)
    ax.set_xlim(0, 1.14)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
    ax.xaxis.set_major_formatter(labels.Percent())
    labels.name_rows(ax, datasets)
    of = datasets[0] if len(datasets) == 1 else f"{len(datasets)} data sets"
    ax.set_title(f"{labels.name_group([gpu and gpu.upper()])}, {of}", pad=16)
    ax.set_xlabel(f"{objective.capitalize()} to the target, relative to the default")
    right = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.1}
    labels.legend_above(ax, **right, ncols=3, handlelength=1.0, columnspacing=0.9)
    return ax


@figure(
    "batch-sweep",
    result="batch_size_sweep",
    reading="Dot: mean over the runs of a batch size; vertical line: range from the run with the "
    "fewest epochs to the one with the most. Best limit: least energy at that batch size. Batch "
    "sizes are evenly spaced.",
    counts=(pl.n_unique("batch_size"), "batch size"),
)
def plot_batch_sweep(
    sweep: pl.DataFrame, /, *, ax: Axes | None = None, measure: str = "eta"
) -> Axes:
    """Draw the energy or time of each batch size, one line per power limit.

    Parameters
    ----------
    measure
        "eta" (energy) or "tta" (time).

    Examples
    --------
    >>> import polars as pl, traceana
    >>> sweep = pl.DataFrame(
    ...     {"limit": "best", "batch_size": [128, 1024], "eta_j": [45000.0, 40500.0],
    ...      "eta_low_j": [40000.0, 38000.0], "eta_high_j": [50000.0, 43000.0]}
    ... )
    >>> traceana.figures.plot_batch_sweep(sweep).get_ylabel()
    'Energy to the target (MJ)'
    """
    label, unit, scale = _MEASURES[measure]
    ax = start_axes(ax)
    sizes = sweep["batch_size"].unique().sort().to_list()
    for limit, (name, color, marker) in _LIMITS.items():
        rows = sweep.filter(limit=limit).sort("batch_size")
        mean, low, high = (rows[f"{measure}{end}_{unit}"] / scale for end in ("", "_low", "_high"))
        at = [sizes.index(size) for size in rows["batch_size"]]
        look: dict[str, Any] = {"color": color_of(color), "linestyle": "-"}
        ax.plot(at, mean, marker=marker, markersize=3.2, label=name, **look)
        ax.vlines(at, low, high, linewidth=2.2, gid=limit, **look)
    ax.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    ax.tick_params(axis="x", rotation=90 if len(sizes) > _UPRIGHT else 0)
    means = sweep[f"{measure}_{unit}"] / scale
    if 0 < _LOG_FROM * min(means) < max(means):
        ends = (sweep[f"{measure}{end}_{unit}"] / scale for end in ("_low", "_high"))
        labels.use_log_axis(ax, "y", [value for end in ends for value in end])
        label = label.replace(")", ", logarithmic)")
    else:
        ax.set_ylim(bottom=0)
    ax.set(xlabel="Batch size", ylabel=label)
    labels.legend_above(ax, ncols=2)
    return ax


_FRAME: Final = 1.3  # the frame ends at this multiple of the front's largest time and energy
_HEIGHT_IN: Final = 3.2


@figure(
    "energy-front",
    result="energy_to_accuracy",
    reading="Dot: batch size and power limit with which every run reached the target. Blue: Pareto "
    "front (no other configuration is as good in both time and energy and better in one). Labels: "
    "batch size and power limit. Axes begin above 0.",
    counts=(pl.count("tta_s"), "configuration"),
)
def plot_energy_front(energy: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the energy of each configuration versus its time, with the Pareto front.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "on_front": True})
    >>> traceana.figures.plot_energy_front(energy).get_ylabel()
    'Energy to the target (MJ)'
    """
    measures = {"h": pl.col("tta_s") / 3600, "mj": pl.col("eta_j") / 1e6}
    points = energy.select("batch_size", "power_limit_w", "on_front", **measures).sort("h", "mj")
    front, others = points.filter("on_front"), points.filter(pl.col("on_front").not_())
    (left, right), (bottom, top) = _frame(front["h"]), _frame(front["mj"])
    beyond = others.filter((pl.col("h") > right) | (pl.col("mj") > top)).height
    out_of_frame = f", {beyond:,} out of the frame" if beyond else ""
    ax = start_axes(ax, height_in=_HEIGHT_IN)
    gray: dict[str, Any] = {"s": 9, "color": shade(ax, 0.45), "linewidths": 0, "gid": "dominated"}
    beneath = f"dominated ({others.height:,}{out_of_frame})"
    ax.scatter(others["h"], others["mj"], label=beneath, **gray)
    line: dict[str, Any] = {"drawstyle": "steps-post", "linewidth": 0.9, "linestyle": "-"}
    ax.plot(front["h"], front["mj"], color=color_of(0), gid="bound", **line)
    dots: dict[str, Any] = {"s": 18, "color": color_of(0), "zorder": 4, "gid": "front"}
    ax.scatter(front["h"], front["mj"], label=f"on the front ({front.height:,})", **dots)
    # where nothing can be: left of the front and below it
    ax.set_xlim(left - 0.45 * (right - left), right)
    ax.set_ylim(bottom, top)
    ax.locator_params(nbins=6)
    _name_points(ax, front)
    ax.set(xlabel="Time to the target (h)", ylabel="Energy to the target (MJ)")
    labels.legend_above(ax)
    return ax


def _frame(values: pl.Series) -> tuple[float, float]:
    low, high = min(values), max(values)
    return low - 0.12 * (_FRAME * high - low), _FRAME * high


def _name_points(ax: Axes, front: pl.DataFrame) -> None:
    bottom, top = ax.get_ylim()
    upwards = front.sort("mj", "h", descending=[False, True])
    gap = 1.25 * labels.small_size() / 72 / (0.8 * _HEIGHT_IN)
    wanted = ((upwards["mj"] - bottom) / (top - bottom)).to_list()
    if len(wanted) * gap > 1:
        return
    rule = {"arrowstyle": "-", "color": color_of(0), "linewidth": 0.4, "relpos": (1, 0.5)}
    look: dict[str, Any] = {"arrowprops": rule | {"shrinkA": 1, "shrinkB": 1}, "va": "center"}
    look |= {"textcoords": "axes fraction", "fontsize": labels.small_size() - 0.5}
    for row, height in zip(
        upwards.iter_rows(named=True), labels.spread(wanted, gap=gap), strict=True
    ):
        name = f"{row['batch_size']}, {row['power_limit_w']:g} W"
        ax.annotate(name, (row["h"], row["mj"]), (0.02, height), **look)


_MAPPED: Final = {
    "energy": ("eta_j", 1e6, "Energy to the target (MJ)"),
    "time": ("tta_s", 3600.0, "Time to the target (h)"),
    "cost": ("cost_j", 1e6, "Cost to the target (MJ)"),
}
_FEW: Final = 4.0
_MANY: Final = 300.0


def _tick(axis: Axis, spread: float) -> None:
    """Put enough round numbers on a logarithmic axis whose ends differ by this factor."""
    subs: tuple[float, ...] = (1, 2, 5)
    if spread < _FEW:
        subs = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    axis.set_major_locator(LogLocator(subs=subs if spread < _MANY else (1,), numticks=12))
    axis.set_major_formatter("{x:,.3g}")
    axis.set_minor_locator(NullLocator())


@figure(
    "energy-map",
    result="energy_to_accuracy",
    reading="Cell: batch size and power limit with which every run reached the target; the darker, "
    "the more energy, time or cost, on a logarithmic scale. Star: the least. A missing cell was "
    "not measured or is not feasible.",
    counts=(pl.count("tta_s"), "configuration"),
)
def plot_energy_map(
    energy: pl.DataFrame, /, *, ax: Axes | None = None, measure: str = "energy"
) -> Axes:
    """Draw the energy, time or cost of each batch size and power limit as a heat map.

    Parameters
    ----------
    measure
        "energy", "time" or "cost".

    Examples
    --------
    >>> import polars as pl, traceana
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "cost_j": [52500.0, 42750.0]})
    >>> traceana.figures.plot_energy_map(energy).get_ylabel()
    'Power limit (W)'
    """
    column, scale, label = _MAPPED[measure]
    sizes = energy["batch_size"].unique().sort().to_list()
    limits = energy["power_limit_w"].unique().sort().to_list()
    cells = np.full((len(limits), len(sizes)), np.nan)
    for size, limit, value in energy.select("batch_size", "power_limit_w", column).iter_rows():
        cells[limits.index(limit), sizes.index(size)] = value / scale
    low, high = np.nanmin(cells), np.nanmax(cells)
    ax = start_axes(ax, height_in=1.2 + 0.2 * len(limits))
    # pale to dark, and without the palest yellow
    shades = ListedColormap(colormaps["viridis_r"](np.linspace(0.08, 1, 256)))
    edges = (np.arange(len(sizes) + 1) - 0.5, np.arange(len(limits) + 1) - 0.5)
    norm = LogNorm(low, high * (1 + 1e-9))
    drawn = ax.pcolormesh(*edges, cells, norm=norm, cmap=shades, gid="cells")
    row, place = np.unravel_index(np.nanargmin(cells), cells.shape)
    star: dict[str, Any] = {"marker": "*", "s": 60, "color": color_of(1), "linewidths": 0.5}
    ax.scatter([place], [row], edgecolors=shade(ax, 0), zorder=4, gid="least", **star)
    bar = figure_of(ax).colorbar(drawn, ax=ax, label=label)
    _tick(bar.ax.yaxis, high / low)
    ax.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    ax.tick_params(axis="x", rotation=90 if len(sizes) > _UPRIGHT else 0)
    ax.set_yticks(range(len(limits)), [f"{limit:g}" for limit in limits])
    ax.grid(visible=False)
    ax.set(xlabel="Batch size", ylabel="Power limit (W)")
    return ax


@figure(
    "power-sweep",
    result="energy_to_accuracy",
    reading="Line: one batch size over the power limits. Thick: the batch size of the least "
    "value, and the largest; gray: the others.",
    counts=(pl.count("tta_s"), "configuration"),
)
def plot_power_sweep(
    energy: pl.DataFrame, /, *, ax: Axes | None = None, measure: str = "energy"
) -> Axes:
    """Draw the energy, time or cost against the power limit, one line per batch size.

    Parameters
    ----------
    measure
        "energy", "time" or "cost".

    Examples
    --------
    >>> import polars as pl, traceana
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "cost_j": [52500.0, 42750.0]})
    >>> traceana.figures.plot_power_sweep(energy).get_xlabel()
    'Power limit (W)'
    """
    column, scale, label = _MAPPED[measure]
    best = energy.sort(column, "batch_size")["batch_size"][0]
    largest = energy["batch_size"].max()
    ax = start_axes(ax)
    for (size,), rows in energy.sort("batch_size", "power_limit_w").group_by(
        "batch_size", maintain_order=True
    ):
        look: dict[str, Any] = {"color": shade(ax, 0.35), "linewidth": 0.7, "zorder": 2}
        if size in (best, largest):
            what, color, width = ("least", 0, 1.6) if size == best else ("largest", 4, 1.4)
            look = {"color": color_of(color), "linewidth": width, "zorder": 3}
            look["label"] = f"batch size {size} ({what})"
        look |= {"marker": "o", "markersize": 2.2, "linestyle": "-", "gid": f"batch-{size}"}
        ax.plot(rows["power_limit_w"], rows[column] / scale, **look)
    ax.set_yscale("log")
    _tick(ax.yaxis, max(energy[column]) / min(energy[column]))
    ax.set(xlabel="Power limit (W)", ylabel=label.replace(")", ", logarithmic)"))
    labels.legend_above(ax)
    return ax
