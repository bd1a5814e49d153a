"""Success rate by group with its confidence interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.ticker import PercentFormatter

from traceana.figures.groups import draw_rows, split_groups
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = (
    "Dot: success rate; bar: its 95 % confidence interval (Wilson); n: successes and failures."
)


@figure("outcome-rates", result="outcome_rates")
def plot_outcome_rates(result: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the success rate by group with its interval.

    Parameters
    ----------
    result
        Result of `outcome_rates`.

    Returns
    -------
    Axes
        One row per group in the result's order, from 0 % to 100 %.
    """
    groups = split_groups(result)
    ax = start_axes(ax, height_in=groups.height_in)
    draw_rows(ax, groups, mean=result["rate"], low=result["ci_low"], high=result["ci_high"])
    ax.set_xlim(0, 1)
    ax.set_xlabel("Success rate")
    ax.xaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    return ax


def describe_outcome_rates(result: pl.DataFrame) -> str:
    """Return one sentence on the rows of the figure."""
    return (
        f"{result.height} groups, {result['successes'].sum():,} successes among "
        f"{result['n'].sum():,} successes and failures."
    )
