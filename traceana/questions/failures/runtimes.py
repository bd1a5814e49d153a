"""Runtimes of groups: quantiles, means and their comparison, and their variance between users."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import notes_unit, with_adjusted
from traceana.errors import DataError
from traceana.questions.failures.rates import (
    cluster_codes,
    cluster_errors,
    group_codes,
    note_few,
    refuse_missing,
)
from traceana.questions.failures.tables import (
    RuntimeBy,
    RuntimeComparison,
    RuntimeGroups,
    RuntimeMeans,
    RuntimeTest,
    VarianceBetween,
)
from traceana.stats.arguments import check_choice, check_confidence, is_number
from traceana.stats.arrays import Floats, Integers
from traceana.stats.intervals import FEWEST, clustered_mean_interval, mean_interval
from traceana.stats.intervals import variance_fraction as estimate_fraction
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.permutation import effective_clusters, too_few_clusters
from traceana.stats.quantiles import woodruff_interval
from traceana.stats.ranks import FEW, placements, rank_anova, superiority
from traceana.store.frames import (
    LARGEST,
    Names,
    admit_columns,
    as_keys,
    beside,
    clean_columns,
    collect,
    open_frame,
    reduce_frame,
    with_totals,
)
from traceana.tables.declare import declared, interval_columns, returns, schema_of


@notes_unit
@returns(RuntimeBy)
def runtime_by(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    runtime: str = "runtime_s",
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute the mean, median and upper quantiles of runtimes by group.

    Parameters
    ----------
    frame, by, cluster, confidence
        As in :func:`outcome_rates`.
    runtime
        Column of the runtime: seconds or a duration.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

        The interval is Student's t interval of the mean. Runtimes are heavy-tailed, which makes
        it too narrow; there is a `note` if n < 25 skewness^2 (Cochran, Sampling Techniques, 1977,
        section 2.15). :func:`runtime_means` and :func:`compare_runtimes` return means and medians
        whose intervals are not. Quantiles interpolate linearly between order statistics (type 7
        of Hyndman and Fan, 1996). With `cluster` the interval is mean -+ t(k - 1) sqrt(v), with v
        the jackknife variance over clusters and k the effective number of clusters (Kish); there
        is none if k is below 2. n_effective is the variance of the runtimes / v.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4"] * 6 + ["V100"] * 6, "runtime_s": range(1, 13)})
    >>> traceana.runtime_by(jobs, "gpu").select("gpu", "n", "mean_s", "median_s").rows()
    [('T4', 6, 3.5, 3.5), ('V100', 6, 9.5, 9.5)]
    """
    keys = as_keys(by, RuntimeBy.columns())
    check_confidence(confidence)
    columns = keys if cluster is None else (*keys, cluster)
    rows = open_frame(frame, keys=columns, measures={"runtime": runtime})
    value = nw.col(runtime)
    # scaled by the longest, so that no cube overflows
    away = (value - nw.col("mean runtime")) / nw.col("longest")
    groups = reduce_frame(
        with_totals(rows, keys, **{"mean runtime": value.mean(), "longest": value.max()}),
        keys,
        squares=(away * away).mean(),
        cubes=(away * away * away).mean(),
        n=value.count(),
        mean_s=value.mean(),
        std_s=value.std(ddof=1),
        median_s=value.quantile(0.5, interpolation="linear"),
        p90_s=value.quantile(0.9, interpolation="linear"),
        p99_s=value.quantile(0.99, interpolation="linear"),
        n_missing=nw.len() - value.count(),
    )
    mean, few = groups["mean_s"], pl.lit(None, pl.String)
    if cluster is None:
        ends = mean_interval(mean, groups["std_s"], groups["n"], confidence=confidence)
    else:
        sums = {"n": value.count(), "mean": value.mean(), "rows": nw.len()}
        parts = reduce_frame(rows, columns, **sums)
        refuse_missing(parts[cluster], parts["rows"])
        total = (pl.col("n") * pl.col("mean")).fill_null(0)
        errors = cluster_errors(parts.with_columns(total=total), keys)
        clusters, kish, variance = errors[["n_clusters", "effective", "variance"]]
        ends = clustered_mean_interval(mean, variance, kish, confidence=confidence)
        n, few = pl.col("n").cast(pl.Float64), note_few(clusters, kish)
        effective = pl.when(variance > 0).then(pl.col("std_s") ** 2 / variance).otherwise(n)
        groups = groups.with_columns(
            clusters, n_effective=pl.when(clusters > 1).then(pl.min_horizontal(effective, n))
        )
    # equal values differ by a rounding
    varies = pl.col("std_s") > 1e-12 * pl.col("mean_s")
    skewness = pl.when(varies).then(pl.col("cubes") / pl.col("squares") ** 1.5)
    heavy = pl.format(
        "heavy tail (skewness {}): the mean's interval is too narrow", skewness.round(1)
    )
    note = pl.coalesce(few, pl.when(pl.col("n") < 25 * skewness**2).then(heavy))
    return declared(groups.with_columns(**interval_columns(ends), note=note), RuntimeBy, by=keys)


@notes_unit
@returns(RuntimeMeans)
def runtime_means(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    runtime: str = "runtime_s",
    trim: float = 0.2,
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute geometric and trimmed mean runtimes by group.

    Both have intervals that cover with heavy tails, unlike the mean (:func:`runtime_by`). For
    censored or left-truncated runtimes use the restricted mean of :func:`kaplan_meier`.

    Parameters
    ----------
    frame, by, runtime, cluster, confidence
        As in :func:`runtime_by`. Rows without a runtime (null or NaN) are excluded and counted.
    trim
        Fraction of the shortest and of the longest runtimes that the trimmed mean excludes, in
        [0, 0.5).

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

        The geometric mean is exp of the mean logarithm, with its Student's t interval; runtimes of
        0 are excluded from it. For lognormal runtimes it is the median. The interval of the trimmed
        mean uses the winsorized standard deviation s and Student's t of h - 1, with h the rows that
        remain. It is the mean -+ t s / ((1 - 2 trim) sqrt(n)) (Tukey and McLaughlin, Sankhya A 25,
        1963). With `cluster`, standard errors are those of the jackknife over clusters, of the
        winsorized runtimes, with t(k - 1) of the effective number of clusters k (Kish).

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [10.0, 20, 40, 80, 16000]})
    >>> means = traceana.runtime_means(jobs).select("geometric_mean_s", "trimmed_mean_s")
    >>> means.select(pl.all().round(1)).row(0)
    (100.5, 46.7)
    """
    keys = as_keys(by, RuntimeMeans.columns())
    check_confidence(confidence)
    if not (is_number(trim) and 0 <= trim < 0.5):
        raise DataError(f"trim must be from 0 to below 0.5; it is {trim!r}")
    names = keys if cluster is None else (*keys, cluster)
    rows = collect(open_frame(frame, keys=names, measures={"runtime": runtime}))
    value, kept, group = pl.col(runtime), pl.col(".kept"), keys or pl.lit(0)
    n, place = value.count().over(group), value.rank("ordinal").over(group)
    cut = (trim * n).floor()
    rows = rows.with_columns(
        pl.when(place > cut, place <= n - cut).then(value).alias(".kept"),
        pl.when(value > 0).then(value.log()).alias(".log"),
    ).with_columns(value.clip(kept.min().over(group), kept.max().over(group)).alias(".near"))
    parts = {
        "n": value.count(),
        "n_zero": (value == 0).sum(),
        "n_missing": value.null_count(),
        "trimmed_mean_s": kept.mean(),
        "h": kept.count(),
        ".log": pl.col(".log").mean(),
        "logs": pl.col(".log").count(),
        "log_std": pl.col(".log").std(),
        "near_std": pl.col(".near").std(),
    }
    table = reduce_frame(rows, keys, **parts)
    if cluster is None:
        std = table["near_std"] * (table["h"] / table["n"]).sqrt() / (1 - 2 * trim)
        trimmed = mean_interval(table["trimmed_mean_s"], std, table["h"], confidence=confidence)
        logs = mean_interval(table[".log"], table["log_std"], table["logs"], confidence=confidence)
        why: pl.Expr = pl.when(pl.col("h") < 2).then(pl.lit("fewer than two runtimes: no interval"))
    else:
        refuse_missing(rows[cluster])
        near, log = (
            cluster_errors(
                reduce_frame(rows, names, n=pl.col(name).count(), total=pl.sum(name)), keys
            )
            for name in (".near", ".log")
        )
        variance = near["variance"] / (1 - 2 * trim) ** 2
        trimmed = clustered_mean_interval(
            table["trimmed_mean_s"], variance, near["effective"], confidence=confidence
        )
        logs = clustered_mean_interval(
            table[".log"], log["variance"], log["effective"], confidence=confidence
        )
        table = table.with_columns(near["n_clusters"])
        why = note_few(near["n_clusters"], near["effective"])
    with np.errstate(over="ignore"):
        ends = np.stack([*np.exp(logs), *trimmed])
    bounds = pl.DataFrame(
        np.where(np.isfinite(ends), ends, np.nan).T,
        schema=[f"{m}_ci_{end}" for m in ("geometric", "trimmed") for end in ("low", "high")],
    )
    table = table.hstack(bounds.fill_nan(None))
    table = table.with_columns(geometric_mean_s=pl.col(".log").exp(), note=why)
    return declared(table, RuntimeMeans, by=keys)


@returns(VarianceBetween)
def variance_fraction(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    value: str,
    cluster: str,
    log: bool = False,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Estimate the fraction of variance between users (intraclass correlation).

    The intraclass correlation of a one-way random-effects model: 1 if all rows of a user are
    equal, 0 if users do not differ.

    Parameters
    ----------
    frame, by, confidence
        As in :func:`outcome_rates`. Rows without a value (null or NaN) are excluded and counted.
    value, log
        Column of numbers or a Boolean column, such as whether a job failed, and whether to use the
        logarithm, as for runtimes; values of 0 and below are excluded then.
    cluster
        Column of the user or another unit with several rows, without nulls.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

        The ANOVA estimator for clusters of unequal size (Donner, International Statistical Review
        54, 1986), with the jackknife interval over clusters of the logarithm of F.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"user": ["a", "a", "b", "b"], "runtime_s": [10.0, 12, 90, 80]})
    >>> found = traceana.variance_fraction(jobs, value="runtime_s", cluster="user", log=True)
    >>> found["intraclass_correlation"].round(3).item()
    0.994
    """
    keys = as_keys(by, VarianceBetween.columns())
    admitted = admit_columns(frame, (*keys, cluster, value), roles={"value": value})
    if admitted.collect_schema()[value] == nw.Boolean:
        admitted = admitted.with_columns(nw.col(value).cast(nw.Float64))
    rows = collect(clean_columns(admitted, (value,)))
    refuse_missing(rows[cluster])
    if (rows[value].abs() > LARGEST).any():
        raise DataError(f"column {value} has a value beyond {LARGEST:g}; value= needs finite ones")
    if log:
        rows = rows.with_columns(pl.when(pl.col(value) > 0).then(pl.col(value).log()).alias(value))
    lines = []
    for group, of_group in rows.group_by(keys) if keys else [((), rows)]:
        kept = of_group.drop_nulls(value)
        between = estimate_fraction(kept[value], kept[cluster].rank("dense"), confidence=confidence)
        note = None
        if math.isnan(between.fraction):
            note = "one cluster, or no variation within clusters"
        elif math.isnan(between.ci_low):
            note = f"fewer than {FEWEST} clusters: no interval"
        lines.append((*group, *between, of_group.height - kept.height, note))
    schema = {**rows.select(keys).schema, **schema_of(VarianceBetween)}
    table = pl.DataFrame(lines, schema=schema, orient="row")
    table = table.with_columns(pl.col("intraclass_correlation", "ci_low", "ci_high").fill_nan(None))
    return declared(table.sort(keys, nulls_last=True) if keys else table, VarianceBetween, by=keys)


@notes_unit
def compare_runtimes(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    runtime: str = "runtime_s",
    cluster: str | None = None,
    method: str = "brunner-munzel",
    adjust: str = "fdr_bh",
    confidence: float = 0.95,
) -> RuntimeComparison:
    """Compare the runtimes of groups by their ranks, all together and pairwise.

    Ranks are robust against the heavy tails of runtimes. All groups are compared by the rank ANOVA
    of Brunner, Dette and Munk (JASA 92, 1997), with effect size epsilon squared = H / (N - 1)
    (Kelley, PNAS 21, 1935). Pairs are compared by Brunner and Munzel's test of the probability that
    a runtime of the first group is longer (ties counted half), with Cliff's delta. Two groups have
    this test alone. Spreads may differ. Small groups are compared by permutations. In large samples
    any p-value is small: read the effect sizes first. Runtimes are taken as complete: left
    truncation and censoring by an observation window are ignored. Exclude rows that started before
    it, or compare the curves of :func:`kaplan_meier`.

    Parameters
    ----------
    frame, by, runtime, confidence
        As in :func:`runtime_by`; 2 to 50 groups. Rows with null or NaN in the runtime or the
        cluster are excluded.
    cluster
        Column of the independent unit, such as user, of which there are at least two; None: rows
        are independent. If they are not, p is far too small. Below ten effective clusters the rank
        ANOVA has no p and no interval.
    method
        "brunner-munzel": rank ANOVA of all groups and Brunner and Munzel's test of pairs, which
        agrees with the interval. "mann-whitney": the tests of Kruskal and Wallis and of Mann and
        Whitney, which assume equal spreads.
    adjust
        Adjustment of the p-values over all pairs: "fdr_bh" (Benjamini and Hochberg), "fdr_by",
        "holm", "bonferroni" or "none".

    Returns
    -------
    RuntimeComparison
        ``.test``, ``.groups`` sorted by `by`, and ``.pairs`` with the columns `<by>_a` and
        `<by>_b`. Methods and references: :doc:`/explanation/outcomes`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4"] * 6 + ["V100"] * 6, "runtime_s": range(1, 13)})
    >>> result = traceana.compare_runtimes(jobs, "gpu")
    >>> result.pairs.select("gpu_a", "gpu_b", "superiority").rows()
    [('T4', 'V100', 0.0)]
    """
    keys = as_keys(by, RuntimeGroups.columns())
    check_confidence(confidence)
    adjust_pvalues([], method=adjust)
    check_choice("method", method, ("brunner-munzel", "mann-whitney"))
    columns = keys if cluster is None else (*keys, cluster)
    rows = collect(open_frame(frame, keys=columns, measures={"runtime": runtime}))
    taken = rows.drop_nulls([runtime] if cluster is None else [runtime, cluster])
    codes, labels = group_codes(taken, keys)
    of = None if cluster is None else cluster_codes(taken[cluster])
    value = taken[runtime].to_numpy()
    placed = placements(value, codes)
    groups = labels.hstack(_groups(value, codes, of, placed, confidence))
    groups = beside(reduce_frame(rows, keys, rows=pl.len()), groups, keys)
    groups = groups.with_columns(pl.col("n").fill_null(0))
    old = method == "mann-whitney"
    first, second = np.array([*combinations(range(labels.height), 2)]).T
    compared = [
        superiority(codes, placed, of, a, b, confidence=confidence, mann_whitney=old)
        for a, b in zip(first, second, strict=True)
    ]
    n, chance = np.bincount(codes), pl.col("superiority")
    others = labels[second].rename(lambda name: f"{name}_b").hstack(pl.DataFrame(compared))
    pairs = labels[first].rename(lambda name: f"{name}_a").hstack(others)
    pairs = pairs.with_columns(n_a=n[first], n_b=n[second], cliffs_delta=2 * chance - 1)
    none = pl.col("ci_low").is_null()
    notes = {
        "all runtimes are equal, or they belong to one cluster": pl.col("pvalue").is_null(),
        "no interval: all runtimes of one group are longer": none & chance.is_in([0.0, 1.0]),
        "no interval: a group has too few rows or one cluster": none,
    }
    note = pl.coalesce(pl.when(holds).then(pl.lit(text)) for text, holds in notes.items())
    pairs = with_adjusted(pairs.fill_nan(None), method=adjust).with_columns(note=note)
    test = _test(value, codes, of, placed, confidence=confidence, old=old)
    if pairs.height == 1 and not old:
        test = test.with_columns(pvalue=pairs["pvalue"])
    groups = groups.with_columns(n_missing=pl.col("rows") - pl.col("n")).drop("rows")
    return RuntimeComparison(test=test, groups=groups, pairs=pairs)


def _test(
    value: Floats,
    group: Integers,
    cluster: Integers | None,
    placed: Floats,
    *,
    confidence: float,
    old: bool,
) -> pl.DataFrame:
    row: dict[str, Any] = {
        "n": len(value),
        "n_groups": int(group.max()) + 1,
        "n_clusters": None if cluster is None else int(cluster.max()) + 1,
    }
    if value.min() == value.max():
        return pl.DataFrame([row | {"note": "all runtimes are equal"}], schema_of(RuntimeTest))
    test, _ = rank_anova(group, placed, cluster, confidence=confidence, equal_spreads=old)
    note = None
    if cluster is None and not old and np.bincount(group).min() < FEW:
        note = f"a group has fewer than {FEW} rows: p is approximate"
    if np.isnan(test.pvalue) or np.isnan(test.ci_low):
        note = "null if runtimes do not vary within groups, or between clusters"
        if cluster is not None:
            note = too_few_clusters(effective_clusters(np.ones(len(value)), cluster)) or note
    row |= test._asdict() | {
        "n_effective": len(value) / (1 if cluster is None else test.design_effect),
        "epsilon_squared": test.effect,
        "df_error": None if np.isinf(test.error_df) else test.error_df,
        "note": note,
    }
    return pl.DataFrame([row], schema_of(RuntimeTest)).fill_nan(None)


def _groups(
    value: Floats, group: Integers, cluster: Integers | None, placed: Floats, confidence: float
) -> pl.DataFrame:
    rank, rows = placed @ np.bincount(group) + 0.5, []
    for code in range(int(group.max()) + 1):
        values, of = value[group == code], None if cluster is None else cluster[group == code]
        row = {"n": len(values), "n_clusters": None if of is None else len(np.unique(of))}
        row |= {"mean_rank": rank[group == code].mean(), "median_s": np.median(values)}
        ends = woodruff_interval(values, of, confidence=confidence)
        rows.append(row | dict(zip(("ci_low", "ci_high"), ends, strict=True)))
    return pl.DataFrame(rows).fill_nan(None)
