"""Errors of rates and means whose rows depend on each other within clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.stats.intervals import clustered_wilson_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

ONE_CLUSTER: Final = "one cluster: no interval"
CLUSTERED: Final = ("n_clusters", "n_effective", "note")
"""Columns of a result that are there with clusters only."""


def refuse_lost(cluster: pl.Series, rows: pl.Series, /) -> None:
    """Refuse rows whose cluster is null.

    Raises
    ------
    DataError
        If there is one.
    """
    if lost := rows.filter(cluster.is_null()).sum():
        raise DataError(
            f"cluster {cluster.name} is null in {lost} row(s): fill it or leave them out"
        )


def cluster_errors(parts: pl.DataFrame, keys: Sequence[str], /) -> pl.DataFrame:
    """Return [*keys, n_clusters, variance], of the mean over all rows of a group.

    Of each of G clusters, T_c and n_c are the sum and the number of values. The mean without a
    cluster is off the mean of all by d_c = -(T_c - n_c mean) / (n - n_c), and variance =
    (G - 1) / G sum of d_c^2: the jackknife over clusters (Bell and McCaffrey, Survey Methodology
    28, 2002, have why it, and not the sum of (T_c - n_c mean)^2 / n^2, where clusters are few or
    of unlike sizes). Rows of a cluster may be alike in any way. Null for fewer than two.

    Parameters
    ----------
    parts
        One row a cluster of a group: [*keys, n, total].
    keys
        Columns that name the group.
    """
    n, total = pl.col("n"), pl.col("total")
    off = (total - n * (total.sum() / n.sum())) / (n.sum() - n)
    clusters = (n > 0).sum().cast(pl.Int64)
    variance = (clusters - 1) / clusters * (off**2).sum()
    found = {
        "n_clusters": clusters,
        "variance": pl.when(clusters > 1).then(variance),
    }
    if not keys:
        return parts.select(**found)
    return parts.group_by(keys).agg(**found).sort(keys, nulls_last=True)


def rate_columns(
    rates: pl.DataFrame, parts: pl.DataFrame, keys: Sequence[str], /, *, confidence: float
) -> dict[str, pl.Series]:
    """Return ci_low, ci_high, n_clusters, n_effective and note of each row of `rates`.

    n_effective = rate (1 - rate) / variance of :func:`cluster_errors`, at most n. Where no row or
    every row of a group is a success nothing varies, and it is the number of clusters: each may
    tell no more than one row does.

    Parameters
    ----------
    rates
        One row a group in the order of its keys: [*keys, n, rate].
    parts
        As for :func:`cluster_errors`, total being the number of successes.
    """
    errors = cluster_errors(parts, keys)
    beside = rates.select("n", "rate").hstack(errors.select("n_clusters", "variance"))
    n, p, clusters = pl.col("n").cast(pl.Float64), pl.col("rate"), pl.col("n_clusters")
    worth = (
        pl.when(p * (1 - p) == 0)
        .then(clusters.cast(pl.Float64))
        .when(pl.col("variance") > 0)
        .then(pl.min_horizontal(p * (1 - p) / pl.col("variance"), n))
        .otherwise(n)
    )
    told = beside.select(
        "n_clusters",
        "rate",
        n_effective=pl.when(clusters > 1).then(worth),
        note=pl.when(clusters == 1).then(pl.lit(ONE_CLUSTER)),
    )
    low, high = clustered_wilson_interval(
        told["rate"], told["n_effective"], told["n_clusters"], confidence=confidence
    )
    return {
        "ci_low": pl.Series(low).fill_nan(None),
        "ci_high": pl.Series(high).fill_nan(None),
        **{name: told[name] for name in CLUSTERED},
    }
