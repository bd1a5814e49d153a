"""Configurations that a policy runs on the map of costs, and optima on the front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.patheffects import withStroke

from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade
from traceana.errors import DataError
from traceana.questions.energy.figures_front import plot_energy_front
from traceana.questions.energy.figures_map import plot_energy_map

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes


@figure(
    "search-path",
    result="energy_to_accuracy, and the history of simulate_recurring",
    reading="Cell: batch size and power limit; the darker, the higher its cost, and so its regret, "
    "the cost above the least (star). Line: configurations of the runs in their order; dots grow "
    "with the number of runs.",
)
def plot_search_path(
    energy: pl.DataFrame, /, *, history: pl.DataFrame, ax: Axes | None = None
) -> Axes:
    """Draw the configurations that a policy ran on the map of costs.

    Parameters
    ----------
    energy
        What `energy_to_accuracy` returns.
    history
        `history` of `simulate_recurring`: [batch_size, power_limit_w] of each run.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_search_path
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "cost_j": [52500.0, 42750.0]})
    >>> history = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0})
    >>> plot_search_path(energy, history=history).get_xlabel()
    'Batch size'
    """
    sizes = energy["batch_size"].unique().sort().to_list()
    limits = energy["power_limit_w"].unique().sort().to_list()
    # infeasible batch sizes are not on the map
    known = [
        (sizes.index(size), limits.index(limit))
        for size, limit in history.select("batch_size", "power_limit_w").iter_rows()
        if size in sizes and limit in limits
    ]
    if not known:
        raise DataError("plot_search_path has nothing to draw: no run is on the map")
    ax = plot_energy_map(energy, ax=ax, measure="cost")
    line = withStroke(linewidth=2.2, foreground=shade(ax, 0))
    ax.plot(*zip(*known, strict=True), color=color_of(1), linewidth=1.0, linestyle="-",
            path_effects=[line], gid="path")  # fmt: skip
    places = list(dict.fromkeys(known))
    across, up = zip(*places, strict=True)
    ax.scatter(
        across, up, s=[8 + 40 * known.count(one) / len(known) for one in places],
        color=color_of(1), edgecolors=shade(ax, 0), linewidths=0.5, zorder=5, gid="runs",
    )  # fmt: skip
    return ax


def describe_search_path(energy: pl.DataFrame) -> str:
    """Return one sentence on the map."""
    least = energy.sort("cost_j").row(0, named=True)
    return (
        f"{energy.height:,} configurations; the least cost is at batch size "
        f"{least['batch_size']:,} and {least['power_limit_w']:g} W."
    )


@figure(
    "energy-optima",
    result="energy_to_accuracy, and eta_sweep",
    reading="As energy-front. Star: configuration of least cost at a weight of energy eta; the "
    "label has the range of eta from 0 (time alone) to 1 (energy alone).",
)
def plot_energy_optima(
    energy: pl.DataFrame, /, *, optima: pl.DataFrame, ax: Axes | None = None
) -> Axes:
    """Draw the optimum of each weight of energy on the Pareto front.

    Parameters
    ----------
    energy
        What `energy_to_accuracy` returns.
    optima
        What `eta_sweep` returns: [eta, tta_s, eta_j].

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_energy_optima
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "on_front": [False, True]})
    >>> optima = pl.DataFrame({"eta": [0.0, 1.0], "tta_s": 225.0, "eta_j": 40500.0})
    >>> plot_energy_optima(energy, optima=optima).get_xlabel()
    'Time to the target (h)'
    """
    ax = plot_energy_front(energy, ax=ax)
    known = optima.drop_nulls(["tta_s", "eta_j"])
    for (time_s, energy_j), rows in known.group_by("tta_s", "eta_j", maintain_order=True):
        low, high = rows["eta"].to_numpy().min(), rows["eta"].to_numpy().max()
        text = f"η = {low:g}" if low == high else f"η = {low:g} to {high:g}"
        at = (float(str(time_s)) / 3600, float(str(energy_j)) / 1e6)
        ax.scatter([at[0]], [at[1]], marker="*", s=60, color=color_of(1), zorder=5)
        ax.annotate(text, at, (6, 5), textcoords="offset points", fontsize="small")
    return ax


def describe_energy_optima(energy: pl.DataFrame) -> str:
    """Return one sentence on the front."""
    return f"{energy['on_front'].sum()} of {energy.height:,} configurations are on the front."
