"""Compute the measured part of docs/explanation/workload.md from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import (
    arrival_rhythm,
    concentration,
    gpu_demand,
    interarrivals,
    job_quantiles,
    queueing_delay,
    size_distribution,
    workload_summary,
)

if TYPE_CHECKING:
    from traceana.store import Store


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    itp = store.scan("microsoft-itp-2021", "jobs").collect()
    openb = store.scan("alibaba-openb-2023", "jobs").collect()
    return "\n".join([clusters(itp), sizes(itp), rhythm(itp), demand(itp), pods(openb)])


def clusters(itp: pl.DataFrame) -> str:
    everything = itp.with_columns(cluster=pl.lit("all"))
    frame = pl.concat([itp, everything])
    table = (
        workload_summary(frame, by="cluster")
        .select(
            *("cluster", "jobs", "gpu_hours", "runtime_s_median", "runtime_s_p99"),
            first_submit_day=pl.col("first_submit_s") / 86400,
        )
        .join(
            interarrivals(frame, by="cluster").select("cluster", "cv", "burstiness", "dispersion"),
            on="cluster",
        )
        .join(
            concentration(frame, by="cluster").select(
                "cluster", "share_of_top_1_percent", "share_of_top_10_percent", "gini"
            ),
            on="cluster",
        )
    )
    shortest = job_quantiles(itp).filter(quantity="runtime_s")["min"].item()
    return (
        "### ITP, by cluster\n\n"
        + as_table(table.sort("cluster"))
        + f"\nDispersion: of hourly counts. The shortest runtime is {shortest:g} s.\n"
    )


def sizes(itp: pl.DataFrame) -> str:
    table = size_distribution(itp).drop("jobs_without_gpu_hours")
    return f"### ITP, by GPUs requested\n\n{as_table(table)}"


def rhythm(itp: pl.DataFrame) -> str:
    hours = arrival_rhythm(itp, per="hour").sort("jobs_per_h")
    quiet, busy = hours.row(0, named=True), hours.row(-1, named=True)
    days = arrival_rhythm(itp, per="weekday").select("weekday", "jobs", "observed_h", "jobs_per_h")
    a, b = sorted(days.sort("jobs_per_h")["weekday"].head(2))
    return (
        "### ITP, by hour and weekday of its own clock\n\n"
        f"Quietest hour: {quiet['hour']}, {quiet['jobs_per_h']:.1f} jobs an hour; busiest: "
        f"{busy['hour']}, {busy['jobs_per_h']:.1f}. Quietest days: {a} and {b}.\n\n{as_table(days)}"
    )


def demand(itp: pl.DataFrame) -> str:
    hourly = gpu_demand(itp, start="submit_s", runtime="runtime_s")
    gpus, last = hourly["gpus_mean"], itp["submit_s"].max()
    while_submitting = hourly.filter(pl.col("bin_start_s") <= last)["gpus_mean"]
    return (
        "### ITP, GPUs requested if every job started at submission\n\n"
        f"By hour up to the last submission: median {while_submitting.median():,.0f}, maximum "
        f"{gpus.max():,.0f}.\n"
    )


def pods(openb: pl.DataFrame) -> str:
    table = queueing_delay(openb, by="qos").drop("p75_s", "p95_s", "n_no_submit", "note")
    first_end = openb["end_s"].min()
    before = openb.filter(pl.col("submit_s") < first_end)
    since = openb.filter(pl.col("submit_s") >= first_end)
    both = [interarrivals(frame)["cv"].item() for frame in (openb, since)]
    return (
        f"### openb, queueing delay by quality of service\n\n{as_table(table)}\n"
        f"{before.height} of {openb.height:,} pods were created before the first pod of the trace "
        f"ended (day {first_end / 86400:.1f} of its clock). They are listed because they were "
        f"still running (length-biased sampling). The cv of interarrival times is {both[0]:.1f} "
        f"with them and {both[1]:.2f} without.\n"
    )
