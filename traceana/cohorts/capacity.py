"""GPU-hours requested under each imputation of missing ends, compared with the capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.tables import CapacityCheck
from traceana.cohorts.task_runtimes import END_IMPUTATIONS, impute_ends
from traceana.cohorts.task_times import TaskTimes, read_task_times
from traceana.errors import DataError
from traceana.store.frames import open_frame, reduce_frame
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


@returns(CapacityCheck)
def gpu_capacity_check(
    tasks: IntoFrame, instances: IntoFrame, machines: IntoFrame, /
) -> pl.DataFrame:
    """Compare the GPU-hours under each imputation of missing ends with the capacity.

    If tasks request more GPU-hours than the machines have, the imputation is wrong for the trace
    as a whole. If they request less it is not thereby right: lost ends may be missing from it.

    gpu_hours = sum over tasks of gpus * instance_s / 3600: each instance requests gpus, as PAI's
    publisher states. gpu_hours_gang = sum of gpus * n_used * runtime_s / 3600: all instances of a
    task are held from its first start to its last end, also attempts that follow one another.
    capacity_gpu_hours = sum of the machines' GPUs * span_h: all GPUs are available all the time.

    Parameters
    ----------
    tasks, instances
        As in :func:`task_runtimes`.
    machines
        One row per machine: gpus, without nulls; eager or lazy, of any supported engine.

    Returns
    -------
    DataFrame
        One row per imputation:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> trace = store.trace(*store.traces("tasks"))
    >>> tasks, instances = (trace.scan(t) for t in ("tasks", "instances"))
    >>> machines = trace.scan("machines")
    >>> found = traceana.gpu_capacity_check(tasks, instances, machines)
    >>> found.select("end_imputation", pl.col("fraction_of_capacity").round(1)).rows()
    [('drop_task', 0.1), ('drop', 0.1), ('task', 0.1), ('running', 14.1), ('trace_end', 25.9)]
    """
    return check_capacity(read_task_times(tasks, instances), sum_gpus(machines))


def check_capacity(times: TaskTimes, machine_gpus: float | None, /) -> pl.DataFrame:
    """Do what :func:`gpu_capacity_check` does; None: the capacity is unknown."""
    span_h = 0.0
    if times.first_s is not None and times.last_s is not None:
        span_h = (times.last_s - times.first_s) / 3600
    capacity = None if machine_gpus is None else machine_gpus * span_h
    note = "no capacity: the machines have no GPU, or the trace has no span"
    if machine_gpus is None:
        note = "no capacity: the trace has no machines table"
    fraction = pl.col("gpu_hours") / pl.lit(capacity, pl.Float64)
    finite = fraction.is_finite().fill_null(value=False)
    table = pl.concat(_requested(times, policy) for policy in END_IMPUTATIONS).with_columns(
        machine_gpus=pl.lit(machine_gpus, pl.Float64),
        span_h=pl.lit(span_h),
        capacity_gpu_hours=pl.lit(capacity, pl.Float64),
        fraction_of_capacity=pl.when(finite).then(fraction),
        instances_of_no_task=pl.lit(times.instances_of_no_task, pl.Int64),
        note=pl.when(~finite).then(pl.lit(note)),
    )
    return declared(table, CapacityCheck)


def sum_gpus(machines: IntoFrame, /) -> float:
    """Return the GPUs of all machines."""
    gpus = nw.col("gpus")
    frame = open_frame(machines, keys=(), measures=("gpus",))
    total, stated, rows = reduce_frame(
        frame, (), gpus=gpus.sum(), known=gpus.count(), rows=nw.len()
    ).row(0)
    if stated < rows:
        raise DataError(f"{rows - stated} machine(s) have no number of gpus")
    return float(total or 0)


def _requested(times: TaskTimes, end_imputation: str) -> pl.DataFrame:
    gpus, runtime = pl.col("gpus"), pl.col("runtime_s")
    requested = reduce_frame(
        impute_ends(times, end_imputation),
        (),
        tasks=pl.len().cast(pl.Int64),
        tasks_with_runtime=runtime.count().cast(pl.Int64),
        mean_s=runtime.mean(),
        median_s=runtime.median(),
        instances=pl.col("n_instances").sum(),
        instances_used=pl.col("n_used").sum(),
        gpu_hours=(gpus * pl.col("instance_s")).sum() / 3600,
        gpu_hours_gang=(gpus * pl.col("n_used") * runtime).sum() / 3600,
        tasks_without_gpus=(runtime.is_not_null() & gpus.is_null()).sum().cast(pl.Int64),
    )
    return requested.select(pl.lit(end_imputation).alias("end_imputation"), pl.all())
