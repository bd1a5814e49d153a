"""Robust means of runtimes, and the fraction of the variance between users."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.cohorts.unit_note import notes_unit
from traceana.errors import DataError
from traceana.questions.failures.clusters import cluster_errors, note_few, refuse_missing
from traceana.questions.failures.tables import RuntimeMeans, VarianceBetween
from traceana.stats.arguments import check_confidence, is_number
from traceana.stats.intervals import FEWEST, clustered_mean_interval, mean_interval
from traceana.stats.intervals import variance_share as estimate_fraction
from traceana.store.frames import (
    LARGEST,
    Names,
    admit_columns,
    as_names,
    clean_columns,
    collect,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


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
    frame
        One row per job or task: `by`, `runtime` and `cluster`; eager or lazy, of any supported
        engine. Rows without a runtime (null or NaN) are excluded and counted.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    runtime, cluster, confidence
        As in :func:`runtime_by`.
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
    keys = as_names(by)
    refuse_clash(keys, RuntimeMeans.columns())
    check_confidence(confidence)
    if not (is_number(trim) and 0 <= trim < 0.5):
        raise DataError(f"trim must be from 0 to below 0.5; it is {trim!r}")
    names = keys if cluster is None else (*keys, cluster)
    rows = collect(open_frame(frame, keys=names, measures={"runtime": runtime}))
    value, kept = pl.col(runtime), pl.col(".kept")

    def of_group(expression: pl.Expr) -> pl.Expr:
        return expression.over(keys) if keys else expression

    n, place = of_group(value.count()), of_group(value.rank("ordinal"))
    cut = (trim * n).floor()
    rows = rows.with_columns(
        pl.when(place > cut, place <= n - cut).then(value).alias(".kept"),
        pl.when(value > 0).then(value.log()).alias(".log"),
    ).with_columns(value.clip(of_group(kept.min()), of_group(kept.max())).alias(".near"))
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
        errors = {
            name: cluster_errors(
                reduce_frame(rows, names, n=pl.col(name).count(), total=pl.sum(name)), keys
            )
            for name in (".near", ".log")
        }
        clusters = errors[".near"]["n_clusters"]
        trimmed, logs = (
            clustered_mean_interval(
                table[mean],
                errors[name]["variance"] / scale**2,
                errors[name]["effective"],
                confidence=confidence,
            )
            for mean, name, scale in (
                ("trimmed_mean_s", ".near", 1 - 2 * trim),
                (".log", ".log", 1),
            )
        )
        table = table.with_columns(n_clusters=clusters)
        why = note_few(clusters, errors[".near"]["effective"])
    with np.errstate(over="ignore"):
        ends = dict(
            zip(
                ("geometric_ci_low", "geometric_ci_high", "trimmed_ci_low", "trimmed_ci_high"),
                (*(np.exp(end) for end in logs), *trimmed),
                strict=True,
            )
        )
    bounds = {
        name: pl.when(pl.Series(end).is_finite()).then(pl.Series(end)) for name, end in ends.items()
    }
    table = table.with_columns(geometric_mean_s=pl.col(".log").exp(), note=why, **bounds)
    return declared(table, RuntimeMeans, by=keys)


@returns(VarianceBetween)
def variance_share(
    frame: IntoFrame,
    /,
    *,
    value: str,
    cluster: str,
    by: Names = (),
    log: bool = False,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Estimate the fraction of variance between users (intraclass correlation).

    The intraclass correlation of a one-way random-effects model: 1 if all rows of a user are
    equal, 0 if users do not differ.

    Parameters
    ----------
    frame
        One row per job or task: `value`, `cluster` and `by`; eager or lazy, of any supported
        engine. Rows without a value (null or NaN) are excluded and counted.
    value
        Column of numbers or a Boolean column, such as whether a job failed.
    cluster
        Column of the user or another unit with several rows, without nulls.
    log
        Whether to use the logarithm, as for runtimes; values of 0 and below are excluded then.
    by, confidence
        As in :func:`runtime_means`.

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
    >>> found = traceana.variance_share(jobs, value="runtime_s", cluster="user", log=True)
    >>> found["intraclass_correlation"].round(3).item()
    0.994
    """
    keys = as_names(by)
    refuse_clash(keys, VarianceBetween.columns())
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
    groups = rows.group_by(keys) if keys else [((), rows)]
    for group, of_group in groups:
        kept = of_group.drop_nulls(value)
        fraction = estimate_fraction(
            kept[value], kept[cluster].rank("dense"), confidence=confidence
        )
        note = None
        if math.isnan(fraction.share):
            note = "one cluster, or no variation within clusters"
        elif math.isnan(fraction.ci_low):
            note = f"fewer than {FEWEST} clusters: no interval"
        lines.append((*group, *fraction, of_group.height - kept.height, note))
    schema = {**rows.select(keys).schema, **schema_of(VarianceBetween)}
    table = pl.DataFrame(lines, schema=schema, orient="row")
    table = table.with_columns(pl.col("intraclass_correlation", "ci_low", "ci_high").fill_nan(None))
    return declared(table.sort(keys, nulls_last=True) if keys else table, VarianceBetween, by=keys)
