"""Capacity of the cluster by period, and the trends of a stored trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.observation import Capacity, capacity_of, cpus_of, window_of
from traceana.cohorts.overlap import BEGIN, HELD, UNTIL, Window, merge_times
from traceana.errors import DataError
from traceana.questions.trends.by_period import (
    ALPHA,
    Periods,
    divide_window,
    idle_gaps,
    open_jobs,
    span,
    trends,
    used_by,
)
from traceana.questions.trends.changes import changes_and_drift
from traceana.questions.trends.tables import ClusterUtilization
from traceana.stats.arguments import is_number
from traceana.store import Trace
from traceana.store.frames import admit_columns, collect, column_names, open_frame
from traceana.tables.declare import declared, returns


@returns(ClusterUtilization)
def cluster_utilization(
    jobs: IntoFrame,
    /,
    *,
    gpus: float | None = None,
    machines: IntoFrame | None = None,
    faults: IntoFrame | None = None,
    period: str | None = None,
    timezone: str | None = None,
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute allocated, down and idle GPUs by period.

    The table is that of ``sreport cluster utilization``.

    Allocated are the requested GPUs of running jobs, by overlap with the period, as for
    :func:`trends`. Down are the GPUs of machines with a fault that has an end, from its start to
    its end; overlapping faults of a machine count once. Idle is the rest.

    Parameters
    ----------
    jobs
        One row per job, as for :func:`trends`, with gpus.
    gpus
        GPUs of the cluster; None: those of `machines`.
    machines
        One row per machine: machine_id, gpus and, for rows by type, gpu_type; a machine without a
        type counts in all.
    faults
        One row per fault: machine_id, start_s, end_s; needs `machines`.
    period, timezone, window
        As for :func:`trends`.

    Returns
    -------
    DataFrame
        The whole window, then one row per period; of all GPUs, then of each type:
        {columns}

    Raises
    ------
    DataError
        If neither `gpus` nor `machines` are given.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0, 43200], "end_s": [43200, 86400], "gpus": [4, 2]})
    >>> traceana.cluster_utilization(jobs, gpus=8).select("period", "allocated").rows()[0]
    ('all', 0.375)
    """
    listed = None if machines is None else _machines(machines)
    total = gpus if gpus is not None or listed is None else float(listed["gpus"].sum())
    if not (is_number(total) and total):
        raise DataError("the GPUs of the cluster are unknown: pass gpus above 0, or machines")
    frame = open_jobs(jobs, window)
    window = window or span(frame)
    periods = divide_window(window, period=period, timezone=timezone)
    down = None if faults is None or listed is None else _down(faults, listed, window)
    # several reductions: read once
    rows = collect(frame.select(BEGIN, UNTIL, HELD, "gpus", "gpu_type"))
    tables = []
    for name, of_type in {"all": float(total or 0), **_types(listed)}.items():
        is_one = pl.lit(name == "all") | (pl.col("gpu_type").cast(pl.String) == name)
        used, lost = (
            None if of is None else _used(of.filter(is_one), periods) for of in (rows, down)
        )
        edges = {"start_s": periods.edges_s[:-1], "end_s": periods.edges_s[1:]}
        columns = {"period": periods.labels, **edges, "used": used}
        is_lost = pl.lit(None, pl.Float64) if lost is None else lost.fill_null(0)
        by_period = pl.DataFrame(columns).with_columns(lost=is_lost)
        whole = by_period.select(
            pl.lit("all").alias("period"),
            pl.col("start_s").min(),
            pl.col("end_s").max(),
            pl.col("used").sum(),
            pl.when(down is not None).then(pl.col("lost").sum()),
        )
        hours = of_type * (pl.col("end_s") - pl.col("start_s")) / 3600
        allocated, is_down = (
            pl.when(hours > 0).then(hours_of / hours)
            for hours_of in (pl.col("used").fill_null(0), pl.col("lost"))
        )
        table = pl.concat([whole, by_period]).with_columns(
            gpu_type=pl.lit(name),
            gpus=pl.lit(of_type),
            gpu_hours=hours,
            allocated=allocated,
            down=is_down,
            idle=(1 - allocated - is_down.fill_null(0)).clip(0),
        )
        tables.append(table)
    return declared(pl.concat(tables), ClusterUtilization)


def _types(machines: pl.DataFrame | None) -> dict[str, float]:
    """Return the GPUs of each type, the most first, if there are several."""
    if machines is None:
        return {}
    types = machines.drop_nulls("gpu_type").group_by("gpu_type").agg(pl.col("gpus").sum())
    types = types.filter(pl.col("gpus") > 0).sort("gpus", "gpu_type", descending=[True, False])
    return dict(types.iter_rows()) if types.height > 1 else {}


def _used(rows: pl.DataFrame, periods: Periods) -> pl.Series:
    return used_by(nw.from_native(rows.lazy()), periods, {"used": "gpus"})["used"]


def _machines(machines: IntoFrame) -> pl.DataFrame:
    keys = ("machine_id", *({"gpu_type"} & {*column_names(machines)}))
    opened = collect(open_frame(machines, keys=keys, measures=("gpus",)))
    kind = pl.col("gpu_type") if "gpu_type" in keys else pl.lit(None)
    texts = (pl.col("machine_id").cast(pl.String), kind.cast(pl.String).alias("gpu_type"))
    return opened.select("gpus", *texts).drop_nulls("gpus")


def _down(faults: IntoFrame, machines: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return the times in which machines were down, each once, with their GPUs."""
    rows = collect(admit_columns(faults, ("machine_id", "start_s", "end_s"))).drop_nulls()
    rows = rows.with_columns(
        pl.col("machine_id").cast(pl.String),
        pl.col("start_s", "end_s").cast(pl.Float64).clip(*window),
    )
    merged = merge_times(rows.filter(pl.col("end_s") > pl.col("start_s")), ("machine_id",))
    table = merged.join(machines, on="machine_id", maintain_order="left")
    begin, end = pl.col("start_s"), pl.col("end_s")
    return table.select(
        "gpus", "gpu_type", begin.alias(BEGIN), end.alias(UNTIL), (end - begin).alias(HELD)
    )


NEEDS: Final = ({"jobs": ("submit_s",)}, {"jobs": ("start_s",)})


@dataclass(frozen=True)
class Found:
    """What the section states of a trace."""

    trends: pl.DataFrame
    outages: pl.DataFrame
    longest: pl.DataFrame
    """The longest time without a running job, of an hour or more."""
    changes: pl.DataFrame
    drift: pl.DataFrame
    timezone: str | None
    capacity: pl.DataFrame | None
    """GPUs allocated, down and idle; None where they are unknown."""
    capacity_source: str
    cpus: tuple[float, float, str] | None
    """CPUs of the cluster, the fraction allocated, and where the number is from."""


def clock_of(trace: Trace, /) -> str | None:
    """Return the time zone of the trace's calendar; None: a clock of its own."""
    manifest = trace.manifest
    return (manifest.timezone or "UTC") if manifest.absolute_times else None


def _capacity(trace: Trace) -> Capacity | None:
    """Return the GPUs whose use by time is known: survivors alone are not all that used them."""
    capacity = capacity_of(trace) if trace.has("jobs", ("gpus",)) else None
    hides = trace.manifest.lists_only_survivors and not trace.manifest.capacity
    return None if hides else capacity


def trends_of(trace: Trace, /) -> Found:
    """Compute trends, outages and changes of level of a trace."""
    jobs, options, outcomes = trace.frame("jobs"), _clock(trace), _outcomes(trace)
    capacity = _capacity(trace)
    gaps = idle_gaps(jobs, **options)
    lost = gaps.filter(pl.col("pvalue") < ALPHA)
    return Found(
        trace.once(_by_period),
        lost,
        gaps.top_k(1, by="duration_s"),
        *changes_and_drift(jobs, tuple(outcomes.values()), **options, lost=lost),
        options["timezone"],
        trace.once(gpus_allocated),
        "" if capacity is None else capacity.source,
        trace.once(cpus_allocated),
    )


def _clock(trace: Trace) -> dict[str, Any]:
    return {"timezone": clock_of(trace), "window": trace.once(window_of)}


def _outcomes(trace: Trace) -> dict[str, Any]:
    failure = trace.manifest.failure_statuses
    return {"success": tuple({"completed"} - {*failure}), "failure": failure}


def _by_period(trace: Trace) -> pl.DataFrame:
    capacity = _capacity(trace)
    gpus = capacity and capacity.gpus
    return trends(trace.frame("jobs"), gpus=gpus, **_clock(trace), **_outcomes(trace))


def cpus_allocated(trace: Trace, /) -> tuple[float, float, str] | None:
    """Return the CPUs of the cluster, the fraction allocated, and where the number is from."""
    if trace.manifest.lists_only_survivors or not trace.has("jobs", ("cpus", "start_s")):
        return None
    cpus, window = cpus_of(trace), trace.once(window_of)
    if cpus is None or window is None or window[0] == window[1]:
        return None
    used = float(trace.once(_by_period)["cpu_hours"].sum() or 0)
    return cpus.gpus, used * 3600 / (cpus.gpus * (window[1] - window[0])), cpus.source


def gpus_allocated(trace: Trace, /) -> pl.DataFrame | None:
    """Return what of the GPUs was allocated, down and idle; None where they are unknown."""
    capacity = _capacity(trace)
    if capacity is None:
        return None
    more = _clock(trace)
    if capacity.machines is not None:
        more["machines"] = capacity.machines
        if trace.has("faults", ("end_s",)):
            more["faults"] = trace.scan("faults")
    return cluster_utilization(trace.frame("jobs"), gpus=capacity.gpus, **more)
