"""Deadlines met by policy, and GPUs allocated and fragmented as a cluster fills up."""

from __future__ import annotations

from typing import Any, Final

import polars as pl
from matplotlib.axes import Axes

from traceana.drawing import labels
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, start_axes
from traceana.tables.formatting import share

_MOST_BARRED: Final = 3
"""Groups that have bars with names; more have marks."""
_MARKERS: Final = ("o", "s", "^", "D", "v", "P")


@figure(
    "deadlines-met",
    result="simulate_schedule(...).groups of several policies",
    reading="Bar or mark: fraction of the jobs of a group that ended by their deadline under a "
    "policy.",
    counts=(pl.n_unique("group"), "group"),
)
def plot_deadlines_met(groups: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the fraction of deadlines met, one bar per group and policy, or a mark for many groups.

    Parameters
    ----------
    groups
        `groups` of the results of `simulate_schedule`, of one or more policies.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0, 0], "runtime_s": [100, 100],
    ...                      "gpus": [1, 1], "deadline_s": [150, 150]})
    >>> found = traceana.simulate_schedule(jobs, policy="fifo", gpus=1)
    >>> traceana.figures.plot_deadlines_met(found.groups).get_xlabel()
    'Deadlines met'
    """
    table = groups.drop_nulls("fraction_met")
    names = labels.natural_order(table["group"].unique())
    policies = table["policy"].unique(maintain_order=True).to_list()
    barred = len(names) <= _MOST_BARRED
    tall = 0.7 + 0.13 * len(names) * len(policies) if barred else 1.0 + 0.3 * len(names)
    ax = start_axes(ax, height_in=tall)
    width = (0.8 if barred else 0.7) / len(policies)
    for nth, policy in enumerate(policies):
        rows = table.filter(policy=policy)
        look: dict[str, Any] = {"color": color_of(nth), "label": labels.name_group([policy])}
        at = [names.index(name) + width * (nth + 0.5 - len(policies) / 2) for name in rows["group"]]
        if barred:
            bars = ax.barh(at, 100 * rows["fraction_met"], width, **look)
            texts = [f"{policy} {share(met)}" for met in rows["fraction_met"]]
            ax.bar_label(bars, texts, padding=2, fontsize=labels.small_size() - 1)
        else:
            look |= {"marker": _MARKERS[nth % len(_MARKERS)], "gid": policy}
            ax.scatter(rows["fraction_met"], at, s=14, linewidths=0, **look)
    ax.set_xlabel("Deadlines met")
    if barred:
        labels.name_rows(ax, names)
        ax.set_xlim(0, 130)  # room for the names
        ax.set_xticks(range(0, 101, 25))
        ax.xaxis.set_major_formatter(labels.Percent(100))
    else:
        labels.name_rows(ax, names, below=0.6)
        ax.set_xlim(0, labels.end_of_percent(table["fraction_met"]))
        ax.xaxis.set_major_formatter(labels.Percent())
        labels.legend_above(ax, ncols=3, handletextpad=0.1)
    return ax


_FIRST: Final = 70  # below, every policy allocates nearly all requests
_LINE: Final = "Line: one placement policy, mean over seeds. "


@figure(
    "placement-allocated",
    result="simulate_placement with a column policy",
    reading=f"{_LINE}Horizontal: GPUs that the jobs requested so far; vertical: GPUs allocated, "
    "both in percent of all GPUs. On the thin line every request is placed.",
    counts=(pl.n_unique("policy"), "line"),
)
def plot_placement_allocated(placement: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the GPUs allocated against the GPUs requested by policy, the mean over seeds.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs, machines = pl.DataFrame({"gpus": [0.5, 1]}), pl.DataFrame({"gpus": [2, 2]})
    >>> placed = traceana.simulate_placement(jobs, machines, policy="fgd")
    >>> ax = traceana.figures.plot_placement_allocated(placed.with_columns(policy=pl.lit("fgd")))
    >>> ax.get_ylabel()
    'Allocated GPUs'
    """
    late = placement.filter(pl.col("arrived") >= _FIRST)
    ax = _lines(late, "allocated", ax)
    full = [_FIRST, 100]
    ax.plot(full, full, color="0.6", linewidth=0.8, zorder=0)
    ax.set_ylabel("Allocated GPUs")
    return ax


@figure(
    "placement-fragment",
    result="simulate_placement with a column policy",
    reading=f"{_LINE}Horizontal: GPUs that the jobs requested so far; vertical: free GPUs that "
    "typical requests cannot use, both in percent of all GPUs.",
    counts=(pl.n_unique("policy"), "line"),
)
def plot_placement_fragment(placement: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the fragment against the GPUs requested by policy, the mean over seeds.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_placement_fragment
    >>> jobs, machines = pl.DataFrame({"gpus": [0.5, 1]}), pl.DataFrame({"gpus": [2, 2]})
    >>> placed = traceana.simulate_placement(jobs, machines, policy="fgd")
    >>> plot_placement_fragment(placed.with_columns(policy=pl.lit("fgd"))).get_ylabel()
    'Fragment'
    """
    ax = _lines(placement, "fragment", ax)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("Fragment")
    return ax


def _lines(placement: pl.DataFrame, quantity: str, ax: Axes | None) -> Axes:
    ax = _policies(placement, "arrived", quantity, ax)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(labels.Percent(100))
    ax.set_xlabel("Requested GPUs")
    return ax


@figure(
    "policy-lines",
    result="[policy, x, y] of schedules under several policies",
    reading="Line: one policy, mean over its rows at each value of the horizontal axis.",
    counts=(pl.len(), "point"),
)
def plot_policy_lines(lines: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw a quantity of schedules against another one, one line per policy.

    Parameters
    ----------
    lines
        A column policy, then those of the horizontal and the vertical axis, named as their labels.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> lines = pl.DataFrame({"policy": "fifo", "GPUs": [8, 16], "Mean wait (s)": [60.0, 0.0]})
    >>> traceana.figures.plot_policy_lines(lines).get_ylabel()
    'Mean wait (s)'
    """
    x, y = (name for name in lines.columns if name != "policy")
    ax = _policies(lines, x, y, ax)
    ax.set_ylim(bottom=0)
    ax.set(xlabel=x, ylabel=y)
    return ax


def _policies(lines: pl.DataFrame, x: str, y: str, ax: Axes | None) -> Axes:
    policies = lines["policy"].unique(maintain_order=True).to_list()
    ax = start_axes(ax)
    for policy in policies:
        mean = lines.filter(policy=policy).group_by(x).agg(pl.col(y).mean()).sort(x)
        ax.plot(mean[x], mean[y], label=labels.name_group([policy]))
    ax.margins(x=0)
    ax.locator_params(axis="x", nbins=5)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return ax
