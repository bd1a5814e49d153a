"""Claims that no table of a store decides."""

from __future__ import annotations

from traceana.claims.claim import Claim, Judgement, untested
from traceana.store import Store


def undecided(_store: Store, claim: Claim) -> Judgement:
    """Leave a claim untested; its note names the table that would decide it."""
    return untested(claim.note)


def not_published(_store: Store, claim: Claim) -> Judgement:
    """Leave a claim that no public data can decide; its note gives the reason."""
    return Judgement("not testable", None, claim.note)
