"""Results on training plans that several claims and sections use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.analysis import deadline_rules, iteration_rates

if TYPE_CHECKING:
    import polars as pl

    from traceana.store.session import Session


def rules(session: Session, trace: str, /) -> pl.DataFrame:
    """Return the rules that the deadlines of a trace follow."""
    return deadline_rules(session.scan(trace, "training_plans"), session.scan(trace, "jobs"))


def rates(session: Session, trace: str, /) -> pl.DataFrame:
    """Return the iteration rates behind the deadlines of a trace."""
    return iteration_rates(session.scan(trace, "training_plans"), session.scan(trace, "jobs"))
