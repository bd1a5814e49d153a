"""Trends, outages and changes of level of a stored trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.cohorts.capacity import sum_gpus
from traceana.cohorts.observation import window_of
from traceana.questions.trends.by_period import trends
from traceana.questions.trends.capacity import cluster_utilization
from traceana.questions.trends.changes import level_changes
from traceana.questions.trends.outages import outages

if TYPE_CHECKING:
    from traceana.store import Trace

NEEDS: Final = ({"jobs": ("submit_s",)}, {"jobs": ("start_s",)})


@dataclass(frozen=True)
class Found:
    """What the section states of a trace."""

    trends: pl.DataFrame
    outages: pl.DataFrame
    changes: pl.DataFrame
    timezone: str | None
    capacity: pl.DataFrame | None


def clock_of(trace: Trace, /) -> str | None:
    """Return the time zone of the trace's calendar; None: a clock of its own."""
    manifest = trace.manifest
    return (manifest.timezone or "UTC") if manifest.absolute_times else None


def known_gpus(trace: Trace, /) -> float | None:
    """Return the GPUs of the machines, or as stated; None: unknown."""
    stated = sum(one.gpus for one in trace.manifest.capacity.values())
    if stated:
        return float(stated)
    if not trace.has("machines", ("gpus",)):
        return None
    return sum_gpus(trace.frame("machines").filter(pl.col("gpus").is_not_null())) or None  # type: ignore[union-attr]


def trends_of(trace: Trace, /) -> Found:
    """Compute trends, outages and changes of level of a trace."""
    jobs, window, timezone = trace.frame("jobs"), trace.once(window_of), clock_of(trace)
    options: dict[str, Any] = {"timezone": timezone, "window": window}
    failure = trace.manifest.failure_statuses
    success = tuple(word for word in ("completed",) if word not in failure)
    outcomes: dict[str, Any] = {"success": success, "failure": failure}
    return Found(
        trends(jobs, gpus=known_gpus(trace), **options, **outcomes),
        outages(jobs, **options),
        level_changes(jobs, **options, **outcomes),
        timezone,
        _capacity(trace, options),
    )


def _capacity(trace: Trace, options: dict[str, Any]) -> pl.DataFrame | None:
    """Return what of the GPUs was allocated, down and idle; None where they are unknown."""
    gpus = known_gpus(trace)
    if gpus is None or not trace.has("jobs", ("gpus",)):
        return None
    both = trace.has("faults", ("end_s",)) and trace.has("machines", ("gpus",))
    more = {name: trace.scan(name) for name in ("machines", "faults")} if both else {}
    return cluster_utilization(trace.frame("jobs"), gpus=gpus, **options, **dict[str, Any](more))
