"""Energy versus time to the target, with the Pareto front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.drawing.labels import small_size, spread
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRAME: Final = 1.3
"""The frame ends at this multiple of the front's largest time and energy."""
_HEIGHT_IN: Final = 3.2


@figure(
    "energy-front",
    result="energy_to_accuracy",
    reading="Dot: batch size and power limit with which every run reached the target. Blue: Pareto "
    "front (no other configuration is as good in both time and energy and better in one). Labels: "
    "batch size and power limit. Axes begin above 0.",
)
def plot_energy_front(energy: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the energy of each configuration versus its time, with the Pareto front.

    Gray dots for dominated configurations and blue ones for the front, labeled with batch size and
    power limit, in a frame that ends a little beyond the front.

    Parameters
    ----------
    energy
        What `energy_to_accuracy` returns.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_energy_front
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "on_front": True})
    >>> plot_energy_front(energy).get_ylabel()
    'Energy to the target (MJ)'
    """
    if energy.is_empty():
        raise DataError("plot_energy_front has nothing to draw: no configuration is feasible")
    points = energy.select(
        "batch_size",
        "power_limit_w",
        "on_front",
        h=pl.col("tta_s") / 3600,
        mj=pl.col("eta_j") / 1e6,
    ).sort("h", "mj")
    front, others = points.filter("on_front"), points.filter(pl.col("on_front").not_())
    (left, right), (bottom, top) = _frame(front["h"]), _frame(front["mj"])
    beyond = others.filter((pl.col("h") > right) | (pl.col("mj") > top)).height
    out_of_frame = f", {beyond:,} out of the frame" if beyond else ""
    ax = start_axes(ax, height_in=_HEIGHT_IN)
    ax.scatter(
        others["h"], others["mj"], s=9, color=shade(ax, 0.45), linewidths=0, gid="dominated",
        label=f"dominated ({others.height:,}{out_of_frame})",
    )  # fmt: skip
    ax.plot(
        front["h"], front["mj"], drawstyle="steps-post", color=color_of(0), linewidth=0.9,
        linestyle="-", gid="bound",
    )  # fmt: skip
    ax.scatter(
        front["h"], front["mj"], s=18, color=color_of(0), zorder=4, gid="front",
        label=f"on the front ({front.height:,})",
    )  # fmt: skip
    # where nothing can be: left of the front and below it
    ax.set_xlim(left - 0.45 * (right - left), right)
    ax.set_ylim(bottom, top)
    _name_points(ax, front)
    ax.set_xlabel("Time to the target (h)")
    ax.set_ylabel("Energy to the target (MJ)")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    return ax


def describe_energy_front(energy: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these configurations shows."""
    return (
        f"{energy.height:,} configurations of {energy['batch_size'].n_unique()} batch sizes, "
        f"{energy['on_front'].sum()} on the front."
    )


def _frame(values: pl.Series) -> tuple[float, float]:
    low, high = min(values), max(values)
    return low - 0.12 * (_FRAME * high - low), _FRAME * high


def _name_points(ax: Axes, front: pl.DataFrame) -> None:
    bottom, top = ax.get_ylim()
    upwards = front.sort("mj", "h", descending=[False, True])
    gap = 1.25 * small_size() / 72 / (0.8 * _HEIGHT_IN)
    wanted = ((upwards["mj"] - bottom) / (top - bottom)).to_list()
    if len(wanted) * gap > 1:
        return
    for row, height in zip(upwards.iter_rows(named=True), spread(wanted, gap=gap), strict=True):
        ax.annotate(
            f"{row['batch_size']}, {row['power_limit_w']:g} W", (row["h"], row["mj"]),
            (0.02, height), textcoords="axes fraction", va="center", fontsize=small_size() - 0.5,
            arrowprops={"arrowstyle": "-", "color": color_of(0), "linewidth": 0.4,
                        "relpos": (1, 0.5), "shrinkA": 1, "shrinkB": 1},
        )  # fmt: skip
