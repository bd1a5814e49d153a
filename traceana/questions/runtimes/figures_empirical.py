"""Empirical distribution functions, one line per group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from traceana.drawing.labels import place_legend, split_lines
from traceana.drawing.registry import figure
from traceana.drawing.scales import use_log_axis
from traceana.drawing.style import start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes


@figure(
    "empirical-distribution",
    result="empirical_distribution",
    reading="Line: fraction of values up to the one on the horizontal axis; "
    "band: 95 % confidence interval, where it is known.",
)
def plot_empirical_distribution(
    result: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    x_label: str = "Value",
    heading: str = "",
    log_x: bool = True,
    durations: bool = False,
) -> Axes:
    """Draw the empirical distribution function of a column, one line per group.

    Parameters
    ----------
    result
        What `empirical_distribution` returns; with ci_low and ci_high, as the quantiles of
        `fit_distributions` have, a band is drawn.
    x_label
        Label of the column, with its unit.
    heading
        Title of the figure.
    log_x
        Whether the axis of values is logarithmic; a value of 0 is at the left end.
    durations
        Whether the values are seconds, whose ticks are then 1 min, 1 h, 1 d.

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
    for name, own in split_lines(result, "n", "share_below"):
        (line,) = ax.step(own["value"], own["share_below"], where="post", label=name)
        if "ci_low" in own.columns:
            known = own.drop_nulls(["ci_low", "ci_high"])
            ax.fill_betweenx(
                known["share_below"], known["ci_low"], known["ci_high"], color=line.get_color(),
                alpha=0.25, linewidth=0, gid=f"band-{name}" if name else "band",
            )  # fmt: skip
    if log_x:
        use_log_axis(ax, "x", result["value"], durations=durations)
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    ax.set_xlabel(f"{x_label}, logarithmic" if log_x else x_label)
    ax.set_ylabel("Fraction up to this value")
    ax.set_title(heading)
    if ax.get_legend_handles_labels()[1]:
        place_legend(ax)
    return ax


def describe_empirical_distribution(result: pl.DataFrame) -> str:
    """Return a sentence on the groups for the caption."""
    keys = result.columns[: result.columns.index("n")]
    sizes = result.unique([*keys, "n"], maintain_order=True)["n"]
    groups = f"{len(sizes)} groups, " if len(sizes) > 1 else ""
    return f"{groups}n = {sizes.sum():,} values."
