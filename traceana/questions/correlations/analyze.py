"""Correlations of columns; of runtime and failure with requested resources in a cohort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import Cohort, form_cohort, notes_unit, outcome_cohort, with_adjusted
from traceana.cohorts.ends import OUTCOMES, open_outcomes, with_failure
from traceana.errors import DataError
from traceana.questions.correlations.points import LEVELS, mean_by_value, number_clusters, of_pair
from traceana.questions.correlations.tables import CorrelationResult, Correlations
from traceana.stats.arguments import MOST_RESAMPLES, as_generator, check_confidence, check_count
from traceana.stats.correlation import METHODS, SMALLEST_P
from traceana.stats.multiplicity import adjust_pvalues
from traceana.store import Trace
from traceana.store.frames import (
    Names,
    admit_columns,
    as_names,
    beside,
    clean_columns,
    collect,
    column_names,
    reduce_frame,
    refuse_clash,
)
from traceana.tables.declare import returns, schema_of


@notes_unit
@returns(Correlations)
def correlate(
    frame: IntoFrame,
    /,
    x: Names,
    y: Names,
    by: Names = (),
    *,
    method: Names = "pearson",
    level: Names = "row",
    cluster: Names | None = None,
    adjust: str = "fdr_bh",
    confidence: float = 0.95,
    resamples: int = 200,
    rng: int | np.random.Generator = 1,
) -> CorrelationResult:
    """Correlate columns, with confidence intervals and adjusted p-values.

    `x`, `y`, `method` and `level` take one or several values. All combinations, in all groups of
    `by`, are one family, over which p is adjusted. Methods and formulas:
    :doc:`/explanation/correlation`.

    Values are null with a `note` if there are fewer than four points, a constant column or a value
    beyond 1e150. The interval is null if one row decides it. With `cluster`, interval and p are
    null below ten effective clusters. The columns are collected from any engine.

    Parameters
    ----------
    frame
        One row per observation: `x`, `y`, `by` and `cluster`; eager or lazy, of any supported
        engine. Rows without both values of a pair (null or NaN) are excluded and counted.
    x, y
        Columns of numbers; `y` may be Boolean (false 0, true 1), for which Pearson's r is the
        point-biserial correlation.
    method
        "pearson", "spearman" (r of mean ranks) or "kendall" (tau-b).
    level
        "row": every row is a point. "group_mean": one point per distinct x, at the mean y of its
        rows, unweighted; it hides how many rows a point has and how much they vary.
        "group_mean_weighted": the same points, weighted by their number of rows.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    cluster
        Columns of the independent unit, such as user, without nulls; None: rows are independent
        (groups, at the levels of group means).
    adjust
        Adjustment of the p-values over the family: "fdr_bh", "fdr_by", "holm", "bonferroni" or
        "none".
    confidence
        Coverage of the intervals, in (0, 1).
    resamples
        Largest number of clusters that the jackknife leaves out one by one. More have the error of
        the infinitesimal jackknife; for Kendall's tau they are combined at random into so many
        groups.
    rng
        Seed or generator of these groups and of the permutations.

    Returns
    -------
    CorrelationResult
        ``.table`` is sorted by `by` (nulls last), then in the requested order, with the columns of
        `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8, 8], "runtime_s": [60, 50, 90, 200, 150]})
    >>> traceana.correlate(jobs, "gpus", "runtime_s").table["r"].round(3).item()
    0.944
    """
    check_confidence(confidence)
    random = as_generator(rng)
    pairs = list(dict.fromkeys(product(as_names(x), as_names(y))))
    methods, levels = _among("method", method, METHODS), _among("level", level, LEVELS)
    keys, clusters = as_names(by), as_names(() if cluster is None else cluster)
    adjust_pvalues([], method=adjust)  # refused before anything is read
    check_count("resamples", resamples, least=100, most=MOST_RESAMPLES)
    if not pairs:
        raise DataError("x and y must each name at least one column")
    refuse_clash(keys, Correlations.columns())
    for a, b in pairs:
        if a == b:
            raise DataError(f"column {a} cannot be correlated with itself")
    measures = tuple(dict.fromkeys(chain.from_iterable(pairs)))
    admitted = admit_columns(frame, (*keys, *clusters, *measures))
    flags = {b for _, b in pairs if admitted.collect_schema()[b] == nw.Boolean}
    if flags:
        admitted = admitted.with_columns(nw.col(*flags).cast(nw.Float64))
    rows = collect(clean_columns(admitted, measures))
    asked = list(product(levels, methods))
    lines: list[dict[str, Any]] = []
    parts = rows.partition_by(keys, as_dict=True, maintain_order=True) if keys else {(): rows}
    for group in rows.select(keys).unique().sort(keys, nulls_last=True).rows() if keys else [()]:
        part = parts.pop(group)
        codes = number_clusters(part, clusters, resamples, random)
        of_group = dict(zip(keys, group, strict=True))
        for pair in pairs:
            estimated = of_pair(part, pair, asked, codes, confidence=confidence, rng=random)
            lines += [of_group | line for line in estimated]
    schema = {**rows.select(keys).schema, **schema_of(Correlations)}
    estimates = pl.DataFrame(lines, schema=schema).drop("n_excluded")
    table = with_adjusted(estimates, method=adjust).with_columns(
        note=pl.when(pl.col("pvalue") <= SMALLEST_P)
        .then(
            pl.concat_str("note", pl.lit("p is below 2.2e-308"), separator="; ", ignore_nulls=True)
        )
        .otherwise("note"),
    )
    return CorrelationResult(table)


def _among(what: str, named: Names, allowed: Sequence[str]) -> tuple[str, ...]:
    names = as_names(named)
    for name in names:
        if name not in allowed:
            raise DataError(f"{what} must be among {', '.join(allowed)}; it is {name!r}")
    if not names:
        raise DataError(f"{what} names none of {', '.join(allowed)}")
    return tuple(dict.fromkeys(names))


FEATURES: Final = ("gpus", "cpus", "memory_gib", "n_instances")
"""Columns that are correlated with the runtime by default, if they are present."""


@notes_unit
def runtime_correlations(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    features: Names | None = None,
    runtime: str = "runtime_s",
    status: str = "status",
    success: Names = "completed",
    failure: Names = "failed",
    method: Names = ("pearson", "spearman"),
    level: Names = ("row", "group_mean"),
    cluster: Names | None = None,
    adjust: str = "fdr_bh",
    confidence: float = 0.95,
    resamples: int = 200,
    rng: int | np.random.Generator = 1,
) -> CorrelationResult:
    """Correlate runtime with requested resources, by outcome.

    These are the correlations published for Alibaba's PAI trace (Pearson's r over group means),
    and those over rows and of ranks, with intervals and p adjusted over the whole family.

    Parameters
    ----------
    frame
        One row per job or task: `by`, `cluster`, `status`, `runtime` and the features, as in a jobs
        table or as :func:`task_runtimes` returns it; eager or lazy, of any supported engine.
    features
        Columns of numbers; None: those of gpus, cpus, memory_gib and n_instances that the frame
        has.
    runtime, status
        Columns of the runtime and the status.
    success, failure
        Status values of a success and a failure: other rows are excluded.
    method, level, by, cluster, adjust, confidence, resamples, rng
        As in :func:`correlate`.

    Returns
    -------
    CorrelationResult
        Of :func:`correlate` by `by` and outcome ("failure" or "success"). Rows without a runtime or
        the feature count in n_missing, those with another status in n_excluded; rows with 0 are
        included.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> tasks = pl.DataFrame(
    ...     {"gpus": [1, 2, 4, 8], "runtime_s": [60, 50, 90, 200], "status": ["completed"] * 4}
    ... )
    >>> result = traceana.runtime_correlations(tasks, features="gpus", method="pearson")
    >>> result.table.head(1).select("x", "n", pl.col("r").round(2)).rows()
    [('gpus', 4, 0.97)]
    """
    keys, clusters = as_names(by), as_names(() if cluster is None else cluster)
    names = _features(frame, features)
    used = (*keys, *clusters, runtime, *names)
    admitted = admit_columns(frame, (*used, status), roles={"runtime": runtime}).to_native()
    lazy, wins, fails = open_outcomes(
        admitted, used, status=status, success=success, failure=failure
    )
    counted = nw.col(status).is_in([*wins, *fails])
    n_used = nw.when(counted).then(nw.col(status)).count()
    counts = reduce_frame(lazy, keys, rows=nw.len(), used=n_used)
    if counts["rows"].sum() and not counts["used"].sum():
        raise DataError(
            f"no row has status {', '.join((*wins, *fails))}; pass success= and failure="
        )
    excluded = counts.select(*keys, n_excluded=pl.col("rows") - pl.col("used"))
    # a Boolean takes less memory than text, which replaces it at the end
    outcome = nw.col(status).is_in(list(wins)).alias("outcome")
    rows: Any = lazy.filter(counted).select(*used, outcome)
    options: dict[str, Any] = {"method": method, "level": level, "adjust": adjust, "rng": rng}
    options |= {"confidence": confidence, "resamples": resamples, "cluster": clusters}
    correlations = correlate(rows.to_native(), names, runtime, by=(*keys, "outcome"), **options)
    named = pl.when("outcome").then(pl.lit("success")).otherwise(pl.lit("failure"))
    table = correlations.table.with_columns(outcome=named)
    return replace(correlations, table=beside(table, excluded, keys))


def _features(frame: IntoFrame, features: Names | None) -> tuple[str, ...]:
    if features is not None and (names := as_names(features)):
        return names
    present = column_names(frame)
    if not (names := tuple(name for name in FEATURES if name in present)) or features is not None:
        raise DataError(
            f"no feature to correlate: none of {', '.join(FEATURES)} in {', '.join(present)}; pass "
            "features="
        )
    return names


@notes_unit
def failure_correlations(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    features: Names | None = None,
    status: str = "status",
    success: Names = "completed",
    failure: Names = "failed",
    method: Names = ("pearson", "spearman"),
    cluster: Names | None = None,
    adjust: str = "fdr_bh",
    confidence: float = 0.95,
    resamples: int = 200,
    rng: int | np.random.Generator = 1,
) -> CorrelationResult:
    """Correlate failure (0 or 1) with requested resources, over rows.

    Pearson's r with a Boolean is the point-biserial correlation. It is positive if rows that
    failed requested more. `y` of the result is "failure".

    Parameters
    ----------
    frame
        One row per job or task: `by`, `cluster`, `status` and the features; no runtime is needed.
        Eager or lazy, of any supported engine.
    features, status, success, failure
        As in :func:`runtime_correlations`.
    method, by, cluster, adjust, confidence, resamples, rng
        As in :func:`correlate`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> tasks = pl.DataFrame(
    ...     {"status": ["completed", "completed", "failed", "failed"], "gpus": [1, 2, 4, 8]}
    ... )
    >>> traceana.failure_correlations(tasks, method="pearson").table["r"].round(3).item()
    0.839
    """
    names = _features(frame, features)
    columns = (*as_names(by), *as_names(() if cluster is None else cluster))
    lazy, succeeded, failed = open_outcomes(
        frame, (*columns, *names), status=status, success=success, failure=failure
    )
    rows: Any = with_failure(lazy, status, succeeded, failed)
    options: dict[str, Any] = {"method": method, "by": by, "cluster": cluster, "adjust": adjust}
    options |= {"confidence": confidence, "resamples": resamples, "rng": rng}
    return correlate(rows.to_native(), names, "failure", **options)


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
    return with_adjusted(pl.concat(tables), method="fdr_bh")


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
