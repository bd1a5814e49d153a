"""``traceana simulate recurring``: recurring jobs that choose batch size and power limit."""

from __future__ import annotations

import json as json_text
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traceana.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from traceana.simulate import RecurringResult

_TRACE = "zeus-2023"
_SWEEP_SEEDS = 10


def recurring(
    *,
    gpu: Annotated[str | None, typer.Option(help="GPU as in the trace.  [default: all]")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Data set as in the trace.  [default: all]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed; of a sweep the first.")] = 1,
    eta: Annotated[float, typer.Option(help="Weight of energy against time, 0 to 1.")] = 0.5,
    beta: Annotated[
        float, typer.Option(help="A run may cost so many times the least cost so far.")
    ] = 2.0,
    policy: Annotated[str, typer.Option(help="zeus, default, grid or oracle.")] = "zeus",
    target: Annotated[
        float | None, typer.Option(help="Target metric, of one job.  [default: the data set's]")
    ] = None,
    recurrences: Annotated[
        int | None,
        typer.Option(help="Recurrences of a job.  [default: 2 x batch sizes x power limits]"),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Sweep over so many seeds.  [default: 10 where GPU or data set is left out]"
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the runs (of a sweep its replications): .csv, .json or .parquet.",
        ),
    ] = None,
) -> None:
    """Let a job of the Zeus trace recur, or sweep over jobs and seeds."""
    from traceana.cli.output import frame_writer
    from traceana.errors import DataError
    from traceana.simulate import simulate_recurring
    from traceana.store import open_store

    writer = frame_writer(out)
    where = open_store(store)
    tables = [where.scan(_TRACE, table) for table in ("training_runs", "power_profiles")]
    synthetic = where.ledger(_TRACE).synthetic
    settings: dict[str, Any] = {
        "eta": eta,
        "beta": beta,
        "recurrences": recurrences,
        "policy": policy,
    }
    if gpu is None or dataset is None or seeds is not None:
        if target is not None:
            raise DataError("--target is for one job: a sweep trains to the defaults")
        number = _SWEEP_SEEDS if seeds is None else seeds
        asked: dict[str, Any] = {
            "gpus": None if gpu is None else [gpu],
            "datasets": None if dataset is None else [dataset],
            "seeds": range(seed, seed + number),
        }
        sweep = _sweep(tables, asked | settings)
        writer(sweep)
        _print_sweep(sweep, settings, synthetic=synthetic, json=json)
        return
    result = simulate_recurring(
        tables[0], tables[1], gpu=gpu, dataset=dataset, target=target, seed=seed, **settings
    )
    writer(result.history)
    _print_result(result, synthetic=synthetic, json=json)


def _sweep(tables: list[pl.LazyFrame], options: dict[str, Any]) -> pl.DataFrame:
    from rich.console import Console
    from rich.progress import Progress

    from traceana.simulate import sweep_recurring

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("recurring jobs", total=1)
        return sweep_recurring(
            tables[0],
            tables[1],
            **options,
            progress=lambda share: progress.update(bar, completed=share),
        )


def _print_result(result: RecurringResult, *, synthetic: bool, json: bool) -> None:
    if json:
        told = {
            "gpu": result.job.gpu,
            "dataset": result.job.dataset,
            "target": result.job.target,
            "policy": result.policy,
            "eta": result.eta,
            "beta": _finite(result.beta),
            "seed": result.seed,
            "synthetic": synthetic,
            "summary": result.totals.to_dicts()[0],
            "references": result.references.to_dicts(),
            "gaps": result.job.gaps.to_dicts(),
            "history": result.history.to_dicts(),
        }
        sys.stdout.write(json_text.dumps(told, indent=2) + "\n")
        return
    import polars as pl

    from traceana.cli.output import print_table

    sys.stdout.write(_marked(str(result), synthetic=synthetic) + "\n\n")
    chosen = (
        result.history.group_by("batch_size", "power_limit_w")
        .agg(
            pl.len().alias("runs"),
            (~pl.col("reached")).sum().alias("missed"),
            pl.col("energy_j", "time_s").mean(),
            pl.col("recurrence").max().alias("last"),
        )
        .sort("batch_size", "power_limit_w")
    )
    table = _table(
        "batch size", "limit (W)", "runs", "missed", "mean energy (J)", "mean time (s)", "last used"
    )
    for row in chosen.iter_rows(named=True):
        table.add_row(
            *(f"{row['batch_size']:,}", f"{row['power_limit_w']:g}"),
            *(f"{row['runs']:,}", f"{row['missed']:,}"),
            *(f"{row['energy_j']:,.0f}", f"{row['time_s']:,.0f}", f"{row['last']:,}"),
        )
    print_table(table)


def _print_sweep(
    sweep: pl.DataFrame, settings: dict[str, Any], *, synthetic: bool, json: bool
) -> None:
    from traceana.simulate import summarize_recurring

    summary = summarize_recurring(sweep)
    if json:
        told = {
            **settings,
            "beta": _finite(settings["beta"]),
            "synthetic": synthetic,
            "summary": summary.to_dicts(),
            "replications": sweep.to_dicts(),
        }
        sys.stdout.write(json_text.dumps(told, indent=2) + "\n")
        return
    from traceana.cli.output import print_table

    title = (
        f"saved by the last five recurrences against the default, policy {settings['policy']}, "
        f"eta {settings['eta']:g}, beta {settings['beta']:g}"
    )
    sys.stdout.write(_marked(title, synthetic=synthetic) + "\n")
    table = _table(
        "GPU", "data set", "seeds", "energy", "(95 % of means)", "time", "cost", "regret"
    )
    for row in summary.iter_rows(named=True):
        low, high = row["energy_saved_ci_low"], row["energy_saved_ci_high"]
        interval = "" if low is None else f"{100 * low:.1f} to {100 * high:.1f}"
        shares = (_share(row[name]) for name in ("energy_saved", "time_saved", "cost_saved"))
        energy, time, cost = shares
        table.add_row(
            *(row["gpu"], row["dataset"], f"{row['seeds']:,}", energy, interval, time, cost),
            _share(row["regret_share"]),
        )
    print_table(table)
    for row in summary.filter(summary["note"].is_not_null()).iter_rows(named=True):
        sys.stdout.write(f"{row['gpu']}, {row['dataset']}: {row['note']}\n")
    missing = int(summary["points_missing"].sum())
    sys.stdout.write(
        f"regret: total cost over the oracle's; points (batch size, power limit) that the trace "
        f"cannot answer: {missing:,}\n"
    )


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        words = heading in ("GPU", "data set")
        table.add_column(heading, justify="left" if words else "right", no_wrap=True)
    return table


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def _finite(beta: float) -> float | None:
    return beta if math.isfinite(beta) else None  # JSON has no infinity


def _marked(text: str, *, synthetic: bool) -> str:
    return f"SYNTHETIC, no observed row in it\n{text}" if synthetic else text
