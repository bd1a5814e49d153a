"""Section on the workload of each trace: jobs, GPU-hours, runtimes, sizes, and their timing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.derived.cohorts import sample_note, task_title
from traceana.derived.jobs_of_tasks import from_tasks
from traceana.derived.workload import describe_workload
from traceana.report.blocks import Block, Content, Heading, Table, Text
from traceana.report.section import Section
from traceana.report.sections.workload_shape import draw_shape
from traceana.report.sections.workload_spread import build_spread, split_table
from traceana.results.display import key_heading
from traceana.results.formatting import days, hours, in_sentence, plural, seconds
from traceana.results.workload import QueueingDelay, WorkloadSummary

if TYPE_CHECKING:
    from traceana.derived.workload import Workload
    from traceana.report.context import Context

_QUEUEING = (
    *("jobs", "n", "n_no_start", "share_zero", "mean_s", "median_s", "p90_s", "p99_s", "max_s"),
)
_FROM_TASKS = (
    "A job starts with the first start of its tasks; a start before the submission is missing. Its "
    "runtime is from the first start to the last end of its instances, of which those without a "
    "start or an end are excluded (`drop`, see task runtimes). Its GPUs are those that its "
    "instances hold, averaged over its runtime: their product is the GPU-hours of its instances. "
    "Its GPU type is that of its first task with one."
)


def build(session: Context, traces: list[str]) -> Content:
    """Summarize the jobs of each trace; a trace that repeats another one is folded."""
    findings: list[str] = []
    headlines: list[str] = []
    blocks: list[Block] = [
        Text(
            "GPU-hours are summed over jobs whose GPUs and runtime are both known; the other jobs "
            "are counted. GPU-hours are not summed over traces. Percentages are quantiles."
        )
    ]
    for trace in traces:
        manifest, of_tasks = session.manifest(trace), from_tasks(session, trace)
        title = task_title(session, trace) if of_tasks else session.title(trace)
        table = manifest.tables["jobs"]
        found = session.once(describe_workload, trace)
        repeated = manifest.repeats in traces
        again = f"This trace repeats the jobs of {session.title(manifest.repeats)}."
        notes = table.notes or ((again,) if repeated else ())
        if of_tasks:
            notes += (_FROM_TASKS + sample_note(session, trace),)
        blocks += [
            Heading(title),
            *([Text(" ".join(notes))] if notes else []),
            *([Text(found.observation.describe(table.unit_noun))] if found.observation else []),
            _summary(found, title, folded=repeated),
        ]
        if repeated:
            continue
        spread = build_spread(found, title)
        findings += [_finding(title, found), *spread.findings]
        headlines += [spread.headline] if spread.headline else []
        blocks += [
            *([Text(_survivors(session, trace, found))] if found.survivors else []),
            *spread.blocks,
            *draw_shape(session, trace, found),
            _queueing(found, title),
        ]
    headline = (
        f"Of the GPU-hours of the listed jobs, the largest 1 % of jobs use {'; '.join(headlines)}."
    )
    limitations = (
        "Concentration describes the listed jobs: a few very long jobs decide it, and in a longer "
        "window it would be larger. Jobs that started before the window, or ended after it, count "
        "with the runtime that is known."
    )
    return Content(
        tuple(findings), tuple(blocks), headline if headlines else "", limitations=limitations
    )


def _summary(found: Workload, title: str, *, folded: bool) -> Table:
    what = f"Workload by {in_sentence(key_heading(found.by))}" if found.by else "Workload"
    return split_table(
        found.summary, WorkloadSummary, by=found.by, caption=f"{what}. {title}", folded=folded
    )


def _survivors(session: Context, trace: str, found: Workload) -> str:
    manifest, jobs = session.manifest(trace), found.summary.total
    noun = manifest.tables["jobs"].unit_noun
    begin = jobs["first_submit_s"].item() if manifest.absolute_times else 0
    return (
        f"{found.survivors:,} of {jobs['jobs'].item():,} {noun} were submitted before the first "
        f"recorded end (day {days(found.first_end_s - begin)}). The trace lists them because they "
        "still existed then (survivorship bias), and until then demand is that of survivors only. "
        f"Arrivals by hour and weekday exclude these {noun}."
    )


def _queueing(found: Workload, title: str) -> Block:
    if found.queueing is None:
        return Text("The jobs table has no start times, so the queueing delay is not known.")
    caption = "Queueing delay: time from submission to start, of the jobs that started"
    return split_table(
        found.queueing,
        QueueingDelay,
        by=found.by,
        caption=f"{caption}. {title}",
        columns=_QUEUEING,
    )


def _finding(title: str, found: Workload) -> str:
    total = found.summary.total.row(0, named=True)
    jobs = plural(int(total["jobs"] or 0), "job")
    if total["gpu_hours"] is None or total["runtime_s_median"] is None:
        return f"{title}: {jobs}; the jobs table has no GPU-hours."
    without = int(total["jobs_without_gpu_hours"] or 0)
    but = f" ({plural(without, 'job')} without GPUs or runtime excluded)" if without else ""
    mean = f"mean {seconds(total['runtime_s_mean'] or 0)} s"
    if found.observation is not None and found.observation.n_unlisted is not None:
        mean += " of the listed jobs, a lower bound (runtimes are right-truncated)"
    if total["runtime_s_mean"] is None:
        restricted = total.get("runtime_s_restricted_mean")
        mean = "the mean is not estimable (jobs are left-truncated or censored)"
        if restricted is not None:
            mean = f"mean restricted to 7 days {seconds(restricted)} s; {mean}"
    return (
        f"{title}: {jobs}, {hours(total['gpu_hours'])} GPU-hours{but}; median runtime "
        f"{seconds(total['runtime_s_median'])} s, {mean}."
    )


SECTION = Section(
    "workload",
    "Workload",
    50,
    build,
    needs=({"jobs": ()},),
    figures=("arrivals", "interarrivals", "gpu-demand", "concentration", "empirical-distribution"),
    of_tasks=True,
    part="Workload",
    question="When are jobs submitted, what do they request, and who uses the GPUs?",
)
