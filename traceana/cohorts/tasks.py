"""Runtimes of a trace's tasks from the times of their instances, and the owners of the tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts import job_sample
from traceana.cohorts.task_runtimes import impute_ends
from traceana.cohorts.task_times import TaskTimes, read_task_times
from traceana.store.frames import open_frame, reduce_frame

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.store import Trace


_RUNTIMES: Final = (
    "job_id",
    "status",
    "runtime_s",
    "n_instances",
    "gpus",
    "cpus",
    "memory_gib",
    "gpu_type",
)
OWNERS: Final = ("user", "group", "account", "job_name")
"""Columns of a job by which its tasks are grouped, if they have values."""


def sample_jobs(trace: Trace, /) -> job_sample.JobSample | None:
    """Return the sample of jobs that are analyzed one by one; None if all are."""
    tables = trace.manifest.tables
    table = "tasks" if trace.has("tasks") else "jobs"
    if table not in tables or tables[table].rows <= job_sample.MAX_TASKS:
        return None
    rows = trace.frame(table)
    return job_sample.draw_jobs(rows, max_tasks=job_sample.SAMPLED_TASKS, noun=table)


def sampled_rows(trace: Trace, table: str, /, *columns: str) -> pl.LazyFrame:
    """Return columns of the rows of a table whose jobs are in the sample; all if there is none.

    The engine of the session selects them.
    """
    rows = nw.from_native(_sampled(trace, table)).select(*columns)
    return trace.local(rows.to_native(), table)


def instance_times(trace: Trace, /) -> TaskTimes:
    """Return the times of instances by task; the end of the trace is that of all its rows."""
    tables = [trace.frame(table) for table in ("tasks", "instances")]
    times = read_task_times(*(_sampled(trace, table) for table in ("tasks", "instances")))
    if trace.once(sample_jobs) is None:
        return times
    ends = [time for table in tables for time in _ends(table) if time is not None]
    return replace(times, first_s=min(ends, default=None), last_s=max(ends, default=None))


def task_times(trace: Trace, /, end_imputation: str = "drop") -> pl.DataFrame:
    """Return the runtimes of the tasks, computed from the cached times of their instances.

    [job_id, status, runtime_s, n_instances, gpus, cpus, memory_gib, gpu_type]
    """
    times = trace.once(instance_times)
    return impute_ends(times, end_imputation).select(_RUNTIMES).collect(engine="streaming")


def task_owners(trace: Trace, /, *names: str) -> pl.DataFrame:
    """Return the :data:`OWNERS` of the tasks that the trace has, in the order of the tasks.

    With `names` only these are read.

    A group is a hash of its name, as groups are only compared. If a job has several in the table
    job_tags, it is the first by name; if it has none, what the manifest states as its fallback.
    """
    owners = trace.once(instance_times).tasks.lazy().select("job_id")
    if trace.store.has(trace.id, "jobs"):
        there = trace.scan("jobs").collect_schema().names()
        tagged = trace.store.has(trace.id, "job_tags") and (not names or "group" in names)
        # identifiers of 60 characters are joined by 128 bits
        key = {f".inst {seed}": pl.col("inst_id").hash(seed) for seed in (1, 2)} if tagged else {}
        named = [name for name in names or OWNERS if name in there]
        needed = dict.fromkeys(("job_id", *named, *(["inst_id"] if tagged else [])))
        jobs = sampled_rows(trace, "jobs", *needed).select(
            "job_id", *(pl.col(name).cast(pl.Categorical()) for name in named), **key
        )
        if tagged:
            tags = trace.scan("job_tags").drop_nulls("inst_id").select("group", **key)
            table = tags.join(jobs, on=list(key), how="semi")
            first = pl.col("group").min()
            first = pl.when(first.is_not_null()).then(first.hash())
            groups = table.group_by(list(key)).agg(first.alias("group"))
            jobs = jobs.drop("group", strict=False).join(groups, on=list(key), how="left")
            fallback = trace.manifest.tables["job_tags"].group_fallback
            if fallback in named:
                other = pl.col(fallback).cast(pl.String).hash()
                jobs = jobs.with_columns(
                    pl.coalesce("group", pl.when(pl.col(fallback).is_not_null()).then(other))
                )
        owners = owners.join(jobs, on="job_id", how="left", maintain_order="left")
    owners_of_tasks = (
        owners.select(pl.selectors.by_name(*OWNERS, require_all=False))
        .with_columns(pl.selectors.categorical().cast(pl.String))
        .collect(engine="streaming")
    )
    return owners_of_tasks.select(column.name for column in owners_of_tasks if column.count())


def _sampled(trace: Trace, table: str) -> IntoFrame:
    frame, sample = trace.frame(table), trace.once(sample_jobs)
    of_jobs = "job_id" in trace.scan(table).collect_schema()
    return sample.rows_of(frame) if sample is not None and of_jobs else frame


def _ends(frame: IntoFrame) -> tuple[float | None, ...]:
    start, end = nw.col("start_s"), nw.col("end_s")
    times = open_frame(frame, keys=(), measures=("start_s", "end_s"))
    ends = {"a": start.min(), "b": start.max(), "c": end.min(), "d": end.max()}
    return reduce_frame(times, (), **ends).row(0)
