"""FGD (ATC'23): jobs of the openb trace that share GPUs, and their placement."""

from __future__ import annotations

from typing import Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, agrees, decide, round_as
from traceana.questions.scheduling.what_if import (
    placed_at_random,
    placed_by_name,
    reversed_pairs,
)
from traceana.simulate.placement.simulate import summarize_placement
from traceana.store import Store, Trace

_TRACE: Final = "alibaba-openb-2023"
_SUMMED: Final = ("tasks", "gpus", "cpus")


def _requests(trace: Trace) -> pl.DataFrame:
    """Return the percentage of tasks, GPUs and CPU cores by the GPUs that a task requests."""
    gpus = pl.col("gpus")
    kind = (
        pl.when(gpus == 0)
        .then(pl.lit("no GPU"))
        .when(gpus < 1)
        .then(pl.lit("a fraction of a GPU"))
        .when(gpus == 1)
        .then(pl.lit("1 GPU"))
        .otherwise(pl.format("{} GPUs", gpus.cast(pl.Int64)))
    )
    table: pl.DataFrame = (
        trace.scan("jobs")
        .drop_nulls("gpus")
        .group_by(requests=kind)
        .agg(tasks=pl.len(), gpus=gpus.sum(), cpus=pl.col("cpus").sum(), least=gpus.min())
        .sort("least")
        .select("requests", pl.col("tasks", "gpus", "cpus"), *map(_percent, _SUMMED))
        .collect()
    )
    return table


def _percent(name: str) -> pl.Expr:
    return (100 * pl.col(name) / pl.col(name).sum()).alias(f"{name}_percent")


def by_gpus(store: Store, claim: Claim) -> Judgement:
    """Find a percentage of the tasks, or of their requests, by the GPUs that a task requests."""
    rows = store.trace(_TRACE).once(_requests)
    values: dict[str, str] = dict(claim.values)
    percent = dict(rows.select("requests", values["percent"]).iter_rows()).get(values["requests"])
    return decide(
        holds=agrees(percent, claim.published),
        measured=f"{round_as(percent, claim.published)} %",
        note=claim.note,
        evidence=rows,
    )


def _summary(trace: Trace) -> pl.DataFrame:
    return summarize_placement(trace.once(placed_by_name)).filter(arrived=100)


def ties_at_random(store: Store, claim: Claim) -> Judgement:
    """Compare the order of policies under both rules of ties."""
    trace, policies = store.trace(_TRACE), claim.values["policies"]
    runs = [trace.once(placed_by_name), *(trace.once(placed_at_random, name) for name in policies)]
    summary = summarize_placement(pl.concat(runs)).filter(arrived=100)
    means = summary.filter(ties="random").sort("allocated", descending=True)
    pairs = [f"{first} before {second}" for first, second in reversed_pairs(summary)]
    parts = [f"{name} {mean:.1f} %" for name, mean in means.select("policy", "allocated").rows()]
    return decide(
        holds=not pairs,
        measured=f"ties at random: {', '.join(parts)}",
        note=f"Reversed: {'; '.join(pairs) or 'none'}",
        evidence=summary,
    )


FRAMES: Final = {"summary": (_summary,)}
"""Analyses of a trace that queries read as tables."""
