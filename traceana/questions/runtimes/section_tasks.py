"""Task runtimes under each imputation of missing ends, compared with the cluster's capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from traceana.cohorts.cohort import task_title
from traceana.cohorts.tables import CapacityCheck, MissingTimes
from traceana.cohorts.task_times import END_IMPUTATIONS
from traceana.cohorts.tasks import sample_jobs
from traceana.page.blocks import Block, Content, Heading, Points, Table, Text, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.runtimes.ratio import capacity, means_by_outcome, missing_times
from traceana.store import Trace
from traceana.tables.formatting import duration, hours, plain, share, three_digits

_IMPUTATIONS: Final = {
    "drop_task": "a task has no runtime if any of its instances lacks a start or an end.",
    "drop": "instances without a start or an end are excluded.",
    "task": "a missing end is the end of the task, unless that is before the start of an instance "
    "without an end.",
    "running": "a missing end is the end of the trace if the last status of the task is running; "
    "other instances without an end are excluded.",
    "trace_end": "a missing end is the end of the trace.",
}
_TIMES: Final = ("end_imputation", "tasks_with_runtime", "mean_s", "median_s", "instances_used")
_COLUMNS: Final = (*_TIMES, "gpu_hours", "capacity_gpu_hours", "fraction_of_capacity")
_DEPENDS: Final = "depending on missing ends"
_OPENING: Final = (
    "The runtime of a task is the last end of its instances minus their first start; instances "
    "without a start are excluded. GPU-hours are the GPUs that each instance requests times its "
    "time; the capacity is the GPUs of all machines over the time span of the trace."
)
_LIMITATIONS: Final = (
    "An imputation with more GPU-hours than the capacity is wrong for the trace as a whole; one "
    "with fewer may still miss lost ends. Runtime ratios and runtimes by outcome use `drop`; "
    "competing risks use `running`."
)


def build(traces: Sequence[Trace]) -> Content:
    """Compare the imputations of missing ends, for each trace with tasks and instances."""
    points = tuple(f"`{name}`: {_IMPUTATIONS[name]}" for name in END_IMPUTATIONS)
    blocks: list[Block] = [Text(_OPENING), Points("The imputations", points)]
    findings, lead = list[Finding](), list[Block]()
    for trace in traces:
        title, tasks = task_title(trace), trace.manifest.tables["tasks"]
        check, error = trace.once(capacity)
        findings.append(_finding(check, title))
        caption = f"GPU-hours requested under each imputation, and the capacity. {title}"
        lead.append(result_table(check, CapacityCheck, columns=_COLUMNS, caption=caption))
        means = trace.once(means_by_outcome, next(iter(tasks.groups), None))
        blocks += [
            Heading(f"{title}: {tasks.unit_noun}"),
            *_sample_text(trace, error),
            _means_table(means, title),
            result_table(
                trace.once(missing_times),
                MissingTimes,
                caption=f"Missing starts and ends of instances, by status of the task. {title}",
                null={"status": "missing"},
            ),
        ]
    return Content(tuple(findings), tuple(blocks), lead=tuple(lead), limitations=_LIMITATIONS)


def _sample_text(trace: Trace, error: float | None) -> list[Text]:
    sample = trace.once(sample_jobs)
    if sample is None:
        return []
    text = (
        f"All results are from a sample: {sample.description}. Its GPU-hours are multiplied by "
        f"{three_digits(1 / sample.fraction)}, all tasks over those drawn."
    )
    if error:
        text += (
            f" Their 95 % margin of error is at most {share(1.96 * error)}, as estimated from the "
            "sample; it may contain too few of the rare very large jobs."
        )
    return [Text(text)]


def _means_table(means: pl.DataFrame, title: str) -> Table:
    keys = [name for name in means.columns if " " not in name]
    cells = []
    for name in END_IMPUTATIONS:
        rows = means.select(f"mean {name}", f"n {name}").rows()
        texts = [None if mean is None else f"{duration(mean)} ({n:,})" for mean, n in rows]
        cells.append(pl.Series(name, texts, dtype=pl.String))
    return result_table(
        means.select(keys).with_columns(cells),
        caption="Mean runtime and number of tasks, by imputation; success is completed, "
        f"failure is defined as for the trace. {title}",
        headings={name: f"`{name}`" for name in END_IMPUTATIONS},
        null=dict.fromkeys(keys, "not stated"),
    )


def _finding(check: pl.DataFrame, title: str) -> Finding:
    of = {row["end_imputation"]: row for row in check.rows(named=True)}
    low, high = of["drop"], of["trace_end"]
    if low["fraction_of_capacity"] is None:
        ends = [hours(row["gpu_hours"]) for row in (low, high)]
        return Finding(
            f"{title}: tasks request {ends[0]} GPU-hours if instances without an end are excluded, "
            f"and {ends[1]} if they run to the end of the trace; the capacity is not known.",
            heading=f"{title}: tasks request {' to '.join(ends)} GPU-hours, {_DEPENDS}",
            certainty="cannot tell",
        )
    least, most = (share(row["fraction_of_capacity"]) for row in (low, high))
    heading = f"{title}: tasks request {least} to {most} of the capacity, {_DEPENDS}"
    if high["fraction_of_capacity"] > 1:
        most = f"{plain(round(high['fraction_of_capacity'], 1))} times these"
    text = (
        f"{title}: tasks request {least} of the GPU-hours of the {plain(low['machine_gpus'])} GPUs "
        "of all machines if instances without an end are excluded, and "
        f"{most} if they run to the end of the trace."
    )
    wrong = [name for name in END_IMPUTATIONS if of[name]["fraction_of_capacity"] > 1]
    text += f" Imputations that exceed the capacity: {', '.join(wrong)}." * bool(wrong)
    return Finding(text, heading=heading, certainty="cannot tell")


SECTION = Section(
    "task-runtimes",
    "Task runtimes",
    30,
    build,
    needs=({"tasks": ("status",), "instances": ("start_s", "end_s")},),
    shares="cohort",
    part="Runtimes",
    question="How much do runtimes and GPU-hours depend on ends that are missing?",
)
