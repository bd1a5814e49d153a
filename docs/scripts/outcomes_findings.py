"""Compute the measured part of docs/explanation/outcomes.md from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import (
    compare_runtimes,
    cumulative_incidence,
    failure_model,
    failure_odds,
    failure_rates,
    kaplan_meier,
    outcome_association,
    runtime_by,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.store import Store

HOUR = 3600
DEFINITIONS = {
    "failed": ("failed",),
    "all but completed": ("failed", "cancelled", "running", "pending", "unknown"),
}


def by_definition(analyze: Callable[[tuple[str, ...]], pl.DataFrame]) -> pl.DataFrame:
    """Return the tables for each definition of a failure, one below the other."""
    return pl.concat(
        analyze(failure).select(pl.lit(name).alias("definition"), pl.all())
        for name, failure in DEFINITIONS.items()
    )


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    gpus = pl.col("gpus")
    pods = (
        store.scan("alibaba-openb-2023", "jobs")
        .collect()
        .with_columns(
            gpu_demand=pl.when(gpus == 0)
            .then(pl.lit("none"))
            .when(gpus < 1)
            .then(pl.lit("fraction"))
            .when(gpus == 1)
            .then(pl.lit("one"))
            .otherwise(pl.lit("more"))
        )
    )
    parts = [rates(pods), confounding(pods), runtimes(pods), model(pods), curves(pods)]
    return "\n".join(parts)


def rates(pods: pl.DataFrame) -> str:
    parts = ["### Failure rates\n"]
    for by in ("qos", "gpu_demand"):
        table = by_definition(lambda failure, by=by: failure_rates(pods, by, failure=failure))
        parts.append(as_table(table.drop("cancelled", "unknown", "n_missing"), digits=4))
        strength = by_definition(
            lambda failure, by=by: outcome_association(pods, by, failure=failure)
        ).select(
            *("definition", "n", "cramers_v", "ci_low", "ci_high", "statistic", "df", "pvalue"),
            "method",
        )
        parts.append(f"Association of failure with {by}:\n\n{as_table(strength, digits=4)}")
    return "\n".join(parts)


def confounding(pods: pl.DataFrame) -> str:
    table = by_definition(
        lambda failure: failure_odds(pods, "gpu_demand", strata="qos", failure=failure)
    )
    *_, (name, every) = DEFINITIONS.items()
    more = table.filter(definition=name, gpu_demand="more").row(0, named=True)
    shares = dict(pods.group_by("gpu_demand").agg((pl.col("qos") == "Burstable").mean()).rows())
    within = failure_rates(pods, ("qos", "gpu_demand"), failure=every)
    return (
        "### Failure rates within quality of service\n\n"
        + as_table(table.drop("failures_reference", "n_reference"), digits=4)
        + "\nIf every status but completed is a failure, pods with more than one GPU have "
        f"{more['crude_odds_ratio']:.2f} times ({more['crude_ci_low']:.2f} to "
        f"{more['crude_ci_high']:.2f}) the odds of failure of pods with one. Within quality of "
        f"service, they have {more['odds_ratio']:.2f} times ({more['ci_low']:.2f} to "
        f"{more['ci_high']:.2f}) these odds (Simpson's paradox): {100 * shares['more']:.1f} % of "
        f"the former and {100 * shares['one']:.1f} % of the latter are Burstable, and Burstable "
        "pods fail least. Rates by both columns:\n\n"
        + as_table(within.select("qos", "gpu_demand", "n", "failures", "rate", "ci_low", "ci_high"))
    )


def runtimes(pods: pl.DataFrame) -> str:
    parts = ["### Runtimes\n"]
    by_each = ("status", "qos", "gpu_demand")
    skewness = pl.col("note").str.extract(r"skewness ([\d.]+)").alias("skewness")
    parts += [
        as_table(runtime_by(pods, by).with_columns(skewness).drop("note"), digits=4)
        for by in by_each
    ]
    parts.append("Where a skewness is listed, the mean's interval is too narrow.\n")
    found = compare_runtimes(pods, "qos")
    test = found.test.row(0, named=True)
    parts.append(
        f"Between qualities of service: epsilon squared {test['epsilon_squared']:.4f} "
        f"({test['ci_low']:.4f} to {test['ci_high']:.4f}), H {test['statistic']:.5g}, df "
        f"{test['df']:g}, p {test['pvalue']:.2g}, n {test['n']:,}. Medians, and pairs:\n\n"
        + as_table(found.groups.drop("n_clusters"), digits=4)
        + "\n"
        + as_table(found.pairs.drop("note"), digits=4)
    )
    return "\n".join(parts)


def model(pods: pl.DataFrame) -> str:
    parts = ["### Failure model\n"]
    for name, failure in DEFINITIONS.items():
        found = failure_model(pods, features=("qos", "gpus", "cpus", "memory_gib"), failure=failure)
        ratios = found.odds_ratios.drop("log_odds", "std_error")
        parts.append(f"Failure: {name}:\n\n{as_table(ratios, digits=4)}")
        parts.append(as_table(found.fit.drop("n_clusters", "note"), digits=4))
    return "\n".join(parts)


def curves(pods: pl.DataFrame) -> str:
    events = ("completed", "failed", "running")
    found = cumulative_incidence(pods, by="qos", events=events)
    steps = [
        found.curves.filter(pl.col("time_s") <= hours * HOUR)
        .group_by("qos", "event", maintain_order=True)
        .last()
        .select("qos", "event", "incidence", "ci_low", "ci_high", within_h=pl.lit(hours))
        for hours in (1, 24)
    ]
    medians = kaplan_meier(pods, by="qos", events=events).groups
    return (
        "### Cumulative incidence of completion and failure\n\n"
        "Status running: the pod was deleted while it ran.\n\n"
        + as_table(pl.concat(steps).sort("qos", "event", "within_h"))
        + "\nMedian runtimes to any event:\n\n"
        + as_table(medians.drop("note"), digits=4)
    )
