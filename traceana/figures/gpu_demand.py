"""GPUs requested by running jobs over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.style import start_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READING: Final = (
    "Line: GPUs requested by running jobs, averaged over each time bin. Jobs that began before "
    "the trace or were submitted after it are missing, so demand is low at both ends."
)


@figure("gpu-demand", result="gpu_demand")
def plot_gpu_demand(
    demand: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    starts_assumed: bool = False,
    timezone: str | None = None,
) -> Axes:
    """Draw the requested GPUs against time.

    Parameters
    ----------
    demand
        [bin_start_s, gpus_mean] of one group, as `gpu_demand` returns it.
    starts_assumed
        Whether jobs are assumed to start when submitted; the label then states it.
    timezone
        IANA name of the time zone if the times are Unix seconds: the axis then shows dates. By
        default it shows days on the clock of the trace.

    Raises
    ------
    DataError
        If a bin occurs twice, or no GPUs are known.
    """
    known = demand.filter(pl.col("gpus_mean").is_not_null()).sort("bin_start_s")
    if known.is_empty() or not known["bin_start_s"].is_unique().all():
        raise DataError("plot_gpu_demand draws one group, each bin once")
    ax = start_axes(ax, height_in=1.8)
    ax.plot(
        _times(known["bin_start_s"], timezone), known["gpus_mean"], drawstyle="steps-post",
        color="#0072B2", linewidth=0.6, linestyle="-", gid="gpus",
    )  # fmt: skip
    ax.set_ylim(bottom=0)
    ax.margins(x=0)
    ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.locator_params(axis="y", nbins=4)
    if timezone is not None:
        ax.xaxis.set_major_locator(locator := AutoDateLocator(maxticks=6))  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    ax.set_xlabel("Day of the trace" if timezone is None else f"Date ({timezone})")
    ax.set_ylabel(
        "GPUs if jobs had started\nwhen submitted" if starts_assumed else "Requested GPUs"
    )
    return ax


def _times(seconds: pl.Series, timezone: str | None) -> Any:  # noqa: ANN401  numbers or datetimes
    if timezone is None:
        return seconds / 86_400
    at = pl.from_epoch((seconds * 1000).cast(pl.Int64), time_unit="ms")
    return at.dt.replace_time_zone("UTC").dt.convert_time_zone(timezone).dt.replace_time_zone(None)


def describe_gpu_demand(demand: pl.DataFrame) -> str:
    """Return one sentence on what the figure of this demand shows."""
    gpus = demand["gpus_mean"].drop_nulls().to_numpy()
    excluded = max(demand["n_excluded"])
    but = f"; {excluded:,} jobs without times or GPUs excluded" if excluded else ""
    return f"{len(gpus):,} bins, mean {gpus.mean():,.1f} GPUs, maximum {gpus.max():,.1f}{but}."
