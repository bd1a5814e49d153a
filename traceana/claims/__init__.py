"""Published numbers, and whether the data bears them out; one file a paper."""

from traceana.claims.claim import (
    VERDICTS,
    Claim,
    ClaimResults,
    Judgement,
    decide,
    not_testable,
    untested,
)
from traceana.claims.papers import PAPERS, Paper, check_claims

__all__ = [
    "PAPERS",
    "VERDICTS",
    "Claim",
    "ClaimResults",
    "Judgement",
    "Paper",
    "check_claims",
    "decide",
    "not_testable",
    "untested",
]
