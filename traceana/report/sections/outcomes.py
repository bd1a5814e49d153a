"""Runtimes and outcomes by GPU type, or by the groups that a trace has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived.cohorts import COHORT_NEEDS
from traceana.derived.outcomes import (
    COMPARED,
    Outcomes,
    analyze_outcomes,
    variance_between_units,
)
from traceana.report.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Text,
    drawing,
    result_table,
)
from traceana.report.per_cohort import build_per_cohort
from traceana.report.section import Section
from traceana.report.sections.outcome_tests import details, findings_of, tests_table
from traceana.results.competing_risks import SurvivalGroups
from traceana.results.display import key_heading
from traceana.results.formatting import in_sentence, ratio, ratio_range
from traceana.results.outcomes import FailureRates

if TYPE_CHECKING:
    from traceana.derived.cohorts import Cohort
    from traceana.report.context import Context

_OPENING: Final = (
    "Failure rate: rows of status failed among the rows that ended (completed, failed, cancelled). "
    "Running, pending and unknown rows are excluded and counted. Runtime: median and mean "
    "restricted to 7 days, the mean of min(runtime, 7 days), by the Kaplan-Meier estimator with "
    "delayed entry and censoring. Unrestricted means are not shown, because runtimes are "
    "heavy-tailed. All tests of a trace are one family, adjusted by Holm's method. The groups "
    "named in a finding are those with the most rows."
)
_LIMITATIONS: Final = (
    "Jobs are not assigned to groups at random, so a difference has no single cause. Intervals of "
    "restricted means are too narrow where the note says so."
)
_SHOWN: Final = (
    *("completed", "failed", "cancelled", "running", "pending", "unknown", "n_missing"),
    *("n", "rate", "ci_low", "ci_high", "n_clusters", "note"),
)


def build(session: Context, traces: list[str]) -> Content:
    """Build runtime by group and status, and outcomes by group, for each cohort."""
    return build_per_cohort(
        session, traces, lambda cohort: _build(session, cohort), opening=_OPENING
    )


def _build(session: Context, cohort: Cohort) -> Content:
    groupings, tests, notes = session.once(analyze_outcomes, cohort.trace)
    findings: list[str] = []
    blocks: list[Block] = [Text(f"{cohort.about} {cohort.independence}")]
    if tests.height:
        blocks.append(tests_table(cohort, tests))
    blocks += _between_units(session, cohort)
    blocks += [Text(note) for note in notes]
    for found in groupings:
        blocks += _group(cohort, found)
        if found.strata is None:  # a confounded difference is no finding
            findings += findings_of(cohort, found, tests)
    return Content(tuple(findings), tuple(blocks), limitations=_LIMITATIONS)


def _between_units(session: Context, cohort: Cohort) -> list[Block]:
    found = session.once(variance_between_units, cohort.trace)
    parts = []
    for what, share in found.items():
        if not math.isnan(share.share):
            interval = "no interval"
            if not math.isnan(share.ci_low):
                interval = f"95 % CI {ratio_range(share.ci_low, share.ci_high)}"
            parts.append(
                f"{what} {ratio(share.share)} ({interval}; n = {share.n:,}, {share.n_clusters:,} "
                f"values of `{cohort.cluster}`)"
            )
    if not parts:
        return []
    text = (
        f"Fraction of the variance between values of `{cohort.cluster}` (intraclass correlation): "
        f"{'; '.join(parts)}. The interval is too narrow if a few of them have most rows."
    )
    return [Text(text)]


def _group(cohort: Cohort, found: Outcomes) -> tuple[Block, ...]:
    by = found.by
    group = f"by {in_sentence(key_heading(by))}" if by else "overall"
    what, null = f"{cohort.noun} {group}", {by: "not stated"} if by else {}
    rates = result_table(
        found.rates,
        FailureRates,
        columns=[name for name in (by, *_SHOWN) if name in found.rates.columns],
        headings={"n": "Ended"},
        caption=f"Failure rate of {what}: failed among ended. {cohort.title}",
        null=null,
    )
    runtimes = result_table(
        found.runtimes.groups.drop("n_events", "last_s"),
        SurvivalGroups,
        headings={
            "n": "Runtimes",
            "n_excluded": "Without runtime",
            "restricted_mean_s": "7-day restricted mean (s)",
        },
        caption=f"Runtime of {what} and status. {cohort.title}",
        null=null,
    )
    gallery = Gallery(tuple(_figures(cohort, found)))
    return (Heading(f"{cohort.noun.capitalize()} {group}"), rates, runtimes,
            *details(cohort, found), gallery)  # fmt: skip


def _figures(cohort: Cohort, found: Outcomes) -> list[Drawing]:
    by = found.by
    key = f"{cohort.trace}-{by or 'status'}"
    what = f"{cohort.noun} by {in_sentence(key_heading(by or 'status'))}"

    def draw(figure: str, result: pl.DataFrame, name: str, about: str) -> Drawing:
        return drawing(
            figure, result, trace=cohort.trace, title=cohort.title, key=f"{name}-{key}", about=about
        )

    known = found.runtimes.groups.filter(pl.col("n") > 0)
    if by is None:
        return [draw("runtime-by", known, "runtime", f"Runtime of {what}")]
    figures = [
        draw("runtime-by", own.drop("status"), f"runtime-{status}", f"Runtime of {status} {what}")
        for status in COMPARED
        if not (own := known.filter(status=status)).is_empty()
    ]
    ended = found.rates.filter(pl.col("n") > 0)
    if not ended.is_empty():
        figures.append(draw("outcome-rates", ended, "rates", f"Failure rate of {what}"))
    return figures


SECTION = Section(
    "outcomes",
    "Runtime and outcomes",
    70,
    build,
    needs=COHORT_NEEDS,
    figures=("runtime-by", "outcome-rates"),
    of_tasks=True,
    part="Failures",
    question="Which groups fail most, and which run longest?",
)
