"""How long things ran, by GPU type or any other grouping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import (
    Names,
    as_names,
    open_frame,
    reduce_frame,
    refuse_clash,
    with_totals,
)
from traceana.analysis.outcomes.clusters import ONE_CLUSTER, cluster_errors, refuse_lost
from traceana.stats.arguments import check_confidence
from traceana.stats.intervals import clustered_mean_interval, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def runtime_by(
    frame: IntoFrame, /, by: Names, *, cluster: str | None = None, confidence: float = 0.95
) -> pl.DataFrame:
    """Mean runtime with its interval, median and tail, by group.

    Parameters
    ----------
    frame
        One row a job or task: [*by, runtime_s], and `cluster`; eager or lazy, of any listed
        engine.
    by
        Columns to group by; null in them is a group of its own.
    cluster
        Column that says which rows belong together, such as user. With it, clusters are taken as
        independent; without, rows are.
    confidence
        Coverage of the mean's interval, in (0, 1).

    Returns
    -------
    DataFrame
        [*by, n, mean_s, ci_low, ci_high, median_s, p90_s, n_missing, p99_s, note], sorted by `by`,
        nulls last; times in s. n counts the runtimes that all the rest is taken over, n_missing
        the rows without one (null or NaN). [ci_low, ci_high] is Student's t interval of the mean,
        rows taken as independent; null for one runtime. Runtimes have heavy tails, and it is then
        too narrow (docs/explanation/error-rates.md has how much): `note` says so where
        n < 25 skewness^2, with the skewness m3 / m2^1.5 of the runtimes (Cochran, Sampling
        Techniques, 1977, section 2.15). :func:`compare_runtimes` has an interval of the median,
        which holds whatever the tail.
        Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan, 1996).
        All are null where n is 0.

        With `cluster`, also [n_clusters, n_effective] before note. The interval is then mean -+
        t(n_clusters - 1) sqrt(v), with v of the jackknife over clusters (its formula is in
        docs/explanation/outcomes.md), and n_effective = (deviation of runtimes)^2 / v is how many
        independent rows would tell the mean as well, at most n.
        Both are null for a single cluster, and note says so.

    Raises
    ------
    DataError
        If a column is missing or runtime_s not numeric, a runtime is negative or infinite, a
        cluster is null, or `confidence` is not in (0, 1).
    """
    keys = as_names(by)
    clustered = ("n_clusters", "n_effective") if cluster is not None else ()
    refuse_clash(keys, ("ci_low", "ci_high", "note", *clustered))
    check_confidence(confidence)
    columns = keys if cluster is None else (*keys, cluster)
    rows = open_frame(frame, keys=columns, measures=("runtime_s",))
    runtime = nw.col("runtime_s")
    # on a scale of its own, so that no cube is past the range of a double
    away = (runtime - nw.col("mean runtime")) / nw.col("longest")
    groups = reduce_frame(
        with_totals(rows, keys, **{"mean runtime": runtime.mean(), "longest": runtime.max()}),
        keys,
        squares=(away * away).mean(),
        cubes=(away * away * away).mean(),
        n=runtime.count(),
        mean_s=runtime.mean(),
        std_s=runtime.std(ddof=1),
        median_s=runtime.quantile(0.5, interpolation="linear"),
        p90_s=runtime.quantile(0.9, interpolation="linear"),
        p99_s=runtime.quantile(0.99, interpolation="linear"),
        n_missing=nw.len() - runtime.count(),
    )
    if cluster is not None:
        return _clustered(groups, rows, keys, cluster, confidence)
    low, high = mean_interval(groups["mean_s"], groups["std_s"], groups["n"], confidence=confidence)
    return _told(groups, keys, low, high)


def _clustered(
    groups: pl.DataFrame,
    rows: nw.LazyFrame[Any],
    keys: tuple[str, ...],
    cluster: str,
    confidence: float,
) -> pl.DataFrame:
    runtime = nw.col("runtime_s")
    parts = reduce_frame(
        rows, (*keys, cluster), n=runtime.count(), mean_s=runtime.mean(), rows=nw.len()
    )
    refuse_lost(parts[cluster], parts["rows"])
    parts = parts.with_columns(total=pl.col("n") * pl.col("mean_s"))
    errors = cluster_errors(parts.with_columns(pl.col("total").fill_null(0)), keys)
    variance, clusters = errors["variance"], errors["n_clusters"]
    low, high = clustered_mean_interval(groups["mean_s"], variance, clusters, confidence=confidence)
    n = pl.col("n").cast(pl.Float64)
    worth = pl.when(variance > 0).then(groups["std_s"] ** 2 / variance).otherwise(n)
    return _told(groups, keys, low, high).with_columns(
        n_clusters=clusters,
        n_effective=pl.when(clusters > 1).then(pl.min_horizontal(worth, n)),
        note=pl.when(clusters == 1).then(pl.lit(ONE_CLUSTER)).otherwise("note"),
    )


def _told(groups: pl.DataFrame, keys: tuple[str, ...], low: Floats, high: Floats) -> pl.DataFrame:
    # equal values differ by a rounding
    varies = pl.col("std_s") > 1e-12 * pl.col("mean_s")
    skewness = pl.when(varies).then(pl.col("cubes") / pl.col("squares") ** 1.5)
    return groups.select(
        *keys,
        "n",
        "mean_s",
        ci_low=pl.Series(low).fill_nan(None),
        ci_high=pl.Series(high).fill_nan(None),
        median_s="median_s",
        p90_s="p90_s",
        n_missing="n_missing",
        p99_s="p99_s",
        note=pl.when(pl.col("n") < 25 * skewness**2).then(
            pl.format(
                "heavy tail (skewness {}): the mean's interval is too narrow", skewness.round(1)
            )
        ),
    )
