"""``traceana simulate batching``: batch sizes in proportion to the speed of the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from traceana.cli.options import JsonOption, OutOption, StoreOption, TraceArgument, option
from traceana.cli.output import Shown, print_result, write_frame
from traceana.cli.simulate.choose import load_objects, open_simulated, read_numbers
from traceana.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.store import Store


def batching(
    *,
    trace: TraceArgument = None,
    throughputs: Annotated[
        str | None,
        option(
            "Samples/s of each worker instead of TRACE: 100,200,300; or a split of the paper by "
            "name (slide-5, h-level-2, h-level-10, figure-3).",
            "X,X,...",
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
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Simulate batch-size controllers on heterogeneous workers.

    Replays the recorded workers of TRACE, or simulates 100 steps of workers with the given
    throughputs. Sweeps, overheads, saturation and published clusters: see the Python functions.
    """
    names = [*load_objects(controllers, "--controllers").values()] if controllers else None
    if throughputs is None:
        _replay(open_simulated(store), trace, names, json=json, out=out)
    elif trace is None:
        _simulate(throughputs, names, json=json, out=out)
    else:
        raise DataError("--throughputs: TRACE has its own workers; leave one of them out")


def _simulate(throughputs: str, names: list[Any] | None, *, json: bool, out: Path | None) -> None:
    import polars as pl

    from traceana.simulate import Static, simulate_batching
    from traceana.simulate.batching.controllers import CONTROLLERS
    from traceana.simulate.batching.tables import Batches, BatchingSweep
    from traceana.simulate.batching.workers import SPLITS

    speeds = SPLITS.get(throughputs) or read_numbers("--throughputs", throughputs)
    workers = [(0.0, float(speed)) for speed in speeds]
    uniform, *others = CONTROLLERS
    results = [
        simulate_batching(workers, controller=Static(speeds) if name == "static" else name)
        for name in names or (uniform, "static", *others)
    ]
    batches = pl.concat(
        result.batches.select(pl.lit(result.controller).alias("controller"), pl.all())
        for result in results
    )
    write_frame(batches, out, Batches)
    fields = ("controller", "time_s", "speedup", "idle_fraction", "adjustments", "note")
    rows = pl.DataFrame(
        [{name: getattr(result, name) for name in fields} for result in results],
        schema_overrides={"note": pl.String},
    )
    last = [result.workers["batch_last"].to_list() for result in results]
    rows = rows.with_columns(batch_last=pl.Series(last))
    summary = Shown(name="results", frame=rows, table=BatchingSweep)
    print_result("100 steps without overhead", {"synthetic": False}, summary, as_json=json)


def _replay(
    store: Store, trace: str | None, names: list[Any] | None, *, json: bool, out: Path | None
) -> None:
    from traceana.questions.stragglers import analyze as workers
    from traceana.simulate import replay_batching
    from traceana.simulate.batching.tables import ReplayEpisodes, ReplayJobs, ReplaySteps

    timed = map(store.trace, store.traces(table="worker_samples", columns=("batch_time",)))
    traces = {
        each.id: each
        for each in timed
        if not each.has("operations", workers.PIPELINE["operations"])
    }
    if trace is None and len(traces) == 1:
        (trace,) = traces
    if trace is None or trace not in traces:
        raise DataError(
            "pass --throughputs, or a trace with worker_samples; the store has "
            f"{', '.join(traces) or 'none'}"
        )
    recorded = traces[trace]
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
        {"synthetic": recorded.synthetic, "trace": trace, "within": result.within},
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
