"""GPUs allocated and fragmented as a cluster fills up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.ticker import PercentFormatter

from traceana.drawing.registry import figure
from traceana.drawing.style import start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIRST: Final = 70  # below, every policy allocates nearly all requests
_MOST: Final = 8
_LINE: Final = "Line: one placement policy, mean over seeds. "


@figure(
    "placement-allocated",
    result="simulate_placement with a column policy",
    reading=f"{_LINE}Horizontal: GPUs that the jobs requested so far; vertical: GPUs allocated, "
    "both in percent of all GPUs. On the thin line every request is placed.",
)
def plot_placement_allocated(placement: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the GPUs allocated against the GPUs requested by policy.

    Parameters
    ----------
    placement
        What `simulate_placement` returns, with a column policy; rows of several seeds are averaged.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_placement_allocated
    >>> jobs, machines = pl.DataFrame({"gpus": [0.5, 1]}), pl.DataFrame({"gpus": [2, 2]})
    >>> placed = traceana.simulate_placement(jobs, machines, policy="fgd")
    >>> ax = plot_placement_allocated(placed.with_columns(policy=pl.lit("fgd")))
    >>> ax.get_ylabel()
    'Allocated GPUs'
    """
    late = placement.filter(pl.col("arrived") >= _FIRST)
    ax = _lines(late, "allocated", ax)
    full = [_FIRST, 100]
    ax.plot(full, full, color="0.6", linewidth=0.8, zorder=0)
    ax.set_ylabel("Allocated GPUs")
    return ax


def describe_placement_allocated(placement: pl.DataFrame) -> str:
    """Return a sentence on the policies for the caption."""
    return _describe(placement)


@figure(
    "placement-fragment",
    result="simulate_placement with a column policy",
    reading=f"{_LINE}Horizontal: GPUs that the jobs requested so far; vertical: free GPUs that "
    "typical requests cannot use, both in percent of all GPUs.",
)
def plot_placement_fragment(placement: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the fragment against the GPUs requested by policy.

    Parameters
    ----------
    placement
        What `simulate_placement` returns, with a column policy; rows of several seeds are averaged.

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


def describe_placement_fragment(placement: pl.DataFrame) -> str:
    """Return a sentence on the policies for the caption."""
    return _describe(placement)


def _lines(placement: pl.DataFrame, quantity: str, ax: Axes | None) -> Axes:
    policies = placement["policy"].unique(maintain_order=True).to_list()
    if not 0 < len(policies) <= _MOST:
        raise DataError(f"the figure draws 1 to {_MOST} policies, not {len(policies)}")
    ax = start_axes(ax)
    for policy in policies:
        mean = (
            placement.filter(policy=policy)
            .group_by("arrived")
            .agg(pl.col(quantity).mean())
            .sort("arrived")
        )
        ax.plot(mean["arrived"], mean[quantity], label=policy)
    ax.margins(x=0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(decimals=0, symbol=" %"))
    ax.set_xlabel("Requested GPUs")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def _describe(placement: pl.DataFrame) -> str:
    policies = placement["policy"].n_unique()
    seeds = placement["seed"].n_unique() if "seed" in placement.columns else 1
    return f"{policies} policies, means of {seeds} seeds."
