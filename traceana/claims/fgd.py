"""FGD (ATC'23): jobs of the openb trace that share GPUs, and their placement."""

from __future__ import annotations

from math import sqrt
from typing import Any, Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, agrees, decide, round_as
from traceana.questions.scheduling.what_if import (
    SEEDS,
    placed_at_random,
    placed_by_name,
    reversed_pairs,
)
from traceana.simulate.placement.simulate import summarize_placement
from traceana.store import Store, Trace

_TRACE: Final = "alibaba-openb-2023"
_PRINTED_SEEDS: Final = 10
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


def _means(store: Store, quantity: str) -> dict[str, float]:
    rows = store.trace(_TRACE).once(_summary)
    return dict(rows.select("policy", quantity).iter_rows())


def mean_at_100(store: Store, claim: Claim) -> Judgement:
    """Compare a mean over seeds with the printed one."""
    values: dict[str, Any] = dict(claim.values)
    mean = _means(store, values["quantity"])[values["policy"]]
    error = values["std"] * sqrt(1 / len(SEEDS) + 1 / _PRINTED_SEEDS)
    return decide(
        holds=abs(mean - float(claim.published)) <= 3 * error,
        measured=f"{mean:.2f} % (mean of {len(SEEDS)} seeds)",
        note="Ties by name, where each run names the machines at random.",
        evidence=store.trace(_TRACE).once(_summary),
    )


def saved(store: Store, claim: Claim) -> Judgement:
    """Compare the GPUs that are not allocated with those under another policy."""
    allocated = _means(store, "allocated")
    other = claim.values["against"]
    percent = 100 * (1 - (100 - allocated["fgd"]) / (100 - allocated[other]))
    return decide(
        holds=abs(percent - float(claim.published)) <= claim.values["points"],
        measured=f"{percent:.0f} % of the GPUs that {other} does not allocate",
        note="GPUs not allocated when the jobs have requested 100 % of them. With ties broken at "
        "random, fgd saves less or none: see fgd-ties.",
        evidence=store.trace(_TRACE).once(_summary),
    )


def more_gpus(store: Store, claim: Claim) -> Judgement:
    """Count the GPUs that are allocated beyond those of another policy."""
    allocated = _means(store, "allocated")
    other = claim.values["against"]
    gpus = store.scan(_TRACE, "machines").select(pl.col("gpus").sum()).collect().item()
    more = (allocated["fgd"] - allocated[other]) / 100 * gpus
    return decide(
        holds=abs(more - float(claim.published)) <= claim.values["gpus"],
        measured=f"{more:.0f} GPUs more than {other}",
        note="Of the five other policies dotprod is the one that fits the printed number; "
        "random allocates fewer GPUs still.",
        evidence=store.trace(_TRACE).once(_summary),
    )


def ties_at_random(store: Store, claim: Claim) -> Judgement:
    """Compare the order of policies under both rules of ties."""
    trace, policies = store.trace(_TRACE), claim.values["policies"]
    runs = [trace.once(placed_by_name), *(trace.once(placed_at_random, name) for name in policies)]
    summary = summarize_placement(pl.concat(runs)).filter(arrived=100)
    means = summary.filter(ties="random").sort("allocated", descending=True)
    pairs = reversed_pairs(summary)
    parts = [f"{name} {mean:.1f} %" for name, mean in means.select("policy", "allocated").rows()]
    return decide(
        holds=not pairs,
        measured=f"ties at random: {', '.join(parts)}",
        note="Reversed: " + "; ".join(f"{first} before {second}" for first, second in pairs)
        if pairs
        else "No pair of policies changes its order.",
        evidence=summary,
    )
