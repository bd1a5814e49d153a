"""Tasks of a trace, or of a reproducible sample of its jobs, their owners, and jobs of tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from traceana.cohorts.task_times import TaskTimes, impute_ends, read_task_times
from traceana.store import Trace
from traceana.store.frames import admit_columns, open_frame, reduce_frame

MAX_TASKS: Final = 1_300_000
"""A trace with at most so many tasks is analyzed completely, such as the published PAI trace.

In a trace without tasks, each job counts as one.
"""
SAMPLED_TASKS: Final = 1_000_000
"""About so many tasks are sampled from a larger trace."""
SEED: Final = 1
_LETTERS: Final = (3, 4, 5)
"""Three characters at the end of a job_id have some thousand values, in digests and numbers."""
_MIN_ENDINGS: Final = 50


@dataclass(frozen=True)
class JobSample:
    """The jobs whose job_id ends in one of the endings that were drawn at random."""

    endings: tuple[str, ...]
    """The endings drawn."""
    letters: int
    """Characters of an ending."""
    n_endings: int
    """Number of possible endings."""
    drawn: int
    tasks: int
    """Tasks of the jobs drawn, and of all jobs."""
    noun: str = "tasks"
    """What is counted: tasks, or jobs in a trace without tasks."""

    @property
    def fraction(self) -> float:
        """Fraction of the tasks that is in the sample."""
        return self.drawn / self.tasks

    @property
    def description(self) -> str:
        """What is in the sample, for a sentence."""
        return (
            f"{self.drawn:,} of {self.tasks:,} {self.noun} ({100 * self.fraction:.1f} %), "
            f"{'those of whole jobs ' * (self.noun != 'jobs')}drawn by the end of their job_id "
            f"(seed {SEED})"
        )

    def rows_of(self, frame: IntoFrameT, /) -> IntoFrameT:
        """Return the rows of a table with a job_id that are in the sample, lazily if it is lazy."""
        rows: nw.LazyFrame[Any] = nw.from_native(frame)
        drawn: IntoFrameT = rows.filter(_ending(self.letters).is_in(list(self.endings))).to_native()
        return drawn


def draw_jobs(tasks: IntoFrame, /, *, max_tasks: int, noun: str = "tasks") -> JobSample:
    """Draw endings of job_id at random until their jobs would exceed `max_tasks` tasks."""
    rows = admit_columns(tasks, ("job_id",))
    for letters in _LETTERS:
        parts = reduce_frame(rows.select(ending=_ending(letters)), ("ending",), tasks=nw.len())
        table = parts.drop_nulls("ending")
        mixed = table[np.random.default_rng(SEED).permutation(table.height)]
        within = int((mixed["tasks"].cum_sum() <= max_tasks).sum())
        if within >= _MIN_ENDINGS:
            break
    chosen = mixed.head(max(within, 1)).sort("ending")
    drawn, total = (int(each["tasks"].sum()) for each in (chosen, parts))
    return JobSample(tuple(chosen["ending"]), letters, table.height, drawn, total, noun)


def _ending(letters: int) -> nw.Expr:
    return nw.col("job_id").cast(nw.String).str.tail(letters)


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


def sample_jobs(trace: Trace, /) -> JobSample | None:
    """Return the sample of jobs that are analyzed one by one; None if all are."""
    tables = trace.manifest.tables
    table = "tasks" if trace.has("tasks") else "jobs"
    if table not in tables or tables[table].rows <= MAX_TASKS:
        return None
    rows = trace.frame(table)
    return draw_jobs(rows, max_tasks=SAMPLED_TASKS, noun=table)


def sampled_rows(trace: Trace, table: str, /, *columns: str) -> pl.LazyFrame:
    """Return columns of the rows of a table whose jobs are in the sample; all if there is none."""
    rows = nw.from_native(_sampled(trace, table)).select(*columns)
    return trace.local(rows.to_native(), table)


def instance_times(trace: Trace, /) -> TaskTimes:
    """Return the times of instances by task; the end of the trace is that of all its rows."""
    times = read_task_times(*(_sampled(trace, table) for table in ("tasks", "instances")))
    if trace.once(sample_jobs) is None:
        return times
    ends: list[float | None] = []
    for table in ("tasks", "instances"):
        rows = open_frame(trace.frame(table), keys=(), measures=("start_s", "end_s"))
        start, end = nw.col("start_s"), nw.col("end_s")
        named = {"a": start.min(), "b": start.max(), "c": end.min(), "d": end.max()}
        ends += reduce_frame(rows, (), **named).row(0)
    stated = [time for time in ends if time is not None]
    return replace(times, first_s=min(stated, default=None), last_s=max(stated, default=None))


def task_times(trace: Trace, /, end_imputation: str = "drop") -> pl.DataFrame:
    """Return the runtimes of the tasks, computed from the cached times of their instances.

    [job_id, status, runtime_s, n_instances, gpus, cpus, memory_gib, gpu_type]
    """
    times = trace.once(instance_times)
    return impute_ends(times, end_imputation).select(_RUNTIMES).collect(engine="streaming")


def task_owners(trace: Trace, /, *names: str) -> pl.DataFrame:
    """Return the :data:`OWNERS` of the tasks, or these `names`, in the order of the tasks.

    A group is a hash of its name. Of several in job_tags it is the first by name, of none what the
    manifest states as its fallback.
    """
    owners = trace.once(instance_times).tasks.lazy().select("job_id")
    if trace.store.has(trace.id, "jobs"):
        present = trace.scan("jobs").collect_schema().names()
        tagged = trace.store.has(trace.id, "job_tags") and (not names or "group" in names)
        named = [name for name in names or OWNERS if name in present]
        jobs = sampled_rows(
            trace, "jobs", *dict.fromkeys(("job_id", *named, *["inst_id"] * tagged))
        )
        # identifiers of 60 characters are joined by 128 bits
        key = {f".inst {seed}": pl.col("inst_id").hash(seed) for seed in (1, 2)} if tagged else {}
        jobs = jobs.select("job_id", pl.col(named).cast(pl.Categorical()), **key)
        if tagged:
            tags = trace.scan("job_tags").drop_nulls("inst_id").select("group", **key)
            first = pl.col("group").min()
            first = pl.when(first.is_not_null()).then(first.hash())
            groups = tags.join(jobs, on=list(key), how="semi").group_by(list(key)).agg(group=first)
            jobs = jobs.drop("group", strict=False).join(groups, on=list(key), how="left")
            fallback = trace.manifest.tables["job_tags"].group_fallback
            if fallback in named:
                other = pl.col(fallback).cast(pl.String)
                other = pl.when(other.is_not_null()).then(other.hash())
                jobs = jobs.with_columns(pl.coalesce("group", other))
        owners = owners.join(jobs, on="job_id", how="left", maintain_order="left")
    columns = pl.selectors.by_name(*OWNERS, require_all=False)
    table = owners.select(columns).with_columns(pl.selectors.categorical().cast(pl.String))
    collected = table.collect(engine="streaming")
    return collected.select(column.name for column in collected if column.count())


def _sampled(trace: Trace, table: str) -> IntoFrame:
    frame, sample = trace.frame(table), trace.once(sample_jobs)
    of_jobs = "job_id" in trace.scan(table).collect_schema()
    return sample.rows_of(frame) if sample is not None and of_jobs else frame


def from_tasks(trace: Trace, /) -> bool:
    """Return whether the runtimes of a trace's jobs are known from their tasks only."""
    manifest = trace.manifest
    if manifest.has("jobs", ("runtime_s",)) or not manifest.has("jobs"):
        return False
    return manifest.has("tasks") and manifest.has("instances", ("start_s", "end_s"))


def jobs_of_tasks(trace: Trace, /) -> pl.DataFrame:
    """Return one row per job: [job_id, submit_s, start_s, runtime_s, gpus, gpu_type].

    start_s is null before the submission. gpus are averaged over the runtime, which is that of the
    instances with start and end; gpu_type is that of the first task that has one.
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
