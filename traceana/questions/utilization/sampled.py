"""What the samples of GPUs of a trace show, overall, by user and by job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceana.questions.utilization.gpu_samples import sampled_gpu_usage

if TYPE_CHECKING:
    import polars as pl

    from traceana.store import Trace

SHOWN_GROUPS: Final = 10
"""Users with the most idle GPU-hours, and jobs with the most GPU-hours."""
_MACHINES: Final = ("machine_id", "NodeList", "node", "host")
"""Columns of jobs that may have their machines: those that readers carry along."""


@dataclass(frozen=True)
class SampledUsageTables:
    """Usage from samples of GPUs; None where it is not known whose they are."""

    whole: pl.DataFrame
    by_user: pl.DataFrame | None
    by_job: pl.DataFrame | None


def analyze_gpu_samples(trace: Trace, /) -> SampledUsageTables:
    """Compute the usage of GPUs in a trace, joined with its jobs where these have machines."""
    samples = trace.frame("gpu_samples")
    machine = None
    if trace.has("jobs", ("start_s",)):
        there = trace.scan("jobs").collect_schema().names()
        machine = next((name for name in _MACHINES if name in there), None)
    if machine is None:
        by_job = sampled_gpu_usage(samples, by="job_id")
        return SampledUsageTables(sampled_gpu_usage(samples, by=()), None, _most(by_job))
    jobs = trace.frame("jobs")
    by_job = sampled_gpu_usage(samples, jobs=jobs, by="job_id", machine=machine)
    by_user = None
    if trace.has("jobs", ("user",)):
        by_user = sampled_gpu_usage(samples, jobs=jobs, by="user", machine=machine)
        by_user = by_user.sort("idle_gpu_hours", descending=True, maintain_order=True)
    return SampledUsageTables(
        sampled_gpu_usage(samples, jobs=jobs, by=(), machine=machine),
        None if by_user is None or not by_user["user"].count() else by_user.head(SHOWN_GROUPS),
        _most(by_job),
    )


def _most(by_job: pl.DataFrame) -> pl.DataFrame | None:
    known = by_job.drop_nulls("job_id").sort("gpu_hours", descending=True, maintain_order=True)
    return known.head(SHOWN_GROUPS) if known.height else None
