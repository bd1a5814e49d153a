"""Jobs whose start, runtime and GPUs are those of their tasks and instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.cohorts.tasks import instance_times, sampled_rows

if TYPE_CHECKING:
    from traceana.store import Trace


def from_tasks(trace: Trace, /) -> bool:
    """Return whether the runtimes of a trace's jobs are known from their tasks only."""
    manifest = trace.manifest
    if manifest.has("jobs", ("runtime_s",)) or not manifest.has("jobs"):
        return False
    return manifest.has("tasks") and manifest.has("instances", ("start_s", "end_s"))


def jobs_of_tasks(trace: Trace, /) -> pl.DataFrame:
    """Return one row per job: [job_id, submit_s, start_s, runtime_s, gpus, gpu_type].

    start_s is the first start of a task, null if it is before the submission. runtime_s is from the
    first start to the last end of the instances that have both; gpus are the GPUs that these hold,
    averaged over the runtime, so that their product is the GPU time. gpu_type is that of the first
    task that has one.
    """
    tasks = trace.once(instance_times).tasks.lazy()
    gpus = pl.col("gpus")
    by_job = tasks.group_by("job_id").agg(
        start_s=pl.col("task_start_s").min(),
        runtime_s=pl.col("last_s").max() - pl.col("first_s").min(),
        gpu_s=(gpus * pl.col("known_s")).sum(),
        n_gpus=(gpus * pl.col("known_s")).count(),
        gpu_type=pl.col("gpu_type").drop_nulls().first(),
    )
    jobs = sampled_rows(trace, "jobs", "job_id", "submit_s")
    early = pl.col("start_s") < pl.col("submit_s")
    has_runtime = (pl.col("n_gpus") > 0) & (pl.col("runtime_s") > 0)
    return (
        jobs.join(by_job, on="job_id", how="left", maintain_order="left")
        .select(
            "job_id",
            "submit_s",
            pl.when(early.fill_null(value=False).not_()).then("start_s").alias("start_s"),
            "runtime_s",
            pl.when(has_runtime).then(pl.col("gpu_s") / pl.col("runtime_s")).alias("gpus"),
            "gpu_type",
        )
        .collect(engine="streaming")
    )
