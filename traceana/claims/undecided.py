"""Claims that no table of a store decides, or that need one comparison only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, not_testable, untested

if TYPE_CHECKING:
    from traceana.store import Store


def undecided(_store: Store, claim: Claim) -> Judgement:
    """Leave a claim untested; its note names the table that would decide it."""
    return untested(claim.note)


def contradicts(_store: Store, claim: Claim) -> Judgement:
    """Leave statements that contradict each other undecided; the note compares them."""
    return not_testable(claim.published, claim.note)


def more_gpus(store: Store, claim: Claim) -> Judgement:
    """Compare the GPUs of the machines with a lower limit."""
    gpus = store.scan(*claim.tables[0]).select(pl.col("gpus").sum()).collect().item()
    return decide(holds=gpus > int(claim.published.replace(",", "")), measured=f"{gpus:,.0f}")
