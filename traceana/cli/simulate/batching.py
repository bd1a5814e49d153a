"""``traceana simulate batching``: batch sizes in proportion to the speed of the workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from traceana.cli import options
from traceana.cli.output import Shown, print_result, write_frame
from traceana.errors import DataError
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
from traceana.store import Store


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
        _replay(options.open_simulated(store), trace, names, json=json, out=out)
    elif trace is None:
        _simulate(throughputs, names, json=json, out=out)
    else:
        raise DataError("--throughputs: TRACE has its own workers; leave one of them out")


def _simulate(throughputs: str, names: list[Any] | None, *, json: bool, out: Path | None) -> None:
    try:
        speeds = [float(speed) for speed in SPLITS.get(throughputs) or throughputs.split(",")]
    except ValueError:
        raise DataError(
            f"--throughputs {throughputs!r}: expected numbers separated by commas, such as 12,8,16"
        ) from None
    workers = [(0.0, speed) for speed in speeds]
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
