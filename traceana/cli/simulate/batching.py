"""``traceana simulate batching``: batch sizes that follow how fast the workers are."""

from __future__ import annotations

import json as json_text
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traceana.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import polars as pl

    from traceana.simulate import BatchController, BatchingReplay, BatchingResult

_TRACE = "alibaba-minibatch-2020"
_STATIC = "static"


def batching(
    *,
    throughputs: Annotated[
        str | None, typer.Option(metavar="X,X,...", help="Samples/s of each worker: 100,200,300.")
    ] = None,
    cores: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="CPU cores of each worker; what static goes by."),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Device of each worker: t4,t4,p4,p4; static goes by its FLOPS.",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Samples/s of a core or a TFLOPS, without --throughputs.  [default: 1]"),
    ] = None,
    overheads: Annotated[
        str | None,
        typer.Option(
            metavar="S,...",
            help="Overheads of an iteration in s: one, or one a worker; of a sweep: those to try.",
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
        int | None, typer.Option(help="Samples of a step.  [default: 64 a worker; of a sweep 192]")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps.  [default: 100; of a sweep 200]")
    ] = None,
    least: Annotated[int, typer.Option(help="Smallest batch of a worker.")] = 1,
    most: Annotated[
        int | None, typer.Option(help="Largest batch of a worker.  [default: no bound]")
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Sweep over splits of 48 cores, ever less even.")
    ] = False,
    noise: Annotated[
        str | None,
        typer.Option(metavar="CV,...", help="Of a sweep: CVs of a step's noise.  [default: 0,0.1]"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Of a sweep: number of seeds of the noise.  [default: 10]")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Replay the recorded workers of a store.")
    ] = False,
    within: Annotated[
        float | None,
        typer.Option(
            help="Of a replay: recovered is so near to the oracle's step.  [default: 0.1]"
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the batches (of a sweep its runs, of a replay its steps): .csv, .json or "
            ".parquet.",
        ),
    ] = None,
) -> None:
    """Split a global batch over unlike workers, by each controller."""
    from traceana.cli.output import frame_writer
    from traceana.errors import DataError

    writer = frame_writer(out)
    workers = {"--throughputs": throughputs, "--cores": cores, "--devices": devices}
    of_sweep: dict[str, object] = {"--noise": noise, "--seeds": seeds}
    of_replay: dict[str, object] = {"--within": within, "--store": store}
    bounds: dict[str, Any] = {"least": least, "most": math.inf if most is None else most}
    names = None if controllers is None else [each.strip() for each in controllers.split(",")]
    if sweep and replay:
        raise DataError("--sweep and --replay are two commands; ask for one of them")
    if sweep:
        _refuse(workers | {"--rate": rate} | of_replay, "--sweep has workers of its own")
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
        _refuse(workers | of_sweep | settings, "--replay takes the recorded workers as they are")
        _replay(store, _given(controllers=names, within=within), writer, json=json)
        return
    _refuse(of_sweep | of_replay, "this is one job, without --sweep or --replay")
    estimate = _estimate(cores, devices)
    x = _numbers("--throughputs", throughputs)
    if x is not None:
        _refuse({"--rate": rate}, "--throughputs are samples/s already")
    if x is None and estimate is None:
        raise DataError(
            "name the workers by --throughputs, --cores or --devices, or ask for --sweep or "
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
            f"{option} {text!r}: numbers with commas between are expected, such as 12,12,8,16"
        ) from None


def _estimate(cores: str | None, devices: str | None) -> list[float] | None:
    from traceana.errors import DataError
    from traceana.simulate.batching.devices import find_tflops

    if cores is not None and devices is not None:
        raise DataError("--cores and --devices are two estimates; static goes by one of them")
    if devices is not None:
        return [find_tflops(device.strip()) for device in devices.split(",")]
    return _numbers("--cores", cores)


def _overheads(text: str | None, workers: int) -> list[float]:
    from traceana.errors import DataError

    overheads = _numbers("--overheads", text) or [0.0]
    if len(overheads) not in {1, workers}:
        raise DataError(
            f"--overheads: one number, or one a worker, is expected: {workers}; found "
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
        raise DataError("static goes by an estimate; give --cores or --devices too")
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
    if json:
        told = [
            {
                "controller": each.controller,
                **{
                    name: getattr(each, name)
                    for name in ("time_s", "samples", "speedup", "idle_share", "adjustments")
                },
                "note": each.note,
                "workers": each.workers.to_dicts(),
                "batches": each.batches.to_dicts(),
            }
            for each in results
        ]
        _write_json({"uniform_time_s": results[0].uniform_time_s, "results": told})
        return
    headings = ("controller", "time (s)", "speed-up", "idle", "adjustments", "last batches")
    rows = []
    for each in results:
        last = each.workers["batch_last"].to_list()
        shown = ", ".join(f"{batch:,}" for batch in last[:8]) + (", ..." if len(last) > 8 else "")
        cells = (f"{each.time_s:,.4g}", f"{each.speedup:.3f}", f"{100 * each.idle_share:.1f} %")
        rows.append((each.controller, *cells, f"{each.adjustments:,}", shown))
    _print_table(headings, rows, words=1)
    _print_notes((each.controller, each.note) for each in results)


def _sweep(settings: dict[str, Any], writer: Callable[[Any], object], *, json: bool) -> None:
    from rich.console import Console
    from rich.progress import Progress

    from traceana.simulate import summarize_batching, sweep_batching

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("dynamic batching", total=1)
        runs = sweep_batching(
            **settings, progress=lambda share: progress.update(bar, completed=share)
        )
    writer(runs)
    summary = summarize_batching(runs)
    if json:
        _write_json({"summary": summary.to_dicts(), "runs": runs.to_dicts()})
        return
    sys.stdout.write("times as fast as uniform batches, mean over seeds\n")
    keys = ["level", "overhead_s", "noise_cv"]
    wide = summary.pivot("controller", index=[*keys, "mean_over_min"], values="speedup")
    if wide.width > len(keys) + 2:
        wide = wide.drop("uniform", strict=False)  # 1 throughout
    headings = ("cores", "a (s)", "CV", "at most", *wide.columns[len(keys) + 1 :])
    rows = [
        (level, f"{overhead:g}", f"{cv:g}", *(f"{number:.3f}" for number in numbers))
        for level, overhead, cv, *numbers in wide.rows()
    ]
    _print_table(headings, rows, words=1)
    sys.stdout.write(
        "a: overhead; CV: noise of a step; at most: mean over least cores, the gain without both\n"
    )
    _print_notes(
        (f"{row['controller']}, {row['level']}", row["note"]) for row in summary.to_dicts()
    )


def _replay(
    store: Path | None, settings: dict[str, Any], writer: Callable[[Any], object], *, json: bool
) -> None:
    from traceana.analysis import detect_stragglers
    from traceana.errors import DataError
    from traceana.simulate import replay_batching
    from traceana.store import open_store

    if _STATIC in settings.get("controllers", ()):
        raise DataError("static goes by an estimate, which no trace has; take measured instead")
    where = open_store(store)
    samples = where.scan(_TRACE, "worker_samples").collect()
    synthetic = where.ledger(_TRACE).synthetic
    result = replay_batching(samples, episodes=detect_stragglers(samples).episodes, **settings)
    writer(result.steps)
    if json:
        frames = {
            name: getattr(result, name).to_dicts() for name in ("jobs", "workers", "episodes")
        }
        _write_json({"synthetic": synthetic, "within": result.within, **frames})
        return
    if synthetic:
        sys.stdout.write("SYNTHETIC, no observed row in it\n")
    _print_replay(result)


def _print_replay(result: BatchingReplay) -> None:
    sys.stdout.write("times as fast as uniform batches\n")
    jobs = result.jobs.pivot("controller", index=["job_id", "n_ticks"], values="speedup")
    _print_table(
        ("job", "ticks", *jobs.columns[2:]),
        [
            (job, f"{ticks:,}", *("-" if each is None else f"{each:.3f}" for each in rest))
            for job, ticks, *rest in jobs.rows()
        ],
        words=1,
    )
    if result.episodes.is_empty():
        sys.stdout.write("no straggler's episode was found\n")
        return
    sys.stdout.write(
        "\nwhat each straggler's episode costs: its steps take so much longer than without it\n"
        f"(and the steps before three in a row are within {100 * result.within:g} % of the "
        "oracle's;\n-: none within the episode)\n"
    )
    names = result.episodes["controller"].unique(maintain_order=True).to_list()
    rows = []
    for (job, worker, onset_s), group in result.episodes.group_by(
        "job_id", "worker_id", "onset_s", maintain_order=True
    ):
        cells = dict(zip(group["controller"], group.rows(named=True), strict=True))
        rows.append(
            (str(job), str(worker), f"{onset_s:,.0f}", *(_cost(cells[name]) for name in names))
        )
    _print_table(("job", "worker", "onset (s)", *names), rows, words=2)


def _cost(episode: dict[str, Any]) -> str:
    cost, steps = episode["cost_share"], episode["recovery_steps"]
    share = "unknown" if cost is None else f"{100 * cost:.1f} %"
    return f"{share} ({'-' if steps is None else f'{steps:,}'})"


def _print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, words: int) -> None:
    from rich.table import Table

    from traceana.cli.output import print_table

    table = Table(box=None, pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    print_table(table)


def _print_notes(notes: Iterable[tuple[str, str | None]]) -> None:
    for name, note in notes:
        if note is not None:
            sys.stdout.write(f"{name}: {note}\n")


def _write_json(told: dict[str, Any]) -> None:
    sys.stdout.write(json_text.dumps(told, indent=2) + "\n")
