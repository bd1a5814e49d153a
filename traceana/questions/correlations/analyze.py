"""Correlations of runtime and failure with requested resources in a cohort, and their points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from traceana.cohorts.cohort import Cohort, form_cohort, outcome_cohort
from traceana.questions.correlations.correlate import (
    failure_correlations,
    runtime_correlations,
)
from traceana.questions.correlations.family import LEVELS
from traceana.questions.correlations.points import mean_by_value
from traceana.stats.multiplicity import adjust_pvalues

if TYPE_CHECKING:
    from traceana.questions.correlations.tables import CorrelationResult
    from traceana.store import Trace

FEATURES: Final = ("gpus", "cpus", "memory_gib", "n_instances", "nodes")
"""Columns of a cohort that are correlated with runtime and failure, if they have values."""
RESAMPLES: Final = 200


class CutPoints(NamedTuple):
    """Group means of the rows of one outcome and feature whose runtime is below a cut-off."""

    below_s: float
    means: pl.DataFrame


def features_of(cohort: Cohort, /) -> list[str]:
    """Return the :data:`FEATURES` of a cohort that have values."""
    return [name for name in FEATURES if name in cohort.rows.columns and cohort.rows[name].count()]


def cohort_correlations(trace: Trace, /) -> CorrelationResult | None:
    """Return the correlations of a cohort; None if it has no feature or no outcome."""
    cohort = form_cohort(trace)
    return _correlations(cohort, cohort.rows, ("pearson", "spearman"), LEVELS)


def cut_correlations(trace: Trace, /) -> pl.DataFrame | None:
    """Return Pearson's correlations over the rows with a runtime below each published cut-off.

    [below_s, outcome, ...], one family of tests over all cut-offs; None if the trace has none.
    """
    cohort = form_cohort(trace)
    tables = []
    for below_s in sorted({*_cutoffs(cohort).values()}):
        rows = cohort.rows.filter(pl.col("runtime_s") < below_s)
        correlations = _correlations(cohort, rows, ("pearson",), ("row", "group_mean"))
        if correlations is not None:
            tables.append(
                correlations.table.select(pl.lit(below_s, pl.Float64).alias("below_s"), pl.all())
            )
    if not tables:
        return None
    cut = pl.concat(tables)
    adjusted = adjust_pvalues(cut["pvalue"].to_numpy().astype(float))
    return cut.with_columns(pvalue_adjusted=pl.Series(adjusted).fill_nan(None))


def group_correlations(trace: Trace, method: str = "spearman", /) -> pl.DataFrame | None:
    """Return the correlations over rows within the cohort's groups, Spearman's or Pearson's.

    [`by`, outcome, ...], one family of tests; None without groups, features or outcomes.
    """
    cohort = form_cohort(trace)
    if cohort.by is None:
        return None
    frame = cohort.rows.filter(pl.col(cohort.by).is_not_null())
    correlations = _correlations(cohort, frame, (method,), ("row",), by=(cohort.by,))
    return None if correlations is None else correlations.table


def published_means(trace: Trace, /) -> dict[tuple[str, str], pl.DataFrame]:
    """Return the mean runtime at each value of each feature, by outcome and feature.

    Empty if no published cut-off is stated for the trace.
    """
    cohort = form_cohort(trace)
    if not _cutoffs(cohort):
        return {}
    means = {}
    for outcome in ("success", "failure"):
        for name in features_of(cohort):
            rows_of_trace = _own_rows(cohort, outcome).drop_nulls([name, "runtime_s"])
            if rows_of_trace.height:
                means[outcome, name] = mean_by_value(rows_of_trace, name, "runtime_s")
    return means


def cut_points(trace: Trace, /) -> dict[tuple[str, str], CutPoints]:
    """Return the group means below each published cut-off, by outcome and feature."""
    cohort = form_cohort(trace)
    points = {}
    for key, below_s in _cutoffs(cohort).items():
        outcome, name = key.split()
        if name not in features_of(cohort):
            continue
        rows_of_trace = _own_rows(cohort, outcome).filter(pl.col("runtime_s") < below_s)
        if rows_of_trace.height:
            points[outcome, name] = CutPoints(
                below_s, mean_by_value(rows_of_trace, name, "runtime_s")
            )
    return points


def failure_association(
    trace: Trace, /
) -> tuple[CorrelationResult, CorrelationResult | None] | None:
    """Return the correlations of failure with each feature: overall, and by the cohort's groups.

    Failed rows against completed ones, or failure by a runtime (:func:`outcome_cohort`). None if
    there is no feature, or no such row; the second is None without groups.
    """
    cohort = trace.once(outcome_cohort)
    outcomes = cohort.rows["status"].cast(pl.String).is_in(["completed", "failed"])
    features = features_of(cohort)
    if not features or not outcomes.any():
        return None

    def correlated(rows: pl.DataFrame, by: tuple[str, ...]) -> CorrelationResult:
        return failure_correlations(
            rows, features=features, by=by, cluster=cohort.cluster, resamples=RESAMPLES
        )

    overall = correlated(cohort.rows, ())
    if cohort.by is None:
        return overall, None
    table = cohort.rows.filter(pl.col(cohort.by).is_not_null())
    return overall, correlated(table, (cohort.by,)) if table.height else None


def _correlations(
    cohort: Cohort,
    rows: pl.DataFrame,
    method: tuple[str, ...],
    level: tuple[str, ...],
    *,
    by: tuple[str, ...] = (),
) -> CorrelationResult | None:
    features = features_of(cohort)
    failure = cohort.trace.manifest.failure_statuses
    rows = rows.filter(
        pl.col("entry_s") == 0
    )  # of those that began earlier only long ones are seen
    outcomes = rows["status"].is_in(["completed", *failure])
    if not features or not outcomes.any():
        return None
    return runtime_correlations(
        rows,
        features=features,
        failure=failure,
        method=method,
        level=level,
        by=by,
        cluster=cohort.cluster,
        resamples=RESAMPLES,
    )


def _cutoffs(cohort: Cohort) -> dict[str, float]:
    tables = cohort.trace.manifest.tables
    return tables["tasks" if cohort.from_tasks else "jobs"].runtime_cutoffs_s


def _own_rows(cohort: Cohort, outcome: str) -> pl.DataFrame:
    """Return the rows of an outcome."""
    failure = cohort.trace.manifest.failure_statuses
    statuses = ("completed",) if outcome == "success" else failure
    return cohort.rows.filter(pl.col("status").is_in(statuses))
