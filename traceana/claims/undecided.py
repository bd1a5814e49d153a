"""Claims that no table of a store decides, or that need one comparison only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, untested

if TYPE_CHECKING:
    from traceana.store import Store


def undecided(_store: Store, claim: Claim) -> Judgement:
    """Leave a claim untested; its note names the table that would decide it."""
    return untested(claim.note)


def not_published(_store: Store, claim: Claim) -> Judgement:
    """Leave a claim that no public data can decide; its note gives the reason."""
    return Judgement("not testable", None, claim.note)


def more_gpus(store: Store, claim: Claim) -> Judgement:
    """Compare the GPUs of the machines with a lower limit."""
    gpus = store.scan(*claim.tables[0]).select(pl.col("gpus").sum()).collect().item()
    return decide(
        holds=gpus > int(claim.published.removeprefix("over ").replace(",", "")),
        measured=f"{gpus:,.0f}",
    )
