"""``traceana simulate batching``: batch sizes in proportion to the speed of the workers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from traceana.cli.options import JsonOption, OutOption, StoreOption, TraceArgument, option
from traceana.cli.output import frame_writer
from traceana.cli.simulate.choose import load_objects, read_numbers
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

_JOB: Final = (
    *("--throughputs", "--cores", "--devices", "--rate", "--slowdown", "--half-batch"),
    *("--overheads", "--controllers", "--global-batch", "--steps", "--max-batch"),
    "--asynchronous",
)
_MODES: Final = {
    "--sweep": (
        *("--overheads", "--controllers", "--global-batch", "--steps", "--max-batch"),
        *("--noise", "--seeds"),
    ),
    "--replay": ("--controllers", "--within", "trace", "--store"),
    "--published": ("--steps",),
}
"""Options of each mode beside those of all."""
_ALWAYS: Final = ("--min-batch", "--json", "--out")
_WHY: Final = {
    "--sweep": "--sweep has its own workers",
    "--replay": "--replay uses the recorded workers",
    "--published": "--published has its own clusters",
}


def batching(
    ctx: typer.Context,
    *,
    trace: TraceArgument = None,
    throughputs: Annotated[
        str | None,
        option(
            "Samples/s of each worker: 100,200,300; or a .csv or .parquet file with one "
            "column per worker and one row per step.",
            "X,X,...",
        ),
    ] = None,
    cores: Annotated[
        str | None,
        option(
            "CPU cores of each worker, or a split of the paper by name (slide-5, "
            "h-level-2, h-level-10, figure-3); the estimate of static.",
            "N,N,...",
        ),
    ] = None,
    devices: Annotated[
        str | None,
        option(
            "Device of each worker: t4,t4,p4,mine=19.5; its TFLOPS are the estimate of static.",
            "NAME,...",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        option("Samples/s per core or TFLOPS, without --throughputs.  [default: 1]"),
    ] = None,
    slowdown: Annotated[
        list[str] | None,
        option(
            "Throughput of worker K times X from step FROM to TO: 3:20-39:0.5; may be repeated.",
            "K:FROM-TO:X",
        ),
    ] = None,
    half_batch: Annotated[
        float | None,
        option(
            "Batch size at which a worker reaches half of its throughput.  "
            "[default: throughput does not saturate]"
        ),
    ] = None,
    overheads: Annotated[
        str | None,
        option(
            "Overhead of an iteration in s: one value, or one per worker; in a sweep, values "
            "to try.",
            "S,...",
        ),
    ] = None,
    controllers: Annotated[
        str | None,
        option(
            "Controllers, such as uniform,proportional,oracle or package.module:name.  "
            "[default: all that apply]",
            "NAME,...",
        ),
    ] = None,
    global_batch: Annotated[
        int | None,
        option("Samples per step.  [default: 64 per worker; in a sweep 192]"),
    ] = None,
    steps: Annotated[int | None, option("Steps.  [default: 100; in a sweep 200]")] = None,
    min_batch: Annotated[int, option("Minimum batch size of a worker.")] = 1,
    max_batch: Annotated[
        int | None, option("Maximum batch size of a worker.  [default: none]")
    ] = None,
    sweep: Annotated[bool, typer.Option("--sweep", help="Sweep over splits of CPU cores.")] = False,
    noise: Annotated[
        str | None,
        option("In a sweep: CVs of the noise.  [default: 0,0.1]", "CV,..."),
    ] = None,
    seeds: Annotated[int | None, option("In a sweep: number of seeds.  [default: 10]")] = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", help="Replay the recorded workers of TRACE, which alone implies it."
        ),
    ] = False,
    within: Annotated[
        float | None,
        option(
            "In a replay: difference from the oracle at which a worker has recovered.  "
            "[default: 0.1]"
        ),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Compare with the published clusters and speedups.")
    ] = False,
    asynchronous: Annotated[
        bool,
        typer.Option("--asynchronous", help="Print staleness where workers do not wait."),
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Simulate batch-size controllers on heterogeneous workers."""
    from traceana.cli.simulate import batching_modes as modes
    from traceana.simulate.batching.tables import (
        Batches,
        BatchingSweep,
        ClusterComparison,
        ReplaySteps,
    )

    chosen = {"--sweep": sweep, "--replay": replay, "--published": published}
    chosen["--replay"] |= trace is not None and not any(chosen.values())
    asked = [mode for mode, is_chosen in chosen.items() if is_chosen]
    if len(asked) > 1:
        raise DataError(f"{' and '.join(asked)} exclude each other; pass one of them")
    mode = asked[0] if asked else ""
    allowed = {*_MODES.get(mode, _JOB), *_ALWAYS, *chosen}
    origins = {each.opts[0]: ctx.get_parameter_source(each.name) for each in ctx.command.params}
    given = [name for name, origin in origins.items() if origin and origin.name == "COMMANDLINE"]
    unfit = [name for name in given if name not in allowed]
    if unfit:
        why = _WHY.get(mode, "only with --sweep or --replay")
        raise DataError(f"{', '.join(unfit)}: {why}; leave it out")
    bounds = {"min_batch": min_batch, "max_batch": math.inf if max_batch is None else max_batch}
    names = controllers and [*load_objects(controllers, "--controllers").values()]
    settings = _known(controllers=names, steps=steps)
    if sweep:
        settings |= bounds | _known(
            global_batch=global_batch,
            overheads_s=read_numbers("--overheads", overheads),
            noise_cvs=read_numbers("--noise", noise),
            seeds=None if seeds is None else range(seeds),
        )
        modes.run_sweep(settings, frame_writer(out, BatchingSweep), json=json)
    elif chosen["--replay"]:
        settings |= _known(within=within)
        modes.run_replay(store, trace, settings, frame_writer(out, ReplaySteps), json=json)
    elif published:
        modes.run_published(settings, frame_writer(out, ClusterComparison), json=json)
    else:
        writer = frame_writer(out, Batches)
        settings |= bounds | _known(global_batch=global_batch)
        estimate = _estimate(cores, devices)
        x = _throughputs(throughputs, estimate, rate)
        modes.run_job(
            _workers(x, overheads, slowdown or [], half_batch, steps),
            estimate, settings, writer, json=json, asynchronous=asynchronous,
        )  # fmt: skip


def _known(**options: object) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _estimate(cores: str | None, devices: str | None) -> list[float] | None:
    from traceana.simulate.batching.devices import SPLITS, find_tflops

    if cores is not None and devices is not None:
        raise DataError("--cores and --devices exclude each other; pass one of them")
    if devices is not None:
        return [find_tflops(device.strip()) for device in devices.split(",")]
    if cores in SPLITS:
        return list(map(float, SPLITS[cores]))
    return read_numbers("--cores", cores)


def _throughputs(
    text: str | None, estimate: list[float] | None, rate: float | None
) -> pl.DataFrame | list[float]:
    """Return a throughput per worker, or a frame with one column per worker and row per step."""
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    if text is not None:
        if rate is not None:
            raise DataError("--rate: --throughputs are in samples/s; leave it out")
        if Path(text).suffix not in (".csv", ".parquet"):
            return read_numbers("--throughputs", text) or []
        try:
            if text.endswith(".csv"):
                return pl.read_csv(text, glob=False).cast(pl.Float64)
            return pl.read_parquet(text, use_pyarrow=True).cast(pl.Float64)
        except (OSError, ValueError, PanicException, PolarsError) as error:
            why = str(error).splitlines()[0]
            raise DataError(f"--throughputs {text}: cannot be read ({why})") from None
    if estimate is None:
        raise DataError(
            "the workers are missing; pass --throughputs, --cores or --devices, or --sweep, "
            "--replay or --published"
        )
    return [(1 if rate is None else rate) * each for each in estimate]


def _workers(
    throughputs: pl.DataFrame | list[float],
    overheads: str | None,
    slowdowns: Sequence[str],
    half_batch: float | None,
    steps: int | None,
) -> Any:  # noqa: ANN401  Workers, which is imported when the command runs
    import numpy as np

    from traceana.simulate import Saturating, Workers

    names = [] if isinstance(throughputs, list) else throughputs.columns
    x = np.asarray(throughputs, dtype=float)
    count = x.shape[-1]
    fixed = read_numbers("--overheads", overheads) or [0.0]
    if len(fixed) not in {1, count}:
        raise DataError(
            f"--overheads: expected one number, or one per worker ({count}); found {len(fixed)}"
        )
    if slowdowns:
        x = _slow_down(x, slowdowns, steps)
    speed = None if half_batch is None else Saturating(half_batch)
    return Workers(fixed * count if len(fixed) == 1 else fixed, x, names, speed=speed)


def _slow_down(x: Any, slowdowns: Sequence[str], steps: int | None) -> Any:  # noqa: ANN401  arrays
    import re

    import numpy as np

    from traceana.simulate.batching.run import check_memory

    if x.ndim == 1:
        rows = 100 if steps is None else steps
        check_memory(max(rows, 1), 1, len(x))
        x = np.tile(x, (max(rows, 1), 1))
    for text in slowdowns:
        found = re.fullmatch(r"(\d+):(\d+)-(\d+):([0-9.eE+-]+)", text)
        try:
            worker, first, last = (int(found[part]) for part in (1, 2, 3)) if found else (-1, 0, 0)
            factor = float(found[4]) if found else 0.0
        except ValueError:
            worker, first, last, factor = -1, 0, 0, 0.0
        if not (0 <= worker < x.shape[1] and first <= last < len(x) and 0 < factor <= 1e6):
            raise DataError(
                f"--slowdown {text}: expected WORKER:FROM-TO:FACTOR, such as 3:20-39:0.5, with a "
                f"worker from 0 to {x.shape[1] - 1} and steps from 0 to {len(x) - 1}"
            )
        x[first : last + 1, worker] *= factor
    return x
