"""Runtimes relative to the mean of their group, for each grouping of each trace."""

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
from traceana.cohorts.tables import RuntimeRatioSummary
from traceana.page.blocks import (
    Block,
    Content,
    Gallery,
    Heading,
    Text,
    drawing,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.runtimes.ratio import RatioTables, ratio_tables, tables_with_runtimes
from traceana.store import Trace, distinct_traces
from traceana.tables.formatting import plural, share, three_digits

_MAX_GROUPS: Final = 20
_LABEL: Final = 28  # characters of a line of a label in the figure
_DISTRIBUTION: Final = ("cov", "p05", "p25", "median", "p75", "p95", "p99")
_LEAD: Final = ("cov", "p05", "median", "p95", "p99")
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
    found: RatioTables
    cut: str  # what the window cuts off; empty for nothing
    is_cut_much: bool  # so that no finding is drawn


def build(traces: Sequence[Trace]) -> Content:
    """Show the dispersion of runtimes around the mean of their group, for each trace."""
    blocks: list[Block] = [Text(_OPENING)]
    findings, complete = list[str](), list[_Cohort]()
    for trace in distinct_traces(traces):
        for table in tables_with_runtimes(trace):
            cohort = _form(trace, table)
            blocks += [Heading(cohort.name), *_details(cohort)]
            findings += _findings(cohort)
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
    found = trace.once(ratio_tables, table)
    return _Cohort(trace, table, title, noun, f"{title}: {noun}", found, cut, much)


def _lead(cohorts: list[_Cohort], key: str = "runtime-ratio") -> list[Block]:
    """Show the ratios of each trace without groups, and within its first grouping."""
    ungrouped = pl.when(grouping="none").then(pl.lit("not grouped"))
    by = ungrouped.otherwise(pl.format("by {}", "grouping"))
    parts = [
        cohort.found.groupings.head(2).select(
            pl.concat_str(pl.lit(f"{cohort.name}, "), by).alias("cohort"), "n", *_DISTRIBUTION
        )
        for cohort in cohorts
    ]
    if not parts:
        return []
    rows = pl.concat(parts)
    shown = rows.filter(pl.col("p95") > 0)
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
    table = result_table(
        rows,
        RuntimeRatioSummary,
        columns=("cohort", "n", *_LEAD),
        headings={"cohort": "Runtimes of"},
        caption=about,
    )
    return [*([Gallery((picture,))] if shown.height else []), table]


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
        cohort.found.groupings,
        RuntimeRatioSummary,
        columns=("grouping", "groups", "n", "n_excluded", *_DISTRIBUTION),
        headings={"grouping": "Grouped by", "n_excluded": "Excluded: alone or no group"},
        caption=f"{what} by grouping. {cohort.title}",
    )
    figure = _lead([cohort], f"runtime-ratio-{cohort.trace.id}")[:-1] if cohort.is_cut_much else []
    return [Text(notes, definitions), *figure, spread, *_groups(cohort, what)]


def _groups(cohort: _Cohort, what: str) -> list[Block]:
    groups = cohort.found.groups
    if groups is None:
        return []
    (by, *_) = groups.columns
    what = f"{what} by {cohort.found.groupings['grouping'][1]}"
    if groups.height > _MAX_GROUPS:
        what += f", the {_MAX_GROUPS} largest of {groups.height:,} groups"
        groups = groups.sort("n", descending=True, maintain_order=True).head(_MAX_GROUPS)
    table = result_table(
        groups,
        RuntimeRatioSummary,
        columns=(by, "n", "mean_s", *_DISTRIBUTION, "n_missing"),
        null={by: "not stated"},
        caption=f"{what}. {cohort.title}",
    )
    # as published: ratios of recurring jobs by group
    if cohort.table != "recurring_jobs" or not groups["p95"].count():
        return [table]
    key = picture_key("runtime-ratio-recurring", cohort.trace)
    picture = drawing("runtime-ratio", groups, cohort.trace, key, what, title=cohort.title)
    return [table, Gallery((picture,))]


def _findings(cohort: _Cohort) -> list[str]:
    """Compare the CoV within the first grouping to that over all rows."""
    if cohort.is_cut_much:
        heading = f"{cohort.title}: mean runtimes are not estimable while {cohort.noun} still run"
        return [Finding(f"{heading}. {cohort.cut}", heading=heading, certainty="cannot tell")]
    overall, *grouped = cohort.found.groupings.rows(named=True)
    if overall["cov"] is None or not grouped or grouped[0]["cov"] is None:
        return []
    first = grouped[0]
    half = share(first["median"])
    finding = (
        f"{cohort.title}: the CoV of the runtimes of {cohort.noun} is {three_digits(first['cov'])} "
        f"within groups of equal {first['grouping']}, and {three_digits(overall['cov'])} overall "
        f"({plural(first['groups'], 'group')}, n = {first['n']:,}). Half of them ran for less than "
        f"{half} of the mean of their group."
    )
    heading = f"{cohort.title}: half of the {cohort.noun} run below {half} of their group's mean"
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
