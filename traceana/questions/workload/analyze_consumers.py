"""Resources of a trace's jobs by user, account, queue, size and end reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.cohort import form_cohort
from traceana.cohorts.ends import END_CLASS, with_end_class
from traceana.cohorts.horizon import MOST_NOT_ENDED, count_not_ended
from traceana.cohorts.observation import window_of
from traceana.questions.workload.consumers import resource_usage
from traceana.store.frames import reduce_frame

if TYPE_CHECKING:
    from traceana.store import Trace

CONSUMER_NEEDS: Final = ({"jobs": ("runtime_s", "status")},)
"""What a trace needs for resources by group."""
FEWEST_WAITS: Final = 20
"""Jobs of a group below which its wait is not named."""
_GROUPS: Final = (
    *("user", "account", "queue", "cluster", "gpu_type", END_CLASS, "end_reason", "status"),
    "gpus_requested",
)
_MOST_JOBS: Final = 20
_SMALL: Final = 1000
"""Jobs of a log of which single jobs are stated."""
_USED: Final = (
    *("job_id", "user", "account", "queue", "cluster", "gpu_type", "end_reason", "status"),
    *("submit_s", "start_s", "end_s", "runtime_s", "gpus", "cpus", "nodes", "cpu_time_s"),
    *("memory_gib", "memory_gib_used", "gpu_utilization", "energy_j"),
)


@dataclass(frozen=True)
class Consumers:
    """Resources of a trace's jobs."""

    whole: dict[str, Any]
    """Of all jobs."""
    without: dict[str, Any] | None
    """Of the jobs of all users but the one with the most; None without a second user."""
    groups: dict[str, pl.DataFrame]
    """By column with several values, and of the jobs with the most idle hours (`job_id`)."""
    unit: str
    """"GPU", or "CPU" where no job has GPUs."""
    each: pl.DataFrame | None
    """Of each job, if the log is small."""
    arrays: dict[str, int]
    """[jobs, and where they are known: arrays, jobs_in_arrays, restarted, restarts, requeued]."""


def describe_consumers(trace: Trace, /) -> Consumers:
    """Compute resources, wait, failure, waste and efficiency by group."""
    stated = {*trace.manifest.tables["jobs"].columns}
    names = [name for name in _USED if name in stated or name in ("job_id", "status")]
    jobs: Any = nw.from_native(with_end_class(trace.rows("jobs").select(*names).to_native()))
    window = trace.once(window_of)
    if "gpus" in names:
        jobs = jobs.with_columns(gpus_requested=nw.col("gpus"))
    groups: dict[str, pl.DataFrame] = {}
    for name in _GROUPS:
        if name == "status" and "end_reason" in groups:
            continue  # in more detail
        if name in (*names, END_CLASS) or (name == "gpus_requested" and "gpus" in names):
            found = resource_usage(jobs.to_native(), by=name, window=window)
            if found.height > 1:
                groups[name] = found
    whole = resource_usage(jobs.to_native(), window=window).row(0, named=True)
    without = None
    if "user" in groups:
        known = groups["user"].drop_nulls("user").sort("jobs", descending=True)
        if known.height > 1:
            others = jobs.filter(nw.col("user") != known["user"][0])
            without = resource_usage(others.to_native(), window=window).row(0, named=True)
    if "gpu_utilization" in names and "gpus" in names:
        idle = nw.col("gpus") * nw.col("runtime_s") * (1 - nw.col("gpu_utilization"))
        local = trace.local(jobs.with_columns(idle=idle).drop_nulls("idle").to_native(), "jobs")
        most = local.top_k(_MOST_JOBS, by="idle").drop("idle").collect()
        if most.height > 1:
            groups["job_id"] = resource_usage(most, by="job_id", window=window).sort(
                "idle_gpu_hours", descending=True, nulls_last=True
            )
    cohort = form_cohort(trace)
    if count_not_ended(cohort) > MOST_NOT_ENDED * cohort.rows.height:
        # jobs of groups that run longer have ended less often, and rather if they failed
        rates = ("failure_rate", "own_failure_rate")
        unknown = [pl.lit(None, pl.Float64).alias(name) for name in rates]
        groups = {name: one.with_columns(unknown) for name, one in groups.items()}
    unit = "GPU" if whole["gpu_hours"] else "CPU"
    each = None
    if whole["jobs"] <= _SMALL:
        each = resource_usage(jobs.to_native(), by="job_id", window=window)
    return Consumers(whole, without, groups, unit, each, _arrays(trace))


def cpu_hours_of(trace: Trace, /) -> float | None:
    """Return the CPU-hours of all jobs; None where they are not recorded."""
    if not trace.has("jobs", ("cpus", *CONSUMER_NEEDS[0]["jobs"])):
        return None
    hours: float | None = trace.once(describe_consumers).whole["cpu_hours"]
    return hours


def _arrays(trace: Trace) -> dict[str, int]:
    """Count arrays, restarts and requeued runs; what the trace does not state is left out."""
    columns = trace.manifest.tables["jobs"].columns
    counts: dict[str, nw.Expr] = {}
    if "array_id" in columns:
        counts |= {
            "jobs_in_arrays": nw.col("array_id").count(),
            "arrays": nw.col("array_id").n_unique(),
        }
    if "restarts" in columns:
        restarts = nw.col("restarts")
        counts["restarted"] = (restarts > 0).cast(nw.Int64).sum()
        counts["restarts"] = restarts.sum()
    if "end_reason" in columns:
        again = nw.col("end_reason").cast(nw.String).str.starts_with("REQUEUED")
        counts["requeued"] = again.cast(nw.Int64).sum()
    found = reduce_frame(trace.rows("jobs"), (), jobs=nw.len(), **counts).row(0, named=True)
    whole = {name: int(value) for name, value in found.items() if value is not None}
    if "arrays" in whole:
        whole["arrays"] -= whole["jobs_in_arrays"] < whole["jobs"]  # null is no array
    if not whole.get("requeued"):
        whole.pop("requeued", None)
    return whole
