"""Runtimes relative to the mean of their like: what a grouping explains, and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis import runtime_ratio, summarize_runtime_ratio
from traceana.derived.tasks import task_owners, task_times
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Gallery,
    Heading,
    Table,
    Text,
    drawing,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.populations import PAI, pai_name, pai_sampled
from traceana.results.formatting import count, plural, seconds, share, three_digits

if TYPE_CHECKING:
    from traceana.report.context import Context

_SPREAD = [
    Column("CoV", "cov", three_digits),
    Column("5 %", "p05", three_digits),
    Column("25 %", "p25", three_digits),
    Column("Median", "median", three_digits),
    Column("75 %", "p75", three_digits),
    Column("95 %", "p95", three_digits),
    Column("99 %", "p99", three_digits),
    Column("Largest", "max", three_digits),
]


@dataclass(frozen=True)
class _Question:
    """Ratios of one trace's runtimes: the first grouping is shown group by group."""

    trace: str
    tables: tuple[str, ...]
    things: str
    groupings: tuple[tuple[str, tuple[str, ...]], ...]
    note: str = ""


_QUESTIONS = (
    _Question(
        PAI,
        ("tasks", "instances", "jobs", "job_tags"),
        "tasks",
        (
            ("GPU type", ("gpu_type",)),
            ("user", ("user",)),
            ("group of recurring jobs", ("group",)),
            ("group and status", ("group", "status")),
        ),
        "A task's runtime is that of its instances, those without an end left out (`drop`); user "
        "and group are its job's.",
    ),
    _Question(
        "zeus-2023",
        ("recurring_jobs",),
        "recurring jobs",
        (("data set", ("dataset",)), ("group", ("group",))),
        "Jobs of recurring groups, each with the data set whose workload stands for its group. "
        "The publisher's ratio is over the mean of all jobs with the data set.",
    ),
    _Question(
        "alibaba-openb-2023",
        ("jobs",),
        "pods",
        (
            ("QoS class", ("qos",)),
            ("status", ("status",)),
            ("QoS class, status and GPUs", ("qos", "status", "gpus")),
        ),
        "A pod that was still running at its last record counts with the time until it was "
        "removed. openb names neither users nor groups.",
    ),
    _Question(
        "microsoft-itp-2021",
        ("jobs",),
        "jobs",
        (("cluster", ("cluster",)), ("cluster and GPUs", ("cluster", "gpus"))),
        "Short jobs are missing from the trace, so that ratios lie closer together than they were.",
    ),
)


def build(session: Context) -> Content:
    """Show how far runtimes lie from the mean of their group."""
    findings: list[str] = []
    headlines: list[str] = []
    blocks: list[Block] = [
        Text(
            "A runtime ratio is a runtime over the mean runtime of its group: it averages 1 in "
            "every group, so that what remains is the spread among alike. CoV is the standard "
            "deviation (ddof 1) of these ratios. Where the spread within groups is near that over "
            "all, the grouping says little of how long a job will run. In a group of n no ratio is "
            "above n, so that small groups look narrower than they are."
        )
    ]
    for question in _QUESTIONS:
        name = session.title(question.trace)
        blocks.append(Heading(f"{name}: {question.things}"))
        absent = [table for table in question.tables if not session.has(question.trace, table)]
        if absent:
            what = f"Runtime ratios of {question.things}"
            blocks.append(session.absent(question.trace, absent[0], what=what))
            continue
        content = _answer(session, question, name)
        findings += content.findings
        headlines += [content.headline] if content.headline else []
        blocks += content.blocks
    return Content(tuple(findings), tuple(blocks), " ".join(headlines))


def _answer(session: Context, question: _Question, name: str) -> Content:
    note = question.note
    if question.trace == PAI:
        name, note = pai_name(session), note + pai_sampled(session)
    rows = _rows(session, question)
    (heading, by), *_ = question.groupings
    groups = summarize_runtime_ratio(rows, by=by)
    if not groups["n"].sum():
        return Content((), (Text("No runtime is known."),))
    within = _within(rows, question)
    blocks: list[Block] = [
        Text(note),
        _within_table(within, f"Spread of runtime ratios of {question.things} by grouping. {name}"),
        make_table(
            groups,
            [
                words(heading.capitalize() if heading.islower() else heading, by[0]),
                Column("Runtimes", "n", count),
                Column("Mean (s)", "mean_s", seconds),
                *_SPREAD,
                Column("Without runtime", "n_missing", count),
            ],
            caption=f"Runtime ratios of {question.things} by {heading}. {name}",
        ),
    ]
    if groups["p95"].count():
        picture = drawing(
            "runtime-ratio",
            groups,
            trace=question.trace,
            title=name,
            key=f"runtime-ratio-{question.trace}",
            about=f"Runtime of {question.things} over the mean by {heading}",
        )
        blocks.append(Gallery((picture,)))
    findings, headline = _findings(within, question, name)
    return Content(findings, tuple(blocks), headline)


def _rows(session: Context, question: _Question) -> pl.DataFrame:
    """Return the runtimes with all that they are grouped by."""
    columns = {name for _, by in question.groupings for name in by}
    if "recurring_jobs" in question.tables:
        runtime = pl.col("end_s") - pl.col("start_s")
        rows = session.scan(question.trace, "recurring_jobs")
        return rows.select(*sorted(columns), runtime_s=runtime).collect()
    if "tasks" not in question.tables:
        jobs = session.scan(question.trace, "jobs")
        return jobs.select("runtime_s", *sorted(columns)).collect()
    tasks = task_times(session, PAI).hstack(session.once(task_owners, PAI))
    return tasks.select("runtime_s", *sorted(columns))


def _within(rows: pl.DataFrame, question: _Question) -> pl.DataFrame:
    """Return the spread of ratios over all groups together: over everything, and by grouping."""
    known = rows.filter(pl.col("runtime_s").is_not_null())
    tables = []
    for heading, by in (("none: all together", ()), *question.groupings):
        stated = known.drop_nulls(by) if by else known
        several = stated.filter(pl.len().over(by) > 1) if by else stated
        ratios = runtime_ratio(several, by=by).select("runtime_ratio")
        groups = several.select(by).n_unique() if by else 1
        tables.append(
            summarize_runtime_ratio(ratios, by=(), runtime="runtime_ratio").select(
                pl.lit(heading).alias("grouping"),
                pl.lit(groups).alias("groups"),
                pl.lit(known.height - several.height).alias("left_out"),
                pl.all(),
            )
        )
    return pl.concat(tables)


def _within_table(within: pl.DataFrame, caption: str) -> Table:
    return make_table(
        within,
        [
            words("Grouped by", "grouping"),
            Column("Groups", "groups", count),
            Column("Runtimes", "n", count),
            Column("Left out: alone or not stated", "left_out", count),
            *_SPREAD,
        ],
        caption=caption,
    )


def _findings(within: pl.DataFrame, question: _Question, name: str) -> tuple[tuple[str, ...], str]:
    overall, *grouped = within.rows(named=True)
    spread = [row for row in grouped if row["cov"] is not None]
    if overall["cov"] is None or not spread:
        return (), ""
    finest = min(spread, key=lambda row: row["cov"])
    told = (
        f"{name}: runtimes of {question.things} have a CoV of {three_digits(overall['cov'])} over "
        f"all, and of {three_digits(finest['cov'])} around the mean of their {finest['grouping']} "
        f"({plural(finest['groups'], 'group')}, n = {finest['n']:,}); half of them ran less than "
        f"{three_digits(finest['median'])} times that mean."
    )
    headline = (
        f"{name}: half of the {question.things} ran for less than {share(finest['median'])} of the "
        f"mean of their {finest['grouping']}."
    )
    return (told,), headline


SECTION = Section(
    "runtime-ratio", "Runtime ratios", 120, build, figures=("runtime-ratio",), of_tasks=True
)
