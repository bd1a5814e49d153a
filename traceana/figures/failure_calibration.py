"""Whether predicted chances of failure come true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.ticker import FuncFormatter, MaxNLocator

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = (
    "Dot: a tenth of the rows in order of their predicted chance of failure, at the mean chance "
    "and the share that failed, with Wilson's 95 % interval as a bar; on the dotted diagonal what "
    "was predicted came true. Each row was predicted by a fit to others."
)


@figure("failure-calibration", result="calibration of failure_model")
def plot_failure_calibration(calibration: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the share that failed against the predicted chance of failure.

    Parameters
    ----------
    calibration
        [bin, n, predicted, observed, ci_low, ci_high], as in the frame of that name that
        `failure_model` returns.
    ax
        Axes to draw on; by default those of a new figure.

    Raises
    ------
    DataError
        If there is no bin.
    """
    if calibration.is_empty():
        raise DataError("plot_failure_calibration has nothing to draw: nothing was predicted")
    with use_style():
        ax = start_axes(ax)
        ax.axline((0, 0), (1, 1), color="#555555", linestyle=":", linewidth=0.8, gid="diagonal")
        ax.vlines(
            calibration["predicted"], calibration["ci_low"], calibration["ci_high"],
            color="#0072B2", linewidth=1.2, gid="intervals",
        )  # fmt: skip
        ax.scatter(
            calibration["predicted"], calibration["observed"], s=14, color="#0072B2", zorder=4,
            clip_on=False, gid="bins",
        )  # fmt: skip
        ends = [*calibration["ci_low"], *calibration["ci_high"], *calibration["predicted"]]
        low, high = max(0.0, min(ends) - 0.02), min(1.0, max(ends) + 0.02)
        ax.set_xlim(low, high)
        ax.set_ylim(low, high)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
            axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.4g} %"))
        ax.set_xlabel("Predicted chance of failure")
        ax.set_ylabel("Share that failed")
        return ax


def describe_failure_calibration(calibration: pl.DataFrame) -> str:
    """Say in one sentence what the figure of this calibration shows."""
    return f"n = {calibration['n'].sum():,} rows in {calibration.height} bins."
