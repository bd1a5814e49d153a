"""``traceana simulate energy``: time and energy to accuracy over batch size and power limit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import polars as pl

from traceana.cli import options
from traceana.cli.output import Shown, print_result, show_fraction, write_frame
from traceana.errors import DataError
from traceana.questions.energy.accuracy import energy_to_accuracy, eta_sweep
from traceana.questions.energy.savings import ENERGY_NEEDS, defaults, shown_gpu, training_tables
from traceana.questions.energy.tables import EnergyToAccuracy, EtaSweep
from traceana.questions.recurring.analyze import GROUP_NEEDS, mapped_jobs, workloads_of
from traceana.schema.training_tables import check_eta, check_one_of
from traceana.simulate import (
    simulate_recurring,
    simulate_recurring_groups,
    summarize_recurring,
    sweep_recurring,
)
from traceana.simulate.recurring.tables import (
    GroupRuns,
    GroupsByDataset,
    References,
    Runs,
    Sweep,
    SweepSummary,
    Totals,
)
from traceana.store import Trace

_Printed = tuple[str, dict[str, Any], tuple[Shown, ...], Shown]
"""Title, what is simulated, the frames to print, and the one to write to a file."""

_SHOWN: Final = ("batch_size", "power_limit_w", "tta_s", "eta_j", "cost_j", "on_front", "runs")


def energy(
    *,
    trace: str | None = None,
    gpu: str | None = None,
    dataset: str | None = None,
    eta: float = 0.5,
    store: Path | None = None,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Compute time, energy and cost to a target."""
    chosen = options.qualifying_trace(options.open_simulated(store), trace, ENERGY_NEEDS)
    tables = training_tables(chosen)
    gpu = gpu or shown_gpu(chosen)
    about = {"gpu": gpu, "dataset": dataset, "eta": eta, "synthetic": chosen.synthetic}
    settings: dict[str, Any] = {"gpu": gpu, "defaults": defaults(chosen)}
    if dataset is None:
        best = _least(tables, eta, settings)
        title = f"{gpu}: configuration of least cost by data set, eta {eta:g}"
        shown = [Shown(name="best", frame=best, table=EtaSweep)]
    else:
        rows = energy_to_accuracy(*tables, eta=eta, dataset=dataset, **settings)
        etas = sorted({0.0, 0.25, 0.5, 0.75, 1.0, eta})
        weights = eta_sweep(*tables, etas=etas, dataset=dataset, **settings)
        front = rows.filter("on_front").sort("tta_s")
        number = f"{rows.height:,} configurations, {front.height} on the Pareto front"
        title, by_eta = f"{dataset} on {gpu}: {number}", "Configuration of least cost by weight"
        energy: dict[str, Any] = {"table": EnergyToAccuracy, "columns": _SHOWN, "rows": front}
        shown = [
            Shown(name="configurations", frame=rows, **energy),
            Shown(name="by_eta", frame=weights, table=EtaSweep, title=f"{by_eta} of energy"),
        ]
    write_frame(shown[0].frame, out, shown[0].table)
    print_result(title, about, *shown, as_json=json)


def _least(
    tables: tuple[pl.DataFrame, pl.DataFrame], eta: float, settings: dict[str, Any]
) -> pl.DataFrame:
    check_eta(eta)
    gpu, profiles = settings["gpu"], tables[1]
    check_one_of("gpu", gpu, profiles["gpu"])
    rows = []
    for name in profiles.filter(gpu=gpu)["dataset"].unique().sort():
        try:
            best = eta_sweep(*tables, dataset=name, etas=[eta], **settings)
            rows.append(best.select(pl.lit(name).alias("dataset"), pl.all()))
        except DataError as error:
            sys.stderr.write(f"traceana: note: {error}\n")
    if not rows:
        raise DataError(f"no data set of {gpu} has a feasible configuration")
    return pl.concat(rows)


def recurring(
    *,
    trace: str | None = None,
    gpu: str | None = None,
    dataset: str | None = None,
    eta: float = 0.5,
    policy: str = "zeus",
    seeds: int | None = None,
    groups: bool = False,
    store: Path | None = None,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Simulate policies for recurring jobs."""
    needs = ENERGY_NEEDS if trace is None else (*ENERGY_NEEDS, *GROUP_NEEDS)
    chosen = options.qualifying_trace(
        options.open_simulated(store), trace, GROUP_NEEDS if groups else needs
    )
    groups = groups or not chosen.has("training_runs")
    if groups and (dataset is not None or seeds is not None):
        raise DataError("--dataset, --seeds: groups have their own jobs; leave them out")
    policies = [*options.load_objects(policy, "--policy").values()]
    if len(policies) > 1 and not groups:
        raise DataError("--policy: pass one policy, or --groups")
    settings: dict[str, Any] = {"eta": eta, "policy": policies[0]}
    if groups:
        printed = _groups(chosen, gpu, eta, policies)
    elif gpu is not None and dataset is not None and seeds is None:
        printed = _one_job(chosen, settings | {"gpu": gpu, "dataset": dataset})
    else:
        numbers = range(1, (10 if seeds is None else seeds) + 1)
        printed = _sweep(
            chosen, settings | {"gpu_types": gpu, "datasets": dataset, "seeds": numbers}
        )
    title, about, parts, written = printed
    write_frame(written.frame, out, written.table)
    print_result(title, about | {"policy": policy}, *parts, as_json=json)


def _one_job(trace: Trace, settings: dict[str, Any]) -> _Printed:
    result = simulate_recurring(*training_tables(trace), defaults=defaults(trace), **settings)
    about = {name: getattr(result, name) for name in ("gpu", "dataset", "target", "eta")}
    expected = "Expected with the default and with the oracle"
    parts = (
        Shown(name="totals", frame=result.totals, table=Totals, title="Totals"),
        Shown(name="references", frame=result.references, table=References, title=expected),
        Shown(name="history", frame=result.history, table=Runs, title="Runs"),
    )
    return result.summary(), about | {"synthetic": trace.synthetic}, parts, parts[-1]


def _sweep(trace: Trace, settings: dict[str, Any]) -> _Printed:
    with show_fraction("recurring jobs") as progress:
        sweep = sweep_recurring(
            *training_tables(trace), defaults=defaults(trace), **settings, progress=progress
        )
    summary = summarize_recurring(sweep)
    title = (
        "saved by the last five recurrences relative to the default, and regret: cost above that "
        f"of the oracle; eta {settings['eta']:g}"
    )
    about = {"eta": settings["eta"], "synthetic": trace.synthetic}
    hidden = (
        "seeds_failed",
        "points_missing",
        "time_saved_ci",
        "cost_saved_ci",
        "regret_fraction_ci",
    )
    columns = [name for name in SweepSummary.columns() if not name.startswith(hidden)]
    shown = Shown(name="summary", frame=summary, table=SweepSummary, columns=columns)
    return title, about, (shown,), Shown(name="runs", frame=sweep, table=Sweep)


def _groups(trace: Trace, gpu: str | None, eta: float, policies: list[Any]) -> _Printed:
    """Simulate the groups of a trace with the workloads of the first trace that has some."""
    workloads = workloads_of(trace)[0]
    if workloads is None:
        raise DataError(
            "groups are simulated with the workloads of a trace with training_runs and "
            "power_profiles, and the store has none; ingest one (see `traceana traces`)"
        )
    gpu = gpu or shown_gpu(workloads)
    tables, jobs = training_tables(workloads), mapped_jobs(trace, workloads, gpu)
    settings: dict[str, Any] = {"gpu": gpu, "eta": eta, "defaults": defaults(workloads)}
    totals, runs = [], []
    for policy in policies:
        result = simulate_recurring_groups(*tables, jobs, policy=policy, **settings)
        named = pl.lit(result.policy).alias("policy")
        totals.append(result.by_dataset().select(named, pl.all()))
        runs.append(result.history.select(named, pl.all()))
    about: dict[str, Any] = {"trace": trace.id, "workloads": workloads.id, "gpu": gpu, "eta": eta}
    about["synthetic"] = trace.synthetic or workloads.synthetic
    shown = Shown(name="by_dataset", frame=pl.concat(totals), table=GroupsByDataset)
    title = f"{trace.id}: groups of recurring jobs on {gpu}, eta {eta:g}"
    return title, about, (shown,), Shown(name="runs", frame=pl.concat(runs), table=GroupRuns)
