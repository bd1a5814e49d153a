"""``traceana simulate batching``: batch sizes in proportion to the speed of the workers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl

from traceana.cli import options
from traceana.cli.limits import open_simulated
from traceana.cli.output import Shown, print_json, print_result, write_frame
from traceana.errors import DataError
from traceana.questions.operations.analyze import (
    NEEDS,
    JobReplay,
    describe_job,
    job_names,
    replay_job,
)
from traceana.questions.stragglers import analyze as workers
from traceana.simulate import Static, replay_batching, simulate_batching
from traceana.simulate.batching.controllers import CONTROLLERS
from traceana.simulate.batching.tables import (
    Batches,
    BatchingSweep,
    ReplayEpisodes,
    ReplayJobs,
    ReplaySteps,
)
from traceana.simulate.batching.workers import SPLITS
from traceana.simulate.operations.policies import as_policy
from traceana.simulate.operations.replay import decompose
from traceana.simulate.operations.tables import OperationJobs, SlowdownBy
from traceana.simulate.operations.timeline import timeline_of, write_timeline
from traceana.store import Store
from traceana.tables.declare import schema_of


def batching(
    *,
    trace: str | None = None,
    throughputs: str | None = None,
    controllers: str | None = None,
    store: Path | None = None,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Simulate batch-size controllers on heterogeneous workers."""
    names = [*options.load_objects(controllers, "--controllers").values()] if controllers else None
    if throughputs is None:
        _replay(open_simulated(store), trace, names, json=json, out=out)
    elif trace is None:
        _simulate(throughputs, names, json=json, out=out)
    else:
        raise DataError("--throughputs: TRACE has its own workers; leave one of them out")


def _simulate(throughputs: str, names: list[Any] | None, *, json: bool, out: Path | None) -> None:
    speeds = SPLITS.get(throughputs) or options.read_numbers("--throughputs", throughputs)
    workers = [(0.0, float(speed)) for speed in speeds]
    uniform, *others = CONTROLLERS
    fields = ("controller", "time_s", "speedup", "idle_fraction", "adjustments", "note")
    rows, batches = [], []
    for name in names or (uniform, "static", *others):
        controller = Static(speeds) if name == "static" else name
        result = simulate_batching(workers, controller=controller)
        last = {"batch_last": result.workers["batch_last"].to_list()}
        rows.append({field: getattr(result, field) for field in fields} | last)
        batches.append(result.batches.select(pl.lit(result.controller).alias("controller"), "*"))
    write_frame(pl.concat(batches), out, Batches)
    frame = pl.DataFrame(rows, schema_overrides={"note": pl.String})
    summary = Shown(name="results", frame=frame, table=BatchingSweep)
    print_result("100 steps without overhead", {"synthetic": False}, summary, as_json=json)


def _replay(
    store: Store, trace: str | None, names: list[Any] | None, *, json: bool, out: Path | None
) -> None:
    timed = map(store.trace, store.traces(table="worker_samples", columns=("batch_time",)))
    pipeline = ("operations", workers.PIPELINE["operations"])
    traces = {each.id: each for each in timed if not each.has(*pipeline)}
    recorded = traces.get(trace or (next(iter(traces)) if len(traces) == 1 else ""))
    if recorded is None:
        raise DataError(
            "pass --throughputs, or a trace with worker_samples; the store has "
            f"{', '.join(traces) or 'none'}"
        )
    settings: dict[str, Any] = {"controllers": names} if names else {}
    result = replay_batching(
        workers.worker_samples(recorded),
        episodes=recorded.once(workers.stragglers).episodes,
        time=workers.clock(recorded),
        **settings,
    )
    write_frame(result.steps, out, ReplaySteps)
    columns = ("job_id", "worker_id", "onset_s", "controller", "cost_fraction", "recovery_steps")
    print_result(
        "speedup over uniform batches",
        {"synthetic": recorded.synthetic, "trace": recorded.id, "within": result.within},
        Shown(name="jobs", frame=result.jobs, table=ReplayJobs),
        Shown(
            name="episodes",
            frame=result.episodes,
            table=ReplayEpisodes,
            title="Relative cost of each straggler episode, and steps until three in a row are "
            f"within {100 * result.within:g} % of the oracle's",
            columns=columns,
        ),
        as_json=json,
    )


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
    chosen = options.qualifying_trace(open_simulated(store), trace, NEEDS)
    jobs = job_names(chosen)
    if job is not None and job not in jobs:
        listed = ", ".join(jobs)
        raise DataError(f"--job {job}: {chosen.id} has no such job; its jobs are {listed}")
    jobs = jobs if job is None else [job]
    if timeline is not None and len(jobs) > 1:
        raise DataError(f"--timeline: pass --job, one of {', '.join(jobs)}")
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
            write_timeline(timeline_of(replays[-1].model, policy=policy), timeline)
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
    groupings["dp_rank"] = decompose(replay.model, ("dp_rank",))
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
