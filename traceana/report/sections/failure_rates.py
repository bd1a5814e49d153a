"""Failure versus requested resources: correlations, and rates by request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.derived.cohorts import COHORT_NEEDS
from traceana.derived.correlations import RESAMPLES, failure_association
from traceana.derived.requests import MOST_VALUES, failure_by_request
from traceana.report.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    result_table,
)
from traceana.report.per_cohort import build_per_cohort
from traceana.report.section import Section
from traceana.report.sections.feature_names import (
    ALPHA,
    FEATURE_NAMES,
    SIGNIFICANT,
    name_rows,
)
from traceana.results.correlation import Correlations
from traceana.results.display import key_heading
from traceana.results.formatting import correlation, in_sentence, share, share_range
from traceana.results.outcomes import FailureByRequest

if TYPE_CHECKING:
    from traceana.derived.cohorts import Cohort
    from traceana.report.context import Context
    from traceana.results.correlation import CorrelationResult

_NEGLIGIBLE: Final = 0.1
_OPENING: Final = (
    "Failure (1) and success (0) are correlated with each requested resource over rows: Pearson's "
    "r is then the point-biserial correlation, and Spearman's rho uses ranks. A positive r means "
    f"that rows that failed requested more. An r within {_NEGLIGIBLE} of 0 is negligible (Cohen), "
    "however small p is. Failure is defined as for the trace; no runtime is needed. Rates are by "
    f"value if there are up to {MOST_VALUES} distinct values, else in bins between powers of two, "
    "each with its upper end."
)


def build(session: Context, traces: list[str]) -> Content:
    """Show for each cohort what failure correlates with, and the rates by request."""
    return build_per_cohort(session, traces, partial(_cohort, session), opening=_OPENING)


def _cohort(session: Context, cohort: Cohort) -> Content:
    failure = session.manifest(cohort.trace).failure_definition
    rates = session.once(failure_by_request, cohort.trace)
    found = session.once(failure_association, cohort.trace)
    text = f"{failure} {cohort.independence}"
    if cohort.cluster is not None:
        text += (
            f" Correlations use the delete-one-cluster jackknife (at most {RESAMPLES} groups of "
            "clusters) and the wild cluster bootstrap; rates use Wilson's interval of the "
            "effective n."
        )
    correlations: list[Table] = []
    findings: tuple[str, ...] = ()
    if found is not None:
        overall, within = found
        correlations = [_correlations(cohort, overall, ())]
        if within is not None and cohort.by is not None:
            correlations.append(_correlations(cohort, within, (cohort.by,)))
        findings = _findings(cohort, overall, within, rates)
    figures = (_draw(cohort, name, table) for name, table in rates.items())
    blocks: tuple[Block, ...] = (
        Text(text.strip()),
        *correlations,
        Gallery(tuple(figure for figure in figures if figure)),
        *(_rates(cohort, name, table) for name, table in rates.items()),
    )
    return Content(findings, blocks)


def _correlations(cohort: Cohort, found: CorrelationResult, by: tuple[str, ...]) -> Table:
    within = f" within each {in_sentence(key_heading(by[0]))}" if by else ""
    table = found.table.with_columns(
        x=pl.col("x").replace({"gpus": "gpu_percent", "cpus": "cpu_percent"})
    )
    return result_table(
        name_rows(table),
        Correlations,
        columns=(
            *(*by, "feature", "method", "n", "r", "ci_low", "ci_high", "n_clusters"),
            *("pvalue", "pvalue_adjusted", "pvalue_t", *SIGNIFICANT, "note"),
        ),
        headings=SIGNIFICANT,
        caption=f"Correlation of failure with the resources that {cohort.noun} request{within}, "
        f"and {100 * found.confidence:.0f} % confidence intervals; p adjusted (Benjamini and "
        f"Hochberg) over the {found.n_tested} tests of this table. {cohort.title}",
        folded=bool(by),
    )


def _name(column: str) -> tuple[str, str]:
    """Return the axis label of a column, and its name in a title."""
    if column in FEATURE_NAMES:
        return FEATURE_NAMES[column][1:]
    return key_heading(column), in_sentence(key_heading(column))


def _rates(cohort: Cohort, column: str, rates: pl.DataFrame) -> Table:
    label, name = _name(column)
    columns = (
        *(column, "n", "failures", "rate", "ci_low", "ci_high", "success_rate"),
        *("n_clusters", "success_mean_s", "failure_mean_s", "note"),
    )
    return result_table(
        rates,
        FailureByRequest,
        columns=[name for name in columns if name in rates.columns],
        headings={column: label},
        null={column: "not stated"},
        caption=f"Failure rate by {name}. {cohort.title}",
        folded=True,
    )


def _draw(cohort: Cohort, column: str, rates: pl.DataFrame) -> Drawing | None:
    if not rates["n"].sum():
        return None
    label, name = _name(column)
    return drawing(
        "failure-rates",
        rates,
        trace=cohort.trace,
        title=cohort.title,
        key=f"failure-rates-{column}-{cohort.trace}",
        about=f"Failure rate of {cohort.noun} by {name}",
        heading=f"Failure rate by {name}",
        y_label=label,
    )


def _findings(
    cohort: Cohort,
    overall: CorrelationResult,
    within: CorrelationResult | None,
    rates: dict[str, pl.DataFrame],
) -> tuple[str, ...]:
    """State the feature with the largest rank correlation that is significant, and its rates."""
    ranks = overall.table.filter(pl.col("pvalue_adjusted") < ALPHA, method="spearman")
    if ranks.is_empty():
        return ()
    row: dict[str, Any] = ranks.sort(pl.col("r").abs()).row(-1, named=True)
    x = {"gpus": "gpu_percent", "cpus": "cpu_percent"}.get(row["x"], row["x"])
    _, name = _name(x)
    size = "negligible" if abs(row["r"]) < _NEGLIGIBLE else "the largest of all features"
    text = (
        f"{cohort.title}: Spearman's rho of failure and {name} is "
        f"{correlation(row['r'], row['ci_low'], row['ci_high'])} (n = {row['n']:,}), {size}"
    )
    if within is not None and cohort.by is not None:
        same = within.table.filter(x=row["x"], method="spearman").drop_nulls("r").sort("n")
        for own in same.tail(1).iter_rows(named=True):
            text += (
                f"; within the largest {in_sentence(key_heading(cohort.by))} with both outcomes, "
                f"{own[cohort.by]}, it is {correlation(own['r'], own['ci_low'], own['ci_high'])} "
                f"(n = {own['n']:,})"
            )
    stated = rates[x].filter(pl.col(x).is_not_null(), pl.col("ci_low").is_not_null())
    if stated.height < 2 or abs(row["r"]) < _NEGLIGIBLE:
        return (f"{text}.",)
    low, high = stated.row(0, named=True), stated.row(-1, named=True)
    ends = (
        f"{share(end['rate'])} (95 % CI {share_range(end['ci_low'], end['ci_high'])}, "
        f"n = {end['n']:,}) for {end[x]}"
        for end in (low, high)
    )
    return (f"{text}; the failure rate is {' and '.join(ends)}.",)


SECTION = Section(
    "failure-rates",
    "Failure versus requested resources",
    75,
    build,
    needs=COHORT_NEEDS,
    figures=("failure-rates",),
    of_tasks=True,
    part="Failures",
    question="Do jobs that request more resources fail more often?",
)
