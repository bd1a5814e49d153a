"""Correlations of runtime with requested resources in a trace's cohort, and their points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from traceana.analysis.correlation.family import LEVELS
from traceana.analysis.correlation.points import joint_counts, mean_by_value
from traceana.analysis.correlation.runtime import PERCENT, runtime_correlations
from traceana.derived.cohorts import form_cohort

if TYPE_CHECKING:
    from traceana.results.correlation import CorrelationResult
    from traceana.store.session import Session

FEATURES: Final = ("gpus", "cpus", "memory_gib", "n_instances", "nodes")
"""Columns of a cohort that are correlated with the runtime, if they have values."""
RESAMPLES: Final = 200
_BINS: Final = 60


class Points(NamedTuple):
    """Group means and counts of the rows of one outcome and feature."""

    means: pl.DataFrame
    counts: pl.DataFrame


def cohort_correlations(session: Session, trace: str, /) -> CorrelationResult | None:
    """Return the correlations of a cohort; None if it has no feature or no outcome."""
    cohort = form_cohort(session, trace)
    features = [
        name for name in FEATURES if name in cohort.rows.columns and cohort.rows[name].count()
    ]
    failure = session.manifest(trace).failure_statuses
    outcomes = cohort.rows["status"].is_in(["completed", *failure])
    if not features or not outcomes.any():
        return None
    return runtime_correlations(
        cohort.rows,
        features=features,
        failure=failure,
        method=("pearson", "spearman"),
        level=LEVELS,
        cluster=cohort.cluster,
        resamples=RESAMPLES,
    )


def correlation_points(session: Session, trace: str, /) -> dict[tuple[str, str], Points]:
    """Return the points of each Pearson correlation over rows, by outcome and feature."""
    rows = form_cohort(session, trace).rows
    statuses = {
        "success": ("completed",),
        "failure": session.manifest(trace).failure_statuses,
    }
    found = session.once(cohort_correlations, trace)
    if found is None:
        return {}
    points = {}
    known = found.table.filter(level="row", method="pearson").drop_nulls("r")
    for outcome, x in known.select("outcome", "x").rows():
        (name,) = (name for name in FEATURES if PERCENT.get(name, name) == x)
        value = pl.col(name) * (100 if name in PERCENT else 1)
        own = rows.filter(pl.col("status").is_in(statuses[outcome])).with_columns(value.alias(x))
        points[outcome, x] = Points(
            mean_by_value(own, x, "runtime_s"), joint_counts(own, x, "runtime_s", bins=_BINS)
        )
    return points
