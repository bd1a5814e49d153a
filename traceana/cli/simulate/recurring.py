"""``traceana simulate recurring``: recurring jobs that choose batch size and power limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from traceana.cli.options import (
    EtaOption,
    JsonOption,
    OutOption,
    StoreOption,
    TraceArgument,
    option,
)
from traceana.cli.output import Shown, frame_writer, print_result, show_share
from traceana.cli.simulate.choose import load_objects, open_simulated, qualifying_trace
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from traceana.store import Trace

_SHOWN: Final = (
    "gpu",
    "dataset",
    "seeds",
    "energy_saved",
    "energy_saved_ci_low",
    "energy_saved_ci_high",
    "time_saved",
    "cost_saved",
    "regret_share",
    "note",
)


def recurring(
    *,
    trace: TraceArgument = None,
    gpu: Annotated[str | None, option("GPU as in the trace.  [default: all]")] = None,
    dataset: Annotated[str | None, option("Data set as in the trace.  [default: all]")] = None,
    eta: EtaOption = 0.5,
    policy: Annotated[
        str,
        option(
            "zeus, zeus-no-pruning, zeus-no-profiling, default, grid, oracle, or "
            "package.module:function; with groups several, such as zeus,grid,default."
        ),
    ] = "zeus",
    seeds: Annotated[
        int | None, option("Simulate with seeds 1 to N.  [default: 10; 1 for one job]", "N")
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
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Simulate policies for recurring jobs.

    One job (--gpu and --dataset), a sweep over jobs and seeds, or the groups of a trace.
    """
    from traceana.questions.energy.analyze import ENERGY_NEEDS
    from traceana.questions.recurring.analyze import GROUP_NEEDS
    from traceana.questions.recurring.tables import PolicyVariants
    from traceana.simulate.recurring.tables import GroupRuns, Runs, Sweep

    needs = ENERGY_NEEDS if trace is None else (*ENERGY_NEEDS, *GROUP_NEEDS)
    chosen = qualifying_trace(open_simulated(store), trace, GROUP_NEEDS if groups else needs)
    groups = groups or not chosen.has("training_runs")
    if groups and (dataset is not None or seeds is not None):
        raise DataError("--dataset, --seeds: groups have their own jobs; leave them out")
    policies = [*load_objects(policy, "--policy").values()]
    if len(policies) > 1 and not groups:
        raise DataError("--policy: pass one policy, or --groups")
    if groups:
        _groups(chosen, gpu, eta, policies, frame_writer(out, GroupRuns), as_json=json)
    elif variants:
        _variants(chosen, gpu, frame_writer(out, PolicyVariants), as_json=json)
    elif gpu is not None and dataset is not None and seeds is None:
        options = {"gpu": gpu, "dataset": dataset, "eta": eta, "policy": policies[0]}
        _one_job(chosen, options, frame_writer(out, Runs), as_json=json)
    else:
        number = 10 if seeds is None else seeds
        options = {"gpus": gpu, "datasets": dataset, "eta": eta, "policy": policies[0]}
        options["seeds"] = range(1, number + 1)
        _sweep(chosen, policy, options, frame_writer(out, Sweep), as_json=json)


def _one_job(
    trace: Trace,
    options: dict[str, Any],
    write: Callable[[pl.DataFrame], object],
    *,
    as_json: bool,
) -> None:
    from traceana.questions.energy.analyze import defaults, training_tables
    from traceana.simulate import simulate_recurring
    from traceana.simulate.recurring.tables import References, Runs, Totals

    result = simulate_recurring(*training_tables(trace), defaults=defaults(trace), **options)
    write(result.history)
    about = {name: getattr(result, name) for name in ("gpu", "dataset", "target", "policy", "eta")}
    print_result(
        result.summary(),
        about | {"synthetic": trace.synthetic},
        *(
            Shown(name=name, frame=getattr(result, name), table=table, title=title)
            for name, table, title in (
                ("totals", Totals, "Totals"),
                ("references", References, "Expected with the default and with the oracle"),
                ("history", Runs, "Runs"),
            )
        ),
        as_json=as_json,
    )


def _sweep(
    trace: Trace,
    policy: str,
    options: dict[str, Any],
    write: Callable[[pl.DataFrame], object],
    *,
    as_json: bool,
) -> None:
    from traceana.questions.energy.analyze import defaults, training_tables
    from traceana.simulate import summarize_recurring, sweep_recurring
    from traceana.simulate.recurring.tables import SweepSummary

    with show_share("recurring jobs") as progress:
        sweep = sweep_recurring(
            *training_tables(trace), defaults=defaults(trace), **options, progress=progress
        )
    write(sweep)
    summary = Shown(
        name="summary", frame=summarize_recurring(sweep), table=SweepSummary, columns=_SHOWN
    )
    about = {"policy": policy, "eta": options["eta"], "synthetic": trace.synthetic}
    title = (
        "saved by the last five recurrences relative to the default, and regret: cost above that "
        f"of the oracle; policy {policy}, eta {options['eta']:g}"
    )
    print_result(title, about, summary, as_json=as_json)


def _groups(
    trace: Trace,
    gpu: str | None,
    eta: float,
    policies: list[Any],
    write: Callable[[pl.DataFrame], object],
    *,
    as_json: bool,
) -> None:
    """Simulate the groups of a trace with the workloads of the first trace that has some."""
    import polars as pl

    from traceana.questions.energy.analyze import defaults, shown_gpu, training_tables
    from traceana.questions.recurring.analyze import mapped_jobs, workloads_of
    from traceana.simulate import simulate_recurring_groups
    from traceana.simulate.recurring.tables import GroupsByDataset

    workloads = workloads_of(trace)[0]
    if workloads is None:
        raise DataError(
            "groups are simulated with the workloads of a trace with training_runs and "
            "power_profiles, and the store has none; ingest one (see `traceana traces`)"
        )
    gpu = gpu or shown_gpu(workloads)
    tables, jobs = training_tables(workloads), mapped_jobs(trace, workloads, gpu)
    settings: dict[str, Any] = {"gpu": gpu, "eta": eta, "defaults": defaults(workloads)}
    results = [
        simulate_recurring_groups(*tables, jobs, policy=policy, **settings) for policy in policies
    ]
    named = [pl.lit(result.policy).alias("policy") for result in results]
    write(
        pl.concat(r.history.select(name, pl.all()) for r, name in zip(results, named, strict=True))
    )
    totals = pl.concat(
        r.by_dataset().select(name, pl.all()) for r, name in zip(results, named, strict=True)
    )
    about = {"trace": trace.id, "workloads": workloads.id, "gpu": gpu, "eta": eta}
    about["synthetic"] = trace.synthetic or workloads.synthetic
    print_result(
        f"{trace.id}: groups of recurring jobs on {gpu}, eta {eta:g}",
        about,
        Shown(name="by_dataset", frame=totals, table=GroupsByDataset),
        as_json=as_json,
    )


def _variants(
    trace: Trace,
    gpu: str | None,
    write: Callable[[pl.DataFrame], object],
    *,
    as_json: bool,
) -> None:
    from traceana.questions.energy.analyze import shown_gpu
    from traceana.questions.recurring.analyze import policy_variants
    from traceana.questions.recurring.tables import PolicyVariants

    gpu = gpu or shown_gpu(trace)
    variants = trace.once(policy_variants, gpu)
    write(variants)
    print_result(
        f"{trace.id}, {gpu}: variants of the policy zeus",
        {"gpu": gpu, "synthetic": trace.synthetic},
        Shown(name="results", frame=variants, table=PolicyVariants),
        as_json=as_json,
    )
