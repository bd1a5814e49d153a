"""Association of groups with failure: odds ratios, outliers, standardized rates."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import chdtrc

from traceana.cohorts.cohort import notes_unit, with_adjusted
from traceana.errors import DataError
from traceana.questions.failures.events import CELLS
from traceana.questions.failures.rates import (
    ONE_CLUSTER,
    cluster_codes,
    count_failures,
    group_codes,
    refuse_missing,
    stratum_codes,
)
from traceana.questions.failures.tables import (
    Association,
    FailureOdds,
    FailureOutliers,
    StandardizedRates,
)
from traceana.stats.arguments import as_generator, check_confidence
from traceana.stats.arrays import Floats
from traceana.stats.intervals import FEWEST_CLUSTERS, clustered_mean_interval
from traceana.stats.logistic import PooledOdds, clustered_odds, odds_ratio, pooled_odds
from traceana.stats.ranks import between_groups, cluster_covariance
from traceana.store.frames import Names, as_keys, as_names, reduce_frame, refuse_clash
from traceana.tables.declare import declared, interval_columns, returns, schema_of

TABLES: Final = 9999  # tables drawn for a Monte Carlo p-value
_MANY: Final = 100  # clusters from which the measured coverage is nominal
_FEW: Final = 5
"""Rows with an outcome in a group, found or expected, below which asymptotic tests do not hold."""


@notes_unit
@returns(Association)
def outcome_association(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    cluster: str | None = None,
    confidence: float = 0.95,
    rng: int | np.random.Generator = 1,
) -> pl.DataFrame:
    """Test whether the failure rate differs between groups.

    Pearson's chi-squared test of the contingency table of groups and outcomes, with Cramér's V =
    sqrt(chi-squared / n) as its effect size. If an expected count is below 5, p is estimated by
    Monte Carlo from 9,999 tables with the same margins: (1 + those with a statistic at least as
    large) / 10,000.

    Parameters
    ----------
    frame, success, failure, status, confidence
        As in :func:`outcome_rates`.
    by
        Columns of the groups, of which there are 2 to 50.
    cluster
        Column of the independent unit, such as user, of which there are at least two; rows without
        one are excluded. None: rows are independent.
    rng
        Seed or generator of the Monte Carlo tables.

    Returns
    -------
    DataFrame
        One row with the columns
        {columns}

        The interval contains the V whose noncentral distribution does not make the statistic
        extreme. With `cluster` it is conservative: of 10 to 60 clusters of Pareto sizes, those of
        95 % cover 97.2 to 98.9 %. Values are null, with a reason in `note`, if no row or every row
        failed.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame(
    ...     {"gpu": ["T4"] * 20 + ["V100"] * 20, "status": (["failed"] + ["completed"] * 9) * 2
    ...      + (["failed"] * 5 + ["completed"] * 5) * 2}
    ... )
    >>> found = traceana.outcome_association(jobs, "gpu")
    >>> found.select("n", "failures", pl.col("cramers_v").round(2)).rows()
    [(40, 12, 0.44)]
    """
    keys = as_keys(by, Association.columns())
    check_confidence(confidence)
    random = as_generator(rng)
    columns = keys if cluster is None else (*keys, cluster)
    counts = count_failures(frame, columns, status=status, success=success, failure=failure)
    if cluster is not None:
        counts = counts.drop_nulls(cluster)
    group, labels = group_codes(counts, keys)
    parts = counts.select("n", "failures").to_numpy().T.astype(float)
    n, failed = (np.bincount(group, part).astype(float) for part in parts)
    rows, failures = n.sum(), failed.sum()
    of = None if cluster is None else cluster_codes(counts[cluster])
    result: dict[str, Any] = {
        "n": int(rows),
        "failures": int(failures),
        "n_groups": labels.height,
        "n_clusters": None if of is None else int(of.max()) + 1,
    }
    if failures in (0, rows):
        result["note"] = "no row failed" if failures == 0 else "every row failed"
        return declared(pl.DataFrame([result], schema_of(Association)), Association)
    rate, group_rate, null = failures / rows, failed / n, None
    if of is None:
        centered = np.eye(len(n)) - n / rows
        spread = centered @ np.diag(group_rate * (1 - group_rate) / n) @ centered.T
    else:
        null = cluster_covariance(of, group, *parts, center=rate)
        spread = cluster_covariance(of, group, *parts)
    test = between_groups(n, failed, failures, null=null, spread=spread, confidence=confidence)
    statistic = test.statistic * rows / (rows - 1)
    if of is None:
        method, pvalue = _independent(statistic, n, rate, random)
    else:
        method, pvalue = "chi-squared, clusters independent", test.pvalue
        if result["n_clusters"] < _MANY:
            result["note"] = f"fewer than {_MANY} clusters: the interval is conservative"
    if np.isnan(test.ci_low) or np.isnan(pvalue):
        result["note"] = "null if outcomes do not vary within groups, or between clusters"
    sizes = np.sqrt([test.effect, test.ci_low, test.ci_high])
    result |= zip(("cramers_v", "ci_low", "ci_high"), sizes, strict=True)
    result |= {"n_effective": rows / test.design_effect, "statistic": statistic, "df": test.df}
    result |= {"pvalue": pvalue, "method": method}
    return declared(pl.DataFrame([result], schema_of(Association)).fill_nan(None), Association)


def _independent(
    statistic: float, n: Floats, rate: float, random: np.random.Generator
) -> tuple[str, float]:
    if min(rate, 1 - rate) * n.min() >= _FEW:
        return "chi-squared", float(chdtrc(len(n) - 1, statistic))
    total = round(rate * n.sum())
    drawn = random.multivariate_hypergeometric(n.astype(np.int64), total, size=TABLES)
    tables = ((drawn - n * rate) ** 2 / (n * rate * (1 - rate))).sum(axis=1)
    as_large = int((tables >= statistic * (1 - 1e-9)).sum())
    return f"Monte Carlo, {TABLES:,} tables", (as_large + 1) / (TABLES + 1)


@notes_unit
@returns(FailureOdds)
def failure_odds(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    strata: Names,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute odds ratios of failure between groups, crude and pooled over strata.

    If groups differ in another cause of failure, the crude odds ratio is confounded. The
    Mantel-Haenszel odds ratio compares within strata only. It is a summary only if the strata
    agree: see pvalue_homogeneity.

    Parameters
    ----------
    frame, by, success, failure, status, cluster, confidence
        As in :func:`outcome_rates`; 2 to 50 groups, and at least two clusters.
    strata
        Columns of the strata; null is a stratum of its own.

    Returns
    -------
    DataFrame
        One row per group except the reference, which has the most precise odds (the smallest
        1 / failures + 1 / successes), with the columns of `by`, `<by>_reference` and
        {columns}

        With `cluster`, intervals and pvalue are from a jackknife over clusters
        (:func:`traceana.stats.logistic.clustered_odds`), of which more than 100 are combined into
        100 cells. Below 100 clusters they are conservative: of 10 to 60 clusters of Pareto sizes,
        intervals of 95 % cover 98.1 to 99.6 %. Values are null, with a reason in `note`, if a ratio
        is 0 or infinite, no stratum is informative, one cluster has most rows, or there is no ratio
        without it.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4", "V100"] * 20, "gpus": [1, 1, 8, 8] * 10,
    ...                      "status": (["completed"] * 3 + ["failed"] * 2) * 8})
    >>> found = traceana.failure_odds(jobs, "gpu", strata="gpus")
    >>> found.select("gpu", "gpu_reference", pl.col("odds_ratio").round(2)).rows()
    [('V100', 'T4', 1.0)]
    """
    keys, within = as_names(by), as_names(strata)
    refuse_clash((*keys, *within), FailureOdds.columns())
    check_confidence(confidence)
    columns = (*keys, *within, *(() if cluster is None else (cluster,)))
    counts = count_failures(frame, columns, status=status, success=success, failure=failure)
    of = np.zeros(counts.height, dtype=np.int64)
    group, labels = group_codes(counts, keys)
    stratum = stratum_codes(counts, within)
    if cluster is not None:
        refuse_missing(counts[cluster], counts["n"])
        of = cluster_codes(counts[cluster])
    # cell x stratum x group x (failures, successes)
    cells = np.zeros((min(int(of.max()) + 1, CELLS), stratum.max() + 1, labels.height, 2))
    failed = counts["failures"].to_numpy()
    ends = np.stack([failed, counts["n"] - failed], axis=1)
    np.add.at(cells, (of % CELLS, stratum, group), ends)
    tables = cells.sum(axis=0)
    crude = tables.sum(axis=0)
    reference = int((crude.prod(axis=1) / crude.sum(axis=1)).argmax())
    others = [code for code in range(labels.height) if code != reference]
    rows: list[dict[str, Any]] = []
    for code in others:
        pair = [code, reference]
        ratio, low, high = odds_ratio(crude[pair], confidence=confidence)
        pooled = pooled_odds(tables[:, pair], confidence=confidence)
        row: dict[str, Any] = {
            "n": int(crude[code].sum()),
            "failures": int(crude[code, 0]),
            "n_reference": int(crude[reference].sum()),
            "failures_reference": int(crude[reference, 0]),
            "crude_odds_ratio": ratio,
            "crude_ci_low": low,
            "crude_ci_high": high,
            **pooled._asdict(),
        }
        of_clusters = None
        if cluster is not None:
            n_clusters = len(np.unique(of[np.isin(group, pair)]))
            allowed = clustered_odds(cells[:, :, pair], confidence=confidence)
            row |= {**allowed._asdict(), "pvalue_homogeneity": np.nan, "n_clusters": n_clusters}
            if np.isnan(allowed.ci_low):
                alone = "no interval: one cluster has most rows, or without one there is no ratio"
                of_clusters = ONE_CLUSTER if n_clusters == 1 else alone
            elif n_clusters < _MANY:
                of_clusters = f"fewer than {_MANY} clusters: interval and p are conservative"
        row["note"] = _why(ratio, pooled, int(crude[pair].min())) or of_clusters
        rows.append(row)
    beside = labels[[reference] * len(others)].rename(lambda name: f"{name}_reference")
    numbers = pl.DataFrame(rows, schema_overrides={"note": pl.String}).fill_nan(None)
    odds = labels[others].hstack(beside).hstack(numbers)
    return declared(odds, FailureOdds, by=(*keys, *beside.columns))


def _why(crude: float, pooled: PooledOdds, fewest: int) -> str | None:
    if not pooled.n_strata:
        return "no stratum has both groups and both outcomes"
    if np.isnan(pooled.odds_ratio):
        return "the ratio is 0 or infinite: within strata one group never or always failed"
    if np.isnan(crude):
        return "the crude ratio is 0 or infinite: one group never or always failed"
    if fewest < _FEW:
        return f"fewer than {_FEW} rows with an outcome in a group: interval and p are approximate"
    return None


@returns(FailureOutliers)
def failure_outliers(
    frame: IntoFrame,
    /,
    by: str,
    *,
    strata: str | None = None,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Find groups, such as nodes, with more failures than the rest.

    Jobs of one user fail alike and tend to run on the same nodes. With ``strata="user"`` a node is
    compared with the other nodes' jobs of the same users.

    Parameters
    ----------
    frame, success, failure, status, confidence
        As in :func:`outcome_rates`.
    by
        Column of the one group in which a job ran; rows without a value are excluded.
    strata
        Column within whose values rows are compared, null being one; None: all rows.

    Returns
    -------
    DataFrame
        The smallest adjusted p first, with the column of `by` and
        {columns}

        A group with fewer than five expected failures is not tested.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame(
    ...     {"node": ["a"] * 50 + ["b"] * 50,
    ...      "status": ["failed"] * 30 + ["completed"] * 20 + ["failed"] * 5 + ["completed"] * 45}
    ... )
    >>> traceana.failure_outliers(jobs, "node").select("node", "failures", "expected").rows()
    [('a', 30, 17.5), ('b', 5, 17.5)]
    """
    check_confidence(confidence)
    refuse_clash((by,), FailureOutliers.columns())
    keys = (by,) if strata is None else (by, strata)
    counts = count_failures(frame, keys, status=status, success=success, failure=failure)
    cells = counts.drop_nulls(by).with_columns(successes=pl.col("n") - pl.col("failures"))
    ends, whole = ["failures", "successes"], pl.lit(0) if strata is None else strata
    others = [f"other {end}" for end in ends]
    n, failed = (pl.col(name).sum().over(whole) for name in ("n", "failures"))
    cells = cells.with_columns(
        *(pl.col(end).sum().over(whole).alias(f"other {end}") - pl.col(end) for end in ends),
        expected=pl.col("n") * failed / n,
    )
    rows = []
    for (group,), part in cells.partition_by(by, as_dict=True).items():
        row: dict[str, Any] = {by: group}
        row |= part.select("n", "failures", "expected").sum().row(0, named=True)
        rows.append(row)
        if row["expected"] < _FEW:
            row["note"] = f"fewer than {_FEW} expected failures"
            continue
        tables = part.select(*ends, *others).to_numpy().reshape(-1, 2, 2).astype(float)
        row |= pooled_odds(tables, confidence=confidence)._asdict()
    schema = {by: cells.schema[by], **schema_of(FailureOutliers)}
    table = with_adjusted(pl.DataFrame(rows, schema=schema).fill_nan(None))
    table = table.sort("pvalue_adjusted", by, nulls_last=True)
    return declared(table, FailureOutliers, by=(by,))


@notes_unit
@returns(StandardizedRates)
def standardized_failure_rates(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    strata: Names,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute failure rates that groups would have with the same composition.

    Direct standardization: the sum over strata, such as size and user, of the fraction of all rows
    in the stratum times the group's failure rate in it (Rothman and others, Modern Epidemiology,
    3rd ed., 2008, chapter 4). Only strata with rows of all groups count; `fraction_covered` is
    their fraction of the rows.

    Parameters
    ----------
    frame, by, success, failure, status, confidence
        As in :func:`outcome_rates`; 2 to 50 groups.
    strata
        Columns of which each combination is a stratum; null is a value of its own. Bin numbers
        first.
    cluster
        Column of the independent unit, of which there are at least two; rows without one are
        excluded. None: rows are independent. If it is one of the strata, the comparison is within
        these units, and rows are independent.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

        The variance is that of the sum of (failure - rate of the group in the stratum) x weight of
        the stratum / rows of the group in it, with the factor n / (n - 1) of each such cell, or
        over the m clusters with m / (m - 1) and t(k - 1) of the effective number k (Kish).

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4", "T4", "V100", "V100"] * 5, "gpus": [1, 2, 1, 1] * 5,
    ...                      "status": (["failed"] + ["completed"] * 3) * 5})
    >>> found = traceana.standardized_failure_rates(jobs, "gpu", strata="gpus")
    >>> found.select("gpu", "rate", "standardized", "fraction_covered").rows()
    [('T4', 0.5, 1.0, 0.75), ('V100', 0.0, 0.0, 0.75)]
    """
    keys, within = as_keys(by, StandardizedRates.columns()), as_names(strata)
    if not within:
        raise DataError("strata names no column; name at least one, such as strata='gpus'")
    check_confidence(confidence)
    unit = () if cluster is None or cluster in within else (cluster,)
    columns = tuple(dict.fromkeys((*keys, *within, *unit)))
    counts = count_failures(frame, columns, status=status, success=success, failure=failure)
    counts = counts.drop_nulls(unit)
    _, labels = group_codes(counts, keys)
    for column in unit:
        cluster_codes(counts[column])  # at least two
    n, failures = pl.col("n"), pl.col("failures")
    cell, groups = [*keys, *within], pl.struct(keys).n_unique()
    rows = counts.with_columns(
        size=n.sum().over(cell),
        rate=failures.sum().over(cell) / n.sum().over(cell),
        of_stratum=n.sum().over(within),
        shared=groups.over(within) == labels.height,
    )
    covered = int(rows.filter("shared")["n"].sum())
    if not covered:
        raise DataError(f"no stratum of {', '.join(within)} has rows of all groups")
    size, rate, part, m = pl.col("size"), pl.col("rate"), pl.col("part"), pl.len()
    # of a row of a cell, whose rows add up to the cell
    rows = rows.with_columns(
        part=pl.when("shared").then(pl.col("of_stratum") / covered / size).otherwise(0.0)
    )
    sums = {"n": n.sum(), "failures": failures.sum(), "standardized": (failures * part).sum()}
    table = reduce_frame(rows, keys, **sums)
    if unit:
        away = ((failures - n * rate) * part).sum()
        errors = reduce_frame(
            rows.group_by(*keys, *unit).agg(n=n.sum(), away=away),
            keys,
            variance=(pl.col("away") ** 2).sum() * m / (m - 1).clip(1),
            effective=n.sum() ** 2 / (n.cast(pl.Float64) ** 2).sum(),
        )
    else:
        variance = rate * (1 - rate) / (size - 1).clip(1) * (size * part) ** 2
        errors = reduce_frame(rows, keys, variance=variance.sum(), effective=pl.lit(np.inf).first())
    of = (table["standardized"], errors["variance"], errors["effective"])
    ends = clustered_mean_interval(*of, confidence=confidence)
    why = "equivalent to fewer than two units of equal size: no interval"
    few = pl.when(errors["effective"] < FEWEST_CLUSTERS).then(pl.lit(why))
    varies = pl.col("standardized").is_between(0, 1, closed="none")
    table = table.with_columns(
        rate=failures / n,
        fraction_covered=covered / pl.sum("n"),
        **interval_columns(np.clip(ends, 0, 1)),
        note=few.when(~varies).then(pl.lit("no row or every row failed: no interval")),
    )
    table = table.with_columns(pl.when(varies).then(pl.col("ci_low", "ci_high")))
    return declared(table, StandardizedRates, by=keys)
