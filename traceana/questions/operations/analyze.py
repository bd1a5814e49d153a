"""Replay of the jobs of a trace, computed once per session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.operations.policies import Policy
from traceana.simulate.operations.replay import replay_operations, slowdown_by, worker_slowdown
from traceana.simulate.operations.run import Model, prepare
from traceana.simulate.operations.tables import OperationJobs, ReplayResult, WorkerSlowdownResult
from traceana.simulate.operations.timeline import operation_timeline
from traceana.store import Trace
from traceana.tables.declare import declared, schema_of

NEEDS: Final = ({"operations": ("dp_rank", "stage", "start_s", "duration_s")},)
MOST_JOBS: Final = 50
"""Jobs of a trace that are replayed for the page."""
_MOST_NAMED: Final = 3


@dataclass(frozen=True)
class JobReplay:
    """A replayed job with all groupings, and a timeline of its slowest step."""

    job: str
    model: Model
    replay: ReplayResult
    workers: WorkerSlowdownResult
    by_kind: pl.DataFrame
    by_stage: pl.DataFrame
    timeline: pl.DataFrame
    """Of the slowest step, on the data-parallel rank of the slowest worker."""


def job_names(trace: Trace, /) -> list[str]:
    """Return the jobs of a trace that have operations, in the order of their ids."""
    jobs = trace.scan("operations").select(pl.col("job_id").unique()).collect()
    return jobs["job_id"].sort().to_list()


def operations_of(trace: Trace, job: str, /) -> pl.LazyFrame:
    """Return the operations of a job."""
    return trace.scan("operations").filter(job_id=job)


def replay_job(trace: Trace, job: str, /, *, policy: Policy | None = None) -> JobReplay:
    """Return a replayed job."""
    model = prepare(operations_of(trace, job))
    replayed = replay_operations(model, ideal=policy)
    workers = worker_slowdown(model)
    step = int(replayed.steps["step"][int(np.argmax(replayed.step_s_original))])
    rank = workers.workers["dp_rank"][0]
    timeline = operation_timeline(model, steps=[step]).filter(dp_rank=rank)
    by_kind, by_stage = (slowdown_by(model, name) for name in ("kind", "stage"))
    return JobReplay(job, model, replayed, workers, by_kind, by_stage, timeline)


def replayed_jobs(trace: Trace, /) -> tuple[list[JobReplay], pl.DataFrame]:
    """Return the replayed jobs of a trace, the slowest first, and a row for each job."""
    replays: list[JobReplay] = []
    rows: list[dict[str, object]] = []
    for job in job_names(trace)[:MOST_JOBS]:
        try:
            replay = replay_job(trace, job)
        except DataError as error:
            rows.append({"job_id": job, "note": str(error)})
        else:
            replays.append(replay)
            rows.append(describe_job(replay))
    replays.sort(key=lambda replay: -replay.replay.slowdown)
    schema = schema_of(OperationJobs)
    frame = pl.DataFrame(rows, schema=schema).sort("slowdown", descending=True, nulls_last=True)
    return replays, declared(frame, OperationJobs)


def describe_job(replay: JobReplay, /) -> dict[str, object]:
    """Return the row of a replayed job."""
    replayed, workers = replay.replay, replay.workers
    slowest = workers.workers.filter("is_slowest")["worker"]
    m_s, m_w = workers.explained["explained_removal"]
    return {
        "job_id": replay.job,
        "steps": replayed.steps.height,
        "workers": workers.workers.height,
        "t_measured_s": float(replayed.step_s_measured.mean()),
        "t_original_s": float(replayed.step_s_original.mean()),
        "t_ideal_s": float(replayed.step_s_ideal.mean()),
        "slowdown": replayed.slowdown,
        "m_s": m_s,
        "m_w": m_w,
        "slowest_workers": name_workers(slowest.to_list()),
        "replay_error": replayed.replay_error,
        "note": None,
    }


def name_workers(workers: list[str], /) -> str:
    """Return the names of workers, of many the first ones and their number."""
    if len(workers) <= _MOST_NAMED:
        return ", ".join(workers)
    return f"{', '.join(workers[:_MOST_NAMED])}, ... ({len(workers)})"
