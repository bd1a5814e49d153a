"""Failure versus requested resources, for the section on outcomes: rates and correlations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.page.blocks import Block, Drawing, Gallery, Text, drawing, result_table
from traceana.questions.correlations.analyze import RESAMPLES, failure_association
from traceana.questions.correlations.section_features import (
    FEATURE_NAMES,
    SIGNIFICANT,
    compare_methods,
    draw_forest,
    name_family,
    name_rows,
    state_correlations,
)
from traceana.questions.correlations.tables import Correlations
from traceana.questions.failures.rates import MOST_VALUES, failure_by_request
from traceana.questions.failures.tables import FailureByRequest
from traceana.tables.display import key_heading
from traceana.tables.formatting import duration, in_sentence

if TYPE_CHECKING:
    from traceana.cohorts.cohort import Cohort
    from traceana.questions.correlations.tables import CorrelationResult

_CALLED: Final = {"gpus": "gpu_percent", "cpus": "cpu_percent"}
_SHOWN: Final = (
    *("n", "failures", "rate", "ci_low", "ci_high", "success_rate", "n_clusters"),
    *("success_mean_s", "failure_mean_s", "note"),
)


def draw_rates(cohort: Cohort, /) -> list[Drawing]:
    """Return a panel of failure rates for the cohort's groups and for each feature."""
    rates = cohort.trace.once(failure_by_request)
    return [
        drawing(
            "outcome-rates",
            own,
            trace=cohort.trace,
            title=cohort.title,
            key=f"failure-rates-{column}-{cohort.trace.id}",
            about=f"Failure rate of {cohort.noun} by {_name(column)}",
            heading=f"{cohort.counted[0].upper()}{cohort.counted[1:]}, by {_name(column)}"
            if cohort.horizon_s
            else f"Failure rate by {_name(column)}",
        )
        for column, table in rates.items()
        if (own := table.filter(pl.col("n") > 0)).height
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
                for name in (column, *_SHOWN)
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
    found = cohort.trace.once(failure_association)
    if found is None:
        return "", []
    overall, within = found
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
            [] if within is None else [within.table.with_columns(pl.col("x").replace(_CALLED))],
            about=f"failure and the resources that {cohort.noun} request",
        ),
    ]
    blocks += [_correlations(cohort, overall, ())]
    if within is not None and cohort.by is not None:
        blocks.append(_correlations(cohort, within, (cohort.by,)))
    if cohort.cluster is not None:
        blocks.append(
            Text(
                "Correlations use the delete-one-cluster jackknife (at most "
                f"{RESAMPLES} groups of clusters) and the wild cluster bootstrap; rates use "
                "Wilson's interval of the effective n."
            )
        )
    what = f"failure within {duration(cohort.horizon_s)}" if cohort.horizon_s else "failure"
    return state_correlations(cohort, what, ranks, groups), blocks


def draw_pearson(cohort: Cohort, /) -> list[Drawing]:
    """Draw Pearson's r of failure and each feature, overall and within the cohort's groups."""
    found = cohort.trace.once(failure_association)
    if found is None:
        return []
    overall, within = found
    gallery = draw_forest(
        cohort,
        _named(overall).filter(method="pearson"),
        None if within is None else _pearson(within.table),
        key=f"failure-correlations-pearson-{cohort.trace.id}",
        about=f"Pearson's r of failure and the resources that {cohort.noun} request",
        x_label="Pearson's r",
    )
    return [one for one in gallery.pictures if isinstance(one, Drawing)]


def _pearson(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(pl.col("x").replace(_CALLED)).filter(method="pearson")


def _named(found: CorrelationResult) -> pl.DataFrame:
    return name_rows(found.table.with_columns(pl.col("x").replace(_CALLED)))


def _correlations(cohort: Cohort, found: CorrelationResult, by: tuple[str, ...]) -> Block:
    within = f" within each {in_sentence(key_heading(by[0]))}" if by else ""
    coded = f"{cohort.counted}: 1, else 0" if cohort.horizon_s else "1; completion 0"
    return result_table(
        _named(found),
        Correlations,
        columns=(
            *(*by, "feature", "method", "n", "r", "ci_low", "ci_high", "n_clusters"),
            *("pvalue", "pvalue_adjusted", "pvalue_t", *SIGNIFICANT, "note"),
        ),
        headings=SIGNIFICANT,
        caption=f"Correlation of failure ({coded}) with the resources that "
        f"{cohort.noun} request{within}, and {100 * found.confidence:.0f} % confidence intervals; "
        f"{name_family(found.n_tested)}. {cohort.title}",
        folded=True,
    )


def _label(column: str) -> str:
    return FEATURE_NAMES[column][1] if column in FEATURE_NAMES else key_heading(column)


def _name(column: str) -> str:
    return FEATURE_NAMES[column][2] if column in FEATURE_NAMES else in_sentence(key_heading(column))
