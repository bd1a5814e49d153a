"""Used versus requested CPU time, memory, GPUs and time limits of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.cohorts.cohort import MOST_GROUPS
from traceana.cohorts.observation import window_of
from traceana.cohorts.overlap import ENDED_STATUSES, HELD, open_overlap
from traceana.cohorts.tasks import sample_jobs, sampled_rows
from traceana.questions.runtimes.compare import empirical_distribution
from traceana.questions.utilization.tables import RequestedUsed
from traceana.stats.quantiles import woodruff_interval
from traceana.store.frames import collect
from traceana.tables.declare import declared

if TYPE_CHECKING:
    from traceana.store import Trace
    from traceana.store.manifest import Manifest

_RUNTIME: Final = pl.col("runtime_s") / 3600
_RESOURCES: Final = {
    "CPU time": ("core-hours", pl.col("cpu_time_s") / 3600, pl.col("cpus") * _RUNTIME),
    "Memory": (
        "GiB-hours",
        pl.col("memory_gib_used") * _RUNTIME,
        pl.col("memory_gib") * _RUNTIME,
    ),
    "GPUs": (
        "GPU-hours",
        pl.col("gpu_utilization") * pl.col("gpus") * _RUNTIME,
        pl.col("gpus") * _RUNTIME,
    ),
    "Time limit": ("hours", _RUNTIME, pl.col("time_limit_s") / 3600),
}
"""By resource, the unit of its hours, those used and those requested."""
REQUESTED_NEEDS: Final = tuple(
    {"jobs": tuple(sorted({*used.meta.root_names(), *requested.meta.root_names(), "status"}))}
    for _, used, requested in _RESOURCES.values()
)
"""What a trace needs for one of the resources."""
_GROUPS: Final = ("queue", "gpu_type")
_LEAST_REQUEST: Final = 1e-9
"""Hours; no ratio to a smaller request is a number that means anything."""


def requested_used(trace: Trace, /) -> dict[str, pl.DataFrame]:
    """Compare use with requests of ended jobs, overall (key "") and by queue and GPU type."""
    jobs, unit = _hours(trace), trace.manifest.unit
    sample = trace.once(sample_jobs)
    drawn = sample.fraction if sample else 1.0
    cluster = unit if unit in jobs.columns else None
    comparisons = {"": _compare(jobs, cluster, {}, drawn)}
    for name in _GROUPS:
        if name not in jobs.columns:
            continue
        largest = jobs.group_by(name).len().sort("len", name, descending=[True, False])
        groups = largest[name].drop_nulls().head(MOST_GROUPS).to_list()
        if len(groups) > 1:
            parts = [
                _compare(jobs.filter(pl.col(name) == group), cluster, {name: group}, drawn)
                for group in groups
            ]
            comparisons[name] = pl.concat(parts)
    return comparisons


def requested_curves(trace: Trace, /) -> pl.DataFrame:
    """Return the distribution function of use over request, by resource."""
    jobs = _hours(trace)
    curves = [
        jobs.select(resource=pl.lit(name), value=jobs[f"{name} ratio"]).drop_nulls()
        for name in _RESOURCES
        if f"{name} ratio" in jobs.columns
    ]
    return empirical_distribution(pl.concat(curves), "value", by="resource")


def _hours(trace: Trace) -> pl.DataFrame:
    """Return hours used and requested, and their ratio, of the jobs that ended, or a sample."""
    manifest = trace.manifest
    there = _stated(manifest)
    names = [name for name in (*_GROUPS, manifest.unit) if name and manifest.has("jobs", (name,))]
    stated = [needs["jobs"] for needs in REQUESTED_NEEDS if manifest.has("jobs", needs["jobs"])]
    times = [name for name in ("submit_s", "start_s", "end_s") if manifest.has("jobs", (name,))]
    needed = {"status", "runtime_s", *names, *times}.union(*stated)
    ended = sampled_rows(trace, "jobs", *sorted(needed)).filter(
        pl.col("status").cast(pl.String).is_in(ENDED_STATUSES), pl.col("runtime_s") > 0
    )
    columns = [pl.col(name).cast(pl.String) for name in dict.fromkeys(names)]
    for name in there:
        _, used, requested = _RESOURCES[name]
        comparable = used.is_not_null() & (requested > _LEAST_REQUEST)
        columns += [
            pl.when(comparable).then(used).alias(f"{name} used"),
            pl.when(comparable).then(requested).alias(f"{name} requested"),
            pl.when(comparable).then(used / requested).alias(f"{name} ratio"),
        ]
    rows = ended.collect(engine="streaming")
    held = collect(open_overlap(rows, (), {"runtime": "runtime_s"}, window=trace.once(window_of)))[
        HELD
    ]
    part = (held / rows["runtime_s"]).fill_null(1.0)  # hours in the window; ratios are of the job
    scaled = [pl.col(f"{name} {what}") * part for name in there for what in ("used", "requested")]
    return rows.select(columns).with_columns(scaled)


def _stated(manifest: Manifest) -> list[str]:
    pairs = zip(_RESOURCES, REQUESTED_NEEDS, strict=True)
    return [name for name, needs in pairs if manifest.has("jobs", needs["jobs"])]


def _compare(
    jobs: pl.DataFrame, cluster: str | None, group: dict[str, str], drawn: float
) -> pl.DataFrame:
    """Compare use with requests; totals are those of all jobs, of which a fraction is drawn."""
    rows: list[dict[str, object]] = []
    for name, (unit, _, _) in _RESOURCES.items():
        if f"{name} ratio" not in jobs.columns:
            continue
        table = jobs.drop_nulls(f"{name} ratio")
        ratio, requested = table[f"{name} ratio"], table[f"{name} requested"]
        codes = table[cluster].rank("dense").fill_null(0).to_numpy() if cluster else None
        low, high = woodruff_interval(ratio.to_numpy(), codes)
        total = float(requested.sum())
        unused = float((requested - table[f"{name} used"]).clip(0).sum())
        rows.append(
            {
                **group,
                "resource": f"{name} ({unit})",
                "n": table.height,
                "n_missing": jobs.height - table.height,
                **{
                    f"p{q}" if q != 50 else "median": ratio.quantile(q / 100, "linear")
                    for q in (25, 50, 75)
                },
                "ci_low": None if np.isnan(low) else low,
                "ci_high": None if np.isnan(high) else high,
                "requested_hours": total / drawn,
                "unused_hours": unused / drawn,
                "fraction_unused": unused / total if total else None,
            }
        )
    return declared(pl.DataFrame(rows, infer_schema_length=None), RequestedUsed, by=tuple(group))
