"""Results on worker samples that several claims and sections use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.analysis import detect_stragglers, match_cov_rows

if TYPE_CHECKING:
    import polars as pl

    from traceana.analysis import StragglerResult
    from traceana.store.session import Session


def stragglers(session: Session, trace: str, /) -> StragglerResult:
    """Return the stragglers of a trace's jobs."""
    return detect_stragglers(session.scan(trace, "worker_samples"))


def cov_matches(session: Session, trace: str, /) -> pl.DataFrame:
    """Return the rows of a trace's CoV table that its jobs match best."""
    return match_cov_rows(session.scan(trace, "worker_samples"), session.scan(trace, "cov_samples"))
