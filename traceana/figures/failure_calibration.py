"""Calibration of a model of failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.ticker import FuncFormatter, MaxNLocator

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from traceana.results.outcomes import FailureModel

READING: Final = (
    "Dot: a tenth of the rows, ordered by predicted probability of failure, at the mean prediction "
    "and the observed fraction of failures; bar: Wilson's 95 % confidence interval; dotted "
    "diagonal: perfect calibration. Predictions are for held-out rows."
)


@figure("failure-calibration", result="failure_model")
def plot_failure_calibration(result: FailureModel, /, *, ax: Axes | None = None) -> Axes:
    """Draw the observed fraction of failures against the predicted probability.

    Parameters
    ----------
    result
        Result of `failure_model`.

    Raises
    ------
    DataError
        If there is no prediction.
    """
    calibration = result.calibration
    if calibration.is_empty():
        raise DataError("plot_failure_calibration has nothing to draw: there is no prediction")
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
    ax.set_xlabel("Predicted probability of failure")
    ax.set_ylabel("Observed fraction of failures")
    return ax


def describe_failure_calibration(result: FailureModel) -> str:
    """Return one sentence on the rows of the figure."""
    return f"n = {result.calibration['n'].sum():,} rows in {result.calibration.height} bins."
