"""Groups of recurring jobs of a trace, mapped to workloads and simulated; shared by claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana import simulate
from traceana.errors import DataError
from traceana.questions.energy.analyze import ENERGY_NEEDS, defaults, shown_gpu, training_tables
from traceana.questions.recurring.groups import map_groups_to_workloads
from traceana.questions.runtimes.fit import fit_distributions
from traceana.questions.runtimes.ratio import runtime_ratio

if TYPE_CHECKING:
    from traceana.questions.runtimes.tables import DistributionFits
    from traceana.simulate.recurring.tables import RecurringGroupsResult
    from traceana.store import Trace

GROUP_NEEDS: Final = (
    {"recurring_jobs": ("group", "start_s", "end_s")},
    {"jobs": ("group", "start_s", "end_s")},
    {"jobs": ("group", "submit_s", "end_s")},
    {"jobs": ("inst_id", "submit_s", "end_s"), "job_tags": ("inst_id", "group")},
)
"""What a trace needs for groups of recurring jobs."""
MAX_JOBS: Final = 50_000
"""Jobs that the report simulates: those of the groups that start first."""
_MAX_FITTED: Final = 50_000
"""Runtime ratios that distributions are fitted to, drawn at random."""


def grouped_jobs(trace: Trace, /) -> pl.DataFrame:
    """Return the jobs of a trace that have a group, a start and an end: [group, start_s, end_s].

    Published mappings keep their dataset and runtime_ratio. A missing start is the submission.
    Jobs that failed or were cancelled are excluded (Zeus, section 6.3), as are those that end
    before they start.
    """
    manifest = trace.manifest
    columns = ["group", "start_s", "end_s"]
    if manifest.has("recurring_jobs", tuple(columns)):
        table, start = "recurring_jobs", nw.col("start_s")
    else:
        table, start = "jobs", nw.coalesce("start_s", "submit_s").alias("start_s")
    rows = trace.rows(table).with_columns(start)
    if manifest.has(table, ("status",)):
        rows = rows.filter(~nw.col("status").is_in(["failed", "cancelled"]).fill_null(value=False))
    if table == "jobs" and not manifest.has("jobs", ("group",)):
        jobs = rows.select("inst_id", "start_s", "end_s")
        tags = trace.rows("job_tags").group_by("inst_id").agg(nw.col("group").min())
        rows = jobs.join(tags, on="inst_id")
    there = rows.collect_schema().names()
    kept = [*columns, *(name for name in ("dataset", "runtime_ratio") if name in there)]
    known = rows.select(kept).drop_nulls(columns).filter(nw.col("end_s") >= nw.col("start_s"))
    return trace.local(known.to_native(), table).sort("start_s", "group", "end_s").collect()


def _grouped(trace: Trace) -> pl.DataFrame:
    return trace.cached(("grouped jobs",), lambda: grouped_jobs(trace), on_disk=False)


def workloads_of(trace: Trace, /) -> tuple[Trace | None, str]:
    """Return the trace whose workloads represent groups, and its GPU; None if there is none.

    It is the trace itself if it has workloads, otherwise the first of the store that has.
    """
    found = [
        known
        for known in map(trace.store.trace, trace.store.traces())
        if all(known.manifest.has(*each) for each in ENERGY_NEEDS[0].items())
    ]
    if not found:
        return None, ""
    workloads = trace if trace in found else found[0]
    return workloads, shown_gpu(workloads)


def mapped_jobs(trace: Trace, workloads: Trace, gpu: str, /) -> pl.DataFrame:
    """Return the jobs with the workload of their group, in the form of recurring_jobs."""
    jobs = _grouped(trace)
    if "dataset" in jobs.columns:
        return jobs
    tables, known = training_tables(workloads), workloads.once(defaults)
    return map_groups_to_workloads(jobs, *tables, gpu=gpu, defaults=known).jobs


def first_groups(jobs: pl.DataFrame, most: int = MAX_JOBS, /) -> pl.DataFrame:
    """Return the jobs of the groups that start first, at most so many but one group at least."""
    groups = (
        jobs.group_by("group").agg(pl.col("start_s").min(), n=pl.len()).sort("start_s", "group")
    )
    kept = groups.filter((pl.col("n").cum_sum() <= most) | (pl.int_range(pl.len()) == 0))
    return jobs.join(kept, on="group", how="semi", maintain_order="left")


def group_simulation(trace: Trace, workloads: Trace, gpu: str, /) -> RecurringGroupsResult | str:
    """Return the groups that start first simulated with the workloads, or why none can be."""
    try:
        jobs = first_groups(trace.once(mapped_jobs, workloads, gpu))
        return simulate.simulate_recurring_groups(
            *training_tables(workloads),
            jobs,
            gpu=gpu,
            defaults=workloads.once(defaults),
        )
    except DataError as error:
        return str(error)


def ratio_stages(trace: Trace, workloads: Trace | None, gpu: str, /) -> pl.DataFrame:
    """Return [stage, runtime_ratio]: before mapping over the group's mean, after as mapped.

    Groups of one job and jobs without a runtime are excluded before mapping.
    """
    jobs = _grouped(trace)
    several = jobs.filter(pl.len().over("group") > 1)
    timed = several.select("group", runtime_s=pl.col("end_s") - pl.col("start_s"))
    stages = {"before mapping": runtime_ratio(timed, by="group")}
    if workloads:
        try:
            mapped = trace.once(mapped_jobs, workloads, gpu)
            stages["after mapping"] = mapped
        except DataError:  # too few groups; group_simulation states why
            pass
    return (
        pl.concat(
            rows.select(pl.lit(stage).alias("stage"), "runtime_ratio")
            for stage, rows in stages.items()
        )
        .drop_nulls()
        .filter(pl.col("runtime_ratio") > 0)
    )


def ratio_fits(trace: Trace, workloads: Trace | None, gpu: str, /) -> dict[str, DistributionFits]:
    """Return the distributions fitted to the runtime ratios of each stage."""
    ratios = trace.once(ratio_stages, workloads, gpu)
    return {
        str(stage): fit_distributions(
            rows["runtime_ratio"].sample(min(rows.height, _MAX_FITTED), seed=1), resamples=0
        )
        for (stage,), rows in ratios.group_by("stage", maintain_order=True)
        if rows["runtime_ratio"].n_unique() > 1
    }
