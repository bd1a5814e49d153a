"""Trends, outages and changes of level of a stored trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from traceana.cohorts.observation import nodes_seen, window_of
from traceana.cohorts.task_times import sum_gpus
from traceana.questions.trends.by_period import trends
from traceana.questions.trends.capacity import cluster_utilization, outages
from traceana.questions.trends.drift import changes_and_drift

if TYPE_CHECKING:
    from traceana.store import Trace

NEEDS: Final = ({"jobs": ("submit_s",)}, {"jobs": ("start_s",)})


@dataclass(frozen=True)
class Found:
    """What the section states of a trace."""

    trends: pl.DataFrame
    outages: pl.DataFrame
    changes: pl.DataFrame
    drift: pl.DataFrame
    timezone: str | None
    capacity: pl.DataFrame | None
    """GPUs allocated, down and idle; None where they are unknown."""
    capacity_source: str
    cpus: tuple[float, float, str] | None
    """CPUs of the cluster, the fraction allocated, and where the number is from."""


class Capacity(NamedTuple):
    """GPUs (or CPUs) of a cluster, its machines, and where they are from."""

    gpus: float
    machines: Any
    """Frame of [machine_id, gpus, gpu_type]; None: only the number is known."""
    source: str


_FEWEST_NODES: Final = 2


def clock_of(trace: Trace, /) -> str | None:
    """Return the time zone of the trace's calendar; None: a clock of its own."""
    manifest = trace.manifest
    return (manifest.timezone or "UTC") if manifest.absolute_times else None


def capacity_of(trace: Trace, /) -> Capacity | None:
    """Return the GPUs of a trace: as stated, of its machines, or of the nodes seen; else None."""
    stated = sum(capacity.gpus for capacity in trace.manifest.capacity.values())
    if stated:
        return Capacity(float(stated), None, "as stated")
    if trace.manifest.lists_only_survivors:
        return None  # other jobs used the machines too
    if trace.has("machines", ("gpus",)):
        rows = trace.frame("machines")
        machines = rows.filter(pl.col("gpus").is_not_null())  # type: ignore[union-attr]
        total = sum_gpus(machines)
        return Capacity(total, machines, "of the machines") if total else None
    if not trace.has("jobs", ("gpus", "start_s")):
        return None
    return _seen(trace, "gpus")


def _seen(trace: Trace, of: str) -> Capacity | None:
    seen = trace.once(nodes_seen).filter(pl.col(of) > 0)
    if seen.height < _FEWEST_NODES:
        return None
    source = f"the most in use at a time on each of {seen.height:,} nodes seen"
    return Capacity(float(seen[of].sum()), seen, source)


def _cpus_of(trace: Trace) -> Capacity | None:
    """Return the CPUs of the machines of a trace, or of the nodes seen; else None."""
    if trace.manifest.lists_only_survivors or not trace.has("jobs", ("cpus", "start_s")):
        return None
    if not trace.has("machines", ("cpus",)):
        return _seen(trace, "cpus")
    total = trace.scan("machines").select(pl.col("cpus").cast(pl.Float64).sum()).collect().item()
    return Capacity(total, None, "of the machines") if total else None


def trends_of(trace: Trace, /) -> Found:
    """Compute trends, outages and changes of level of a trace."""
    jobs, options, outcomes = trace.frame("jobs"), _clock(trace), _outcomes(trace)
    capacity = capacity_of(trace)
    lost = outages(jobs, **options)
    return Found(
        trace.once(_by_period),
        lost,
        *changes_and_drift(jobs, **options, **outcomes, lost=lost),
        options["timezone"],
        trace.once(gpus_allocated),
        "" if capacity is None else capacity.source,
        trace.once(cpus_allocated),
    )


def _clock(trace: Trace) -> dict[str, Any]:
    return {"timezone": clock_of(trace), "window": trace.once(window_of)}


def _outcomes(trace: Trace) -> dict[str, Any]:
    failure = trace.manifest.failure_statuses
    return {"success": tuple({"completed"} - {*failure}), "failure": failure}


def _by_period(trace: Trace) -> pl.DataFrame:
    capacity = capacity_of(trace)
    gpus = capacity and capacity.gpus
    return trends(trace.frame("jobs"), gpus=gpus, **_clock(trace), **_outcomes(trace))


def cpus_allocated(trace: Trace, /) -> tuple[float, float, str] | None:
    """Return the CPUs of the cluster, the fraction allocated, and where the number is from."""
    cpus, window = _cpus_of(trace), trace.once(window_of)
    if cpus is None or window is None or window[0] == window[1]:
        return None
    used = float(trace.once(_by_period)["cpu_hours"].sum() or 0)
    return cpus.gpus, used * 3600 / (cpus.gpus * (window[1] - window[0])), cpus.source


def gpus_allocated(trace: Trace, /) -> pl.DataFrame | None:
    """Return what of the GPUs was allocated, down and idle; None where they are unknown."""
    capacity = capacity_of(trace) if trace.has("jobs", ("gpus",)) else None
    if capacity is None:
        return None
    more = _clock(trace)
    if capacity.machines is not None:
        more["machines"] = capacity.machines
        if trace.has("faults", ("end_s",)):
            more["faults"] = trace.scan("faults")
    return cluster_utilization(trace.frame("jobs"), gpus=capacity.gpus, **more)
