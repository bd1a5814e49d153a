"""Runtime statistics by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.unit_note import notes_unit
from traceana.questions.failures.clusters import cluster_errors, note_few, refuse_missing
from traceana.questions.failures.tables import RuntimeBy
from traceana.stats.arguments import check_confidence
from traceana.stats.intervals import clustered_mean_interval, mean_interval
from traceana.store.frames import (
    Names,
    as_names,
    open_frame,
    reduce_frame,
    refuse_clash,
    with_totals,
)
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


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
    frame
        One row per job or task: `by`, `runtime` and `cluster`; eager or lazy, of any supported
        engine.
    by
        Columns to group by; null is a group of its own.
    runtime
        Column of the runtime: seconds or a duration.
    cluster
        Column of the independent unit, such as user, without nulls; None: rows are independent.
    confidence
        Coverage of the intervals, in (0, 1).

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
    keys = as_names(by)
    refuse_clash(keys, RuntimeBy.columns())
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
    if cluster is None:
        low, high = mean_interval(
            groups["mean_s"], groups["std_s"], groups["n"], confidence=confidence
        )
        added: dict[str, Any] = {}
    else:
        errors = _errors(rows, keys, runtime, cluster)
        variance, clusters = errors["variance"], errors["n_clusters"]
        low, high = clustered_mean_interval(
            groups["mean_s"], variance, errors["effective"], confidence=confidence
        )
        n = pl.col("n").cast(pl.Float64)
        effective = pl.when(variance > 0).then(groups["std_s"] ** 2 / variance).otherwise(n)
        added = {
            "n_clusters": clusters,
            "n_effective": pl.when(clusters > 1).then(pl.min_horizontal(effective, n)),
            "note": pl.coalesce(note_few(clusters, errors["effective"]), "note"),
        }
    # equal values differ by a rounding
    varies = pl.col("std_s") > 1e-12 * pl.col("mean_s")
    skewness = pl.when(varies).then(pl.col("cubes") / pl.col("squares") ** 1.5)
    heavy = pl.format(
        "heavy tail (skewness {}): the mean's interval is too narrow", skewness.round(1)
    )
    found = groups.with_columns(
        ci_low=pl.Series(low).fill_nan(None),
        ci_high=pl.Series(high).fill_nan(None),
        note=pl.when(pl.col("n") < 25 * skewness**2).then(heavy),
    )
    return declared(found.with_columns(**added), RuntimeBy, by=keys)


def _errors(
    rows: nw.LazyFrame[Any], keys: tuple[str, ...], runtime: str, cluster: str
) -> pl.DataFrame:
    value = nw.col(runtime)
    parts = reduce_frame(rows, (*keys, cluster), n=value.count(), mean=value.mean(), rows=nw.len())
    refuse_missing(parts[cluster], parts["rows"])
    total = (pl.col("n") * pl.col("mean")).fill_null(0)
    return cluster_errors(parts.with_columns(total=total), keys)
