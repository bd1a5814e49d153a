"""Claims that no table of a store decides, or that compare counts of groups."""

from __future__ import annotations

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, untested
from traceana.store import Store


def undecided(_store: Store, claim: Claim) -> Judgement:
    """Leave a claim untested; its note names the table that would decide it."""
    return untested(claim.note)


def not_published(_store: Store, claim: Claim) -> Judgement:
    """Leave a claim that no public data can decide; its note gives the reason."""
    return Judgement("not testable", None, claim.note)


def counts(store: Store, claim: Claim) -> Judgement:
    """Compare the faults of each group with the published counts."""
    columns = claim.values["columns"]
    names = [*columns, "published"]
    published = pl.DataFrame(claim.values["counts"], schema=names, orient="row")
    table = store.scan(*claim.tables[0]).group_by(columns).len("measured").collect()
    both = published.join(table, on=columns, how="full", coalesce=True).fill_null(0).sort(columns)
    same = both.filter(pl.col("published") == pl.col("measured")).height
    return decide(
        holds=same == both.height,
        measured=f"{same} of {both.height} counts are equal",
        evidence=both,
    )
