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
    from traceana.store import Trace

NEEDS: Final = ({"faults": ("machine_id", "start_s")},)


def count_machines(trace: Trace, /) -> int | None:
    """Return the machines of a trace, from its table or as stated; None: unknown.

    Machines with a fault that are in neither count too.
    """
    failed = trace.scan("faults").select("machine_id").unique()
    if trace.has("machines"):
        listed = trace.scan("machines").select("machine_id")
        return int(pl.concat([listed, failed]).unique().select(pl.len()).collect().item())
    stated = sum(group.nodes for group in trace.manifest.capacity.values())
    return max(stated, failed.select(pl.len()).collect().item()) if stated else None


def window_of(trace: Trace, /) -> Window | None:
    """Return the observation window of a trace."""
    manifest = trace.manifest
    if manifest.window_start_s is None or manifest.window_end_s is None:
        return None
    return manifest.window_start_s, manifest.window_end_s


def reliability_of(
    trace: Trace, by: str = "", total_machines: int | None = None, /
) -> ReliabilityResult:
    """Return :func:`machine_reliability` of a trace."""
    return machine_reliability(
        trace.scan("faults"),
        by=by or (),
        total_machines=total_machines or count_machines(trace),
        window=window_of(trace),
    )


def job_failures_of(
    trace: Trace,
    machines: Iterable[int],
    total_machines: int | None = None,
    /,
) -> JobFailureResult:
    """Return :func:`job_failure_interval` of a trace."""
    return job_failure_interval(
        trace.scan("faults"),
        machines=machines,
        total_machines=total_machines or count_machines(trace),
        window=window_of(trace),
    )


def group_column(trace: Trace, /) -> str:
    """Return the column by which faults are grouped: class, else level; empty: neither."""
    manifest = trace.manifest
    return next((name for name in ("class", "level") if manifest.has("faults", (name,))), "")
