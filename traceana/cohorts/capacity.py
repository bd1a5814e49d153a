"""GPUs and CPUs of the cluster of a trace, and where the numbers are from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from traceana.cohorts.observation import nodes_seen
from traceana.cohorts.task_times import sum_gpus

if TYPE_CHECKING:
    from traceana.store import Trace

_FEWEST_NODES: Final = 2


class Capacity(NamedTuple):
    """GPUs (or CPUs) of a cluster, its machines, and where they are from."""

    gpus: float
    machines: Any
    """Frame of [machine_id, gpus, gpu_type]; None: only the number is known."""
    source: str


def capacity_of(trace: Trace, /) -> Capacity | None:
    """Return the GPUs of a trace: of its machines, as stated, or of the nodes seen; else None."""
    if trace.has("machines", ("gpus",)):
        rows = trace.frame("machines")
        machines = rows.filter(pl.col("gpus").is_not_null())  # type: ignore[union-attr]
        if total := sum_gpus(machines):
            return Capacity(total, machines, "of the machines")
    if stated := sum(capacity.gpus for capacity in trace.manifest.capacity.values()):
        return Capacity(float(stated), None, "as stated")
    return _seen(trace, "gpus")


def cpus_of(trace: Trace, /) -> Capacity | None:
    """Return the CPUs of the machines of a trace, or of the nodes seen; else None."""
    if not trace.has("machines", ("cpus",)):
        return _seen(trace, "cpus")
    total = trace.scan("machines").select(pl.col("cpus").cast(pl.Float64).sum()).collect().item()
    return Capacity(total, None, "of the machines") if total else None


def _seen(trace: Trace, of: str) -> Capacity | None:
    if trace.manifest.lists_only_survivors or not trace.has("jobs", (of, "start_s")):
        return None
    seen = trace.once(nodes_seen).filter(pl.col(of) > 0)
    if seen.height < _FEWEST_NODES:
        return None
    source = f"the most in use at a time on each of {seen.height:,} nodes seen"
    return Capacity(float(seen[of].sum()), seen, source)
