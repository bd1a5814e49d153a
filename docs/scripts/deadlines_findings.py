"""Compute the part of the appendix on deadlines from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import (
    compare_plans,
    deadline_tightness,
    synthesize_deadlines,
)

if TYPE_CHECKING:
    from traceana.store import Store

SEED = 1


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    plans = store.scan("elasticflow-2023", "training_plans").collect()
    jobs = store.scan("elasticflow-2023", "jobs").collect()
    drawn = synthesize_deadlines(jobs, rng=SEED)
    return "\n".join([tightness(plans, jobs), agreement(plans, drawn, jobs)])


def tightness(plans: pl.DataFrame, jobs: pl.DataFrame) -> str:
    everything = deadline_tightness(plans, jobs).insert_column(0, pl.lit("all").alias("cluster"))
    table = pl.concat([deadline_tightness(plans, jobs, by="cluster"), everything]).select(
        "cluster",
        "n",
        "fraction_met",
        "ci_low",
        "ci_high",
        "fraction_met_fastest",
        "tightness_median",
    )
    return "### Deadlines met by a job without queueing\n\n" + as_table(table)


def agreement(plans: pl.DataFrame, drawn: pl.DataFrame, jobs: pl.DataFrame) -> str:
    return f"### Synthetic and published plans (seed {SEED})\n\n" + as_table(
        compare_plans(plans, drawn, jobs)
    )
