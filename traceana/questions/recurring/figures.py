"""Recurring jobs: choices of batch size, regret, paths over the costs, and variants."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from traceana.drawing import labels
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, figure_of, shade, start_axes
from traceana.errors import DataError
from traceana.questions.energy.figures import plot_energy_front, plot_energy_map
from traceana.simulate.recurring.tables import RecurringResult

_LOOKS: Final = {"zeus": (0, "-"), "grid": (4, "--"), "default": (3, ":"), "oracle": (2, "-.")}
"""Place among the colors of the style, and line style."""


@figure(
    "recurring-choices",
    result="simulate_recurring",
    reading="Dot: run that reached the target, colored by its power limit. Cross: run that missed "
    "it, usually because it was stopped early. A batch size without a mark was never run.",
    counts=(pl.count("batch_size"), "run"),
)
def plot_recurring_choices(
    result: RecurringResult | pl.DataFrame, /, *, ax: Axes | None = None
) -> Axes:
    """Draw the batch size of every run against its recurrence.

    Parameters
    ----------
    result
        What `simulate_recurring` returns, or its history.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> history = pl.DataFrame({"recurrence": [1, 2, 3], "batch_size": [1024, 128, 128],
    ...                         "power_limit_w": [200.0, 200.0, 150.0], "reached": True})
    >>> traceana.figures.plot_recurring_choices(history).get_ylabel()
    'Batch size'
    """
    history = result if isinstance(result, pl.DataFrame) else result.history
    offered = [] if isinstance(result, pl.DataFrame) else result.job.batches
    sizes = sorted({*offered, *history["batch_size"]})
    # without its yellow, which is too pale on white
    shades = ListedColormap(colormaps["viridis"](np.linspace(0.85, 0, 256)))
    ax = start_axes(ax)
    limits = history["power_limit_w"]
    scale: dict[str, Any] = {"vmin": limits.min(), "vmax": limits.max(), "cmap": shades}
    for reached, marker, size, width in ((True, "o", 12, 0), (False, "x", 22, 1.1)):
        runs = history.filter(reached=reached)
        rows = [sizes.index(each) for each in runs["batch_size"]]
        look: dict[str, Any] = {"s": size, "marker": marker, "linewidths": width, **scale}
        gid = "reached" if reached else "missed"
        dots = ax.scatter(runs["recurrence"], rows, c=runs["power_limit_w"], gid=gid, **look)
    figure_of(ax).colorbar(dots, ax=ax, label="Power limit (W)")
    ax.set_yticks(range(len(sizes)), [str(size) for size in sizes])
    ax.set_ylim(-0.6, len(sizes) - 0.4)
    ax.set_xlim(left=-max(history["recurrence"]) / 40)
    ax.set(xlabel="Recurrence", ylabel="Batch size")
    return ax


@figure(
    "regret",
    result="recurrences of simulate_recurring, with their policy",
    reading="Line: cost of all recurrences so far minus the expected cost of the best feasible "
    "batch size and power limit (oracle); flat once a policy has found it. One seed.",
    counts=(pl.n_unique("recurrence"), "recurrence"),
)
def plot_regret(recurrences: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw cumulative regret by recurrence, one line per policy.

    Parameters
    ----------
    recurrences
        `recurrences` of `simulate_recurring` results, with a column `policy`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> regret = pl.DataFrame({"policy": "zeus", "recurrence": [1, 2, 3],
    ...                        "cumulative_regret_j": [8100.0, 8100.0, 9000.0]})
    >>> traceana.figures.plot_regret(regret).get_ylabel()
    'Cumulative regret (MJ)'
    """
    if recurrences["cumulative_regret_j"].has_nulls():
        raise DataError("plot_regret has nothing to draw: there is no oracle")
    ax = start_axes(ax)
    for (policy,), rows in recurrences.group_by("policy", maintain_order=True):
        name, regret_mj = str(policy), rows["cumulative_regret_j"] / 1e6
        place, line = _LOOKS.get(name, (5, "-"))
        look: dict[str, Any] = {"color": color_of(place), "linestyle": line, "linewidth": 1.2}
        ax.plot(rows["recurrence"], regret_mj, label=labels.name_group([name]), gid=name, **look)
    ax.set_xlim(left=0)
    ax.set(xlabel="Recurrence", ylabel="Cumulative regret (MJ)")
    labels.legend_above(ax, ncols=4)
    return ax


@figure(
    "search-path",
    result="energy_to_accuracy, and the history of simulate_recurring",
    reading="Cell: batch size and power limit; the darker, the higher its cost, and so its regret, "
    "the cost above the least (star). Line: configurations of the runs in their order; dots grow "
    "with the number of runs.",
    counts=(pl.count("tta_s"), "configuration"),
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
    >>> import polars as pl, traceana
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "cost_j": [52500.0, 42750.0]})
    >>> history = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0})
    >>> traceana.figures.plot_search_path(energy, history=history).get_xlabel()
    'Batch size'
    """
    sizes = energy["batch_size"].unique().sort().to_list()
    limits = energy["power_limit_w"].unique().sort().to_list()
    # infeasible batch sizes are not on the map
    path = [
        (sizes.index(size), limits.index(limit))
        for size, limit in history.select("batch_size", "power_limit_w").iter_rows()
        if size in sizes and limit in limits
    ]
    ax = plot_energy_map(energy, ax=ax, measure="cost")
    look: dict[str, Any] = {"color": color_of(1), "linewidth": 1.0, "linestyle": "-", "gid": "path"}
    edge = withStroke(linewidth=2.2, foreground=shade(ax, 0))
    ax.plot(*zip(*path, strict=True), **look, path_effects=[edge])
    places = list(dict.fromkeys(path))
    areas = [8 + 40 * path.count(place) / len(path) for place in places]
    dots: dict[str, Any] = {"color": color_of(1), "edgecolors": shade(ax, 0), "linewidths": 0.5}
    across, up = zip(*places, strict=True)
    ax.scatter(across, up, s=areas, zorder=5, gid="runs", **dots)
    return ax


@figure(
    "energy-optima",
    result="energy_to_accuracy, and eta_sweep",
    reading="As energy-front. Star: configuration of least cost at a weight of energy eta; its "
    "label has the range of eta from 0 (time alone) to 1 (energy alone).",
    counts=(pl.count("tta_s"), "configuration"),
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
    >>> import polars as pl, traceana
    >>> energy = pl.DataFrame({"batch_size": [128, 1024], "power_limit_w": 200.0,
    ...                        "tta_s": [300.0, 225.0], "eta_j": [45000.0, 40500.0],
    ...                        "on_front": [False, True]})
    >>> optima = pl.DataFrame({"eta": [0.0, 1.0], "tta_s": 225.0, "eta_j": 40500.0})
    >>> traceana.figures.plot_energy_optima(energy, optima=optima).get_xlabel()
    'Time to the target (h)'
    """
    ax = plot_energy_front(energy, ax=ax)
    table = optima.drop_nulls(["tta_s", "eta_j"])
    same = table.group_by("tta_s", "eta_j", maintain_order=True)
    for time_s, energy_j, low, high in same.agg(low=pl.min("eta"), high=pl.max("eta")).rows():
        text = f"η = {low:g}" if low == high else f"η = {low:g} to {high:g}"
        at = (time_s / 3600, energy_j / 1e6)
        ax.scatter([at[0]], [at[1]], marker="*", s=60, color=color_of(1), zorder=5)
        behind = {**labels.on_background(ax), "alpha": 0.75}
        labels.write_beside(ax, text, at, (7, 8), fontsize="small", bbox=behind, zorder=6)
    return ax


_HEADINGS: Final = {"beta": "Stop at beta times the least cost", "part left out": "Part left out"}


@figure(
    "policy-variants",
    result="policy_variants",
    reading="Dot: geometric mean over data sets of the energy relative to the policy (beta and "
    "parts) or to the default (GPU). Line: range over seeds. Dashed line: 1, no difference.",
    counts=(pl.count("energy"), "variant"),
)
def plot_policy_variants(variants: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the relative energy of the variants of a policy, one row per variant.

    Parameters
    ----------
    variants
        Rows of one comparison: [comparison, variant, energy, energy_low, energy_high].

    Examples
    --------
    >>> import polars as pl, traceana
    >>> variants = pl.DataFrame({"comparison": "beta", "variant": ["2", "5"], "energy": [1.0, 1.05],
    ...                          "energy_low": [1.0, 1.02], "energy_high": [1.0, 1.08]})
    >>> traceana.figures.plot_policy_variants(variants).get_xlabel()
    'Relative energy (geometric mean)'
    """
    table = variants.drop_nulls("energy")
    ax = start_axes(ax, height_in=0.8 + 0.26 * table.height)
    rows = range(table.height)
    line: dict[str, Any] = {"color": color_of(0), "linewidth": 1.2, "linestyle": "-"}
    ax.hlines(rows, table["energy_low"], table["energy_high"], **line, gid="seeds")
    ax.plot(table["energy"], rows, marker="o", markersize=4, linestyle="none", color=color_of(0))
    for row, energy in enumerate(table["energy"]):
        where: dict[str, Any] = {"textcoords": "offset points", "ha": "center"}
        ax.annotate(f"{energy:.3f}", (energy, row), (0, 3), **where, fontsize="small")
    ax.axvline(1, color=shade(ax), linewidth=0.8, linestyle="--", zorder=0.5)
    what = table["comparison"][0]
    names = table["variant"].str.to_uppercase() if what == "GPU" else table["variant"]
    ax.set_yticks(rows, [labels.name_tick(variant) for variant in names])
    ax.set_ylim(table.height - 0.5, -0.7)
    ax.margins(x=0.12)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("Relative energy (geometric mean)")
    ax.set_ylabel(_HEADINGS.get(what, what))
    return ax


_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_WIDE: Final = 0.64
"""Fraction of a row over which its GPUs are placed."""


@figure(
    "energy-saved",
    result="energy saved, such as summarize_recurring",
    reading="Mark: energy (or time) saved relative to the default; line: 95 % interval, often "
    "shorter than the mark. Left of 0: more is used.",
    counts=(pl.n_unique("dataset"), "data set"),
)
def plot_energy_saved(summary: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the energy or time saved, one row per data set and one mark per GPU.

    Parameters
    ----------
    summary
        What `summarize_recurring` returns, of at most six GPUs; time without the columns of energy.
        A null has no mark; a null bound no line.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> summary = pl.DataFrame({"gpu": "V100", "dataset": ["cifar100"], "energy_saved": 0.2,
    ...                         "energy_saved_ci_low": 0.15, "energy_saved_ci_high": 0.25})
    >>> traceana.figures.plot_energy_saved(summary).get_xlabel()
    'Energy saved'
    """
    measure = "energy_saved" if "energy_saved" in summary.columns else "time_saved"
    table = summary.drop_nulls(measure)
    gpus = table["gpu"].unique().sort().to_list()
    if not 0 < len(gpus) <= len(_MARKERS):
        raise DataError(f"plot_energy_saved draws one to six GPUs, not {len(gpus)}")
    datasets = table["dataset"].unique().sort().to_list()
    low, high = f"{measure}_ci_low", f"{measure}_ci_high"
    ax = start_axes(ax, height_in=0.9 + 0.36 * len(datasets))
    for place, gpu in enumerate(gpus):
        color = color_of(place)
        shift = _WIDE * ((place + 0.5) / len(gpus) - 0.5)
        row = pl.col("dataset").replace_strict(
            datasets, [row + shift for row in range(len(datasets))]
        )
        rows = table.filter(gpu=gpu).with_columns(row=row)
        if low in rows.columns:
            bounded = rows.drop_nulls(low)
            line: dict[str, Any] = {"color": color, "linewidth": 1.1, "linestyle": "-"}
            ax.hlines(bounded["row"], bounded[low], bounded[high], **line, gid=gpu)
        marks: dict[str, Any] = {"marker": _MARKERS[place], "markersize": 3.4, "linestyle": "none"}
        ax.plot(
            rows[measure],
            rows["row"],
            **marks,
            color=color,
            label=labels.name_group([gpu and gpu.upper()]),
        )
    ax.axvline(0, color=shade(ax), linewidth=0.8, linestyle="--", zorder=0.5)
    ax.xaxis.set_major_locator(MaxNLocator(6))  # a percentage is wide
    ax.xaxis.set_major_formatter(labels.Percent())
    labels.name_rows(ax, datasets)
    ax.set_xlabel(measure.replace("_", " ").capitalize())
    labels.legend_above(ax, ncols=4, handletextpad=0.2)
    return ax
