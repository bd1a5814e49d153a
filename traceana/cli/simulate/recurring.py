"""``traceana simulate recurring``: recurring jobs that choose batch size and power limit."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traceana.cli.options import (
    EtaOption,
    JsonOption,
    OutOption,
    StoreOption,
    TraceArgument,
    option,
)
from traceana.cli.output import frame_writer, print_json, print_rows, show_share
from traceana.cli.simulate.choose import (
    load_object,
    load_objects,
    open_simulated,
    print_title,
    qualifying_trace,
)
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from traceana.simulate.recurring.tables import RecurringResult
    from traceana.store import Trace

_SWEEP_SEEDS = 10


def recurring(
    *,
    trace: TraceArgument = None,
    gpu: Annotated[str | None, option("GPU as in the trace.  [default: all]")] = None,
    dataset: Annotated[str | None, option("Data set as in the trace.  [default: all]")] = None,
    seed: Annotated[int, option("Seed; in a sweep, the first one.")] = 1,
    eta: EtaOption = 0.5,
    beta: Annotated[
        float, option("Stop runs that cost this multiple of the least cost so far.")
    ] = 2.0,
    policy: Annotated[
        str,
        option(
            "zeus, zeus-no-pruning, zeus-no-profiling, default, grid, oracle, or "
            "package.module:function; with groups several, such as zeus,grid,default."
        ),
    ] = "zeus",
    target: Annotated[
        float | None, option("Target metric of one job.  [default: the data set's]")
    ] = None,
    recurrences: Annotated[
        int | None,
        option("Recurrences of a job.  [default: 2 x batch sizes x power limits]"),
    ] = None,
    seeds: Annotated[
        int | None,
        option("Number of seeds of a sweep.  [default: 10 without GPU or data set]"),
    ] = None,
    groups: Annotated[
        bool,
        typer.Option(
            "--groups",
            help="Simulate the trace's groups of recurring jobs, overlapping ones included.  "
            "[default: if the trace has only groups]",
        ),
    ] = False,
    variants: Annotated[
        bool,
        typer.Option(
            "--variants", help="Compare values of beta, ablations of zeus, and zeus on every GPU."
        ),
    ] = False,
    workloads: Annotated[
        str | None,
        option("With groups: trace with the workloads.  [default: the first]", "ID"),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Simulate policies for recurring jobs.

    One job, a sweep over jobs and seeds, or the groups of a trace.
    """
    from traceana.cli.simulate.groups import simulate_groups
    from traceana.questions.energy.analyze import ENERGY_NEEDS, defaults, training_tables
    from traceana.questions.recurring.analyze import GROUP_NEEDS
    from traceana.simulate import simulate_recurring, sweep_recurring
    from traceana.simulate.recurring.tables import Runs, Sweep

    opened = open_simulated(store)
    needs = ENERGY_NEEDS if trace is None else (*ENERGY_NEEDS, *GROUP_NEEDS)
    chosen = qualifying_trace(opened, trace, GROUP_NEEDS if groups else needs)
    settings: dict[str, Any] = {"eta": eta, "beta": beta}
    if groups or not chosen.has("training_runs"):
        given = {"--dataset": dataset, "--target": target, "--seeds": seeds,
                 "--recurrences": recurrences}  # fmt: skip
        if unfit := [name for name, value in given.items() if value is not None]:
            raise DataError(f"{', '.join(unfit)}: groups have their own jobs; leave it out")
        names = [*load_objects(policy, "--policy").values()]
        options = settings | {"policies": names, "rng": seed}
        simulate_groups(chosen, workloads, gpu, options, out=out, json=json)
        return
    if workloads is not None:
        raise DataError("--workloads is for groups; pass --groups")
    if variants:
        _print_variants(chosen, gpu, json=json)
        return
    one_job = gpu is not None and dataset is not None and seeds is None
    writer = frame_writer(out, Runs if one_job else Sweep)
    runs, power = training_tables(chosen)
    settings["recurrences"] = recurrences
    options = settings | {
        "policy": load_object(policy, "--policy"),
        "defaults": defaults(chosen),
    }
    if one_job:
        result = simulate_recurring(
            runs, power, gpu=str(gpu), dataset=str(dataset), target=target, rng=seed, **options
        )
        writer(result.history)
        _print_result(result, synthetic=chosen.synthetic, json=json)
        return
    if target is not None:
        raise DataError("--target is for one job: a sweep trains to the defaults")
    number = _SWEEP_SEEDS if seeds is None else seeds
    with show_share("recurring jobs") as progress:
        sweep = sweep_recurring(
            runs,
            power,
            gpus=gpu,
            datasets=dataset,
            seeds=range(seed, seed + number),
            **options,
            progress=progress,
        )
    writer(sweep)
    _print_sweep(sweep, settings | {"policy": policy}, synthetic=chosen.synthetic, json=json)


def _print_variants(trace: Trace, gpu: str | None, *, json: bool) -> None:
    from traceana.questions.energy.analyze import shown_gpu
    from traceana.questions.recurring.analyze import policy_variants
    from traceana.questions.recurring.tables import PolicyVariants

    chosen = gpu or shown_gpu(trace)
    found = trace.once(policy_variants, chosen)
    if json:
        print_json({"gpu": chosen, "synthetic": trace.synthetic, "results": found.to_dicts()})
        return
    what = f"{trace.id}, {chosen}: variants of the policy zeus"
    print_title(what, synthetic=trace.synthetic)
    print_rows(found, PolicyVariants)


def _print_result(result: RecurringResult, *, synthetic: bool, json: bool) -> None:
    import polars as pl

    from traceana.simulate.recurring.tables import RunsByConfiguration

    if json:
        found = {
            "gpu": result.gpu,
            "dataset": result.dataset,
            "target": result.target,
            "policy": result.policy,
            "eta": result.eta,
            "beta": _finite(result.beta),
            "seed": result.rng,
            "synthetic": synthetic,
            "summary": result.totals.to_dicts()[0],
            "references": result.references.to_dicts(),
            "gaps": result.gaps.to_dicts(),
            "history": result.history.to_dicts(),
        }
        print_json(found)
        return
    print_title(f"{result}\n", synthetic=synthetic)
    chosen = (
        result.history.group_by("batch_size", "power_limit_w")
        .agg(
            runs=pl.len(),
            missed=(~pl.col("reached")).sum(),
            energy_j=pl.col("energy_j").mean(),
            time_s=pl.col("time_s").mean(),
            last=pl.col("recurrence").max(),
        )
        .sort("batch_size", "power_limit_w")
    )
    print_rows(chosen, RunsByConfiguration)


def _print_sweep(
    sweep: pl.DataFrame, settings: dict[str, Any], *, synthetic: bool, json: bool
) -> None:
    from traceana.simulate import summarize_recurring
    from traceana.simulate.recurring.tables import SweepSummary

    summary = summarize_recurring(sweep)
    if json:
        found = {
            **settings,
            "beta": _finite(settings["beta"]),
            "synthetic": synthetic,
            "summary": summary.to_dicts(),
            "replications": sweep.to_dicts(),
        }
        print_json(found)
        return
    title = (
        f"saved by the last five recurrences relative to the default, policy {settings['policy']}, "
        f"eta {settings['eta']:g}, beta {settings['beta']:g}"
    )
    print_title(title, synthetic=synthetic)
    shown = ("energy_saved", "energy_saved_ci_low", "energy_saved_ci_high", "time_saved")
    print_rows(
        summary,
        SweepSummary,
        columns=("gpu", "dataset", "seeds", *shown, "cost_saved", "regret_share"),
    )
    for row in summary.filter(summary["note"].is_not_null()).iter_rows(named=True):
        sys.stdout.write(f"{row['gpu']}, {row['dataset']}: {row['note']}\n")
    sys.stdout.write(
        "regret: total cost above that of the oracle; (batch size, power limit) without data: "
        f"{int(summary['points_missing'].sum()):,}\n"
    )


def _finite(beta: float) -> float | None:
    return beta if math.isfinite(beta) else None  # JSON has no infinity
