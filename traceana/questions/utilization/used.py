"""Used, requested, allocated and shared resources."""

from __future__ import annotations

from typing import Any, Final

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import notes_unit
from traceana.errors import DataError
from traceana.questions.utilization.tables import (
    Allocation,
    AllocationSummary,
    GpuSharing,
    IdleGpuHours,
    Utilization,
)
from traceana.stats.arguments import check_confidence, is_number
from traceana.stats.intervals import ratio_interval
from traceana.store.frames import (
    Names,
    as_keys,
    as_names,
    beside,
    collect,
    column_names,
    open_frame,
    reduce_frame,
    sort_stably,
)
from traceana.tables.declare import declared, interval_columns, returns

RESOURCES: Final[dict[str, str | None]] = {
    "gpus_used": "gpus",
    "cpus_used": "cpus",
    "memory_gib_mean": "memory_gib",
    "gpu_memory_gib_mean": None,
}
"""Columns of use with the column of the request; None: it is not requested."""
_QUANTILES: Final = {"p25": 0.25, "median": 0.5, "p75": 0.75}


@notes_unit
@returns(Utilization)
def utilization(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compare used with requested resources by group.

    Parameters
    ----------
    frame
        One row per instance: `by` and those of the columns of use gpus_used, cpus_used,
        memory_gib_mean and gpu_memory_gib_mean that it has, with the request of the first three in
        gpus, cpus and memory_gib; eager or lazy, of any supported engine. A repeated instance
        counts as often as it occurs.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    cluster
        Column of the independent unit, such as user, null being a unit of its own; None: rows are
        independent.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row per group and resource, sorted by `by` (nulls last), with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> rows = pl.DataFrame({"gpus": [1.0, 0.5], "gpus_used": [0.2, 0.1]})
    >>> traceana.utilization(rows)["used_of_requested"].round(3).item()
    0.2
    """
    keys = as_keys(by, Utilization.columns())
    check_confidence(confidence)
    present = {None, *column_names(frame)}
    pairs = {used: of for used, of in RESOURCES.items() if {used, of} <= present}
    if not pairs:
        raise DataError(f"no resource to compare: the columns of one are {RESOURCES}")
    parts = []
    for used, requested in pairs.items():
        names = (used,) if requested is None else (used, requested)
        rows = open_frame(frame, keys=(*keys, *_unit(cluster, keys)), measures=names)
        y, x = nw.col(used), nw.lit(1.0) if requested is None else nw.col(requested)
        measured = ~y.is_null() & (x > 0)
        y, x = nw.when(measured).then(y), nw.when(measured).then(x)
        table = reduce_frame(
            rows,
            keys,
            n=y.count(),
            rows=nw.len(),
            requested_sum=x.sum(),
            used_sum=y.sum(),
            **{name: (y / x).quantile(q, "linear") for name, q in _QUANTILES.items()},
            fraction_over=(y > x).cast(nw.Float64).mean(),
        )
        limits = _limits(rows, keys, x, y, cluster=cluster, confidence=confidence)
        n, used_sum, requested_sum = pl.col("n"), pl.col("used_sum"), pl.col("requested_sum")
        table = table.hstack(limits).with_columns(
            resource=pl.lit(requested or used),
            n_missing=pl.col("rows") - n,
            requested_mean=pl.when(n > 0).then(requested_sum / n),
            used_mean=pl.when(n > 0).then(used_sum / n),
            used_of_requested=pl.when(n > 0).then(used_sum / requested_sum),
        )
        # a request near the smallest number has no ratio
        of_request = ("used_of_requested", "ci_low", "ci_high", *_QUANTILES, "fraction_over")
        ratio = pl.col(of_request)
        table = table.with_columns(pl.when(ratio.is_finite()).then(ratio).name.keep())
        if requested is None:
            none = dict.fromkeys(("requested_mean", *of_request), pl.lit(None, pl.Float64))
            table = table.with_columns(**none)
        parts.append(declared(table, Utilization, by=keys))
    every = pl.concat(parts)
    return every.sort(keys, nulls_last=True, maintain_order=True) if keys else every


@notes_unit
@returns(IdleGpuHours)
def idle_gpu_hours(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    unused_below: float = 0.01,
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute the GPU-hours that were requested and not used.

    Idle GPU-hours are the requested GPUs minus the mean GPUs used, at least 0, times the runtime,
    summed over instances. Unused GPU-hours are all those of instances with a mean use below
    `unused_below` of a GPU.

    Parameters
    ----------
    frame
        One row per instance: `by`, gpus, gpus_used (the mean) and runtime_s.
    by, cluster, confidence
        As in :func:`utilization`.
    unused_below
        Mean GPUs used below which an instance counts as unused; above 0.

    Returns
    -------
    DataFrame
        One row per group, sorted by `by` (nulls last), with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> rows = pl.DataFrame({"gpus": [2.0], "gpus_used": [0.5], "runtime_s": [7200.0]})
    >>> traceana.idle_gpu_hours(rows)["idle_gpu_hours"].item()
    3.0
    """
    if not (is_number(unused_below) and unused_below > 0):
        raise DataError(f"unused_below must be a number above 0; it is {unused_below!r}")
    keys = as_keys(by, IdleGpuHours.columns())
    check_confidence(confidence)
    measures = ("gpus", "gpus_used", "runtime_s")
    rows = open_frame(frame, keys=(*keys, *_unit(cluster, keys)), measures=measures)
    asked, use, hours = nw.col("gpus"), nw.col("gpus_used"), nw.col("runtime_s") / 3600
    measured = ~(asked * use * hours).is_null() & (asked > 0)
    unused = measured & (use < unused_below)
    some = nw.when(measured)
    x, idle = some.then(asked * hours), some.then((asked - use).clip(0) * hours)
    none = some.then(nw.when(unused).then(asked * hours).otherwise(0.0))
    table = reduce_frame(
        rows,
        keys,
        rows=nw.len(),
        n=x.count(),
        gpu_hours=x.sum(),
        used_gpu_hours=some.then(use * hours).sum(),
        idle_gpu_hours=idle.sum(),
        n_unused=nw.when(unused).then(asked).count(),
        unused_gpu_hours=none.sum(),
    )
    for share, prefix in ((idle, ""), (none, "unused_")):
        limits = _limits(rows, keys, x, share, cluster=cluster, confidence=confidence)
        table = table.hstack(limits.select(pl.all().name.prefix(prefix)))
    # engines sum nothing to 0 or to null
    sums = ("gpu_hours", "used_gpu_hours", "idle_gpu_hours", "unused_gpu_hours")
    total = pl.when(pl.col("gpu_hours") > 0).then("gpu_hours")
    table = table.with_columns(
        pl.when(pl.col("n") > 0).then(pl.col(*sums).fill_null(0.0)).name.keep(),
        n_missing=pl.col("rows") - pl.col("n"),
    )
    table = table.with_columns(
        fraction_idle=pl.col("idle_gpu_hours") / total,
        fraction_unused=pl.col("unused_gpu_hours") / total,
    )
    return declared(table, IdleGpuHours, by=keys)


def _unit(cluster: str | None, keys: tuple[str, ...]) -> tuple[str, ...]:
    return () if cluster is None or cluster in keys else (cluster,)


def _limits(
    rows: nw.LazyFrame[Any],
    keys: tuple[str, ...],
    x: nw.Expr,
    y: nw.Expr,
    *,
    cluster: str | None,
    confidence: float,
) -> pl.DataFrame:
    """Return [ci_low, ci_high] of sum(y) / sum(x) by group, in the order of `reduce_frame`."""
    units = rows.select(*keys, *_unit(cluster, keys), x.alias("ratio_x"), y.alias("ratio_y"))
    if cluster is not None:
        by_unit = (*keys, *_unit(cluster, keys))
        sums = {name: nw.col(name).sum() for name in ("ratio_x", "ratio_y")}
        units = nw.from_native(reduce_frame(units, by_unit, **sums).lazy())
    a, b = nw.col("ratio_x"), nw.col("ratio_y")
    moments = {
        "ratio_sx": a.sum(),
        "ratio_sy": b.sum(),
        "ratio_xx": (a * a).sum(),
        "ratio_xy": (a * b).sum(),
        "ratio_yy": (b * b).sum(),
        "ratio_n": nw.when(a > 0).then(a).count(),
    }
    table = reduce_frame(units, keys, **moments).select(list(moments))
    ends = ratio_interval(table.to_numpy().T, confidence=confidence)
    return pl.DataFrame(interval_columns(ends)).with_columns(pl.col("ci_low").clip(0))


@returns(Allocation)
def allocation_rate(demand: IntoFrame, machines: IntoFrame, /, by: Names = ()) -> pl.DataFrame:
    """Compute the fraction of the GPUs that are allocated, by time.

    All machines are taken to be available all the time.

    Parameters
    ----------
    demand
        What :func:`gpu_demand` returns, with the same `by`.
    machines
        One row per machine: `by` and gpus.
    by
        Columns of both to group by, such as gpu_type. By default all rows are one group.

    Returns
    -------
    DataFrame
        The bins of the groups that have machines with GPUs, in their order, with the columns of
        `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0], "end_s": [3600], "gpus": [4]})
    >>> machines = pl.DataFrame({"gpus": [8]})
    >>> traceana.allocation_rate(traceana.gpu_demand(jobs), machines)["allocation_rate"][0]
    0.5
    """
    keys = as_names(by)
    rows = open_frame(machines, keys=keys, measures=("gpus",))
    capacity = reduce_frame(rows, keys, capacity_gpus=nw.col("gpus").sum())
    capacity = capacity.filter(pl.col("capacity_gpus") > 0)
    bins = open_frame(demand, keys=keys, measures=("bin_start_s", "gpus_mean"))
    table = collect(bins).drop_nulls("gpus_mean")
    table = table.with_columns(pl.col(key).cast(capacity.schema[key]) for key in keys)
    how: dict[str, Any] = {"on": keys, "maintain_order": "left"} if keys else {"how": "cross"}
    rate = pl.col("gpus_mean") / pl.col("capacity_gpus")
    allocated = table.join(capacity, **how).with_columns(allocation_rate=rate)
    return declared(allocated, Allocation, by=keys)


@returns(GpuSharing)
def gpu_sharing(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    device: Names = ("machine_id", "gpu_device"),
    start: str = "start_s",
    end: str = "end_s",
) -> pl.DataFrame:
    """Compute how long GPUs were used by several instances at once.

    Parameters
    ----------
    frame, by
        As in :func:`utilization`. Rows without a device, a start or an end are excluded and
        counted.
    device
        Columns that together name one GPU.
    start, end
        Columns of the start and the end: seconds or datetimes.

    Returns
    -------
    DataFrame
        One row per group, sorted by `by` (nulls last), with the columns of `by` and
        {columns}

        An instance that starts as another ends does not share with it.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> rows = pl.DataFrame({"gpu": ["a", "a"], "start_s": [0, 1800], "end_s": [3600, 5400]})
    >>> traceana.gpu_sharing(rows, device="gpu").select("busy_hours", "shared_hours").row(0)
    (1.5, 0.5)
    """
    keys, place = as_keys(by, GpuSharing.columns()), as_names(device)
    if not place:
        raise DataError("device names no column; pass the columns that identify a GPU")
    several = tuple(dict.fromkeys((*keys, *place)))
    rows = open_frame(frame, keys=several, measures={"start": start, "end": end})
    every = collect(rows.select(*several, nw.col(start).alias(".start"), nw.col(end).alias(".end")))
    table = every.drop_nulls([*place, ".start", ".end"])
    if (table[".end"] < table[".start"]).any():
        raise DataError(f"an instance ends before it starts: {end} is below {start}")
    numbered = table.select(several).unique().sort(several).with_row_index(".gpu")
    table = table.join(numbered, on=list(several), nulls_equal=True)
    table = table.select(*keys, ".gpu", ".start", ".end")
    ends = ((pl.col(".end"), pl.lit(-1, pl.Int8)), (pl.col(".start"), pl.lit(1, pl.Int8)))
    steps = pl.concat(
        table.select(*keys, ".gpu", time.alias(".time"), step.alias(".step")) for time, step in ends
    )
    steps = sort_stably(steps, (".gpu", ".time"))
    # each GPU begins and ends with none, so that one cumulative sum counts the instances of all
    steps = steps.with_columns(
        pl.col(".step").cast(pl.Int32).cum_sum().alias(".there"),
        ((pl.col(".time").shift(-1) - pl.col(".time")) / 3600).alias(".hours"),
    )
    n_there, hours = pl.col(".there"), pl.col(".hours")
    shared = reduce_frame(
        steps,
        keys,
        devices=pl.col(".gpu").n_unique(),
        devices_shared=pl.col(".gpu").filter(n_there > 1).n_unique(),
        n=(pl.col(".step") == 1).sum(),
        busy_hours=hours.filter(n_there > 0).sum(),
        shared_hours=hours.filter(n_there > 1).sum(),
        instances_max=n_there.max(),
    )
    sharing = beside(reduce_frame(every, keys, rows=pl.len()), shared, keys)
    zero = ("devices", "devices_shared", "n", "busy_hours", "shared_hours")
    busy = pl.col("busy_hours")
    sharing = sharing.with_columns(pl.col(zero).fill_null(0)).with_columns(
        n_missing=pl.col("rows") - pl.col("n"),
        fraction_of_time=pl.when(busy > 0).then(pl.col("shared_hours") / busy),
    )
    return declared(sharing, GpuSharing, by=keys)


@returns(AllocationSummary)
def summarize_allocation(allocation: pl.DataFrame, /, by: Names = ()) -> pl.DataFrame:
    """Summarize allocation rates over time by group.

    Parameters
    ----------
    allocation, by
        What :func:`allocation_rate` returns, and its columns to group by.

    Returns
    -------
    DataFrame
        One row per group, sorted by `by`, with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> rates = pl.DataFrame({"capacity_gpus": [8.0] * 3, "allocation_rate": [0.2, 0.4, 0.9]})
    >>> traceana.summarize_allocation(rates)["mean"].item()
    0.5
    """
    keys = as_names(by)
    rows = open_frame(allocation, keys=keys, measures=("capacity_gpus", "allocation_rate"))
    rate = nw.col("allocation_rate")
    quantiles = {"p05": 0.05, "median": 0.5, "p95": 0.95}
    table = reduce_frame(
        rows,
        keys,
        capacity_gpus=nw.col("capacity_gpus").max(),
        bins=rate.count(),
        bins_over=nw.when(rate > 1).then(rate).count(),
        mean=rate.mean(),
        **{name: rate.quantile(q, interpolation="linear") for name, q in quantiles.items()},
        max=rate.max(),
    )
    return declared(table, AllocationSummary, by=keys)
