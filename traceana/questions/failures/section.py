"""Runtimes and outcomes by GPU type, or by the groups that a trace has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.cohorts.cohort import COHORT_NEEDS, form_cohort
from traceana.cohorts.horizon import outcome_cohort
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Text,
    drawing,
    result_table,
    small_multiples,
)
from traceana.page.section import Section
from traceana.questions.failures.analyze import (
    COMPARED,
    Outcomes,
    analyze_outcomes,
    variance_between_units,
)
from traceana.questions.failures.rates import runtime_by
from traceana.questions.failures.section_requests import (
    correlate_failure,
    draw_pearson,
    draw_rates,
    rate_tables,
)
from traceana.questions.failures.section_tests import (
    details,
    findings_of,
    headline_of,
    state_overall,
    tests_table,
)
from traceana.questions.failures.tables import (
    FailureRates,
    HazardRatios,
    OutcomesByHorizon,
    StandardizedRates,
)
from traceana.questions.failures.tables_competing_risks import SurvivalGroups
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.tables.display import key_heading
from traceana.tables.formatting import in_sentence, ratio, ratio_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.cohorts.cohort import Cohort
    from traceana.store import Trace

_OPENING: Final = (
    "Failure rate: rows of status failed among the completed and failed. "
    "Cancelled, running, pending and unknown rows are excluded and counted. Runtime: median and "
    "mean restricted to 7 days, the mean of min(runtime, 7 days), by the Kaplan-Meier estimator "
    "with delayed entry and censoring. Unrestricted means are not shown, because runtimes are "
    "heavy-tailed. Tests of failure: chi-squared with Cramér's V. Tests of runtime: rank ANOVA "
    "(Brunner, Dette and Munk; of two groups Brunner and Munzel's test) with epsilon squared, the "
    "fraction of the variance of ranks between groups; left truncation is ignored. Conclusion: "
    "negligible below V = 0.1 or epsilon squared = 0.01; inconclusive if the adjusted p is 0.05 or "
    "more; else small, medium (0.3; 0.06) or large (0.5; 0.14), after Cohen. All tests of a trace "
    "are one family, adjusted by Holm's method. The groups named in a finding are those with the "
    "most rows."
)
_LIMITATIONS: Final = (
    "Jobs are not assigned to groups at random, so a difference has no single cause. Intervals of "
    "restricted means are too narrow where there is a note."
)
_SHOWN: Final = (
    *("n", "failed", "rate", "ci_low", "ci_high", "completed", "cancelled", "running"),
    *("pending", "unknown", "n_missing", "n_clusters", "note"),
)


def build(traces: Sequence[Trace]) -> Content:
    """Build runtime by group and status, and outcomes by group, for each cohort."""
    return build_per_cohort(traces, _build, opening=_OPENING)


def _build(cohort: Cohort) -> Content:
    groupings, tests, notes = cohort.trace.once(analyze_outcomes)
    cohort = cohort.trace.once(outcome_cohort)
    blocks: list[Block] = [Text(f"{cohort.about} {cohort.independence}")]
    if tests.height:
        blocks.append(tests_table(cohort, tests))
    blocks += _between_units(cohort)
    blocks += [Text(note) for note in notes]
    overall = state_overall(cohort) if cohort.fails else ""
    findings = [overall] if overall else []
    tables = [_group(cohort, found) for found in groupings]
    for found, (_, *others) in zip(groupings, tables, strict=True):
        blocks += others
        if found.strata is None:  # a confounded difference is no finding
            findings += findings_of(cohort, found, tests)
    rates = list[Drawing]()
    if cohort.fails:
        blocks += [rates for rates, *_ in tables[1:]]
        correlated, more = correlate_failure(cohort)
        findings += [correlated] if correlated else []
        blocks += [*more, *rate_tables(cohort)]
        rates = draw_rates(cohort)
    else:
        text = f"None of the {cohort.noun} has status failed, so there are no failure rates."
        blocks.insert(1, Text(text))
    runtimes = [one for found in groupings for one in _draw_runtimes(cohort, found)]
    figures = [
        small_multiples(
            panels,
            key=f"{name}-{cohort.trace.id}",
            about=f"{what} of {cohort.noun} by group{more}",
            heights_in=[0.5 + 0.14 * one.result.height for one in panels],
            share_x=True,
        )
        for panels, name, what, more in (
            (rates, "failure-rates", "Failure rate", " and requested resources"),
            (runtimes, "runtimes", "Median runtime", " and status"),
        )
    ]
    pictures = tuple(picture for gallery in figures for picture in gallery.pictures)
    lead = (Gallery(pictures), *tables[0][:1]) if cohort.fails else (Gallery(pictures),)
    headline = headline_of(cohort, groupings[0]) if cohort.fails else "".join(findings[:1])
    return Content(tuple(findings), tuple(blocks), headline, lead, _LIMITATIONS)


def _between_units(cohort: Cohort) -> list[Block]:
    found = cohort.trace.once(variance_between_units)
    parts = []
    for what, share in found.items():
        if not math.isnan(share.share):
            interval = "no interval"
            if not math.isnan(share.ci_low):
                interval = f"95 % CI {ratio_range(share.ci_low, share.ci_high)}"
            parts.append(
                f"{what} {ratio(share.share)} ({interval}; n = {share.n:,}, {share.n_clusters:,} "
                "units)"
            )
    if not parts:
        return []
    text = (
        f"Fraction of the variance between the {cohort.units} (intraclass correlation): "
        f"{'; '.join(parts)}. The interval is too narrow if a few of them have most rows."
    )
    return [Text(text)]


def _group(cohort: Cohort, found: Outcomes) -> tuple[Block, ...]:
    """Return the failure rates by one column, then the other tables on it."""
    by = found.by
    group = f"by {in_sentence(key_heading(by))}" if by else "overall"
    what, null = f"{cohort.noun} {group}", {by: "not stated"} if by else {}
    rates = result_table(
        found.rates,
        FailureRates,
        columns=[
            name
            for name in (by, *_SHOWN)
            if name in found.rates.columns
            # a complete log has no sampling error
            if cohort.sampled or cohort.horizon_s or not name.startswith("ci_")
        ],
        headings=_headings(cohort),
        caption=f"Failure rate of {what}: {cohort.counted}. {cohort.title}",
        null=null,
    )
    by_horizon: list[Block] = []
    if found.horizon is not None:
        by_horizon.append(
            result_table(
                found.horizon,
                OutcomesByHorizon,
                caption=f"Cumulative incidence of failure of {what}. {cohort.title}",
                null=null,
            )
        )
    if found.hazards is not None:
        by_horizon.append(
            result_table(
                found.hazards,
                HazardRatios,
                caption=f"Hazard ratios of failure and completion of {what} (Cox). A higher hazard "
                f"of failure need not make more {cohort.noun} fail. {cohort.title}",
                null={"level": "", "reference": ""},
                folded=True,
            )
        )
    runtimes = result_table(
        found.runtimes.groups.drop("n_events", "last_s"),
        SurvivalGroups,
        headings={
            "n": "Runtimes",
            "n_excluded": "Without runtime",
            "restricted_mean_s": "7-day restricted mean (s)",
        },
        caption=f"Runtime of {what}{_until(cohort)}. {cohort.title}",
        null=null,
        folded=True,
    )
    equal: list[Block] = []
    if found.standardized is not None:
        held, table = found.standardized
        equal.append(
            result_table(
                table,
                StandardizedRates,
                headings=_headings(cohort),
                caption=f"Standardized failure rate of {what}: with the same composition of {held} "
                f"(direct standardization over the strata that all groups have). {cohort.title}",
                null=null,
            )
        )
    return (*by_horizon[:1], rates, *by_horizon[1:], *equal, runtimes, *details(cohort, found))


def _headings(cohort: Cohort) -> dict[str, str]:
    if cohort.horizon_s is None:
        return {"n": "Completed or failed"}
    return {"n": "Watched", "completed": "Not failed by then"}


def _until(cohort: Cohort) -> str:
    return " and status" if cohort.horizon_s is None else " until any end"


def _draw_runtimes(cohort: Cohort, found: Outcomes) -> list[Drawing]:
    by = found.by
    known = found.runtimes.groups.filter(pl.col("n") > 0)
    what = f"{cohort.noun} by {in_sentence(key_heading(by or 'status'))}"
    if cohort.horizon_s is not None:
        what = f"{cohort.noun} until any end" + (
            f" by {in_sentence(key_heading(by))}" if by else ""
        )
    parts = {"": known}
    if by is not None and cohort.horizon_s is None:
        parts = {status: known.filter(status=status).drop("status") for status in COMPARED}
    return [
        drawing(
            "runtime-by",
            own,
            trace=cohort.trace,
            title=cohort.title,
            key=f"runtime{f'-{status}' * bool(status)}-{cohort.trace.id}-{by or 'status'}",
            about=f"Runtime of {f'{status} ' * bool(status)}{what}",
            heading=f"{status.capitalize()} {what}".strip(),
            log_x=True,
        )
        for status, own in parts.items()
        if not own.is_empty()
    ]


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw mean runtimes by group, of successes and of what the publisher counts as failures."""
    drawings = []
    for trace in traces:
        cohort = form_cohort(trace)
        drawings += draw_pearson(cohort)
        failure = trace.manifest.failure_statuses
        for outcome, statuses in (("success", ("completed",)), ("failure", failure)):
            rows = cohort.rows.filter(pl.col("status").is_in(statuses))
            if cohort.by is None or not rows["runtime_s"].count():
                continue
            name = in_sentence(key_heading(cohort.by))
            drawings.append(
                drawing(
                    "runtime-by",
                    runtime_by(rows, cohort.by, cluster=cohort.cluster),
                    trace=trace,
                    title=cohort.title,
                    key=f"mean-runtime-{outcome}-{cohort.by}-{trace.id}",
                    about=f"Mean runtime of {cohort.noun} by {name}, {outcome} "
                    f"({', '.join(statuses)})",
                    heading=f"{outcome.capitalize()}: {cohort.noun} by {name}",
                )
            )
    return drawings


SECTION = Section(
    "outcomes",
    "Failure and runtime by group",
    70,
    build,
    needs=COHORT_NEEDS,
    figures=("outcome-rates", "runtime-by", "small-multiples", "correlations"),
    shares="cohort",
    more=draw_more,
    part="Failures",
    question="Which groups and requests fail most, and which groups run longest?",
)
