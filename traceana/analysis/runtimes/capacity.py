"""Whether a cluster could have given the GPU-hours that a policy on missing ends implies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import open_frame, reduce_frame
from traceana.analysis.runtimes.records import Records, read_records
from traceana.analysis.runtimes.tasks import MISSING_END, apply_policy
from traceana.errors import DataError

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def gpu_capacity_check(
    tasks: IntoFrame, instances: IntoFrame, machines: IntoFrame, /
) -> pl.DataFrame:
    """GPU-hours asked for under each policy on missing ends, against machines times span.

    A policy under which tasks ask for more than the machines could give cannot be true as a whole.
    One that asks for less is not thereby true: ends that were lost are missing from it.

    gpu_hours = sum over tasks of gpus * instance_s / 3600: gpus is asked for by each instance
    (each inherits its task's plan, as PAI's publisher says), and instance_s is the summed time of
    those that take part. gpu_hours_gang = sum of gpus * n_used * runtime_s / 3600: what they ask
    for if all of a task's are held from its first start to its last end, attempts that followed
    one another included. capacity_gpu_hours = sum of the machines' GPUs * span_h: all of them, up
    all the time.

    Parameters
    ----------
    tasks, instances
        As in :func:`task_runtimes`.
    machines
        One row a machine: [gpus]; eager or lazy, of any listed engine.

    Returns
    -------
    DataFrame
        One row a policy: [missing_end, tasks,
        tasks_with_runtime, mean_s, median_s, instances, instances_used, gpu_hours,
        gpu_hours_gang, machine_gpus, span_h, capacity_gpu_hours, share_of_capacity,
        tasks_without_gpus, instances_of_no_task, note]. mean_s and median_s are of runtime_s.
        share_of_capacity is gpu_hours over capacity_gpu_hours; null where that is 0, and note
        says so. span_h is from the earliest to the latest start or end in either table.
        tasks_without_gpus counts the tasks with a runtime that state no GPUs: they ask for none
        here. instances_of_no_task are in no task of `tasks`, and nowhere in the sums.

    Raises
    ------
    DataError
        As :func:`task_runtimes`; or if a machine's GPUs are missing, negative or infinite.
    """
    return check_capacity(read_records(tasks, instances), machines)


def check_capacity(records: Records, machines: IntoFrame, /) -> pl.DataFrame:
    """Do what :func:`gpu_capacity_check` does, with records that were read once."""
    machine_gpus = _sum_gpus(machines)
    span_h = 0.0
    if records.first_s is not None and records.last_s is not None:
        span_h = (records.last_s - records.first_s) / 3600
    capacity = pl.lit(machine_gpus * span_h)
    share = pl.col("gpu_hours") / capacity
    note = "no capacity: the machines have no GPU, or the trace has no span"
    return pl.concat(_asked_for(records, policy) for policy in MISSING_END).select(
        pl.exclude("tasks_without_gpus"),
        machine_gpus=pl.lit(machine_gpus),
        span_h=pl.lit(span_h),
        capacity_gpu_hours=capacity,
        share_of_capacity=pl.when(share.is_finite()).then(share),
        tasks_without_gpus="tasks_without_gpus",
        instances_of_no_task=pl.lit(records.instances_of_no_task, pl.Int64),
        note=pl.when(~share.is_finite()).then(pl.lit(note)),
    )


def _sum_gpus(machines: IntoFrame) -> float:
    gpus = nw.col("gpus")
    frame = open_frame(machines, keys=(), measures=("gpus",))
    total, known, rows = reduce_frame(
        frame, (), gpus=gpus.sum(), known=gpus.count(), rows=nw.len()
    ).row(0)
    if known < rows:
        raise DataError(f"{rows - known} machine(s) have no number of gpus")
    return float(total or 0)


def _asked_for(records: Records, missing_end: str) -> pl.DataFrame:
    gpus, runtime = pl.col("gpus"), pl.col("runtime_s")
    return apply_policy(records, missing_end).select(
        missing_end=pl.lit(missing_end),
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
