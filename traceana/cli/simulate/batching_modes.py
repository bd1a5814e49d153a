"""What ``traceana simulate batching`` runs and prints: a job, a sweep, a replay, the paper."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.cli.output import print_json, print_rows, show_share
from traceana.cli.simulate.choose import open_simulated, print_title
from traceana.errors import DataError
from traceana.questions.stragglers import analyze as workers
from traceana.simulate import (
    Static,
    Workers,
    compare_clusters,
    published_gains,
    replay_batching,
    simulate_batching,
    summarize_batching,
    sweep_batching,
)
from traceana.simulate.batching.controllers import CONTROLLERS
from traceana.simulate.batching.tables import (
    AsynchronousWorkers,
    BatchingReplay,
    BatchingSummary,
    BatchingSweep,
    ClusterComparison,
    PublishedGains,
    ReplayEpisodes,
    ReplayJobs,
)
from traceana.tables.declare import ResultTable, with_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Writer = Callable[[pl.DataFrame], object]

_STATIC: Final = "static"
_SHOWN: Final = ("controller", "time_s", "speedup", "idle_share", "adjustments")


def run_job(
    workers: Workers,
    estimate: list[float] | None,
    settings: dict[str, Any],
    writer: Writer,
    /,
    *,
    json: bool,
    asynchronous: bool = False,
) -> None:
    """Simulate one job under each controller."""
    names = settings.pop("controllers", None)
    if names is None:
        names = ["uniform", *([_STATIC] if estimate else []), *list(CONTROLLERS)[1:]]
    if _STATIC in names and estimate is None:
        raise DataError("static needs an estimate; pass --cores or --devices")
    results = [
        simulate_batching(
            workers,
            controller=Static(estimate) if name == _STATIC and estimate else name,
            **settings,
        )
        for name in names
    ]
    writer(
        pl.concat(
            each.batches.select(pl.lit(each.controller).alias("controller"), pl.all())
            for each in results
        )
    )
    if json:
        fields = (*_SHOWN[:2], "samples", *_SHOWN[2:], "note")
        parts = [
            {name: getattr(each, name) for name in fields}
            | ({"asynchronous": each.asynchronous.to_dicts()} if asynchronous else {})
            | {"workers": each.workers.to_dicts(), "batches": each.batches.to_dicts()}
            for each in results
        ]
        print_json({"uniform_time_s": results[0].uniform_time_s, "results": parts})
        return
    rows = [
        {
            "last": ", ".join(f"{batch:,}" for batch in each.workers["batch_last"][:8])
            + (", ..." if each.workers.height > 8 else "")
        }
        | {name: getattr(each, name) for name in _SHOWN}
        for each in results
    ]
    headings = {"last": "Last batch sizes"}
    columns = [*_SHOWN, "last"]
    print_rows(pl.DataFrame(rows), BatchingSweep, columns=columns, headings=headings)
    _print_notes((each.controller, each.note) for each in results)
    if asynchronous:
        sys.stdout.write("\nwithout a barrier\n")
        for each in results:
            sys.stdout.write(f"{each.controller}\n")
            print_rows(each.asynchronous, AsynchronousWorkers)


def run_published(settings: dict[str, Any], writer: Writer, /, *, json: bool) -> None:
    """Compare the published clusters, and the throughput ratios of the published speedups."""
    clusters, gains = compare_clusters(**settings), published_gains()
    writer(clusters)
    if json:
        print_json({"clusters": clusters.to_dicts(), "gains": gains.to_dicts()})
        return
    print_rows(clusters, ClusterComparison)
    columns = ("id", "published", "devices", "ratio", "flops_ratio", "largest_gain", "reached_by")
    sys.stdout.write("\nthroughput ratios that the published factors imply\n")
    print_rows(gains, PublishedGains, columns=columns)


def run_sweep(settings: dict[str, Any], writer: Writer, /, *, json: bool) -> None:
    """Sweep over splits of CPU cores."""
    with show_share("dynamic batching") as progress:
        runs = sweep_batching(**settings, progress=progress)
    writer(runs)
    summary = summarize_batching(runs)
    if json:
        print_json({"summary": summary.to_dicts(), "runs": runs.to_dicts()})
        return
    sys.stdout.write("speedup over uniform batches, mean over seeds\n")
    others = summary.filter(pl.col("controller") != "uniform")  # 1 throughout
    keys = ("level", "overhead_s", "noise_cv", "mean_over_min")
    _print_by_controller(others if len(others) else summary, BatchingSummary, keys, "speedup")
    sys.stdout.write("Mean / min: cores; the maximum speedup without overhead and noise\n")
    _print_notes(
        (f"{row['controller']}, {row['level']}", row["note"]) for row in summary.to_dicts()
    )


def run_replay(
    store: Path | None,
    trace: str | None,
    settings: dict[str, Any],
    writer: Writer,
    /,
    *,
    json: bool,
) -> None:
    """Replay the recorded workers of a trace."""
    if _STATIC in settings.get("controllers", ()):
        raise DataError("static needs an estimate, which no trace has; pass measured instead")
    opened = open_simulated(store)
    timed = map(opened.trace, opened.traces(table="worker_samples", columns=("batch_time",)))
    traces = [one.id for one in timed if not one.has("operations", workers.PIPELINE["operations"])]
    if trace is None and len(traces) == 1:
        trace = traces[0]
    if trace is None or trace not in traces:
        found = ", ".join(traces) or "none"
        raise DataError(f"pass a trace with worker_samples; the store has {found}")
    recorded = opened.trace(trace)
    result = replay_batching(
        workers.worker_samples(recorded),
        episodes=recorded.once(workers.stragglers).episodes,
        time=workers.clock(recorded),
        **settings,
    )
    writer(result.steps)
    synthetic = recorded.synthetic
    if json:
        frames = {
            name: getattr(result, name).to_dicts() for name in ("jobs", "workers", "episodes")
        }
        print_json({"synthetic": synthetic, "trace": trace, "within": result.within, **frames})
        return
    print_title("speedup over uniform batches", synthetic=synthetic)
    _print_replay(result)


def _print_replay(result: BatchingReplay) -> None:

    _print_by_controller(result.jobs, ReplayJobs, ("job_id", "n_steps"), "speedup")
    notes = result.jobs.filter(result.jobs["time"].is_not_null())
    _print_notes((f"{row['controller']}, {row['job_id']}", row["note"]) for row in notes.to_dicts())
    if result.episodes.is_empty():
        sys.stdout.write("no straggler episode was found\n")
        return
    sys.stdout.write(
        "\nrelative cost of each straggler episode (steps until three in a row are within "
        f"{100 * result.within:g} % of the oracle's; -: none within the episode)\n"
    )
    costs = [_cost(row) for row in result.episodes.iter_rows(named=True)]
    rows = result.episodes.with_columns(pl.Series("costs", costs))
    _print_by_controller(rows, ReplayEpisodes, ("job_id", "worker_id", "onset_s"), "costs")


def _print_by_controller(
    rows: pl.DataFrame, table: type[ResultTable], keys: tuple[str, ...], value: str
) -> None:
    """Print one value of each controller beside the others."""
    wide = rows.pivot("controller", index=keys, values=value)
    names = {name: name for name in wide.columns[len(keys) :]}
    if value in table.columns():
        table = with_columns(table, dict.fromkeys(names, value))
    print_rows(wide, table, headings=names)


def _cost(episode: dict[str, Any]) -> str:
    cost, steps = episode["cost_share"], episode["recovery_steps"]
    share = "unknown" if cost is None else f"{100 * cost:.1f} %"
    return f"{share} ({'-' if steps is None else f'{steps:,}'})"


def _print_notes(notes: Iterable[tuple[str, str | None]]) -> None:
    for name, note in notes:
        if note is not None:
            sys.stdout.write(f"{name}: {note}\n")
