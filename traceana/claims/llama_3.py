"""Causes of interruptions of the training of Llama 3 (2024), table 5: arithmetic of its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide
from traceana.claims.rounding import agrees, round_as

if TYPE_CHECKING:
    from traceana.store import Store


def _causes(claim: Claim) -> pl.DataFrame:
    """Return the counts of the table by cause."""
    names = ["cause", "category", "interruptions", "printed"]
    return pl.DataFrame(claim.values["causes"], schema=names, orient="row")


def total(_store: Store, claim: Claim) -> float:
    """Add up the counts."""
    return float(_causes(claim)["interruptions"].sum())


def faulty_gpu(_store: Store, claim: Claim) -> Judgement:
    """Compare the percentage of the first cause."""
    return _share(claim, _causes(claim)[:1])


def gpu_causes(_store: Store, claim: Claim) -> Judgement:
    """Compare the percentage of the causes of category GPU."""
    return _share(claim, _causes(claim).filter(category="GPU"))


def _share(claim: Claim, causes: pl.DataFrame) -> Judgement:
    every = _causes(claim)["interruptions"].sum()
    percent = 100 * float(causes["interruptions"].sum()) / float(every)
    return decide(
        holds=agrees(percent, claim.published),
        measured=round_as(percent, claim.published),
        evidence=causes,
    )


def others(_store: Store, claim: Claim) -> Judgement:
    """Compare the percentages of all causes but the first."""
    causes = _causes(claim)
    rest = causes[1:].with_columns(
        percentage=100 * pl.col("interruptions") / causes["interruptions"].sum()
    )
    same = sum(agrees(*row) for row in rest.select("percentage", "printed").iter_rows())
    return decide(
        holds=same == rest.height,
        measured=f"{same} of {rest.height} percentages are equal",
        evidence=rest,
    )
