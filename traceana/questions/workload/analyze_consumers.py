"""Resources of a trace's jobs by user, account, queue, size and end reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw

from traceana.cohorts.observation import window_of
from traceana.questions.workload.consumers import resource_usage

if TYPE_CHECKING:
    import polars as pl

    from traceana.store import Trace

CONSUMER_NEEDS: Final = ({"jobs": ("runtime_s", "status")},)
"""What a trace needs for resources by group."""
FEWEST_WAITS: Final = 20
"""Jobs of a group below which its wait is not named."""
_GROUPS: Final = ("user", "account", "queue", "gpu_type", "end_reason", "status", "gpus_requested")
_MOST_JOBS: Final = 20
_USED: Final = (
    *("job_id", "user", "account", "queue", "gpu_type", "end_reason", "status"),
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


def describe_consumers(trace: Trace, /) -> Consumers:
    """Compute resources, wait, failure, waste and efficiency by group."""
    stated = {*trace.manifest.tables["jobs"].columns}
    names = [name for name in _USED if name in stated or name in ("job_id", "status")]
    jobs: Any = trace.rows("jobs").select(*names)
    window = window_of(trace)
    if "gpus" in names:
        jobs = jobs.with_columns(gpus_requested=nw.col("gpus"))
    groups: dict[str, pl.DataFrame] = {}
    for name in _GROUPS:
        if name in names or (name == "gpus_requested" and "gpus" in names):
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
    unit = "GPU" if whole["gpu_hours"] else "CPU"
    return Consumers(whole, without, groups, unit)
