"""Runtimes and outcomes by GPU type, or by the groups that a trace has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.cohorts.cohort import COHORT_NEEDS, Cohort, form_cohort, outcome_cohort
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
from traceana.questions.correlations.analyze import RESAMPLES, failure_association
from traceana.questions.correlations.section_features import (
    FEATURE_NAMES,
    compare_methods,
    draw_forest,
    name_rows,
    state_correlations,
)
from traceana.questions.correlations.tables import CorrelationResult
from traceana.questions.failures.analyze import (
    COMPARED,
    Outcomes,
    analyze_outcomes,
    variance_between_units,
)
from traceana.questions.failures.rates import MOST_VALUES, failure_by_request, runtime_by
from traceana.questions.failures.section_tests import (
    details,
    findings_of,
    headline_of,
    state_overall,
    tests_table,
)
from traceana.questions.failures.tables import (
    FailureByRequest,
    FailureRates,
    HazardRatios,
    OutcomesByHorizon,
    StandardizedRates,
)
from traceana.questions.failures.tables_competing_risks import SurvivalGroups
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.tables.display import key_heading
from traceana.tables.formatting import duration, in_sentence, ratio, ratio_range

if TYPE_CHECKING:
    from traceana.store import Trace

_REQUESTS_SHOWN: Final = (
    "n",
    "failures",
    "rate",
    "ci_low",
    "ci_high",
    "success_rate",
    "n_clusters",
    "success_mean_s",
    "failure_mean_s",
    "note",
)


def draw_rates(cohort: Cohort, /) -> list[Drawing]:
    """Return a panel of failure rates for the cohort's groups and for each feature."""
    rates = cohort.trace.once(failure_by_request)
    return [
        drawing(
            "outcome-rates",
            with_rows,
            trace=cohort.trace,
            title=cohort.title,
            key=f"failure-rates-{column}-{cohort.trace.id}",
            about=f"Failure rate of {cohort.noun} by {_name(column)}",
            heading=f"{cohort.counted[0].upper()}{cohort.counted[1:]}, by {_name(column)}"
            if cohort.horizon_s
            else f"Failure rate by {_name(column)}",
        )
        for column, table in rates.items()
        if (with_rows := table.filter(pl.col("n") > 0)).height
    ]


def rate_tables(cohort: Cohort, /) -> list[Block]:
    """Return the rates by each feature."""
    rates = cohort.trace.once(failure_by_request)
    return [
        result_table(
            table,
            FailureByRequest,
            columns=[
                name
                for name in (column, *_REQUESTS_SHOWN)
                if name in table.columns
                if cohort.sampled or cohort.horizon_s or not name.startswith("ci_")
                if not (cohort.horizon_s and name.endswith("_mean_s"))
            ],
            headings={
                column: _label(column),
                "n": "Watched" if cohort.horizon_s else "Completed or failed",
            },
            null={column: "not stated"},
            caption=f"Failure rate by {_name(column)}: {cohort.counted}. By value "
            f"if there are up to {MOST_VALUES}, else in bins between powers of two. {cohort.title}",
            folded=True,
        )
        for column, table in rates.items()
        if column != cohort.by
    ]


def correlate_failure(cohort: Cohort, /) -> tuple[str, list[Block]]:
    """Return a finding on the rank correlations of failure, and their figure and tables."""
    result = cohort.trace.once(failure_association)
    if result is None:
        return "", []
    overall, within = result
    ranks = _named(overall).filter(method="spearman")
    groups = None if within is None else _named(within).filter(method="spearman")
    figure: Gallery = draw_forest(
        cohort,
        ranks,
        groups,
        key=f"failure-correlations-{cohort.trace.id}",
        about=f"Rank correlation of failure with the resources that {cohort.noun} request",
    )
    blocks: list[Block] = [
        figure,
        *compare_methods(
            cohort,
            _named(overall).with_columns(level=pl.lit("row")),
            [] if within is None else [within.table],
            about=f"failure and the resources that {cohort.noun} request",
        ),
    ]
    if cohort.cluster is not None:
        blocks.append(
            Text(
                "Correlations use the delete-one-cluster jackknife (at most "
                f"{RESAMPLES} groups of clusters) and the wild cluster bootstrap; rates use "
                "Wilson's interval of the effective n."
            )
        )
    what = f"failure within {duration(cohort.horizon_s)}" if cohort.horizon_s else "failure"
    what += f" of {cohort.noun}"
    return state_correlations(cohort, what, ranks, groups), blocks


def draw_pearson(cohort: Cohort, /) -> list[Drawing]:
    """Draw Pearson's r of failure and each feature, overall and within the cohort's groups."""
    result = cohort.trace.once(failure_association)
    if result is None:
        return []
    overall, within = result
    gallery = draw_forest(
        cohort,
        _named(overall).filter(method="pearson"),
        None if within is None else _pearson(within.table),
        key=f"failure-correlations-pearson-{cohort.trace.id}",
        about=f"Pearson's r of failure and the resources that {cohort.noun} request",
        x_label="Pearson's r",
    )
    return [picture for picture in gallery.pictures if isinstance(picture, Drawing)]


def _pearson(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(method="pearson")


def _named(result: CorrelationResult) -> pl.DataFrame:
    return name_rows(result.table)


def _label(column: str) -> str:
    return FEATURE_NAMES[column][1] if column in FEATURE_NAMES else key_heading(column)


def _name(column: str) -> str:
    return FEATURE_NAMES[column][2] if column in FEATURE_NAMES else in_sentence(key_heading(column))


_OPENING: Final = (
    "Failure rate: rows of status failed among the completed and failed. "
    "Cancelled, running, pending and unknown rows are excluded and counted. Runtime: median and "
    "restricted mean, the mean of min(runtime, horizon), by the Kaplan-Meier estimator with "
    "delayed entry and censoring. Unrestricted means are not shown, because runtimes are "
    "heavy-tailed. Tests of failure: chi-squared with Cramér's V. Tests of runtime: rank ANOVA "
    "(Brunner, Dette and Munk; of two groups Brunner and Munzel's test) with epsilon squared, the "
    "fraction of the variance of ranks between groups, over rows that started in the observation "
    "window. Conclusion: "
    "negligible below V = 0.1 or epsilon squared = 0.01; inconclusive if the adjusted p is 0.05 or "
    "more; else small, medium (0.3; 0.06) or large (0.5; 0.14), after Cohen. All tests of a trace "
    "are one family, adjusted by Holm's method. The groups named in a finding are those with the "
    "most rows."
)
_LIMITATIONS: Final = (
    "Jobs are not assigned to groups at random, so a difference has no single cause. Intervals of "
    "restricted means are too narrow where there is a note."
)
_NOT_COUNTED: Final = ("cancelled", "running", "pending", "unknown", "n_missing")
_SHOWN: Final = (
    "n",
    "failed",
    "rate",
    "ci_low",
    "ci_high",
    "completed",
    *_NOT_COUNTED,
    "n_clusters",
    "note",
)


def build(traces: Sequence[Trace]) -> Content:
    """Build runtime by group and status, and outcomes by group, for each cohort."""
    return build_per_cohort(traces, _build, opening=_OPENING)


def _build(cohort: Cohort) -> Content:
    groupings, tests, notes = cohort.trace.once(analyze_outcomes)
    cohort = cohort.trace.once(outcome_cohort)
    blocks: list[Block] = [Text("", (*cohort.definitions, cohort.independence))]
    if tests.height:
        blocks.append(tests_table(cohort, tests))
    blocks += _between_units(cohort)
    blocks += [Text(note) for note in notes]
    overall = state_overall(cohort) if cohort.fails else ""
    findings = [overall] if overall else []
    tables = [_group(cohort, grouping) for grouping in groupings]
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
    watched = ""
    if cohort.horizon_s:
        watched = (
            f"; n: {cohort.noun} that could be watched for {duration(cohort.horizon_s)} (the text "
            "also counts the others)"
        )
    runtimes = [runtime for found in groupings for runtime in _draw_runtimes(cohort, found)]
    figures = [
        small_multiples(
            panels,
            key=f"{name}-{cohort.trace.id}",
            about=f"{what} of {cohort.noun} by group{more}",
            heights_in=[0.5 + 0.14 * panel.result.height for panel in panels],
            share_x=True,
        )
        for panels, name, what, more in (
            (rates, "failure-rates", "Failure rate", f" and requested resources{watched}"),
            (runtimes, "runtimes", "Median runtime", " and status"),
        )
    ]
    pictures = tuple(picture for gallery in figures for picture in gallery.pictures)
    lead = (Gallery(pictures), *tables[0][:1]) if cohort.fails else (Gallery(pictures),)
    headline = headline_of(cohort, groupings[0]) if cohort.fails else "".join(findings[:1])
    return Content(tuple(findings), tuple(blocks), headline, lead, _LIMITATIONS)


def _between_units(cohort: Cohort) -> list[Block]:
    result = cohort.trace.once(variance_between_units)
    parts = []
    for what, share in result.items():
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


def _group(cohort: Cohort, outcomes: Outcomes) -> tuple[Block, ...]:
    """Return the failure rates by one column, then the other tables on it."""
    by = outcomes.by
    group = f"by {in_sentence(key_heading(by))}" if by else "overall"
    what, null = f"{cohort.noun} {group}", {by: "not stated"} if by else {}
    rates = result_table(
        outcomes.rates,
        FailureRates,
        columns=[
            name
            for name in (by, *_SHOWN)
            if name in outcomes.rates.columns
            # a complete log has no sampling error
            if cohort.sampled or cohort.horizon_s or not name.startswith("ci_")
            if name not in _NOT_COUNTED or outcomes.rates[name].sum()
        ],
        headings=_headings(cohort),
        caption=f"Failure rate of {what}: {cohort.counted}. {cohort.title}",
        null=null,
    )
    by_horizon: list[Block] = []
    if outcomes.horizon is not None:
        by_horizon.append(
            result_table(
                outcomes.horizon,
                OutcomesByHorizon,
                caption=f"Cumulative incidence of failure of {what}. {cohort.title}",
                null=null,
            )
        )
    if outcomes.hazards is not None:
        by_horizon.append(
            result_table(
                outcomes.hazards,
                HazardRatios,
                caption=f"Hazard ratios of failure and completion of {what} (Cox), the "
                "requested resources equal. A higher hazard of failure need not make more "
                f"{cohort.noun} fail. {cohort.title}",
                null={"level": "", "reference": ""},
                folded=True,
            )
        )
    runtimes: list[Block] = []
    if outcomes.horizon is None:  # until any end: with the competing risks
        runtimes.append(
            result_table(
                outcomes.runtimes.groups.drop("n_events", "last_s"),
                SurvivalGroups,
                headings={
                    "n": "Runtimes",
                    "n_excluded": "Without runtime",
                    "restricted_mean_s": f"{duration(outcomes.runtimes.horizon_s)} restricted mean",
                },
                caption=f"Runtime of {what} and status. {cohort.title}",
                null=null,
                folded=True,
            )
        )
    equal: list[Block] = []
    if outcomes.standardized is not None:
        held, table = outcomes.standardized
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
    return (*by_horizon[:1], rates, *by_horizon[1:], *equal, *runtimes, *details(cohort, outcomes))


def _headings(cohort: Cohort) -> dict[str, str]:
    if cohort.horizon_s is None:
        return {"n": "Completed or failed"}
    return {"n": "Watched", "completed": "Not failed by then"}


def _draw_runtimes(cohort: Cohort, outcomes: Outcomes) -> list[Drawing]:
    by = outcomes.by
    rows = outcomes.runtimes.groups.filter(pl.col("n") > 0)
    what = f"{cohort.noun} by {in_sentence(key_heading(by or 'status'))}"
    if cohort.horizon_s is not None:
        what = f"{cohort.noun} until any end" + (
            f" by {in_sentence(key_heading(by))}" if by else ""
        )
    parts = {"": rows}
    if by is not None and cohort.horizon_s is None:
        parts = {status: rows.filter(status=status).drop("status") for status in COMPARED}
    return [
        drawing(
            "runtime-by",
            of_status,
            trace=cohort.trace,
            title=cohort.title,
            key=f"runtime{f'-{status}' * bool(status)}-{cohort.trace.id}-{by or 'status'}",
            about=f"Runtime of {f'{status} ' * bool(status)}{what}",
            heading=f"{status.capitalize()} {what}".strip(),
            log_x=True,
        )
        for status, of_status in parts.items()
        if not of_status.is_empty()
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
