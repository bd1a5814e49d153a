"""Compute the measured part of docs/explanation/claims.md from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import check_claims
from traceana.claims import PAPERS

if TYPE_CHECKING:
    from traceana.claims import ClaimResults
    from traceana.store import Store


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    results = check_claims(store)
    return "\n".join([counts(results), *(paper(results, name) for name in PAPERS)])


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


def paper(results: ClaimResults, name: str) -> str:
    claims = results.table.filter(paper=name)
    shown = claims.filter(pl.col("verdict") != "untested").select(
        pl.col("id").alias("claim"),
        pl.format("**{}**", "verdict").alias("verdict"),
        "statement",
        "measured",
        pl.when(pl.col("verdict") != "reproduced").then("reason").alias("why"),
    )
    untested = claims.filter(verdict="untested")["id"]
    listed = f"\nUntested: {', '.join(untested)}.\n" if len(untested) else ""
    return f"### {PAPERS[name].title}\n\n{as_table(shown)}{listed}"
