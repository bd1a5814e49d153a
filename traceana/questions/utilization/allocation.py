"""Allocated GPUs against the capacity of the machines over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.questions.utilization.tables import Allocation, AllocationSummary
from traceana.store.frames import Names, as_names, collect, open_frame, reduce_frame
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


@returns(Allocation)
def allocation_rate(demand: IntoFrame, machines: IntoFrame, /, by: Names = ()) -> pl.DataFrame:
    """Compute the fraction of the GPUs that are allocated, by time.

    All machines are taken to be available all the time.

    Parameters
    ----------
    demand
        What :func:`gpu_demand` returns, with the same `by`.
    machines
        One row per machine: `by` and gpus; eager or lazy, of any supported engine.
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
    known = collect(bins).drop_nulls("gpus_mean")
    if keys:
        known = known.with_columns(pl.col(key).cast(capacity.schema[key]) for key in keys)
        found = known.join(capacity, on=keys, how="inner", maintain_order="left")
    else:
        found = known.join(capacity, how="cross")
    found = found.with_columns(allocation_rate=pl.col("gpus_mean") / pl.col("capacity_gpus"))
    return declared(found, Allocation, by=keys)


@returns(AllocationSummary)
def summarize_allocation(allocation: pl.DataFrame, /, by: Names = ()) -> pl.DataFrame:
    """Summarize allocation rates over time by group.

    Parameters
    ----------
    allocation
        What :func:`allocation_rate` returns.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.

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
    found = reduce_frame(
        rows,
        keys,
        capacity_gpus=nw.col("capacity_gpus").max(),
        bins=rate.count(),
        bins_over=nw.when(rate > 1).then(rate).count(),
        mean=rate.mean(),
        **{
            name: rate.quantile(q, interpolation="linear")
            for name, q in {"p05": 0.05, "median": 0.5, "p95": 0.95}.items()
        },
        max=rate.max(),
    )
    return declared(found, AllocationSummary, by=keys)
