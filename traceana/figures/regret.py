"""Cumulative regret of the policies of a recurring job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = (
    "Line: cost of all recurrences so far minus the expected cost of the best feasible batch size "
    "and power limit (oracle); flat once a policy has found it. One seed."
)
_COLOURS: Final = {"zeus": "#0072B2", "grid": "#E69F00", "default": "#9A9A9A", "oracle": "#009E73"}
_STYLES: Final = {"zeus": "-", "grid": "--", "default": ":", "oracle": "-."}


@figure(
    "regret",
    result="recurrences of simulate_recurring, with their policy",
    source="Zeus (NSDI'23): regret of a recurring job",
)
def plot_regret(recurrences: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw cumulative regret by recurrence, one line per policy.

    Parameters
    ----------
    recurrences
        [policy, recurrence, cumulative_regret_j]: `recurrences` of `simulate_recurring` results
        with their policy.

    Returns
    -------
    Axes
        One line per policy, in the order of their rows.

    Raises
    ------
    DataError
        If there is no row, or a regret is null as there is no oracle.
    """
    if recurrences.is_empty() or recurrences["cumulative_regret_j"].has_nulls():
        raise DataError("plot_regret has nothing to draw: there is no recurrence or no oracle")
    ax = start_axes(ax)
    for (policy,), rows in recurrences.group_by("policy", maintain_order=True):
        name = str(policy)
        ax.plot(
            rows["recurrence"], rows["cumulative_regret_j"] / 1e6, label=name, gid=name,
            color=_COLOURS.get(name), linestyle=_STYLES.get(name, "-"), linewidth=1.2,
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
