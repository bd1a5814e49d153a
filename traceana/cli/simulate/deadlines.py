"""``traceana simulate deadlines``: training plans with deadlines, drawn for the jobs of a trace."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from traceana.cli.options import JsonOption, OutOption, StoreOption, argument, option
from traceana.cli.output import frame_writer, print_json, print_rows, show_steps
from traceana.cli.simulate.choose import (
    load_object,
    load_objects,
    open_simulated,
    qualifying_trace,
    read_numbers,
)
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_SUFFIXES: Final = (".csv", ".parquet")
_JOBS_NEEDED: Final = ({"jobs": ("submit_s", "runtime_s", "gpus")},)
_READ: Final = ("job_id", "submit_s", "runtime_s", "gpus")
_SHOWN: Final = (
    *("cluster", "n", "n_met", "share_met", "ci_low", "ci_high", "share_met_fastest"),
    *("tightness_p05", "tightness_median", "tightness_p95"),
)


def deadlines(
    *,
    jobs: Annotated[
        str | None,
        argument(
            "Trace of the store, or jobs in a .csv or .parquet file.  "
            "[default: the first trace with plans, else with jobs]",
            "TRACE|FILE",
        ),
    ] = None,
    seed: Annotated[int, option("Seed of the draws.")] = 1,
    tightness: Annotated[
        str, option("Range of (deadline - submission) / runtime.", "LOW,HIGH")
    ] = "0.5,1.5",
    distribution: Annotated[
        str,
        option("uniform, loguniform, triangular, or package.module:function."),
    ] = "uniform",
    policies: Annotated[
        str,
        option(
            "Policies to compare: fifo, sjf, edf, least_slack, or package.module:function.",
            "NAME,...",
        ),
    ] = "fifo,sjf,edf,least_slack",
    capacity: Annotated[
        float | None,
        option("GPUs of each cluster.  [default: those that the load needs]"),
    ] = None,
    load: Annotated[float, option("Without --capacity: fraction of the GPUs that jobs use.")] = 0.8,
    deadline: Annotated[
        str | None,
        option("With FILE: column of the jobs' deadlines.", "COLUMN"),
    ] = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Test the rules on the published plans too.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Draw models, iterations and deadlines for jobs.

    Prints how many deadlines could be met, and how many jobs miss theirs under simple policies
    when they share GPUs.
    """
    writer = frame_writer(out)
    path = Path(jobs or "")
    is_file = path.suffix in _SUFFIXES or len(path.parts) > 1 or path.is_file()
    if deadline is not None and not is_file:
        raise DataError("--deadline is a column of FILE; pass FILE")
    source = _read_file(path, deadline) if is_file else _read_store(store, jobs)
    if rules and source.plans is None:
        raise DataError(
            f"--rules tests published plans, and {source.name} has none; "
            "pass a trace that has training_plans"
        )
    draws = {
        "rng": seed,
        "tightness": read_numbers("--tightness", tightness, "two numbers, such as 0.5,1.5"),
        "distribution": load_object(distribution, "--distribution"),
    }
    named = [*load_objects(policies, "--policies").values()]
    schedule = {"policies": named, "capacity": capacity, "load": load}
    found = _simulate(source, draws, schedule, deadline, rules=rules)
    writer(found["plans"])
    if json:
        _print_json(source, found, seed=seed)
    else:
        _print_tables(source, found, seed=seed)
    if out is not None:
        sys.stderr.write(f"traceana: {found['plans'].height:,} synthetic plans in {out}\n")


@dataclass(frozen=True)
class _Source:
    """Jobs, and the plans published for them."""

    name: str
    jobs: pl.DataFrame
    plans: pl.DataFrame | None
    synthetic: bool


def _read_file(file: Path, deadline: str | None) -> _Source:
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    if file.suffix not in _SUFFIXES:
        raise DataError(f"{file}: the ending must be one of .csv, .parquet")
    try:
        if file.suffix == ".csv":
            scan = pl.scan_csv(file, glob=False)
        else:
            scan = pl.read_parquet(file, use_pyarrow=True).lazy()
        jobs = _take(scan, str(file), *([deadline] if deadline else []))
    except (OSError, ValueError, PanicException, PolarsError) as error:
        raise DataError(f"{file}: cannot be read ({str(error).splitlines()[0]})") from None
    return _Source(str(file), jobs, None, synthetic=False)


def _read_store(store: Path | None, trace: str | None) -> _Source:
    from traceana.questions.deadlines.plans import PLANS_NEEDS

    opened = open_simulated(store)
    try:
        trace = trace or qualifying_trace(opened, None, PLANS_NEEDS).id
    except DataError:  # no trace has plans: they can be drawn for any jobs
        trace = None
    found = qualifying_trace(opened, trace, _JOBS_NEEDED)
    return _Source(
        found.id,
        _take(found.scan("jobs"), found.id),
        found.table("training_plans") if found.has("training_plans") else None,
        synthetic=found.synthetic,
    )


def _take(frame: pl.LazyFrame, name: str, *others: str) -> pl.DataFrame:
    """Return the needed columns, with ids as text and every job in some cluster."""
    import polars as pl

    there = frame.collect_schema().names()
    needed = (*_READ, *others)
    if missing := [column for column in needed if column not in there]:
        raise DataError(
            f"{name}: column {', '.join(missing)} is missing; found {', '.join(there)}; needed are "
            f"{', '.join(needed)}"
        )
    cluster = pl.col("cluster").cast(pl.String) if "cluster" in there else pl.lit(None, pl.String)
    return frame.select(
        pl.col("job_id").cast(pl.String), cluster.fill_null("all").alias("cluster"), *needed[1:]
    ).collect()


def _simulate(
    source: _Source,
    draws: dict[str, Any],
    schedule: dict[str, Any],
    deadline: str | None,
    *,
    rules: bool,
) -> dict[str, Any]:
    from traceana.questions.deadlines.plans import compare_plans
    from traceana.questions.deadlines.rates import deadline_rules
    from traceana.simulate import simulate_deadlines, synthesize_deadlines

    jobs, published = source.jobs, source.plans
    with show_steps("synthetic plans") as step:
        step(0, 3, "synthetic plans")
        found: dict[str, Any] = {"plans": synthesize_deadlines(jobs, **draws)}
        step(1, 3, "deadlines that could be met")
        found["clusters"] = _by_cluster(found["plans"], jobs)
        own = {"plans": found["plans"]} if deadline is None else {"deadline": deadline}
        found["policies"] = simulate_deadlines(jobs, **own, **schedule)
        step(2, 3, "comparison with the published plans")
        if published is not None:
            found["agreement"] = compare_plans(published, found["plans"], jobs)
            found["agreement_by_cluster"] = compare_plans(
                published, found["plans"], jobs, by="cluster"
            )
        if rules and published is not None:
            found["rules"] = deadline_rules(published, jobs)
    return found


def _by_cluster(plans: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    from traceana.questions.deadlines.rates import deadline_tightness

    if plans.is_empty():
        raise DataError(
            "no job has all of job_id, submit_s, runtime_s and gpus, the last two above 0"
        )
    everything = deadline_tightness(plans, jobs).select(pl.lit("all").alias("cluster"), pl.all())
    if plans["cluster"].n_unique() == 1:
        return everything.with_columns(cluster=pl.lit(plans["cluster"][0]))
    return pl.concat([deadline_tightness(plans, jobs, by="cluster"), everything])


def _print_json(source: _Source, found: dict[str, Any], *, seed: int) -> None:

    tables = {name: found[name].to_dicts() for name in found if name != "plans"}
    summary = {
        "jobs_of": source.name,
        "jobs_synthetic": source.synthetic,
        "seed": seed,
        "jobs": source.jobs.height,
        "plans": found["plans"].height,
        **tables,
    }
    print_json(summary)


def _print_tables(source: _Source, found: dict[str, Any], *, seed: int) -> None:
    from traceana.simulate.deadlines.tables import (
        DeadlinePolicies,
        DeadlineRules,
        DeadlineTightness,
        PlanComparison,
    )

    jobs, plans = source.jobs.height, found["plans"].height
    of = f"SYNTHETIC jobs of {source.name}" if source.synthetic else source.name
    without = f"; {jobs - plans:,} have no runtime, submission or GPUs" if plans < jobs else ""
    sys.stdout.write(
        f"SYNTHETIC plans for {plans:,} of {jobs:,} jobs of {of}, seed {seed}{without}\n\n"
        "Deadlines that jobs without a wait would meet (upper bounds), and quantiles of the\n"
        "tightness, (deadline - submission) / runtime\n"
    )
    print_rows(found["clusters"], DeadlineTightness, columns=_SHOWN)
    sys.stdout.write("\nDeadlines that jobs miss on shared GPUs, by policy\n")
    columns = ("cluster", "policy", "capacity", "n", "n_missed", "share_missed", "mean_wait_s")
    null = {"cluster": "all"}
    print_rows(found["policies"], DeadlinePolicies, columns=columns, null=null)
    for name, table, title in (
        ("agreement", PlanComparison, "Comparison with the published plans"),
        ("rules", DeadlineRules, "Tests of the rules on the published plans"),
    ):
        if name in found:
            sys.stdout.write(f"\n{title} (p adjusted by Holm)\n")
            print_rows(found[name], table)
