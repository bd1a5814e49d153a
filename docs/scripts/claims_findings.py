"""Compute the part of the appendix on claims from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import check_claims

if TYPE_CHECKING:
    from traceana.claims import ClaimResults
    from traceana.store import Store


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    results = check_claims(store)
    return counts(results)


def counts(results: ClaimResults) -> str:
    papers = (
        results.table.group_by("paper", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("claims"),
            *((pl.col("verdict") == name).sum().alias(name) for name in results.counts),
        )
        .rows()
    )
    total = ("all", results.table.height, *results.counts.values())
    schema = ["paper", "claims", *results.counts]
    table = pl.DataFrame([*papers, total], schema=schema, orient="row")
    return f"### Verdicts\n\n{as_table(table)}"
