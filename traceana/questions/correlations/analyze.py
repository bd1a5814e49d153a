"""Correlations of runtime and failure with requested resources in a cohort, and their points."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import polars as pl

from traceana.cohorts.cohort import Cohort, form_cohort, outcome_cohort
from traceana.cohorts.ends import OUTCOMES
from traceana.questions.correlations.correlate import (
    FEATURES,
    failure_correlations,
    runtime_correlations,
)
from traceana.questions.correlations.family import LEVELS
from traceana.questions.correlations.points import mean_by_value
from traceana.questions.correlations.tables import CorrelationResult
from traceana.stats.multiplicity import adjust_pvalues
from traceana.store import Trace
from traceana.store.frames import Names

RESAMPLES: Final = 200


def features_of(cohort: Cohort, /) -> list[str]:
    """Return the requested resources of a cohort that have values."""
    rows = cohort.rows
    return [name for name in (*FEATURES, "nodes") if name in rows.columns and rows[name].count()]


def cohort_correlations(trace: Trace, /) -> CorrelationResult | None:
    """Return the correlations of a cohort; None if it has no feature or no outcome."""
    cohort = form_cohort(trace)
    return _correlations(cohort, cohort.rows, level=LEVELS)


def cut_correlations(trace: Trace, /) -> pl.DataFrame | None:
    """Return [below_s, ...]: Pearson's correlations below each published cut-off, as one family."""
    cohort = form_cohort(trace)
    tables = []
    for below_s in sorted({*_cutoffs(cohort).values()}):
        rows = cohort.rows.filter(pl.col("runtime_s") < below_s)
        correlations = _correlations(cohort, rows, method="pearson")
        if correlations is not None:
            below = pl.lit(below_s, pl.Float64).alias("below_s")
            tables.append(correlations.table.select(below, pl.all()))
    if not tables:
        return None
    cut = pl.concat(tables)
    adjusted = adjust_pvalues(cut["pvalue"].to_numpy().astype(float))
    return cut.with_columns(pvalue_adjusted=pl.Series(adjusted).fill_nan(None))


def group_correlations(trace: Trace, method: str = "spearman", /) -> pl.DataFrame | None:
    """Return the correlations over rows within the cohort's groups, as one family of tests."""
    cohort = form_cohort(trace)
    if cohort.by is None:
        return None
    rows = cohort.rows.filter(pl.col(cohort.by).is_not_null())
    correlations = _correlations(cohort, rows, method=method, level="row", by=cohort.by)
    return None if correlations is None else correlations.table


def _correlations(
    cohort: Cohort,
    rows: pl.DataFrame,
    /,
    *,
    method: Names = ("pearson", "spearman"),
    level: Names = ("row", "group_mean"),
    by: Names = (),
) -> CorrelationResult | None:
    features, failure = features_of(cohort), cohort.trace.manifest.failure_statuses
    # of those that began earlier only long ones are seen
    rows = rows.filter(pl.col("entry_s") == 0)
    if not features or not rows["status"].is_in(["completed", *failure]).any():
        return None
    options: dict[str, Any] = {"method": method, "level": level, "by": by, "resamples": RESAMPLES}
    options |= {"features": features, "failure": failure}
    return cohort.over_units(runtime_correlations, rows, **options)


def published_means(trace: Trace, /) -> dict[tuple[str, str, float | None], pl.DataFrame]:
    """Return mean runtimes at each value, by outcome, feature and published cut-off or None."""
    cohort = form_cohort(trace)
    cutoffs, means = _cutoffs(cohort), {}
    failure = cohort.trace.manifest.failure_statuses
    statuses = {"success": OUTCOMES["success"], "failure": failure} if cutoffs else {}
    for outcome, name in product(statuses, features_of(cohort)):
        rows = cohort.rows.filter(pl.col("status").is_in(statuses[outcome]))
        for below_s in dict.fromkeys((None, cutoffs.get(f"{outcome} {name}"))):
            if below_s is not None:
                rows = rows.filter(pl.col("runtime_s") < below_s)
            if rows.drop_nulls([name, "runtime_s"]).height:
                means[outcome, name, below_s] = mean_by_value(rows, name, "runtime_s")
    return means


def _cutoffs(cohort: Cohort) -> dict[str, float]:
    tables = cohort.trace.manifest.tables
    return tables["tasks" if cohort.from_tasks else "jobs"].runtime_cutoffs_s


def failure_association(trace: Trace, /) -> tuple[pl.DataFrame, pl.DataFrame | None] | None:
    """Return the correlations of failure with each feature, overall and by the cohort's groups."""
    cohort = trace.once(outcome_cohort)
    features = features_of(cohort)
    ended = cohort.rows.filter(pl.col("status").cast(pl.String).is_in(["completed", "failed"]))
    if not features or ended.is_empty():
        return None
    options: dict[str, Any] = {"features": features, "resamples": RESAMPLES}
    overall = cohort.over_units(failure_correlations, cohort.rows, **options).table
    if cohort.by is None:
        return overall, None
    rows = cohort.rows.filter(pl.col(cohort.by).is_not_null())
    within = cohort.over_units(failure_correlations, rows, by=cohort.by, **options)
    return overall, within.table
