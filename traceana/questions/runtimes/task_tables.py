"""Tables on the runtimes of a trace's tasks under each imputation of missing ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.cohorts.tables import MissingTimes
from traceana.cohorts.task_times import END_IMPUTATIONS, check_capacity, impute_ends, sum_gpus
from traceana.cohorts.tasks import instance_times, sample_jobs, task_owners
from traceana.store.frames import reduce_frame
from traceana.tables.declare import declared

if TYPE_CHECKING:
    from traceana.store import Trace


def capacity(trace: Trace, /) -> tuple[pl.DataFrame, float | None]:
    """Return the capacity check, and the largest relative standard error of its GPU-hours.

    GPU-hours of a sample are multiplied by all tasks over those drawn.
    """
    times = trace.once(instance_times)
    gpus = sum_gpus(trace.frame("machines")) if trace.has("machines") else None
    check = check_capacity(times, gpus)
    sample = trace.once(sample_jobs)
    if sample is None:
        return check, None
    gpu_s = pl.col("gpus") * pl.col("instance_s")
    requested = times.tasks.select("job_id").with_columns(
        impute_ends(times, name).select(gpu_s.alias(name)).collect().to_series()
        for name in END_IMPUTATIONS
    )
    errors = [error for error in sample.relative_errors(requested).values() if error is not None]
    summed = ("gpu_hours", "gpu_hours_gang", "fraction_of_capacity")
    return check.with_columns(pl.col(summed) / sample.fraction), max(errors, default=None)


def task_gpu_hours(trace: Trace, /) -> pl.DataFrame:
    """Return [job_id, status, gpus, runtime_s, user]: of each task the time of its instances."""
    times = impute_ends(trace.once(instance_times), "drop").select(
        "job_id", pl.col("status").cast(pl.String), "gpus", runtime_s=pl.col("instance_s")
    )
    owners = trace.once(task_owners, "user")
    users = [owners["user"].cast(pl.String)] if "user" in owners.columns else []
    return times.collect(engine="streaming").hstack(users)


def means_by_outcome(trace: Trace, by: str | None, /) -> pl.DataFrame:
    """Return [outcome, by] with `mean NAME` and `n NAME` of the runtimes of each imputation."""
    times, runtime = trace.once(instance_times), pl.col("runtime_s")
    failed = pl.col("status").is_in(trace.manifest.failure_statuses)
    outcome = (
        pl.when(status="completed").then(pl.lit("success")).when(failed).then(pl.lit("failure"))
    )
    keys = ["outcome"] + ([by] if by else [])
    tables = [
        reduce_frame(
            impute_ends(times, name).with_columns(outcome=outcome).drop_nulls("outcome"),
            keys,
            **{f"mean {name}": runtime.mean(), f"n {name}": runtime.count()},
        )
        for name in END_IMPUTATIONS
    ]
    joined, *others = tables
    for table in others:
        joined = joined.join(table, on=keys, how="left", nulls_equal=True)
    return joined.sort(keys, descending=[True, False][: len(keys)], nulls_last=True)


def missing_times(trace: Trace, /) -> pl.DataFrame:
    """Return the missing starts and ends of instances, by the status of their task."""
    n = pl.col("n_instances")
    missing = (
        trace.once(instance_times)
        .tasks.group_by("status")
        .agg(
            tasks=pl.len().cast(pl.Int64),
            without_instances=(n == 0).sum().cast(pl.Int64),
            instances=n.sum(),
            no_start=1 - pl.col("n_start").sum() / n.sum(),
            no_end=1 - pl.col("n_end").sum() / n.sum(),
        )
        .with_columns(pl.col("no_start", "no_end").fill_nan(None))
        .sort("tasks", "status", descending=True)
    )
    return declared(missing, MissingTimes)
