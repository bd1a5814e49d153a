"""Compute the part of the appendix on recurring from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import summarize_recurring, sweep_recurring
from traceana.simulate.recurring.policies import POLICIES

if TYPE_CHECKING:
    from traceana.store import Store

PUBLISHED = "15.3 % to 75.8 %"


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    runs = store.scan("zeus-2023", "training_runs").collect()
    power = store.scan("zeus-2023", "power_profiles").collect()
    sweep = sweep_recurring(runs, power)
    return "\n".join([saved(sweep), published(runs, power, sweep), policies(runs, power, sweep)])


def percent(column: str) -> pl.Expr:
    return (100 * pl.col(column)).round(1).cast(pl.String).alias(column)


def saved(sweep: pl.DataFrame) -> str:
    table = summarize_recurring(sweep)
    interval = pl.format(
        "{} to {}",
        (100 * pl.col("energy_saved_ci_low")).round(1),
        (100 * pl.col("energy_saved_ci_high")).round(1),
    )
    shown = table.select(
        "gpu",
        "dataset",
        percent("energy_saved"),
        interval.alias("95 % of means"),
        percent("time_saved"),
    )
    slower = table.filter(pl.col("time_saved") < 0).height
    return (
        "### Savings of the last five recurrences, in percent of the default\n\n"
        + as_table(shown)
        + f"\nMeans of {sweep['seed'].n_unique()} seeds; {sweep['runs'].null_count()} of "
        f"{sweep.height} simulations failed. In {slower} of {table.height} jobs, "
        f"energy is saved at the cost of time. {sweep['runs_missed'].sum():,} of "
        f"{sweep['runs'].sum():,} runs missed the target.\n"
    )


def published(runs: pl.DataFrame, power: pl.DataFrame, sweep: pl.DataFrame) -> str:
    def of(rows: pl.DataFrame) -> tuple[float, float]:
        by_dataset = rows.group_by("dataset").agg(pl.col("energy_saved").mean())
        return by_dataset["energy_saved"].min(), by_dataset["energy_saved"].max()

    rows = []
    for eta in (0.5, 1.0):
        v100 = sweep_recurring(runs, power, gpu_types=["v100"], eta=eta) if eta != 0.5 else sweep
        v100 = v100.filter(gpu="v100")
        seeds = [of(v100.filter(seed=seed)) for seed in v100["seed"].unique().sort()]
        least, most = zip(*seeds, strict=True)
        mean = of(v100)
        rows.append(
            {
                "eta": f"{eta:g}",
                "mean over seeds": span(*mean),
                "lowest by seed": span(min(least), max(least)),
                "highest by seed": span(min(most), max(most)),
            }
        )
    return (
        f"### Energy saved on the V100 (published as {PUBLISHED})\n\n"
        + as_table(pl.DataFrame(rows))
        + "\nRanges over the six data sets.\n"
    )


def span(low: float, high: float) -> str:
    return f"{100 * low:.1f} % to {100 * high:.1f} %"


def policies(runs: pl.DataFrame, power: pl.DataFrame, sweep: pl.DataFrame) -> str:
    rows = []
    for policy in POLICIES:
        of = sweep if policy == "zeus" else sweep_recurring(runs, power, policy=policy)
        rows.append(
            {
                "policy": policy,
                "failed": of["runs"].null_count(),
                "energy saved (%)": f"{100 * of['energy_saved'].mean():.1f}",
                "regret (%)": f"{100 * of['regret_fraction'].mean():.1f}",
                "runs missed (%)": f"{100 * of['runs_missed'].sum() / of['runs'].sum():.1f}",
            }
        )
    return (
        "### Policies, mean over all jobs and seeds\n\n"
        + as_table(pl.DataFrame(rows))
        + "\nSavings of the last five recurrences relative to the default's expectation; those of "
        "the default differ from 0 by chance. Regret over all recurrences.\n"
    )
