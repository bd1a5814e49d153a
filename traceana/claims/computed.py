"""What judges and the report's sections both take from a store; ask for it with `Data.once`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis import deadline_rules, detect_stragglers, iteration_rates, match_cov_rows
from traceana.analysis.frames import open_frame, reduce_frame
from traceana.analysis.runtimes.records import Records, read_records
from traceana.analysis.runtimes.tasks import apply_policy
from traceana.claims import job_sample

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

    from traceana.analysis import StragglerResult
    from traceana.claims.data import Data

_MINIBATCH: Final = "alibaba-minibatch-2020"
_ELASTICFLOW: Final = "elasticflow-2023"
_PAI: Final = "alibaba-pai-2020"
_RUNTIMES: Final = (
    *("job_id", "status", "runtime_s", "n_instances"),
    *("gpus", "cpus", "memory_gib", "gpu_type"),
)


def stragglers(data: Data, /) -> StragglerResult:
    """Return the stragglers of the jobs with worker times."""
    return detect_stragglers(data.scan(_MINIBATCH, "worker_samples"))


def cov_matches(data: Data, /) -> pl.DataFrame:
    """Return the rows of the published CoV table that those jobs are most like."""
    return match_cov_rows(
        data.scan(_MINIBATCH, "worker_samples"), data.scan(_MINIBATCH, "cov_samples")
    )


def rules(data: Data, /) -> pl.DataFrame:
    """Return the rules that the published deadlines follow."""
    return deadline_rules(data.scan(_ELASTICFLOW, "training_plans"), _jobs(data))


def rates(data: Data, /) -> pl.DataFrame:
    """Return the throughputs behind the published deadlines."""
    return iteration_rates(data.scan(_ELASTICFLOW, "training_plans"), _jobs(data))


def pai_sample(data: Data, /) -> job_sample.JobSample | None:
    """Return the jobs whose tasks are analysed one by one; None where those of all are."""
    tasks = data.scan(_PAI, "tasks").select(pl.len()).collect().item()
    if tasks <= job_sample.MOST_TASKS:
        return None
    return job_sample.draw_jobs(data.frame(_PAI, "tasks"), most=job_sample.SAMPLED_TASKS)


def pai_rows(data: Data, frame: IntoFrameT, /) -> IntoFrameT:
    """Return the rows of PAI's jobs whose tasks are analysed one by one, of a table of PAI's."""
    sample = data.once(pai_sample)
    return frame if sample is None else sample.rows_of(frame)


def pai_records(data: Data, /) -> Records:
    """Return what PAI's instances say of the times of tasks; the trace's end is that of all."""
    tables = [data.frame(_PAI, table) for table in ("tasks", "instances")]
    records = read_records(*(pai_rows(data, table) for table in tables))
    if data.once(pai_sample) is None:
        return records
    ends = [_ends(table) for table in tables]
    times = [time for both in ends for time in both if time is not None]
    return replace(records, first_s=min(times, default=None), last_s=max(times, default=None))


def pai_runtimes(data: Data, /, missing_end: str = "drop") -> pl.DataFrame:
    """Return the runtimes of PAI's tasks; they are made anew from what `once` keeps.

    [job_id, status, runtime_s, n_instances, gpus, cpus, memory_gib, gpu_type]
    """
    return apply_policy(data.once(pai_records), missing_end).select(_RUNTIMES)


def pai_owners(data: Data, /) -> pl.DataFrame:
    """Return [user, group] of the jobs of PAI's tasks, a row for each of theirs, in their order.

    Null where the store does not tell. Of several groups of a job it is the first by name; a
    group is told by 64 bits of its name, since it is only told apart from others.
    """
    owners = data.once(pai_records).tasks.lazy().select("job_id")
    if data.store.has(_PAI, "jobs"):
        names = pl.Categorical()
        # ids of 60 digits are joined by 128 bits
        key = {f"inst {seed}": pl.col("inst_id").hash(seed) for seed in (1, 2)}
        jobs = pai_rows(data, data.scan(_PAI, "jobs"))
        jobs = jobs.select("job_id", pl.col("user").cast(names), **key)
        if data.store.has(_PAI, "job_tags"):
            tags = data.scan(_PAI, "job_tags").drop_nulls("inst_id").select("group", **key)
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


def _jobs(data: Data) -> pl.LazyFrame:
    return data.scan(_ELASTICFLOW, "jobs")
