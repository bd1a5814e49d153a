"""``traceana simulate batching``: batch sizes in proportion to the speed of the workers."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traceana.cli.options import JsonOption, OutOption, StoreOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import polars as pl

    from traceana.results.tables import ResultTable
    from traceana.simulate import BatchController, BatchingReplay, BatchingResult

_STATIC = "static"
_SHOWN = ("controller", "time_s", "speedup", "idle_share", "adjustments")


def batching(
    *,
    throughputs: Annotated[
        str | None, typer.Option(metavar="X,X,...", help="Samples/s of each worker: 100,200,300.")
    ] = None,
    cores: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="CPU cores of each worker; the estimate of static."),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Device of each worker: t4,t4,p4,p4; its FLOPS are the estimate of static.",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Samples/s per core or TFLOPS, without --throughputs.  [default: 1]"),
    ] = None,
    overheads: Annotated[
        str | None,
        typer.Option(
            metavar="S,...",
            help="Overheads of an iteration in s: one, or one per worker; in a sweep: each.",
        ),
    ] = None,
    controllers: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Controllers, such as uniform,proportional,oracle.  [default: all that apply]",
        ),
    ] = None,
    global_batch: Annotated[
        int | None,
        typer.Option(help="Samples of a step.  [default: 64 per worker; in a sweep 192]"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps.  [default: 100; in a sweep 200]")
    ] = None,
    least: Annotated[int, typer.Option(help="Minimum batch size of a worker.")] = 1,
    most: Annotated[
        int | None, typer.Option(help="Maximum batch size of a worker.  [default: none]")
    ] = None,
    sweep: Annotated[bool, typer.Option("--sweep", help="Sweep over splits of 48 cores.")] = False,
    noise: Annotated[
        str | None,
        typer.Option(metavar="CV,...", help="In a sweep: CVs of the noise.  [default: 0,0.1]"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="In a sweep: number of seeds.  [default: 10]")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Replay the recorded workers of a store.")
    ] = False,
    within: Annotated[
        float | None,
        typer.Option(
            help="In a replay: difference from the oracle that is recovered.  [default: 0.1]"
        ),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(help="In a replay: trace with worker samples.  [default: the only one]"),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Simulate batch-size controllers on heterogeneous workers."""
    from traceana.cli.output import frame_writer
    from traceana.errors import DataError
    from traceana.results.batching import Batches, BatchingSweep, ReplaySteps

    writer = frame_writer(out, BatchingSweep if sweep else ReplaySteps if replay else Batches)
    workers = {"--throughputs": throughputs, "--cores": cores, "--devices": devices}
    of_sweep: dict[str, object] = {"--noise": noise, "--seeds": seeds}
    of_replay: dict[str, object] = {"--within": within, "--store": store, "--trace": trace}
    bounds: dict[str, Any] = {"min_batch": least, "max_batch": math.inf if most is None else most}
    names = None if controllers is None else [each.strip() for each in controllers.split(",")]
    if sweep and replay:
        raise DataError("--sweep and --replay exclude each other; pass one of them")
    if sweep:
        _refuse(workers | {"--rate": rate} | of_replay, "--sweep has its own workers")
        settings = _given(global_batch=global_batch, steps=steps, controllers=names) | bounds
        settings |= _given(
            overheads_s=_numbers("--overheads", overheads),
            noise_cvs=_numbers("--noise", noise),
            seeds=None if seeds is None else range(seeds),
        )
        _sweep(settings, writer, json=json)
        return
    if replay:
        settings = {"--global-batch": global_batch, "--steps": steps, "--overheads": overheads}
        settings["--rate"] = rate
        _refuse(workers | of_sweep | settings, "--replay uses the recorded workers")
        _replay(store, trace, _given(controllers=names, within=within), writer, json=json)
        return
    _refuse(of_sweep | of_replay, "only with --sweep or --replay")
    estimate = _estimate(cores, devices)
    x = _numbers("--throughputs", throughputs)
    if x is not None:
        _refuse({"--rate": rate}, "--throughputs are in samples/s")
    if x is None and estimate is None:
        raise DataError(
            "the workers are missing; pass --throughputs, --cores or --devices, or --sweep or "
            "--replay"
        )
    if x is None and estimate is not None:
        x = [(1 if rate is None else rate) * each for each in estimate]
    assert x is not None  # noqa: S101 - one of the two was given
    results = _job(
        _overheads(overheads, len(x)), x, estimate, names,
        _given(global_batch=global_batch, steps=steps) | bounds,
    )  # fmt: skip
    writer(_batches(results))
    _print_job(results, json=json)


def _given(**options: object) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(options: dict[str, Any], why: str) -> None:
    from traceana.errors import DataError

    given = [name for name, value in options.items() if value is not None]
    if given:
        raise DataError(f"{', '.join(given)}: {why}; leave it out")


def _numbers(option: str, text: str | None) -> list[float] | None:
    from traceana.errors import DataError

    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise DataError(
            f"{option} {text!r}: expected numbers separated by commas, such as 12,12,8,16"
        ) from None


def _estimate(cores: str | None, devices: str | None) -> list[float] | None:
    from traceana.errors import DataError
    from traceana.simulate.batching.devices import find_tflops

    if cores is not None and devices is not None:
        raise DataError("--cores and --devices exclude each other; pass one of them")
    if devices is not None:
        return [find_tflops(device.strip()) for device in devices.split(",")]
    return _numbers("--cores", cores)


def _overheads(text: str | None, workers: int) -> list[float]:
    from traceana.errors import DataError

    overheads = _numbers("--overheads", text) or [0.0]
    if len(overheads) not in {1, workers}:
        raise DataError(
            f"--overheads: expected one number, or one per worker ({workers}); found "
            f"{len(overheads)}"
        )
    return overheads * workers if len(overheads) == 1 else overheads


def _job(
    overheads_s: list[float],
    samples_per_s: list[float],
    estimate: list[float] | None,
    names: Sequence[str] | None,
    settings: dict[str, Any],
) -> list[BatchingResult]:
    from traceana.errors import DataError
    from traceana.simulate import Static, simulate_batching
    from traceana.simulate.batching.controllers import CONTROLLERS

    if names is None:
        names = ["uniform", *([_STATIC] if estimate else []), *list(CONTROLLERS)[1:]]
    if _STATIC in names and estimate is None:
        raise DataError("static needs an estimate; pass --cores or --devices")
    chosen: list[str | BatchController] = [
        Static(estimate) if name == _STATIC and estimate is not None else name for name in names
    ]
    workers = list(zip(overheads_s, samples_per_s, strict=True))
    return [simulate_batching(workers, controller=each, **settings) for each in chosen]


def _batches(results: Sequence[BatchingResult]) -> pl.DataFrame:
    import polars as pl

    return pl.concat(
        each.batches.select(pl.lit(each.controller).alias("controller"), pl.all())
        for each in results
    )


def _print_job(results: Sequence[BatchingResult], *, json: bool) -> None:
    import polars as pl

    from traceana.cli.output import print_cells, print_json
    from traceana.results.batching import BatchingSweep
    from traceana.results.display import cells_of

    if json:
        names = ("controller", "time_s", "samples", "speedup", "idle_share", "adjustments", "note")
        told = [
            {name: getattr(each, name) for name in names}
            | {"workers": each.workers.to_dicts(), "batches": each.batches.to_dicts()}
            for each in results
        ]
        print_json({"uniform_time_s": results[0].uniform_time_s, "results": told})
        return
    rows = [
        {"last": _join([f"{batch:,}" for batch in each.workers["batch_last"]])}
        | {name: getattr(each, name) for name in _SHOWN}
        for each in results
    ]
    shown = cells_of(
        pl.DataFrame(rows),
        BatchingSweep,
        columns=[*_SHOWN, "last"],
        headings={"last": "Last batch sizes"},
    )
    print_cells(shown)
    _print_notes((each.controller, each.note) for each in results)


def _join(texts: Sequence[str]) -> str:
    return ", ".join(texts[:8]) + (", ..." if len(texts) > 8 else "")


def _sweep(settings: dict[str, Any], writer: Callable[[Any], object], *, json: bool) -> None:
    import polars as pl

    from traceana.cli.output import print_json, show_share
    from traceana.results.batching import BatchingSummary
    from traceana.simulate import summarize_batching, sweep_batching

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


def _replay(
    store: Path | None,
    trace: str | None,
    settings: dict[str, Any],
    writer: Callable[[Any], object],
    *,
    json: bool,
) -> None:
    from traceana.cli.output import print_json
    from traceana.derived import workers
    from traceana.errors import DataError
    from traceana.simulate import replay_batching
    from traceana.store import open_store
    from traceana.store.session import Session

    if _STATIC in settings.get("controllers", ()):
        raise DataError("static needs an estimate, which no trace has; pass measured instead")
    session = Session(open_store(store))
    traces = session.store.traces(table="worker_samples", columns=("batch_time",))
    if trace is None and len(traces) == 1:
        trace = traces[0]
    if trace is None or trace not in traces:
        found = ", ".join(traces) or "none"
        raise DataError(f"--trace: pass a trace with worker_samples; the store has {found}")
    result = replay_batching(
        workers.worker_samples(session, trace),
        episodes=session.once(workers.stragglers, trace).episodes,
        time=workers.clock(session, trace),
        **settings,
    )
    writer(result.steps)
    synthetic = session.synthetic(trace)
    if json:
        frames = {
            name: getattr(result, name).to_dicts() for name in ("jobs", "workers", "episodes")
        }
        print_json({"synthetic": synthetic, "trace": trace, "within": result.within, **frames})
        return
    if synthetic:
        sys.stdout.write("SYNTHETIC, no observed row in it\n")
    _print_replay(result)


def _print_replay(result: BatchingReplay) -> None:
    import polars as pl

    from traceana.results.batching import ReplayEpisodes, ReplayJobs

    sys.stdout.write("speedup over uniform batches\n")
    _print_by_controller(result.jobs, ReplayJobs, ("job_id", "n_steps"), "speedup")
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
    from traceana.cli.output import print_cells
    from traceana.results.display import cells_of
    from traceana.results.tables import with_columns

    wide = rows.pivot("controller", index=keys, values=value)
    names = {name: name for name in wide.columns[len(keys) :]}
    if value in table.columns():
        table = with_columns(table, dict.fromkeys(names, value))
    print_cells(cells_of(wide, table, headings=names))


def _cost(episode: dict[str, Any]) -> str:
    cost, steps = episode["cost_share"], episode["recovery_steps"]
    share = "unknown" if cost is None else f"{100 * cost:.1f} %"
    return f"{share} ({'-' if steps is None else f'{steps:,}'})"


def _print_notes(notes: Iterable[tuple[str, str | None]]) -> None:
    for name, note in notes:
        if note is not None:
            sys.stdout.write(f"{name}: {note}\n")
