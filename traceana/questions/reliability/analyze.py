"""Reliability of the machines of a stored trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.questions.reliability.jobs import job_failure_interval
from traceana.questions.reliability.machines import machine_reliability

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceana.questions.reliability.log import Window
    from traceana.questions.reliability.tables import JobFailureResult, ReliabilityResult
    from traceana.store.session import Session

NEEDS: Final = ({"faults": ("machine_id", "start_s")},)


def count_machines(session: Session, trace: str, /) -> int | None:
    """Return the machines of a trace: of its machines table, or as stated; None: unknown."""
    manifest = session.manifest(trace)
    if manifest.has("machines"):
        return int(session.scan(trace, "machines").select(pl.len()).collect().item())
    return sum(group.nodes for group in manifest.capacity.values()) or None


def window_of(session: Session, trace: str, /) -> Window | None:
    """Return the observation window of a trace."""
    manifest = session.manifest(trace)
    if manifest.window_start_s is None or manifest.window_end_s is None:
        return None
    return manifest.window_start_s, manifest.window_end_s


def reliability_of(
    session: Session, trace: str, by: str = "", total_machines: int | None = None, /
) -> ReliabilityResult:
    """Return :func:`machine_reliability` of a trace."""
    return machine_reliability(
        session.scan(trace, "faults"),
        by=by or (),
        total_machines=total_machines or count_machines(session, trace),
        window=window_of(session, trace),
    )


def job_failures_of(
    session: Session,
    trace: str,
    machines: Iterable[int],
    total_machines: int | None = None,
    /,
) -> JobFailureResult:
    """Return :func:`job_failure_interval` of a trace."""
    return job_failure_interval(
        session.scan(trace, "faults"),
        machines=machines,
        total_machines=total_machines or count_machines(session, trace),
        window=window_of(session, trace),
    )


def group_column(session: Session, trace: str, /) -> str:
    """Return the column by which faults are grouped: class, else level; empty: neither."""
    manifest = session.manifest(trace)
    return next((name for name in ("class", "level") if manifest.has("faults", (name,))), "")
