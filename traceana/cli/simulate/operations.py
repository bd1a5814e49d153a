"""``traceana simulate operations``: training steps with ideal durations of some operations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl

from traceana.cli import options
from traceana.cli.output import Shown, print_json, print_result
from traceana.errors import DataError
from traceana.questions.operations.analyze import (
    NEEDS,
    JobReplay,
    describe_job,
    job_names,
    replay_job,
)
from traceana.simulate.operations.policies import as_policy
from traceana.simulate.operations.replay import slowdown_by
from traceana.simulate.operations.tables import OperationJobs, SlowdownBy
from traceana.simulate.operations.timeline import operation_timeline, write_timeline
from traceana.store import Trace
from traceana.tables.declare import schema_of


def operations(
    *,
    trace: str | None = None,
    job: str | None = None,
    ideal: str | None = None,
    timeline: Path | None = None,
    store: Path | None = None,
    json: bool = False,
) -> None:
    """Replay training steps with ideal durations of some operations."""
    policy = as_policy(_read_group(ideal))
    chosen = options.qualifying_trace(options.open_simulated(store), trace, NEEDS)
    jobs = _jobs_of(chosen, job, timeline)
    replays: list[JobReplay] = []
    notes: list[str] = []
    for name in jobs:
        try:
            replays.append(replay_job(chosen, name, policy=policy))
        except DataError as error:
            if name == jobs[-1] and not replays:
                raise
            notes.append(f"traceana: note: job {name} is left out: {error}\n")
            continue
        if timeline is not None:
            write_timeline(operation_timeline(replays[-1].model, ideal=policy), timeline)
    sys.stderr.write("".join(notes))
    about = {"trace": chosen.id, "synthetic": chosen.synthetic, "ideal": str(policy)}
    if json:
        print_json({**about, "results": [_as_json(replay) for replay in replays]})
        return
    rows = [describe_job(replay) for replay in replays]
    frame = pl.DataFrame(rows, schema=schema_of(OperationJobs)).drop("note")
    shown = [Shown(name="results", frame=frame, table=OperationJobs)]
    if len(replays) == 1:
        title = "Slowdown by operations"
        for grouping in (replays[0].by_kind, replays[0].by_stage):
            by = grouping.sort("slowdown", descending=True)
            shown.append(Shown(name="by", frame=by, table=SlowdownBy, title=title))
    print_result(f"{chosen.id}: {policy}\n", about, *shown, as_json=False)


def _jobs_of(trace: Trace, job: str | None, timeline: Path | None) -> list[str]:
    jobs = job_names(trace)
    listed = ", ".join(jobs)
    if job is not None and job not in jobs:
        raise DataError(f"--job {job}: {trace.id} has no such job; its jobs are {listed}")
    jobs = jobs if job is None else [job]
    if timeline is not None and len(jobs) > 1:
        raise DataError(f"--timeline: pass --job, one of {listed}")
    return jobs


def _read_group(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    group = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise DataError(f"--ideal {text}: expected name=value, such as stage=3")
        group[name] = value
    return group


def _as_json(replay: JobReplay) -> dict[str, Any]:
    row = describe_job(replay)
    groupings = {"kind": replay.by_kind, "stage": replay.by_stage}
    groupings["dp_rank"] = slowdown_by(replay.model, "dp_rank")
    return {
        "job": row["job_id"],
        **{name: row[name] for name in ("steps", "workers", "slowdown", "m_s", "m_w")},
        "t_measured": row["t_measured_s"],
        "t_ori": row["t_original_s"],
        "t_ideal": row["t_ideal_s"],
        "launch_slowdown": replay.replay.launch_slowdown,
        "slowest_workers": replay.workers.workers.filter("is_slowest")["worker"].to_list(),
        "replay_error": row["replay_error"],
        **{f"slowdown_by_{by}": frame.to_dicts() for by, frame in groupings.items()},
        "step": replay.replay.steps.to_dicts(),
    }
