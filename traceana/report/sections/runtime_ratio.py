"""Runtimes relative to the mean of their group, for each grouping of each trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.derived.cohorts import COHORT_NEEDS, form_cohort, sample_note, task_title
from traceana.derived.runtime_groups import ratio_tables, tables_with_runtimes
from traceana.report.blocks import Block, Content, Gallery, Text, drawing, join_parts, result_table
from traceana.report.section import Section
from traceana.results.formatting import plural, share, three_digits
from traceana.results.runtimes import RuntimeRatioSummary

if TYPE_CHECKING:
    import polars as pl

    from traceana.report.context import Context

_MAX_GROUPS: Final = 20
_DISTRIBUTION: Final = ("cov", "p05", "p25", "median", "p75", "p95", "p99", "max")
_LIMITATIONS: Final = (
    "Means and CoV of heavy-tailed runtimes rest on few rows. In a group of n no ratio exceeds n, "
    "so small groups appear less dispersed than they are."
)
_OPENING: Final = (
    "A runtime ratio is a runtime divided by the mean runtime of its group, so that the mean ratio "
    "of every group is 1. CoV is the coefficient of variation of the ratios: their standard "
    "deviation (ddof 1). If the CoV within groups is close to that over all rows, the grouping "
    "says little about how long a job will run."
)


def build(session: Context, traces: list[str]) -> Content:
    """Show the dispersion of runtimes around the mean of their group, for each trace."""
    parts = (
        _table(session, trace, table)
        for trace in traces
        if session.manifest(trace).repeats not in traces
        for table in tables_with_runtimes(session, trace)
    )
    return join_parts(_OPENING, parts)


def _table(session: Context, trace: str, table: str) -> tuple[str, Content]:
    manifest = session.manifest(trace).tables[table]
    title, noun, notes = session.title(trace), manifest.unit_noun, " ".join(manifest.notes)
    if table == "tasks":
        title = task_title(session, trace)
        notes = (
            "Task runtimes exclude instances without an end (`drop`); user and group are those of "
            f"the job.{sample_note(session, trace)}"
        )
    found = session.once(ratio_tables, trace, table)
    groupings, groups = found.groupings, found.groups
    blocks: list[Block] = [
        *((Text(notes),) if notes else ()),
        result_table(
            groupings,
            RuntimeRatioSummary,
            columns=("grouping", "groups", "n", "n_excluded", *_DISTRIBUTION),
            headings={"grouping": "Grouped by", "n_excluded": "Excluded: alone or no group"},
            caption=f"Runtime ratios of {noun} by grouping. {title}",
        ),
    ]
    if groups is not None:
        what = f"Runtime ratios of {noun} by {groupings['grouping'][1]}"
        key = f"runtime-ratio-{'recurring-' * (table == 'recurring_jobs')}{trace}"
        blocks += _groups(groups, what, trace=trace, title=title, key=key)
    seen = form_cohort(session, trace).observation if table == "jobs" else None
    if seen is not None and seen.n_truncated + seen.n_censored:
        blocks.insert(
            0,
            Text(
                f"{seen.describe(noun)} A mean with such rows is not estimable, so ratios to the "
                f"mean describe the listed {noun} only, and no finding is drawn from them."
            ),
        )
        return f"{title}: {noun}", Content((), tuple(blocks), limitations=_LIMITATIONS)
    findings, headline = _findings(groupings, noun, title)
    return f"{title}: {noun}", Content(findings, tuple(blocks), headline, limitations=_LIMITATIONS)


def _groups(groups: pl.DataFrame, what: str, *, trace: str, title: str, key: str) -> list[Block]:
    (by, *_) = groups.columns
    shown, largest = groups, ""
    if groups.height > _MAX_GROUPS:
        shown = groups.sort("n", descending=True, maintain_order=True).head(_MAX_GROUPS)
        largest = f", the {_MAX_GROUPS} largest of {groups.height:,} groups"
    what += largest
    blocks: list[Block] = [
        result_table(
            shown,
            RuntimeRatioSummary,
            columns=(by, "n", "mean_s", *_DISTRIBUTION, "n_missing"),
            null={by: "not stated"},
            caption=f"{what}. {title}",
        )
    ]
    if shown["p95"].count():
        blocks.append(
            Gallery(
                (drawing("runtime-ratio", shown, trace=trace, title=title, key=key, about=what),)
            )
        )
    return blocks


def _findings(groupings: pl.DataFrame, noun: str, title: str) -> tuple[tuple[str, ...], str]:
    overall, *grouped = groupings.rows(named=True)
    known = [row for row in grouped if row["cov"] is not None]
    if overall["cov"] is None or not known:
        return (), ""
    finest = min(known, key=lambda row: row["cov"])
    finding = (
        f"{title}: the CoV of the runtimes of {noun} is {three_digits(finest['cov'])} within "
        f"groups of equal {finest['grouping']}, and {three_digits(overall['cov'])} over all "
        f"({plural(finest['groups'], 'group')}, n = {finest['n']:,}). Half of them ran less than "
        f"{three_digits(finest['median'])} times the mean of their group."
    )
    headline = (
        f"{title}: half of the {noun} ran for less than {share(finest['median'])} of the mean "
        f"runtime of their {finest['grouping']}."
    )
    return (finding,), headline


SECTION = Section(
    "runtime-ratio",
    "Runtime ratios",
    120,
    build,
    needs=(
        {"jobs": ("runtime_s",)},
        COHORT_NEEDS[1],
        {"recurring_jobs": ("start_s", "end_s")},
    ),
    figures=("runtime-ratio",),
    of_tasks=True,
    part="Runtimes",
    question="How far does a runtime deviate from the mean of its group?",
)
