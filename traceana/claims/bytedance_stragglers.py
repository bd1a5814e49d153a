"""LLM training jobs of ByteDance (OSDI'25): which group of workers makes them slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, not_testable, untested
from traceana.questions.stragglers.analyze import straggler_attributes

if TYPE_CHECKING:
    from traceana.store.session import Session


def _attributes(session: Session, claim: Claim) -> pl.DataFrame:
    found = session.once(straggler_attributes, claim.tables[0][0]).attributes
    return found.filter(pl.col("job_id").is_in(["AR", "ST"])).sort("job_id", maintain_order=True)


def attribute(session: Session, claim: Claim) -> Judgement:
    """Compare the attribute that explains a job with the published one."""
    found = _attributes(session, claim).filter(job_id=claim.values["job"])
    if found.is_empty():
        return untested(f"{claim.values['job']} is not among the jobs of {claim.needs[0]}")
    expected = {name: value for name, value in claim.values.items() if name != "job"}
    parts = [
        f"{row['attribute']} {row['group']} {row['explained']:.3f}"
        for row in found.drop_nulls("explained").iter_rows(named=True)
    ]
    return decide(
        holds=found.filter("explains", **expected).height == 1,
        measured=f"fraction explained: {', '.join(parts)}",
        evidence=found,
    )


def fractions(session: Session, claim: Claim) -> Judgement:
    """Return the fractions explained by sums of compute time."""
    found = _attributes(session, claim).filter(pl.col("attribute").is_in(["worker", "stage"]))
    parts = [
        f"{row['job_id']} {row['attribute']} {row['group']} {row['explained']:.3f}"
        for row in found.drop_nulls("explained").iter_rows(named=True)
    ]
    return not_testable(f"by compute time: {', '.join(parts)}", evidence=found)


def slowdown(session: Session, claim: Claim) -> Judgement:
    """Return the slowest worker's compute time over the median worker's."""
    found = _attributes(session, claim).filter(attribute="worker")
    parts = ", ".join(
        f"{job} {value:.3f}" for job, value in found.select("job_id", "slowdown").rows()
    )
    return not_testable(f"slowest worker over median worker: {parts}")
