"""Recurring jobs: choices of batch size, and regret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.colors import ListedColormap

from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from traceana.simulate.recurring.tables import RecurringResult

_LOOKS: Final = {"zeus": (0, "-"), "grid": (4, "--"), "default": (3, ":"), "oracle": (2, "-.")}
"""Place among the colors of the style, and line style."""


@figure(
    "recurring-choices",
    result="simulate_recurring",
    reading="Dot: run that reached the target, colored by its power limit. Cross: run that missed "
    "it, usually because it was stopped early. A batch size without a mark was never run.",
)
def plot_recurring_choices(
    result: RecurringResult | pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    batch_sizes: list[int] | None = None,
) -> Axes:
    """Draw the batch size of every run against its recurrence.

    One row per batch size, the smallest at the bottom, with a color bar of power limits.

    Parameters
    ----------
    result
        What `simulate_recurring` returns, or its history.
    batch_sizes
        Batch sizes to choose from; by default those of the result.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_recurring_choices
    >>> history = pl.DataFrame({"recurrence": [1, 2, 3], "batch_size": [1024, 128, 128],
    ...                         "power_limit_w": [200.0, 200.0, 150.0], "reached": True})
    >>> plot_recurring_choices(history).get_ylabel()
    'Batch size'
    """
    history, known = _history(result)
    if history.is_empty():
        raise DataError("plot_recurring_choices has nothing to draw: there is no run")
    sizes = sorted({*(batch_sizes or known), *history["batch_size"]})
    row = {size: place for place, size in enumerate(sizes)}
    # without its yellow, which is too pale on white
    shades = ListedColormap(colormaps["viridis"](np.linspace(0.85, 0, 256)))
    ax = start_axes(ax)
    for reached, marker, size in ((True, "o", 12), (False, "x", 22)):
        runs = history.filter(reached=reached)
        dots = ax.scatter(
            runs["recurrence"], [row[each] for each in runs["batch_size"]], s=size,
            c=runs["power_limit_w"], marker=marker, linewidths=0 if reached else 1.1,
            vmin=min(history["power_limit_w"]), vmax=max(history["power_limit_w"]),
            cmap=shades, gid="reached" if reached else "missed",
        )  # fmt: skip
    figure = ax.get_figure(root=True)
    if figure is not None:
        figure.colorbar(dots, ax=ax, label="Power limit (W)")
    ax.set_yticks(range(len(sizes)), [str(size) for size in sizes])
    ax.set_ylim(-0.6, len(sizes) - 0.4)
    ax.set_xlim(left=-max(history["recurrence"]) / 40)
    ax.set_xlabel("Recurrence")
    ax.set_ylabel("Batch size")
    return ax


def _history(result: RecurringResult | pl.DataFrame) -> tuple[pl.DataFrame, list[int]]:
    if isinstance(result, pl.DataFrame):
        return result, []
    return result.history, list(result.job.batches)


def describe_recurring_choices(result: RecurringResult | pl.DataFrame) -> str:
    """Return one sentence on what the figure of this result shows."""
    history, _ = _history(result)
    most = history["batch_size"].mode().sort()[0]
    share = (history["batch_size"] == most).mean()
    missed = history.filter(pl.col("reached").not_()).height
    return (
        f"{history.height:,} runs in {history['recurrence'].n_unique():,} recurrences, {missed} "
        f"missed; batch size {most:,} in {100 * float(str(share)):.0f} % of them."
    )


@figure(
    "regret",
    result="recurrences of simulate_recurring, with their policy",
    reading="Line: cost of all recurrences so far minus the expected cost of the best feasible "
    "batch size and power limit (oracle); flat once a policy has found it. One seed.",
)
def plot_regret(recurrences: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw cumulative regret by recurrence, one line per policy.

    Parameters
    ----------
    recurrences
        `recurrences` of `simulate_recurring` results, with a column `policy`.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_regret
    >>> regret = pl.DataFrame({"policy": "zeus", "recurrence": [1, 2, 3],
    ...                        "cumulative_regret_j": [8100.0, 8100.0, 9000.0]})
    >>> plot_regret(regret).get_ylabel()
    'Cumulative regret (MJ)'
    """
    if recurrences.is_empty() or recurrences["cumulative_regret_j"].has_nulls():
        raise DataError("plot_regret has nothing to draw: there is no recurrence or no oracle")
    ax = start_axes(ax)
    for (policy,), rows in recurrences.group_by("policy", maintain_order=True):
        name = str(policy)
        place, line = _LOOKS.get(name, (5, "-"))
        ax.plot(
            rows["recurrence"], rows["cumulative_regret_j"] / 1e6, label=name, gid=name,
            color=color_of(place), linestyle=line, linewidth=1.2,
        )  # fmt: skip
    ax.set_xlim(left=0)
    ax.set_xlabel("Recurrence")
    ax.set_ylabel("Cumulative regret (MJ)")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)
    return ax


def describe_regret(recurrences: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these recurrences shows."""
    last = recurrences.group_by("policy", maintain_order=True).last()
    last_regrets = ", ".join(
        f"{policy} {regret_j / 1e6:,.2f} MJ"
        for policy, regret_j in last.select("policy", "cumulative_regret_j").iter_rows()
    )
    return f"{recurrences['recurrence'].n_unique()} recurrences; final regret: {last_regrets}."
