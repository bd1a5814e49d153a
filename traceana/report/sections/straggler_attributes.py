"""Stragglers by attribute: which group of workers explains why a job is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived import workers
from traceana.report.blocks import (
    Block,
    Content,
    Gallery,
    drawing,
    join_parts,
    picture_key,
    result_table,
)
from traceana.report.section import Section
from traceana.results.attributes import AttributeGroups, StragglerAttributes
from traceana.results.formatting import plural, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.report.blocks import Drawing
    from traceana.report.context import Context
    from traceana.results.attributes import AttributeResult

_MAX_DRAWN: Final = 12
_DEFINITIONS: Final = (
    "The workers of a job are grouped by each attribute that the data have (such as host, rack or "
    "pipeline stage); each worker is a group by itself. Time gained: the fraction of the job's "
    "time saved if the workers of a group took at most the median of the others in the same step, "
    "if every step waited for its slowest worker. Explained: the same, as a fraction of the time "
    "that the job takes above its median worker; it may exceed 100 %. By chance: the most that "
    "the group explains in 20 shuffles of times between the workers of each step. An attribute "
    "explains the slowness if its slowest group explains at least 50 percentage points more than "
    "by chance; of several, the one with the smallest group is taken. p: permutation test of the "
    "variance between groups; it cannot be small with few workers."
)


def build(session: Context, traces: Sequence[str]) -> Content:
    """Attributes by job, and a figure of each job that has one that explains."""
    parts = ((session.title(trace), _of_trace(session, trace)) for trace in traces)
    return join_parts(_DEFINITIONS, parts)


def _of_trace(session: Context, trace: str) -> Content:
    result, name = session.once(workers.straggler_attributes, trace), session.title(trace)
    jobs = result.attributes.sort(*workers.JOB_ORDER, maintain_order=True)
    costly = result.groups.filter(pl.col("explained") >= 0.05)
    blocks: list[Block] = [
        result_table(jobs, StragglerAttributes, caption=f"What explains slow jobs. {name}"),
        *([Gallery(tuple(drawn))] if (drawn := _drawings(trace, result)) else []),
        result_table(
            costly.sort(*workers.JOB_ORDER, maintain_order=True),
            AttributeGroups,
            caption=f"Groups that explain at least 5 % of the slowdown. {name}",
            folded=True,
        ),
    ]
    finding = f"{name}: {_finding(jobs)}"
    return Content((finding,), tuple(blocks), finding)


def _drawings(trace: str, result: AttributeResult) -> list[Drawing]:
    several = pl.len().over("job_id") > 1
    shown = result.attributes.filter((several & pl.col("gain").is_not_null()) | pl.col("explains"))
    drawn = shown["job_id"].unique(maintain_order=True).head(_MAX_DRAWN)
    return [
        drawing(
            "straggler-attributes",
            result.of_job(job),
            trace=trace,
            key=picture_key("straggler-attributes", trace, job),
            about=f"Time gained by attribute in {job}",
        )
        for job in drawn
    ]


def _finding(jobs: pl.DataFrame) -> str:
    found = jobs.filter("explains")
    number = jobs["job_id"].n_unique()
    if found.is_empty():
        return (
            f"in none of {plural(number, 'job')} a single group of workers explains the slowness."
        )
    told = [
        f"in {row['job_id']}, {row['attribute']} {row['group']} "
        f"({plural(row['n_workers'], 'worker')}) explains {share(row['explained'])} of the "
        f"slowdown ({share(row['explained_by_chance'])} by chance); as fast as the others, it "
        f"would save {share(row['gain'])} of the job's time (n = {plural(row['n_steps'], 'step')})"
        for row in found.head(3).iter_rows(named=True)
    ]
    return (
        f"one group of workers explains the slowness of {found.height} of {plural(number, 'job')}: "
        f"{'; '.join(told)}."
    )


SECTION = Section(
    "straggler-attributes",
    "Stragglers by attribute",
    45,
    build,
    needs=({"worker_samples": ("batch_time",)},),
    figures=("straggler-attributes",),
    part="Stragglers",
    question="Which host, stage or worker explains why a job is slow?",
)
