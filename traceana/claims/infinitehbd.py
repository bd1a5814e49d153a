"""The fault trace of InfiniteHBD (SIGCOMM'25): counts and percentages of its publisher."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, not_testable
from traceana.claims.rounding import agrees

if TYPE_CHECKING:
    from traceana.store import Store

_DAY_S = 86_400


def infinitehbd_fleet(store: Store, claim: Claim) -> Judgement:
    """Count the servers with a fault."""
    seen = store.scan(*claim.tables[0]).select(pl.col("machine_id").n_unique()).collect().item()
    return not_testable(f"{seen} servers have a fault")


def infinitehbd_days(store: Store, claim: Claim) -> Judgement:
    """Compare the whole days up to the last event."""
    last = store.scan(*claim.tables[0]).select(pl.col("end_s").max()).collect().item() / _DAY_S
    holds = agrees(last // 1, claim.published)
    return decide(holds=holds, measured=f"last event on day {last:.2f}")


def infinitehbd_clock(store: Store, claim: Claim) -> Judgement:
    """Compare the time of the first event."""
    first = store.scan(*claim.tables[0]).sort("start_s").head(1).collect()
    start = first["start_s"].item()
    measured = f"first event on day {start / _DAY_S:.4f}"
    return decide(holds=start == 0, measured=measured, evidence=first)


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
