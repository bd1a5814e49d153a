"""Empirical distribution functions, one line per group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from traceana.errors import DataError
from traceana.figures.labels import name_group
from traceana.figures.registry import figure
from traceana.figures.scales import use_log_axis
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes


@figure(
    "empirical-distribution",
    result="empirical_distribution",
    source="MLaaS in the Wild (NSDI'22): distributions of runtime, wait, and requested and used "
    "resources",
    reading="Each line is the fraction of values up to the one on the horizontal axis.",
)
def plot_empirical_distribution(
    result: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    x_label: str = "Value",
    heading: str = "",
    log_x: bool = True,
) -> Axes:
    """Draw the empirical distribution function of a column, one line per group.

    Parameters
    ----------
    result
        [*by, n, share_below, value], as `empirical_distribution` returns it.
    x_label
        Label of the column, with its unit.
    heading
        Title of the figure.
    log_x
        Whether the axis of values is logarithmic; a value of 0 is at the left end.

    Raises
    ------
    DataError
        If the result has no row.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_empirical_distribution
    >>> jobs = pl.DataFrame({"runtime_s": [60.0, 90.0, 600.0, 900.0]})
    >>> ecdf = traceana.empirical_distribution(jobs, "runtime_s")
    >>> plot_empirical_distribution(ecdf, x_label="Runtime (s)").get_xlabel()
    'Runtime (s), logarithmic'
    """
    if result.is_empty():
        raise DataError("plot_empirical_distribution has nothing to draw: the result has no row")
    ax = start_axes(ax)
    keys = result.columns[: result.columns.index("n")]
    parts = result.partition_by(keys, maintain_order=True) if keys else [result]
    for own in parts:
        name = name_group(own.select(keys).row(0)) if keys else None
        ax.step(own["value"], own["share_below"], where="post", label=name)
    if log_x:
        use_log_axis(ax, "x", result["value"])
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    ax.set_xlabel(f"{x_label}, logarithmic" if log_x else x_label)
    ax.set_ylabel("Fraction up to this value")
    ax.set_title(heading)
    if keys:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def describe_empirical_distribution(result: pl.DataFrame) -> str:
    """Return a sentence on the groups for the caption."""
    keys = result.columns[: result.columns.index("n")]
    sizes = result.unique([*keys, "n"])["n"]
    groups = f"{len(sizes)} groups, " if keys else ""
    return f"{groups}n = {sizes.sum():,} values."
