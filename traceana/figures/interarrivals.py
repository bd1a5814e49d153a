"""Survival function of the times between submissions, beside that of a Poisson process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.scales import use_log_axis
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Line: fraction of the times between submissions that are longer than x; dashed: the same for "
    "a Poisson process of equal rate. Above it at the right: more long pauses; below it at the "
    "left: more submissions close together. Daily and weekly cycles alone cause both."
)


@figure("interarrivals", result="interarrival_curve")
def plot_interarrivals(curve: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the fraction of times between submissions that are longer than each.

    Parameters
    ----------
    curve
        [n, gap_s, share_longer, share_longer_poisson] of one group, as `interarrival_curve`
        returns it.

    Returns
    -------
    Axes
        Both axes logarithmic; a time of 0 is drawn at the left end.

    Raises
    ------
    DataError
        If there is no time, or one occurs twice.
    """
    if curve.is_empty() or not curve["gap_s"].is_unique().all():
        raise DataError("plot_interarrivals draws the curve of one group, each time once")
    longer = curve.filter(pl.col("share_longer") > 0)
    least = 1 / curve["n"][0]
    ax = start_axes(ax)
    ax.plot(
        longer["gap_s"], longer["share_longer"], color="#0072B2", linewidth=1.4,
        drawstyle="steps-post", linestyle="-", label="submissions", gid="gaps",
    )  # fmt: skip
    ax.plot(
        curve["gap_s"], curve["share_longer_poisson"], color="#4D4D4D", linestyle="--",
        label="Poisson process of the same rate", gid="poisson",
    )  # fmt: skip
    use_log_axis(ax, "x", curve["gap_s"])
    use_log_axis(ax, "y", [least, 1.0])
    ax.set_xlabel("Time between submissions (s, logarithmic)")
    ax.set_ylabel("Fraction longer (logarithmic)")
    ax.legend(loc="lower left")
    return ax


def describe_interarrivals(curve: pl.DataFrame) -> str:
    """Return one sentence on what the figure of this curve shows."""
    above = curve.filter(pl.col("gap_s") > 0)["gap_s"]
    at_once = curve.filter(gap_s=0)["share_longer"].to_list()
    least = f"{100 * (1 - at_once[0]):.1f} % are 0 s" if at_once else f"from {min(above):,.3g} s"
    return (
        f"n = {curve['n'][0]:,} times between submissions: {least}, the longest is "
        f"{max(above):,.0f} s."
    )
