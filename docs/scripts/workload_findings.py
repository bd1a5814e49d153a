"""Compute the part of the appendix on workload from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import (
    concentration,
    interarrivals,
    queueing_delay,
    workload_summary,
)

if TYPE_CHECKING:
    from traceana.store import Store


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    itp = store.scan("microsoft-itp-2021", "jobs").collect()
    openb = store.scan("alibaba-openb-2023", "jobs").collect()
    return "\n".join([clusters(itp), pods(openb)])


def clusters(itp: pl.DataFrame) -> str:
    everything = itp.with_columns(cluster=pl.lit("all"))
    frame = pl.concat([itp, everything])
    table = (
        workload_summary(frame, by="cluster")
        .select("cluster", "jobs", "gpu_hours", "runtime_s_median", "runtime_s_p99")
        .join(
            interarrivals(frame, by="cluster").select("cluster", "cv"),
            on="cluster",
        )
        .join(
            concentration(frame, by="cluster").select(
                "cluster", "fraction_of_top_10_percent", "gini"
            ),
            on="cluster",
        )
    )
    return (
        "### ITP, by cluster\n\n"
        + as_table(table.sort("cluster"))
        + "\ncv: of the interarrival times.\n"
    )


def pods(openb: pl.DataFrame) -> str:
    table = queueing_delay(openb, by="qos").select(
        "qos", "n", "n_no_start", "median_s", "p90_s", "p99_s", "max_s"
    )
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
