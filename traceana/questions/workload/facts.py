"""Facts of one trace for the head of a page: period, jobs, users, hours, failures, waits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import polars as pl

from traceana.cohorts.cohort import count_users
from traceana.questions.failures.overall import overall_failure
from traceana.questions.trends.analyze import NEEDS, cpus_allocated, gpus_allocated
from traceana.questions.workload.analyze import describe_workload
from traceana.questions.workload.analyze_consumers import cpu_hours_of
from traceana.tables.formatting import count, duration, hours_text, listed, plain, share

if TYPE_CHECKING:
    from traceana.store import Trace

FACTS: Final = (
    *("Period", "Jobs", "Users", "GPU-hours", "CPU-hours", "GPUs allocated", "CPUs allocated"),
    *("Status", "Failed", "Median wait", "Median runtime", "Median runtime so far"),
)
"""Names in their order."""
_SHORTEST_S = 60.0
_WORDS = 4


def facts_of(trace: Trace, /) -> list[tuple[str, str]]:
    """Return (name, value) of what a trace has, for its jobs; empty without a table of jobs."""
    return trace.once(_facts) if trace.has("jobs") else []


def failed_as(trace: Trace, /) -> str:
    """Return the log's own words for jobs that failed, if there are several: TIMEOUT (4,326)."""
    if not trace.has("jobs", ("status", "end_reason")):
        return ""
    words = (
        trace.scan("jobs")
        .filter(pl.col("status").cast(pl.String) == "failed", pl.col("end_reason").is_not_null())
        .group_by(pl.col("end_reason").cast(pl.String))
        .len()
        .sort(["len", "end_reason"], descending=[True, False])
        .head(_WORDS)
        .collect()
        .rows()
    )
    return listed(f"{word} ({count(n)})" for word, n in words) if len(words) > 1 else ""


def _facts(trace: Trace) -> list[tuple[str, str]]:
    workload = describe_workload(trace)
    row = workload.summary.row(0, named=True)
    facts = [("Period", _period(trace)), ("Jobs", count(row["jobs"]))]
    if users := count_users(trace):
        facts.append(("Users", count(users)))
    if row["gpu_hours"]:
        facts.append(("GPU-hours", hours_text(row["gpu_hours"])))
    elif hours := cpu_hours_of(trace):
        facts.append(("CPU-hours", hours_text(hours)))
    # others may have had the rest; and no section states it of jobs that another trace has
    if users != 1 and trace.manifest.repeats not in trace.store.traces():
        facts += _allocated(trace)
    facts += [("Status", none_ended := _none_ended(trace)), ("Failed", _failed(trace))]
    if workload.queueing is not None and workload.queueing.height:
        wait = workload.queueing["median_s"][0]
        facts.append(("Median wait", "" if wait is None else duration(wait)))
    median = row["runtime_s_median"]
    name = "Median runtime so far" if none_ended else "Median runtime"
    facts.append((name, "" if median is None else duration(median)))
    return [(name, value) for name, value in facts if value]


def _allocated(trace: Trace) -> list[tuple[str, str]]:
    """Return how much of the GPUs, else of the CPUs, was allocated; empty where it is unknown."""
    if not any(trace.has(*need) for needs in NEEDS for need in needs.items()):
        return []
    gpus = trace.once(gpus_allocated)
    if gpus is not None and gpus["allocated"][0]:
        of_all = gpus.row(0, named=True)
        return [("GPUs allocated", f"{share(of_all['allocated'])} of {plain(of_all['gpus'])}")]
    cpus = trace.once(cpus_allocated)
    return [("CPUs allocated", f"{share(cpus[1])} of {plain(cpus[0])}")] if cpus else []


def _period(trace: Trace) -> str:
    """Return the observation window: dates where times are absolute, else its length."""
    first, last = trace.manifest.window_start_s, trace.manifest.window_end_s
    if first is None or last is None or last - first < _SHORTEST_S:
        return ""
    if not trace.manifest.absolute_times:
        return duration(last - first)
    zone = ZoneInfo(trace.manifest.timezone) if trace.manifest.timezone else UTC
    start, end = (datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d") for at in (first, last))
    return start if start == end else f"{start} to {end}"


def _none_ended(trace: Trace) -> str:
    """Return the statuses of the jobs if all run or are pending: all running; else empty."""
    if not trace.has("jobs", ("status",)):
        return ""
    status = trace.scan("jobs").select(pl.col("status").cast(pl.String)).collect()["status"]
    status_counts = status.value_counts(sort=True).rows()
    if {word for word, _ in status_counts} - {"running", "pending"}:
        return ""
    if len(status_counts) == 1:
        return f"all {status_counts[0][0]}"
    return f"{listed(f'{count(n)} {word}' for word, n in status_counts)}; none ended"


def _failed(trace: Trace) -> str:
    """Return the failed among the completed and failed jobs, or within a runtime if many run."""
    if not trace.has("jobs", ("status",)):
        return ""
    status = pl.col("status").cast(pl.String)
    failed, ended = (
        trace.scan("jobs")
        .select((status == "failed").sum(), ended=status.is_in(["completed", "failed"]).sum())
        .collect()
        .row(0)
    )
    if trace.has("jobs", ("runtime_s",)):
        result = trace.once(overall_failure)
        if result.is_censored and result.incidence is not None:
            by = duration(result.incidence["horizon_s"])
            return f"{share(result.incidence['fraction'])} within {by}"
    return f"{share(failed / ended)} ({count(failed)} of {count(ended)})" if ended else ""
