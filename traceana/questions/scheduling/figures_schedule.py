"""Deadlines met by policy and group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.drawing.labels import name_tick, natural_order
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@figure(
    "deadlines-met",
    result="simulate_schedule(...).groups of several policies",
    reading="Bar: fraction of the jobs of a group that ended by their deadline under a policy.",
)
def plot_deadlines_met(groups: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the fraction of deadlines met, one bar per group and policy.

    Parameters
    ----------
    groups
        `groups` of the results of `simulate_schedule`, of one or more policies.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_deadlines_met
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0, 0], "runtime_s": [100, 100],
    ...                      "gpus": [1, 1], "deadline_s": [150, 150]})
    >>> found = traceana.simulate_schedule(jobs, policy="fifo", gpus=1)
    >>> plot_deadlines_met(found.groups).get_ylabel()
    'Deadlines met (%)'
    """
    known = groups.drop_nulls("fraction_met")
    if known.is_empty():
        raise DataError("plot_deadlines_met has nothing to draw: no job has a deadline")
    names = natural_order(known["group"].unique())
    policies = known["policy"].unique(maintain_order=True).to_list()
    ax = start_axes(ax)
    width = 0.8 / len(policies)
    for nth, policy in enumerate(policies):
        rows = known.filter(policy=policy)
        at = [names.index(name) + width * (nth + 0.5) - 0.4 for name in rows["group"]]
        ax.bar(at, 100 * rows["fraction_met"], width, color=color_of(nth), label=policy)
    ax.set_xticks(range(len(names)), [name_tick(name) for name in names], rotation=45, ha="right")
    ax.set_ylim(0, 100)
    ax.grid(visible=False, axis="x")
    ax.set_ylabel("Deadlines met (%)")
    ax.set_title("Deadlines met by policy", pad=6 + 13 * -(-len(policies) // 3))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)
    return ax


def describe_deadlines_met(groups: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these fractions shows."""
    known = groups.drop_nulls("fraction_met")
    met = pl.col("fraction_met").mean()
    means = known.group_by("policy", maintain_order=True).agg(met)
    texts = (f"{policy} {100 * met:.1f} %" for policy, met in means.iter_rows())
    return f"Means over {known['group'].n_unique()} groups: {', '.join(texts)}."
