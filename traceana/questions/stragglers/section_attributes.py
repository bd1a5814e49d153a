"""Stragglers by attribute: which group of workers explains why a job is slow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Text,
    drawing,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.stragglers import analyze as workers
from traceana.questions.stragglers.tables import (
    AttributeGroups,
    AttributeResult,
    StragglerAttributes,
)
from traceana.store import Trace
from traceana.tables.formatting import plural, share

_COSTLY: Final = 0.01  # fraction of a job's time from which a group of workers is an alert
_BEYOND_CHANCE: Final = 0.05
_MAX_FILES: Final = 12
_MAX_ROWS: Final = 10
_EXPLAINED: Final = ("gain", "explained", "explained_by_chance", "explains")
_LEAD: Final = ("trace", "job_id", "attribute", "group", "n_workers", *_EXPLAINED)
_LIMITATIONS: Final = (
    "Gains hold if every step waits for its slowest worker. Which attribute is tested depends on "
    "what the trace names: without hosts or stages each worker is a group by itself."
)
_DEFINITIONS: Final = (
    "The workers of a job are grouped by each attribute that the data have (such as host, rack or "
    "pipeline stage); each worker is a group by itself. Time gained: the fraction of the job's "
    "time saved if the workers of a group took at most the median of the others in the same step, "
    "if every step waited for its slowest worker. Explained: the same, as a fraction of the time "
    "that the job takes above its median worker, of what lasts over blocks of steps (systematic); "
    "the rest is random variation, which no group explains. It may exceed 100 %. By chance: the "
    "most that the group explains in 20 shuffles of times between the workers of each step. An "
    "attribute explains the slowness if its slowest group explains at least 50 percentage points "
    "more than by chance; of several, the one with the smallest group is taken. p: permutation "
    "test of the variance between groups; it cannot be small with few workers."
)


def build(traces: Sequence[Trace]) -> Content:
    """The group that explains most of each job, and a figure of the job that gains most."""
    results = {trace: trace.once(workers.straggler_attributes) for trace in traces}
    results = {trace: result for trace, result in results.items() if result.attributes.height}
    if not results:
        return Content()
    findings = tuple(
        _finding(result.attributes.sort(*workers.JOB_ORDER), trace.label)
        for trace, result in results.items()
    )
    blocks = (block for trace, result in results.items() for block in _details(trace, result))
    lead = _lead(traces, results)
    return Content(findings, (Text(_DEFINITIONS), *blocks), lead, _LIMITATIONS)


def _details(trace: Trace, result: AttributeResult) -> tuple[Block, ...]:
    chance = pl.col("explained_by_chance").fill_null(0)
    lasting = pl.col("systematic").fill_null(1) >= _BEYOND_CHANCE  # else all is noise
    by_chance = result.attributes.filter(lasting).select("job_id", "attribute", chance=chance)
    groups = result.groups.join(by_chance, on=["job_id", "attribute"])
    beyond = pl.col("explained") - pl.col("chance") >= _BEYOND_CHANCE
    attributes, costly = (
        frame.sort(*workers.JOB_ORDER, maintain_order=True)
        for frame in (result.attributes, groups.filter(beyond).drop("chance"))
    )
    caption = (
        "Groups that explain at least 5 percentage points of the slowdown more than by chance. "
        f"{trace.label}"
    )
    caused = [result_table(costly, AttributeGroups, caption=caption, folded=True)]
    return (
        result_table(
            attributes, StragglerAttributes, caption=f"What explains slow jobs. {trace.label}"
        ),
        *(caused if costly.height else []),
    )


def _lead(traces: Sequence[Trace], results: dict[Trace, AttributeResult]) -> tuple[Block, ...]:
    """Return the group of each job that explains or gains most, and the first of them as figure."""
    order: dict[str, Any] = {"descending": True, "nulls_last": True, "maintain_order": True}
    best = pl.concat(
        result.attributes.drop_nulls("gain")
        .sort("explains", "gain", **order)
        .unique("job_id", keep="first", maintain_order=True)
        .with_columns(trace=pl.lit(trace.label), id=pl.lit(trace.id))
        for trace, result in results.items()
    ).sort("explains", "gain", **order)
    if best.is_empty():
        return ()
    job, trace_id = best.select("job_id", "id").row(0)
    pictures = [
        drawing
        for drawing in draw_more([trace for trace in traces if trace.id == trace_id])
        if drawing.result.attributes["job_id"][0] == job and drawing.result.attributes.height > 1
    ]
    shown: tuple[str, ...] = _LEAD if len(traces) > 1 else _LEAD[1:]
    headings = {"trace": "Trace"}
    if best["attribute"].unique().to_list() == ["worker"]:
        shown = tuple(name for name in shown if name not in ("attribute", "n_workers"))
        headings["group"] = "Worker"
    some = f", the first {_MAX_ROWS} of {best.height}" if best.height > _MAX_ROWS else ""
    table = result_table(
        best.head(_MAX_ROWS),
        StragglerAttributes,
        columns=shown,
        headings=headings,
        caption=f"{headings.get('group', 'Group')} that explains most of each job's slowdown, the "
        f"most time gained first{some}. {'; '.join(trace.label for trace in traces)}",
    )
    return (*([Gallery(tuple(pictures))] if pictures else []), table)


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the first jobs of each trace that have a gain."""
    pictures = []
    for trace in traces:
        result = trace.once(workers.straggler_attributes)
        jobs = result.attributes.drop_nulls("gain")["job_id"].unique(maintain_order=True)
        for job in jobs.head(_MAX_FILES):
            key, of_job = picture_key("straggler-attributes", trace, job), result.of_job(job)
            about = f"Time gained by attribute in {job}"
            pictures.append(drawing("straggler-attributes", of_job, trace, key, about))
    return pictures


def _finding(jobs: pl.DataFrame, name: str) -> str:
    table = jobs.filter("explains")
    number = jobs["job_id"].n_unique()
    if table.is_empty():
        clear = jobs.filter(pl.col("note").str.starts_with("its groups differ")).sort("pvalue")
        for row in clear.head(1).rows(named=True):
            heading = (
                f"{name}: {row['attribute']} {row['group']} of {row['job_id']} is slow and "
                f"explains {share(row['explained'])} of the slowdown"
            )
            text = (
                f"{heading} that lasts ({share(row['explained_by_chance'])} by chance); "
                f"{row['attribute']} groups differ (p = {row['pvalue']:.2g}; "
                f"n = {plural(row['n_steps'], 'step')}). The rest is due to other workers."
            )
            return Finding(text, heading=heading, cost_jobs=row["gain"])
        of = "the job" if number == 1 else f"any of {plural(number, 'job')}"
        heading = f"{name}: no single group of workers explains the slowness of {of}"
        return Finding(f"{heading}.", heading=heading, certainty="cannot tell")
    row, *others = table.head(3).rows(named=True)
    group, job = f"{row['attribute']} {row['group']}", row["job_id"]
    heading = f"{name}: {group} explains {share(row['explained'])} of the slowdown of {job}"
    parts = [f"{heading} ({_by_chance(row)})."]
    parts += [
        f"In {other['job_id']}, {other['attribute']} {other['group']} explains "
        f"{share(other['explained'])} ({_by_chance(other)})."
        for other in others
    ]
    if number > 1:
        of = f"{table.height} of {plural(number, 'job')}"
        parts.append(f"One group of workers explains the slowdown of {of}.")
    alert = ""
    if row["gain"] >= _COSTLY and row["attribute"] != "worker":
        alert = f"{name}: {group} costs {share(row['gain'])} of the time of {job}"
    return Finding(" ".join(parts), heading=heading, alert=alert, cost_jobs=row["gain"])


def _by_chance(row: dict[str, Any]) -> str:
    by_chance = share(row["explained_by_chance"])
    return f"{by_chance} by chance; n = {plural(row['n_steps'], 'step')}"


SECTION = Section(
    "straggler-attributes",
    "Stragglers by attribute",
    30,
    build,
    needs=({"worker_samples": ("batch_time",)},),
    unless=workers.PIPELINE,
    figures=("straggler-attributes",),
    more=draw_more,
    part="Stragglers",
    question="Which host, stage or worker explains why a job is slow?",
)
