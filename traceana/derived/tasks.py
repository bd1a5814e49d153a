"""Runtimes of a trace's tasks from the times of their instances, and the owners of the tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import open_frame, reduce_frame
from traceana.analysis.runtimes.records import Records, read_records
from traceana.analysis.runtimes.tasks import apply_policy
from traceana.derived import job_sample

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

    from traceana.store.session import Session

_RUNTIMES: Final = (
    *("job_id", "status", "runtime_s", "n_instances"),
    *("gpus", "cpus", "memory_gib", "gpu_type"),
)


def task_sample(session: Session, trace: str, /) -> job_sample.JobSample | None:
    """Return the jobs whose tasks are analysed one by one; None where those of all are."""
    tasks = session.scan(trace, "tasks").select(pl.len()).collect().item()
    if tasks <= job_sample.MOST_TASKS:
        return None
    return job_sample.draw_jobs(session.frame(trace, "tasks"), most=job_sample.SAMPLED_TASKS)


def sampled_rows(session: Session, trace: str, frame: IntoFrameT, /) -> IntoFrameT:
    """Return the rows of the jobs whose tasks are analysed one by one, of a table."""
    sample = session.once(task_sample, trace)
    return frame if sample is None else sample.rows_of(frame)


def task_records(session: Session, trace: str, /) -> Records:
    """Return what the instances say of the times of tasks; the trace's end is that of all."""
    tables = [session.frame(trace, table) for table in ("tasks", "instances")]
    records = read_records(*(sampled_rows(session, trace, table) for table in tables))
    if session.once(task_sample, trace) is None:
        return records
    ends = [_ends(table) for table in tables]
    times = [time for both in ends for time in both if time is not None]
    return replace(records, first_s=min(times, default=None), last_s=max(times, default=None))


def task_times(session: Session, trace: str, /, missing_end: str = "drop") -> pl.DataFrame:
    """Return the runtimes of the tasks; they are made anew from what `once` keeps.

    [job_id, status, runtime_s, n_instances, gpus, cpus, memory_gib, gpu_type]
    """
    return apply_policy(session.once(task_records, trace), missing_end).select(_RUNTIMES)


def task_owners(session: Session, trace: str, /) -> pl.DataFrame:
    """Return [user, group] of the jobs of the tasks, a row for each of theirs, in their order.

    Null where the store does not tell. Of several groups of a job it is the first by name; a
    group is told by 64 bits of its name, since it is only told apart from others.
    """
    owners = session.once(task_records, trace).tasks.lazy().select("job_id")
    if session.store.has(trace, "jobs"):
        names = pl.Categorical()
        # ids of 60 digits are joined by 128 bits
        key = {f"inst {seed}": pl.col("inst_id").hash(seed) for seed in (1, 2)}
        jobs = sampled_rows(session, trace, session.scan(trace, "jobs"))
        jobs = jobs.select("job_id", pl.col("user").cast(names), **key)
        if session.store.has(trace, "job_tags"):
            tags = session.scan(trace, "job_tags").drop_nulls("inst_id").select("group", **key)
            known = tags.join(jobs, on=list(key), how="semi")
            first = pl.col("group").min()
            first = pl.when(first.is_not_null()).then(first.hash())
            groups = known.group_by(list(key)).agg(first.alias("group"))
            jobs = jobs.join(groups, on=list(key), how="left")
        owners = owners.join(jobs, on="job_id", how="left", maintain_order="left")
    unknown = [pl.lit(None, pl.String).alias(name) for name in ("user", "group")]
    there = owners.collect_schema().names()
    return (
        owners.with_columns(column for column in unknown if column.meta.output_name() not in there)
        .select(pl.col("user").cast(pl.String), "group")
        .collect(engine="streaming")
    )


def _ends(frame: IntoFrame) -> tuple[float | None, ...]:
    start, end = nw.col("start_s"), nw.col("end_s")
    times = open_frame(frame, keys=(), measures=("start_s", "end_s"))
    ends = {"a": start.min(), "b": start.max(), "c": end.min(), "d": end.max()}
    return reduce_frame(times, (), **ends).row(0)
