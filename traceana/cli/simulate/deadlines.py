"""``traceana simulate deadlines``: training plans with deadlines, drawn for the jobs of a trace."""

from __future__ import annotations

import json as json_text
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from traceana.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

_PUBLISHED = "elasticflow-2023"
_READ: Final = ("job_id", "cluster", "submit_s", "runtime_s", "gpus")


def deadlines(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Jobs in a .csv or .parquet file.  [default: the store's jobs table]",
        ),
    ] = None,
    trace: Annotated[
        str, typer.Option(metavar="ID", help="Trace of the store whose jobs get plans.")
    ] = _PUBLISHED,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 1,
    rules: Annotated[
        bool, typer.Option("--rules", help="Test the rules on the published plans too.")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plans: .csv, .json or .parquet.")
    ] = None,
) -> None:
    """Draw models, iterations and deadlines for jobs.

    Says how many of the deadlines could be met.
    """
    from traceana.cli.output import frame_writer
    from traceana.errors import DataError

    writer = frame_writer(out)
    source = _read_file(file) if file is not None else _read_store(store, trace)
    if rules and source.plans is None:
        raise DataError(
            f"--rules tests published plans, and {source.name} has none; "
            f"leave FILE out and use --trace {_PUBLISHED}"
        )
    found = _simulate(source, seed=seed, rules=rules)
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


def _read_file(file: Path) -> _Source:
    import polars as pl

    from traceana.errors import DataError

    if file.suffix not in (".csv", ".parquet"):
        raise DataError(f"{file}: the ending must be one of .csv, .parquet")
    try:
        lazy = pl.scan_csv(file) if file.suffix == ".csv" else pl.scan_parquet(file)
        jobs = _take(lazy, str(file))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{file}: cannot be read ({str(error).splitlines()[0]})") from None
    return _Source(str(file), jobs, None, synthetic=False)


def _read_store(store: Path | None, trace: str) -> _Source:
    from traceana.errors import DataError
    from traceana.store import open_store

    where = open_store(store)
    synthetic = where.ledger(trace).synthetic  # refuses a store that is not whole
    with_jobs = [known for known in where.traces() if where.has(known, "jobs")]
    if trace not in with_jobs:
        raise DataError(f"--trace {trace}: it has no jobs table; {', '.join(with_jobs)} have one")
    jobs = _take(where.scan(trace, "jobs"), trace)
    has_plans = where.has(trace, "training_plans")
    plans = where.scan(trace, "training_plans").collect() if has_plans else None
    return _Source(trace, jobs, plans, synthetic=synthetic)


def _take(frame: pl.LazyFrame, name: str) -> pl.DataFrame:
    """Return the columns of need, with ids as text and every job in some cluster."""
    import polars as pl

    from traceana.errors import DataError

    there = frame.collect_schema().names()
    if missing := [column for column in _READ if column not in there]:
        raise DataError(
            f"{name}: column {', '.join(missing)} is missing; needed are {', '.join(_READ)}, "
            f"and there is {', '.join(there)}"
        )
    text = pl.col("job_id", "cluster").cast(pl.String)
    return (
        frame.select(_READ)
        .with_columns(text)
        .with_columns(pl.col("cluster").fill_null("all"))
        .collect()
    )


def _simulate(source: _Source, *, seed: int, rules: bool) -> dict[str, Any]:
    from rich.console import Console
    from rich.progress import Progress

    from traceana.analysis import compare_plans, deadline_rules
    from traceana.simulate import synthesize_deadlines

    console = Console(stderr=True)
    jobs, published = source.jobs, source.plans
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("drawing plans", total=3)
        found: dict[str, Any] = {"plans": synthesize_deadlines(jobs, rng=seed)}
        progress.update(bar, advance=1, description="deadlines that could be met")
        found["clusters"] = _by_cluster(found["plans"], jobs)
        progress.update(bar, advance=1, description="beside the published plans")
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

    from traceana.analysis import deadline_tightness
    from traceana.errors import DataError

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
    told = {
        "jobs_of": source.name,
        "jobs_synthetic": source.synthetic,
        "seed": seed,
        "jobs": source.jobs.height,
        "plans": found["plans"].height,
        **tables,
    }
    sys.stdout.write(json_text.dumps(told, indent=2) + "\n")


def _print_tables(source: _Source, found: dict[str, Any], *, seed: int) -> None:
    from traceana.cli.output import print_table

    jobs, plans = source.jobs.height, found["plans"].height
    of = f"SYNTHETIC jobs of {source.name}" if source.synthetic else source.name
    without = f"; {jobs - plans:,} have no runtime, submission or GPUs" if plans < jobs else ""
    sys.stdout.write(
        f"SYNTHETIC plans for {plans:,} of {jobs:,} jobs of {of}, seed {seed}{without}\n\n"
        "Deadlines that a job without any wait would meet, also with more GPUs, and\n"
        "quantiles of tightness, (deadline - submission) / runtime\n"
    )
    print_table(_cluster_table(found))
    if "agreement" in found:
        sys.stdout.write("\nBeside the published plans (p adjusted by Holm)\n")
        print_table(_test_table(found["agreement"], "compared", ("n", "n_synthetic")))
    if "rules" in found:
        sys.stdout.write("\nThe rules, tested on the published plans (p adjusted by Holm)\n")
        print_table(_test_table(found["rules"], "rule", ("n",)))


def _cluster_table(found: dict[str, Any]) -> Table:
    distance = {}
    if "agreement_by_cluster" in found:
        distance = {
            row["cluster"]: row["value"]
            for row in found["agreement_by_cluster"].filter(compared="tightness").to_dicts()
        }
        distance["all"] = found["agreement"].filter(compared="tightness")["value"].item()
    headings = [
        *("cluster", "plans", "met", "share", "(95 %)", "more\nGPUs"),
        *("5 %", "median", "95 %"),
    ]
    table = _table(*headings, *(["KS to\npublished"] if distance else []))
    for row in found["clusters"].iter_rows(named=True):
        table.add_row(
            *(row["cluster"], f"{row['n']:,}", f"{row['n_met']:,}"),
            *(_share(row["share_met"]), f"{100 * row['ci_low']:.1f} to {100 * row['ci_high']:.1f}"),
            _share(row["share_met_fastest"]),
            *(f"{row[f'tightness_{p}']:.3f}" for p in ("p05", "median", "p95")),
            *([f"{distance[row['cluster']]:.4f}"] if distance else []),
        )
    return table


def _test_table(tests: pl.DataFrame, what: str, numbers: tuple[str, ...]) -> Table:
    table = _table(what, *(name.replace("_", " ") for name in numbers), "measure", "value", "p")
    for row in tests.iter_rows(named=True):
        p = row["pvalue_adjusted"]
        table.add_row(
            row[what],
            *(f"{row[name]:,}" for name in numbers),
            *(row["measure"], "" if row["value"] is None else f"{row['value']:.3g}"),
            "" if p is None else f"{p:.3g}",
        )
    return table


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        words = heading in ("cluster", "compared", "rule", "measure")
        table.add_column(heading, justify="left" if words else "right", no_wrap=not words)
    return table


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"
