"""Energy and time to the target over batch sizes and power limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import ListedColormap, LogNorm, to_rgb
from matplotlib.ticker import LogLocator, NullLocator

from traceana.drawing.labels import small_size
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import NDArray

_MEASURES: Final = {
    "energy": ("eta_j", 1e6, "Energy to the target (MJ)"),
    "time": ("tta_s", 3600.0, "Time to the target (h)"),
    "cost": ("cost_j", 1e6, "Cost to the target (MJ)"),
}
_UPRIGHT: Final = 9
"""With more batch sizes their labels are rotated."""
_FEW: Final = 4.0
_MANY: Final = 300.0
_WRITTEN: Final = 8
"""Columns and rows up to which each value is written into its cell."""
_LUMINANCE: Final = (0.2126, 0.7152, 0.0722)
"""Weights of red, green and blue (ITU-R BT.709)."""


def _check(energy: pl.DataFrame, measure: str, name: str) -> None:
    if measure not in _MEASURES:
        raise DataError(f"measure must be one of {', '.join(_MEASURES)}; it is {measure!r}")
    if energy.is_empty():
        raise DataError(f"{name} has nothing to draw: no configuration is feasible")


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
)
def plot_energy_map(
    energy: pl.DataFrame, /, *, ax: Axes | None = None, measure: str = "energy"
) -> Axes:
    """Draw the energy, time or cost of each batch size and power limit as a heat map.

    Batch sizes from left to right, power limits from bottom to top, with a color bar.

    Parameters
    ----------
    energy
        What `energy_to_accuracy` returns.
    measure
        "energy", "time" or "cost".

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_energy_map
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "cost_j": [52500.0, 42750.0]})
    >>> plot_energy_map(energy).get_ylabel()
    'Power limit (W)'
    """
    _check(energy, measure, "plot_energy_map")
    column, scale, label = _MEASURES[measure]
    sizes = energy["batch_size"].unique().sort().to_list()
    limits = energy["power_limit_w"].unique().sort().to_list()
    cells = np.full((len(limits), len(sizes)), np.nan)
    for size, limit, value in energy.select("batch_size", "power_limit_w", column).iter_rows():
        cells[limits.index(limit), sizes.index(size)] = value / scale
    low, high = np.nanmin(cells), np.nanmax(cells)
    ax = start_axes(ax, height_in=1.2 + 0.2 * len(limits))
    # pale to dark, and without the palest yellow
    shades = ListedColormap(colormaps["viridis_r"](np.linspace(0.08, 1, 256)))
    drawn = ax.pcolormesh(
        np.arange(len(sizes) + 1) - 0.5, np.arange(len(limits) + 1) - 0.5, cells,
        norm=LogNorm(low, high * (1 + 1e-9)), cmap=shades, gid="cells",
    )  # fmt: skip
    row, place = np.unravel_index(np.nanargmin(cells), cells.shape)
    ax.scatter([place], [row], marker="*", s=60, color=color_of(1), edgecolors=shade(ax, 0),
               linewidths=0.5, zorder=4, gid="least")  # fmt: skip
    if max(cells.shape) <= _WRITTEN:
        for (at, across), value in np.ndenumerate(cells):
            if not np.isnan(value) and (at, across) != (row, place):
                ax.text(across, at, f"{value:.3g}", ha="center", va="center",
                        fontsize=small_size() - 1.5,
                        color=_ink(ax, np.ravel(drawn.to_rgba(np.array([value])))))  # fmt: skip
    bar = ax.get_figure(root=True)
    if bar is not None:
        colorbar = bar.colorbar(drawn, ax=ax, label=label)
        _tick(colorbar.ax.yaxis, high / low)
    ax.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    ax.tick_params(axis="x", rotation=90 if len(sizes) > _UPRIGHT else 0)
    ax.set_yticks(range(len(limits)), [f"{limit:g}" for limit in limits])
    ax.grid(visible=False)
    ax.set_xlabel("Batch size")
    ax.set_ylabel("Power limit (W)")
    return ax


def _ink(ax: Axes, cell: NDArray[np.float64]) -> str:
    """Return the color of background or labels with more contrast to a cell."""
    light = np.dot(cell[:3], _LUMINANCE)
    inks = (shade(ax, 0), shade(ax))
    return max(inks, key=lambda ink: float(abs(np.dot(to_rgb(ink), _LUMINANCE) - light)))


def describe_energy_map(energy: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these configurations shows."""
    least = energy.sort("eta_j").row(0, named=True)
    return (
        f"{energy.height:,} configurations; the least energy, {least['eta_j'] / 1e6:,.3g} MJ in "
        f"{least['tta_s'] / 3600:,.3g} h, is at batch size {least['batch_size']:,} and "
        f"{least['power_limit_w']:g} W."
    )


@figure(
    "power-sweep",
    result="energy_to_accuracy",
    reading="Line: one batch size over the power limits. Thick: the batch size of the least "
    "value, and the largest; gray: the others.",
)
def plot_power_sweep(
    energy: pl.DataFrame, /, *, ax: Axes | None = None, measure: str = "energy"
) -> Axes:
    """Draw the energy, time or cost against the power limit, one line per batch size.

    The axis of the measure is logarithmic.

    Parameters
    ----------
    energy
        What `energy_to_accuracy` returns.
    measure
        "energy", "time" or "cost".

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_power_sweep
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "cost_j": [52500.0, 42750.0]})
    >>> plot_power_sweep(energy).get_xlabel()
    'Power limit (W)'
    """
    _check(energy, measure, "plot_power_sweep")
    column, scale, label = _MEASURES[measure]
    best = energy.sort(column, "batch_size")["batch_size"][0]
    largest = energy["batch_size"].max()
    ax = start_axes(ax)
    for (size,), rows in energy.sort("batch_size", "power_limit_w").group_by(
        "batch_size", maintain_order=True
    ):
        color, width, name = shade(ax, 0.35), 0.7, None
        if size == best:
            color, width, name = color_of(0), 1.6, f"batch size {size} (least)"
        elif size == largest:
            color, width, name = color_of(4), 1.4, f"batch size {size} (largest)"
        ax.plot(
            rows["power_limit_w"], rows[column] / scale, color=color, linewidth=width, marker="o",
            markersize=2.2, linestyle="-", label=name, zorder=3 if name else 2, gid=f"batch-{size}",
        )  # fmt: skip
    ax.set_yscale("log")
    _tick(ax.yaxis, max(energy[column]) / min(energy[column]))
    ax.set_xlabel("Power limit (W)")
    ax.set_ylabel(label.replace(")", ", logarithmic)"))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    return ax


def describe_power_sweep(energy: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these configurations shows."""
    least = energy.sort("eta_j").row(0, named=True)
    sizes, limits = (energy[name].n_unique() for name in ("batch_size", "power_limit_w"))
    return (
        f"{sizes} batch sizes, {limits} power limits; the least energy is at "
        f"{least['power_limit_w']:g} W."
    )
