"""Compute the measured part of docs/explanation/deadlines.md from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table
from scipy import stats

from traceana import (
    compare_plans,
    deadline_rules,
    deadline_tightness,
    iteration_rates,
    replay_published_draws,
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
    parts = [
        rules(plans, jobs),
        sequence(plans),
        throughput(plans, jobs),
        tightness(plans, jobs),
        testbed(plans, jobs),
        agreement(plans, drawn, jobs),
    ]
    return "\n".join(parts)


def rules(plans: pl.DataFrame, jobs: pl.DataFrame) -> str:
    return "### Tests of the rules\n\n" + as_table(deadline_rules(plans, jobs))


def sequence(plans: pl.DataFrame) -> str:
    table = replay_published_draws(plans)
    pooled = plans.filter(pl.col("cluster") != "195job").group_by("model", "batch_size").len()
    chi = stats.chisquare(pooled["len"])
    return (
        "### Sequence of models by file\n\n"
        + as_table(table)
        + f"\nn_passed_over: skipped draws; by chance they would be 13 per plan. Equally likely "
        f"pairs are rejected over the ten clusters: chi-squared {chi.statistic:.1f}, "
        f"p = {chi.pvalue:.1g}.\n"
    )


def throughput(plans: pl.DataFrame, jobs: pl.DataFrame) -> str:
    rates = iteration_rates(plans, jobs)
    width = (rates["highest"] - rates["lowest"]) / rates["iterations_per_s"]
    table = (
        rates.with_columns(pl.col("gpus").cast(pl.Int64))
        .pivot("gpus", index=["model", "batch_size"], values="scaling_efficiency")
        .rename({"model": "scaling efficiency: model", "batch_size": "batch size"})
    )
    one = rates.filter(gpus=1.0).select(
        "model", "batch_size", samples_per_s_on_one_gpu=pl.col("samples_per_s").round(1)
    )
    return (
        f"### Throughput of the plans\n\nAll plans agree on one rate in "
        f"{rates['is_one_rate'].sum()} of {rates.height} cells (model, batch size, GPUs), known to "
        f"within {width.max():.1g} of its value.\n\n" + as_table(table) + "\n" + as_table(one)
    )


def tightness(plans: pl.DataFrame, jobs: pl.DataFrame) -> str:
    everything = deadline_tightness(plans, jobs).insert_column(0, pl.lit("all").alias("cluster"))
    table = pl.concat([deadline_tightness(plans, jobs, by="cluster"), everything]).select(
        "cluster", "n", "n_met", "share_met", "ci_low", "ci_high", "share_met_fastest",
        "tightness_min", "tightness_median", "tightness_max",
    )  # fmt: skip
    return "### Deadlines met by a job without queueing\n\n" + as_table(table)


def testbed(plans: pl.DataFrame, jobs: pl.DataFrame) -> str:
    bed = plans.filter(cluster="195job").drop("cluster")
    known = bed.join(jobs.select("job_id", "cluster"), on="job_id").join(
        plans, on=["cluster", "job_id"], suffix="_of_cluster"
    )
    same = {
        name: (known[name] == known[f"{name}_of_cluster"]).sum()
        for name in ("model", "batch_size", "iterations", "deadline_s")
    }
    kept = ", ".join(f"{name} {number}" for name, number in same.items())
    return (
        f"### The list of the testbed\n\n{known.height} of {bed.height} jobs are rows of "
        f"{', '.join(known['cluster'].unique().sort())}. Rows with the value of its file: "
        f"{kept}.\n"
    )


def agreement(plans: pl.DataFrame, drawn: pl.DataFrame, jobs: pl.DataFrame) -> str:
    return f"### Synthetic and published plans (seed {SEED})\n\n" + as_table(
        compare_plans(plans, drawn, jobs)
    )
