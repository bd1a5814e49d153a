"""Compute the part of the appendix on runtimes from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import energy_savings, runtime_ratio, summarize_runtime_ratio

if TYPE_CHECKING:
    from traceana.store import Store


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    itp = store.scan("microsoft-itp-2021", "jobs").collect()
    openb = store.scan("alibaba-openb-2023", "jobs").collect()
    parts = [
        within("openb", openb, (("qos",), ("qos", "status"), ("qos", "status", "gpus"))),
        within("ITP", itp, (("cluster",), ("gpus",), ("cluster", "gpus"))),
        default_runs(store),
    ]
    return "\n".join(parts)


def within(trace: str, jobs: pl.DataFrame, groupings: tuple[tuple[str, ...], ...]) -> str:
    known = jobs.drop_nulls("runtime_s")
    rows = []
    for by in ((), *groupings):
        several = known.filter(pl.len().over(by) > 1) if by else known
        ratio = runtime_ratio(several, by=by).select("runtime_ratio")
        rows.append(
            summarize_runtime_ratio(ratio, by=(), runtime="runtime_ratio").select(
                pl.lit(", ".join(by) or "nothing").alias("grouped by"),
                pl.lit(several.select(by).n_unique() if by else 1).alias("groups"),
                "n",
                "cov",
                "p05",
                "median",
                "p95",
            )
        )
    return f"### {trace}, runtime ratios, without groups of one\n\n{as_table(pl.concat(rows))}"


def default_runs(store: Store) -> str:
    runs, power = (store.scan("zeus-2023", table) for table in ("training_runs", "power_profiles"))
    table = (
        energy_savings(runs, power)
        .filter(objective="energy", choice="baseline")
        .pivot("gpu", index="dataset", values="tta_s")
        .sort("v100")
    )
    heading = "Zeus: seconds of the default run by GPU"
    return f"### {heading}\n\n{as_table(table)}"
