"""Runtimes and outcomes by GPU type, or by the groups that a trace has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.derived.cohorts import COHORT_NEEDS
from traceana.derived.outcomes import Outcomes, analyze_outcomes, grouping_columns
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
from traceana.report.sections.outcome_tests import association, odds_ratios, runtime_tests
from traceana.results.display import key_heading
from traceana.results.formatting import in_sentence, seconds, seconds_range, share, share_range
from traceana.results.outcomes import FailureRates, RuntimeBy

if TYPE_CHECKING:
    from traceana.derived.cohorts import Cohort
    from traceana.report.context import Context

_OPENING: Final = (
    "Runtime by group and status, and failure rate by group. Means have Student's t interval, "
    "rates Wilson's; both treat rows as independent, so they are likely too narrow where jobs or "
    "tasks of one user are alike. An interval of a mean that extends below 0 means that there are "
    "too few runtimes, or that they are too skewed. Rates are shown for two definitions of a "
    "failure: status `failed` only (other statuses except `completed` are excluded), and the "
    "definition of the trace where it differs."
)
_DRAWN: Final = ("completed", "failed")


def build(session: Context, traces: list[str]) -> Content:
    """Build runtime by group and status, and outcomes by group, for each cohort."""
    return build_per_cohort(
        session, traces, lambda cohort: _build(session, cohort), opening=_OPENING
    )


def _build(session: Context, cohort: Cohort) -> Content:
    findings: list[str] = []
    blocks: list[Block] = [Text(cohort.about)]
    groupings: list[tuple[str | None, str | None]] = [*grouping_columns(session, cohort)]
    for by, strata in groupings or [(None, None)]:
        found = session.once(analyze_outcomes, cohort.trace, by, strata)
        content = _group(cohort, by, strata, found)
        findings += content.findings
        blocks += content.blocks
    return Content(tuple(findings), tuple(blocks))


def _group(cohort: Cohort, by: str | None, strata: str | None, found: Outcomes) -> Content:
    group = f"by {in_sentence(key_heading(by))}" if by else "overall"
    what, null = f"{cohort.noun} {group}", {by: "not stated"} if by else {}
    runtimes = result_table(
        found.runtimes,
        RuntimeBy,
        columns=[name for name in found.runtimes.columns if name not in ("p99_s", "note")],
        caption=f"Runtime of {what} and status. {cohort.title}",
        null=null,
    )
    rates = found.rates.with_columns(
        others=pl.sum_horizontal("cancelled", "pending", "unknown", "n_missing")
    )
    columns = ("n", "failures", "rate", "ci_low", "ci_high", "completed", "failed", "running")
    rate_table = result_table(
        rates,
        FailureRates,
        columns=[*([by] if by else []), "definition", *columns, "others"],
        headings={"definition": "Failure", "others": "Other statuses"},
        caption=f"Failure rate of {what}, by definition of a failure. {cohort.title}",
        null=null,
    )
    tests, dependence = runtime_tests(cohort, by, found), association(cohort, by, found)
    blocks = (
        Heading(f"{cohort.noun.capitalize()} {group}"),
        runtimes,
        *tests.blocks,
        rate_table,
        *dependence.blocks,
        *odds_ratios(cohort, by, strata, found),
        *(Text(note) for note in found.notes),
        Gallery(tuple(_figures(cohort, by, found))),
    )
    if strata is not None or by is None:  # a confounded difference is no finding
        return Content((), blocks)
    return Content((*_findings(cohort, by, found), *tests.findings, *dependence.findings), blocks)


def _figures(cohort: Cohort, by: str | None, found: Outcomes) -> list[Drawing]:
    key = f"{cohort.trace}-{by or 'status'}"
    what = f"{cohort.noun} by {in_sentence(key_heading(by or 'status'))}"

    def draw(figure: str, result: pl.DataFrame, name: str, about: str) -> Drawing:
        return drawing(
            figure, result, trace=cohort.trace, title=cohort.title, key=f"{name}-{key}", about=about
        )

    known = found.runtimes.filter(pl.col("n") > 0)
    if by is None:
        return [draw("runtime-by", known, "runtime", f"Runtime of {what}")]
    figures = [
        draw("runtime-by", own.drop("status"), f"runtime-{status}", f"Runtime of {status} {what}")
        for status in _DRAWN
        if not (own := known.filter(status=status)).is_empty()
    ]
    *_, failure = found.success
    ended = found.ended.filter(pl.col("n") > 0)
    if len(found.success) > 1 and not ended.is_empty():
        about = f"Runtime of {what}, status: {failure}"
        figures.append(draw("runtime-by", ended, "runtime-failure", about))
    return figures + [
        draw("outcome-rates", rates, f"rates-{place}", f"Success rate of {what}, failure: {name}")
        for place, (name, rates) in enumerate(found.success.items(), start=1)
    ]


def _findings(cohort: Cohort, by: str, found: Outcomes) -> list[str]:
    findings, heading = [], in_sentence(key_heading(by))
    stated = pl.col(by).is_not_null()
    known = found.runtimes.filter(pl.col("ci_low").is_not_null(), stated)
    completed = known.filter(status="completed").sort("mean_s").rows(named=True)
    if len(completed) > 1:
        least, most = completed[0], completed[-1]
        findings.append(
            f"{cohort.title}: completed {cohort.noun} ran longest for {heading} {_mean(most, by)} "
            f"and shortest for {_mean(least, by)}."
        )
    rates = found.rates.filter(pl.col("n") > 0, stated, definition="failed").sort("rate")
    if rates.height > 1:
        low, high = rates.row(0, named=True), rates.row(-1, named=True)
        findings.append(
            f"{cohort.title}: the failure rate by {heading} (`failed` against `completed`) is "
            f"lowest for {_rate(low, by)} and highest for {_rate(high, by)}."
        )
    return findings


def _mean(row: dict[str, Any], by: str) -> str:
    interval = seconds_range(row["ci_low"], row["ci_high"])
    return f"{row[by]} (mean {seconds(row['mean_s'])} s, 95 % CI {interval}, n = {row['n']:,})"


def _rate(row: dict[str, Any], by: str) -> str:
    interval = share_range(row["ci_low"], row["ci_high"])
    return f"{row[by]} ({share(row['rate'])}, 95 % CI {interval}, n = {row['n']:,})"


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
