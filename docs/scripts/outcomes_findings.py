"""Compute the part of the appendix on outcomes from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import (
    cumulative_incidence,
    failure_odds,
    failure_rates,
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
    return "\n".join([rates(pods), confounding(pods), curves(pods)])


def rates(pods: pl.DataFrame) -> str:
    table = by_definition(lambda failure: failure_rates(pods, "qos", failure=failure))
    shown = table.select("definition", "qos", "n", "failures", "rate", "ci_low", "ci_high")
    return f"### openb, failure rates by quality of service\n\n{as_table(shown)}"


def confounding(pods: pl.DataFrame) -> str:
    table = by_definition(
        lambda failure: failure_odds(pods, "gpu_demand", strata="qos", failure=failure)
    )
    *_, name = DEFINITIONS
    more = table.filter(definition=name, gpu_demand="more").row(0, named=True)
    shares = dict(pods.group_by("gpu_demand").agg((pl.col("qos") == "Burstable").mean()).rows())
    return (
        "### openb, failure of pods with several GPUs and with one\n\n"
        "If every status but completed is a failure, pods with more than one GPU have "
        f"{more['crude_odds_ratio']:.2f} times (95 % CI {more['crude_ci_low']:.2f} to "
        f"{more['crude_ci_high']:.2f}) the odds of failure of pods with one; within quality of "
        f"service, {more['odds_ratio']:.2f} times ({more['ci_low']:.2f} to "
        f"{more['ci_high']:.2f}). Both intervals contain 1: neither difference is established. "
        "The estimates differ "
        f"because {100 * shares['more']:.1f} % of the former and {100 * shares['one']:.1f} % "
        "of the latter are Burstable, and Burstable pods fail least.\n"
    )


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
    shown = pl.concat(steps).sort("qos", "event", "within_h")
    return (
        "### openb, cumulative incidence of completion and failure\n\n"
        "Status running: the pod was deleted while it ran.\n\n" + as_table(shown)
    )
