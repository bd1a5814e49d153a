"""Runtimes by group: their ratios to the mean, imputations of missing ends, and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Final, NamedTuple

import polars as pl

from traceana.cohorts.cohort import (
    COHORT_NEEDS,
    MOST_NOT_ENDED,
    form_cohort,
    sample_note,
    task_title,
)
from traceana.cohorts.tables import CapacityCheck, MissingTimes, RuntimeRatioSummary
from traceana.cohorts.task_times import END_IMPUTATIONS
from traceana.errors import DataError
from traceana.page.blocks import (
    Block,
    Content,
    Gallery,
    Heading,
    Points,
    Text,
    captioned,
    drawing,
    join_parts,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.runtimes.ratio import (
    capacity,
    missing_times,
    predict_runtimes,
    ratio_tables,
    tables_with_runtimes,
)
from traceana.questions.runtimes.tables import RuntimePredictions
from traceana.store import Trace, distinct_traces
from traceana.tables.formatting import (
    count,
    fraction_range,
    hours,
    interval,
    plain,
    plural,
    share,
    three_digits,
)

_MAX_GROUPS: Final = 20
_LABEL: Final = 28  # characters of a line of a label in the figure
_DISTRIBUTION: Final = ("cov", "p05", "p25", "median", "p75", "p95", "p99")
_ALIKE: Final = 0.9
"""CoV within groups over that of all rows from which the grouping predicts little."""
_LIMITATIONS: Final = (
    "Means and CoV of heavy-tailed runtimes depend on few rows. In a group of n no ratio exceeds "
    "n, so small groups appear less dispersed than they are."
)
_OPENING: Final = (
    "A runtime ratio is a runtime divided by the mean runtime of its group. CoV is the coefficient "
    "of variation of the ratios (ddof 1): if it is not smaller within groups than over all rows, "
    "the grouping predicts runtimes poorly."
)


class _Cohort(NamedTuple):
    trace: Trace
    table: str
    title: str
    noun: str
    name: str
    groupings: pl.DataFrame
    groups: pl.DataFrame | None
    cut: str  # what the window cuts off; empty for nothing
    is_cut_much: bool  # so that no finding is drawn


def build(traces: Sequence[Trace]) -> Content:
    """Show the dispersion of runtimes around the mean of their group, for each trace."""
    blocks: list[Block] = [Text(_OPENING)]
    findings, complete = list[str](), list[_Cohort]()
    for trace in distinct_traces(traces):
        for table in tables_with_runtimes(trace):
            cohort = _form(trace, table)
            blocks += [Heading(cohort.name), *captioned(_details(cohort), cohort.title)]
            findings += [finding.of(cohort.title) for finding in _findings(cohort)]
            complete += [] if cohort.is_cut_much else [cohort]
    return Content(tuple(findings), tuple(blocks), tuple(_lead(complete)), _LIMITATIONS)


def _form(trace: Trace, table: str) -> _Cohort:
    noun = trace.manifest.tables[table].unit_noun
    title = trace.label if table == "recurring_jobs" else task_title(trace)
    cut, much = "", False
    seen = (formed := form_cohort(trace)).observation if table == "jobs" else None
    if seen and seen.n_truncated + seen.n_censored:
        cut = seen.describe(noun)
        is_cut = (pl.col("entry_s") > 0) | ~pl.col("observed")
        runtime = pl.col("duration_s")
        parts = formed.rows.select(runtime.filter(is_cut).sum(), total=runtime.sum()).row(0)
        much = parts[0] > MOST_NOT_ENDED * parts[1]
    tables = trace.once(ratio_tables, table)
    return _Cohort(trace, table, title, noun, f"{title}: {noun}", *tables, cut, much)


def _lead(cohorts: list[_Cohort], key: str = "runtime-ratio") -> list[Block]:
    """Draw the ratios of each trace without groups, and within its first grouping."""
    ungrouped = pl.when(grouping="none").then(pl.lit("not grouped"))
    by = ungrouped.otherwise(pl.format("by {}", "grouping"))
    parts = [
        cohort.groupings.head(2).select(
            pl.concat_str(pl.lit(f"{cohort.name}, "), by).alias("cohort"), "n", *_DISTRIBUTION
        )
        for cohort in cohorts
    ]
    if not parts:
        return []
    shown = pl.concat(parts).filter(pl.col("p95") > 0)
    if shown.is_empty():
        return []
    alone = len(cohorts) == 1  # the caption names the only trace
    labels = [  # a trace is named once
        name[name.rindex(", by ") + 2 :]
        if not name.endswith("not grouped")
        else (f"all {cohorts[0].noun}" if alone else fill(name, _LABEL))
        for name in shown["cohort"]
    ]
    shown = shown.with_columns(pl.Series("cohort", labels, pl.String))
    title = "; ".join(cohort.name for cohort in cohorts)
    about = "Runtime ratios over all rows, and within groups"
    picture = drawing("runtime-ratio", shown, trace=None, title=title, key=key, about=about)
    return [Gallery((picture,))]


def _details(cohort: _Cohort) -> list[Block]:
    notes, definitions = "", (*cohort.trace.manifest.tables[cohort.table].notes, cohort.cut)
    if cohort.table == "tasks":
        definitions = (cohort.cut,)
        notes = (
            "Task runtimes exclude instances without an end (`drop`); user and group are those of "
            f"the job.{sample_note(cohort.trace)} "
        )
    if cohort.cut:
        notes += (
            "A mean with truncated or censored rows is not estimable, so ratios describe the "
            f"listed rows only{', and no finding is drawn from them' * cohort.is_cut_much}."
        )
    what = f"Runtime ratios of {cohort.noun}"
    spread = result_table(
        cohort.groupings,
        RuntimeRatioSummary,
        columns=("grouping", "groups", "n", "n_excluded", *_DISTRIBUTION),
        headings={"grouping": "Grouped by", "n_excluded": "Excluded: alone or no group"},
        caption=f"{what} by grouping",
    )
    figure = _lead([cohort], f"runtime-ratio-{cohort.trace.id}") if cohort.is_cut_much else []
    return [Text(notes, definitions), *figure, spread, *_groups(cohort, what)]


def _groups(cohort: _Cohort, what: str) -> list[Block]:
    groups = cohort.groups
    if groups is None:
        return []
    (by, *_) = groups.columns
    what = f"{what} by {cohort.groupings['grouping'][1]}"
    if groups.height > _MAX_GROUPS:
        what += f", the {_MAX_GROUPS} largest of {groups.height:,} groups"
        groups = groups.sort("n", descending=True, maintain_order=True).head(_MAX_GROUPS)
    table = result_table(
        groups,
        RuntimeRatioSummary,
        columns=(by, "n", "mean_s", *_DISTRIBUTION, "n_missing"),
        caption=what,
    )
    # as published: ratios of recurring jobs by group
    if cohort.table != "recurring_jobs" or not groups["p95"].count():
        return [table]
    key = picture_key("runtime-ratio-recurring", cohort.trace)
    picture = drawing("runtime-ratio", groups, cohort.trace, key, what)
    return [table, Gallery((picture,))]


def _findings(cohort: _Cohort) -> list[Finding]:
    if cohort.is_cut_much:
        heading = f"mean runtimes are not estimable while {cohort.noun} still run"
        return [Finding(f"{heading}. {cohort.cut}", heading=heading, certainty="cannot tell")]
    overall, *grouped = cohort.groupings.rows(named=True)
    if overall["cov"] is None or not grouped or grouped[0]["cov"] is None:
        return []
    first = grouped[0]
    half = share(first["median"])
    told = f"Half of them ran for at most {half} of the mean of their group."
    heading = f"half of the {cohort.noun} run for at most {half} of their group's mean"
    finding = (
        f"the CoV of the runtimes of {cohort.noun} is {three_digits(first['cov'])} "
        f"within groups of equal {first['grouping']}, and {three_digits(overall['cov'])} overall "
        f"({plural(first['groups'], 'group')}, n = {first['n']:,}). {told}"
    )
    alike = first["cov"] >= _ALIKE * overall["cov"]
    return [Finding(finding, heading=heading, is_null=alike, is_description=True)]


SECTION = Section(
    "runtime-ratio",
    "Runtime ratios",
    20,
    build,
    needs=({"jobs": ("runtime_s",)}, COHORT_NEEDS[1], {"recurring_jobs": ("start_s", "end_s")}),
    figures=("runtime-ratio",),
    shares="cohort",
    part="Runtimes",
    question="How far does a runtime deviate from the mean of its group?",
)


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
_CHECKED: Final = (*_TIMES, "gpu_hours", "capacity_gpu_hours", "fraction_of_capacity")
_DEPENDS: Final = "depending on missing ends"
_TASKS_OPENING: Final = (
    "The runtime of a task is the last end of its instances minus their first start; instances "
    "without a start are excluded. GPU-hours are the GPUs that each instance requests times its "
    "time; the capacity is the GPUs of all machines over the time span of the trace. GPU-hours of "
    "a sample are multiplied by all tasks over those drawn."
)
_TASKS_LIMITATIONS: Final = (
    "An imputation with more GPU-hours than the capacity is wrong for the trace as a whole; one "
    "with fewer may still miss lost ends. Runtime ratios and runtimes by outcome use `drop`; "
    "competing risks use `running`."
)


def build_tasks(traces: Sequence[Trace]) -> Content:
    """Compare the imputations of missing ends, for each trace with tasks and instances."""
    points = tuple(f"`{name}`: {_IMPUTATIONS[name]}" for name in END_IMPUTATIONS)
    blocks: list[Block] = [Text(_TASKS_OPENING), Points("The imputations", points)]
    findings, lead = list[Finding](), list[Block]()
    for trace in traces:
        title, check = task_title(trace), trace.once(capacity)
        findings.append(_finding(check).of(title))
        caption = "GPU-hours requested under each imputation, and the capacity"
        checked = result_table(check, CapacityCheck, columns=_CHECKED, caption=caption)
        lead += captioned([checked], title)
        missing = result_table(
            trace.once(missing_times),
            MissingTimes,
            caption="Missing starts and ends of instances, by status of the task",
            null={"status": "missing"},
        )
        noun = trace.manifest.tables["tasks"].unit_noun
        blocks += [Heading(f"{title}: {noun}"), *map(Text, filter(None, [sample_note(trace)]))]
        blocks += captioned([missing], title)
    return Content(tuple(findings), tuple(blocks), lead=tuple(lead), limitations=_TASKS_LIMITATIONS)


def _finding(check: pl.DataFrame) -> Finding:
    of = {row["end_imputation"]: row for row in check.rows(named=True)}
    low, high = of["drop"], of["trace_end"]
    if low["fraction_of_capacity"] is None:
        ends = [hours(row["gpu_hours"]) for row in (low, high)]
        return Finding(
            f"tasks request {ends[0]} GPU-hours if instances without an end are excluded, "
            f"and {ends[1]} if they run to the end of the trace; the capacity is not known.",
            heading=f"tasks request {' to '.join(ends)} GPU-hours, {_DEPENDS}",
            certainty="cannot tell",
        )
    least, most = (share(row["fraction_of_capacity"]) for row in (low, high))
    heading = f"tasks request {least} to {most} of the capacity, {_DEPENDS}"
    if high["fraction_of_capacity"] > 1:
        most = f"{plain(round(high['fraction_of_capacity'], 1))} times these"
    text = (
        f"tasks request {least} of the GPU-hours of the {plain(low['machine_gpus'])} GPUs "
        "of all machines if instances without an end are excluded, and "
        f"{most} if they run to the end of the trace."
    )
    wrong = [name for name in END_IMPUTATIONS if of[name]["fraction_of_capacity"] > 1]
    text += f" Imputations that exceed the capacity: {', '.join(wrong)}." * bool(wrong)
    return Finding(text, heading=heading, certainty="cannot tell")


TASKS = Section(
    "task-runtimes",
    "Task runtimes",
    30,
    build_tasks,
    needs=({"tasks": ("status",), "instances": ("start_s", "end_s")},),
    shares="cohort",
    part="Runtimes",
    question="How much do runtimes and GPU-hours depend on ends that are missing?",
)


_PREDICTION_OPENING: Final = (
    "Jobs of the second half are predicted from what was known when they were submitted: the runs "
    "of the same user and job name that had ended. A job without one has the prediction of all: "
    "the quantile of the runtimes that had ended at the split. The score is the pinball loss; the "
    "skill is its reduction compared with the prediction of all. The quantile regression uses the "
    "runs of the same user and name, and the requested resources and time limit."
)
_PREDICTION_LIMITATIONS: Final = (
    "The mean loss is determined by long jobs. Jobs that still run are excluded, which makes "
    "predictions too short where many of them are long."
)
_COLUMNS: Final = ("submit_s", "end_s", "runtime_s", "user", "job_name")
_NAMED: Final = {
    "all": "quantile of all earlier jobs",
    "last": "last runtime of the same user and name",
    "mean": "mean of the same user and name",
    "quantile": "quantile of the same user and name",
    "model": "quantile regression",
}
_MOST: Final = 200_000  # latest jobs that are used
_NOTICED: Final = 0.1
"""Skill below which a prediction is no main result."""


def build_predictions(traces: Sequence[Trace]) -> Content:
    """Show the scores of each trace."""
    return join_parts(_PREDICTION_OPENING, ((trace.label, _trace(trace)) for trace in traces))


def score_predictions(trace: Trace) -> pl.DataFrame | None:
    """Score predictions on the latest jobs; None where there are too few."""
    sizes = [column for column in ("gpus", "cpus", "time_limit_s") if trace.has("jobs", (column,))]
    jobs = trace.scan("jobs").select(*_COLUMNS, *sizes)
    submitted = pl.col("submit_s")
    since = jobs.select(submitted.top_k(_MOST).min()).collect().item()  # all are not to be sorted
    late = jobs.filter(submitted >= since).collect()  # and those of the same second
    latest = late.sort(submitted, maintain_order=True).tail(_MOST)
    try:
        return predict_runtimes(latest, cluster=None if latest["user"].has_nulls() else "user")
    except DataError:
        return None


def _trace(trace: Trace) -> Content:
    result = trace.once(score_predictions)
    if result is None:
        return Content()
    medians = result.filter(quantile=0.5)
    names = _NAMED | {"quantile": "median of the same user and name"}
    better = medians.filter(pl.col("ci_low") > 0).sort("skill")
    if better.height:
        best = better.row(-1, named=True)
        article = "a" if best["predictor"] == "model" else "the"
        predictor, limits = names[best["predictor"]], interval(best, fraction_range)
        change = f"{article} {predictor} predicts runtimes {share(best['skill'])} better"
    else:
        change, limits = "earlier runs of the same user and name predict runtimes no better", ""
    heading = f"{change} than the median of all earlier jobs"
    if not (better.height or medians["with_history"].sum()):
        heading = "no later job has an earlier run of the same user and name"
    finding = Finding(
        f"{heading} (mean absolute error; {limits}n = {count(medians['n'][0])} later jobs).",
        heading=heading,
        is_null=better.is_empty() or better["skill"][-1] < _NOTICED,
    )
    table = result_table(
        result.with_columns(pl.col("predictor").replace(_NAMED)),
        RuntimePredictions,
        caption="Predicted runtimes of jobs; skill: reduction of the loss compared with the same "
        "quantile of all earlier jobs",
    )
    return Content((finding,), (), (table,), _PREDICTION_LIMITATIONS).of(trace.label)


PREDICTIONS = Section(
    "runtime-prediction",
    "Prediction of runtimes",
    110,
    build_predictions,
    needs=({"jobs": _COLUMNS},),
    part="Runtimes",
    question="How well do earlier runs of a job predict its runtime?",
)
