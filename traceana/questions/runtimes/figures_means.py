"""Mean runtime versus a feature, one point per distinct value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.drawing.registry import figure
from traceana.drawing.scales import use_log_axis
from traceana.drawing.style import MOST_MARKS, color_of, start_axes
from traceana.errors import DataError
from traceana.tables.formatting import plural

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes


@figure(
    "runtime-against",
    result="mean_by_value of runtimes",
    reading="Point: one distinct value of the feature, at the mean runtime of its rows, whatever "
    "their number.",
)
def plot_runtime_against(
    means: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    x_label: str,
    log_x: bool = False,
    log_y: bool = False,
    heading: str = "",
) -> Axes:
    """Draw mean runtime versus a feature.

    Parameters
    ----------
    means
        Rows of one group of what `mean_by_value` returns for runtimes in s.
    x_label
        Label of the feature, with its unit.
    log_x
        Whether its axis is logarithmic; a feature of 0 is then at the left end.
    log_y
        Whether the axis of runtimes is logarithmic.
    heading
        Title of the figure.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from traceana.figures import plot_runtime_against
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8, 8], "runtime_s": [60.0, 50.0, 90.0, 200.0, 99.0]})
    >>> means = traceana.mean_by_value(jobs, "gpus", "runtime_s")
    >>> plot_runtime_against(means, x_label="GPUs", log_x=True).get_xlabel()
    'GPUs, logarithmic'
    """
    if means.is_empty() or not means["value"].is_unique().all():
        raise DataError("plot_runtime_against draws the means of one group, each value once")
    ax = start_axes(ax)
    ax.scatter(
        means["value"], means["mean"], s=9, color=color_of(0), linewidths=0, zorder=3,
        clip_on=False, gid="means", rasterized=means.height > MOST_MARKS,
    )  # fmt: skip
    if log_x:
        use_log_axis(ax, "x", means["value"])
    else:
        ax.xaxis.set_major_formatter("{x:,.6g}")
        ax.locator_params(axis="x", nbins=4)
    if log_y:
        use_log_axis(ax, "y", means["mean"], durations=True)
    else:
        ax.set_ylim(0, 1.08 * max(means["mean"]) or None)
        ax.locator_params(axis="y", nbins=6)
        ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set_title(heading)
    ax.set_xlabel(f"{x_label}, logarithmic" if log_x else x_label)
    ax.set_ylabel("Mean runtime (logarithmic)" if log_y else "Mean runtime (s)")
    return ax


def describe_runtime_against(means: pl.DataFrame) -> str:
    """Return a sentence on the means for the caption."""
    alone = int((means["n"] == 1).sum())
    have = "has" if alone == 1 else "have"
    return (
        f"{means.height:,} distinct values, n = {means['n'].sum():,} rows; "
        f"{plural(alone, 'point')} {have} one row, and the largest has {max(means['n']):,}."
    )
