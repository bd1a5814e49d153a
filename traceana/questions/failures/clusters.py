"""Failures by group and cluster, their standard errors, and integer codes with checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.ends import open_outcomes, with_failure
from traceana.errors import DataError
from traceana.stats.arrays import Integers
from traceana.stats.intervals import FEWEST_CLUSTERS, clustered_wilson_interval
from traceana.stats.multiplicity import adjust_pvalues
from traceana.store.frames import Names, reduce_frame

ONE_CLUSTER: Final = "one cluster: no interval"
_FEW: Final = "one cluster has most rows: no interval"


def count_failures(
    frame: IntoFrame, columns: Sequence[str], /, *, status: str, success: Names, failure: Names
) -> pl.DataFrame:
    """Return [*columns, n, failures]: the successes and failures, and the failures."""
    lazy, succeeded, failed = open_outcomes(
        frame, columns, status=status, success=success, failure=failure
    )
    ended = with_failure(lazy, status, succeeded, failed)
    failures = nw.col("failure").sum().cast(nw.Int64)
    return reduce_frame(ended, columns, n=nw.len(), failures=failures)


def with_adjusted(table: pl.DataFrame, /, *, method: str = "holm") -> pl.DataFrame:
    """Add `pvalue_adjusted`, over all p-values of a table."""
    tested = table["pvalue"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    adjusted = pl.Series(adjust_pvalues(tested, method=method), dtype=pl.Float64)
    return table.with_columns(pvalue_adjusted=adjusted.fill_nan(None))


def note_few(clusters: pl.Expr | pl.Series, effective: pl.Expr | pl.Series, /) -> pl.Expr:
    """Return why there is no interval over clusters; null where there is one."""
    few = pl.when(effective < FEWEST_CLUSTERS).then(pl.lit(_FEW))
    return pl.when(clusters == 1).then(pl.lit(ONE_CLUSTER)).otherwise(few)


def refuse_missing(cluster: pl.Series, n: pl.Series | None = None, /) -> None:
    """Refuse rows whose cluster is null; `n` counts the rows of each value of `cluster`."""
    missing = cluster.null_count() if n is None else n.filter(cluster.is_null()).sum()
    if missing:
        raise DataError(
            f"cluster {cluster.name} is null in {missing} row(s); fill it or drop these rows"
        )


def cluster_errors(parts: pl.DataFrame, keys: Sequence[str], /) -> pl.DataFrame:
    """Return [*keys, n_clusters, effective, variance] of the mean of each group, by the jackknife.

    With T_c and n_c the sum and the number of values of each of G clusters, the mean without a
    cluster differs from the mean by d_c = -(T_c - n_c mean) / (n - n_c), and variance =
    (G - 1) / G sum of d_c^2, null for a single cluster. Its degrees of freedom are effective - 1,
    with n^2 / sum of n_c^2 effective clusters (Kish): Satterthwaite's approximation for
    independent rows (Bell and McCaffrey, Survey Methodology 28, 2002).
    """
    n, total = pl.col("n"), pl.col("total")
    off = (total - n * (total.sum() / n.sum())) / (n.sum() - n)
    clusters = (n > 0).sum().cast(pl.Int64)
    variance = (clusters - 1) / clusters * (off**2).sum()
    errors = {
        "n_clusters": clusters,
        "effective": n.sum() ** 2 / (n.cast(pl.Float64) ** 2).sum(),
        "variance": pl.when(clusters > 1).then(variance),
    }
    return reduce_frame(parts, keys, **errors)


def rate_columns(
    rates: pl.DataFrame, parts: pl.DataFrame, keys: Sequence[str], /, *, confidence: float
) -> dict[str, pl.Series]:
    """Return ci_low, ci_high, n_clusters, n_effective and note of each row of `rates`.

    n_effective = rate (1 - rate) / variance of :func:`cluster_errors`, at most n. If the rate is 0
    or 1 the variance is 0, and it is the effective number of clusters: each may count as one row.
    """
    errors = cluster_errors(parts, keys)
    beside = rates.select("n", "rate").hstack(errors.select("n_clusters", "effective", "variance"))
    n, p, clusters = pl.col("n").cast(pl.Float64), pl.col("rate"), pl.col("n_clusters")
    effective = (
        pl.when(p * (1 - p) == 0)
        .then("effective")
        .when(pl.col("variance") > 0)
        .then(pl.min_horizontal(p * (1 - p) / pl.col("variance"), n))
        .otherwise(n)
    )
    table = beside.select(
        "n_clusters",
        "rate",
        "effective",
        n_effective=pl.when(clusters > 1).then(effective),
        note=note_few(clusters, pl.col("effective")),
    )
    low, high = clustered_wilson_interval(
        table["rate"], table["n_effective"], table["effective"], confidence=confidence
    )
    return {
        "ci_low": pl.Series(low).fill_nan(None),
        "ci_high": pl.Series(high).fill_nan(None),
        **{name: table[name] for name in ("n_clusters", "n_effective", "note")},
    }


MOST_LEVELS: Final = 50
"""Maximum number of groups: these are 1225 pairs."""


def group_codes(rows: pl.DataFrame, keys: Sequence[str], /) -> tuple[Integers, pl.DataFrame]:
    """Return the code of each row's group, and the keys of the 2 to 50 groups in order."""
    name = ", ".join(keys)
    if not keys:
        raise DataError("by names no column; name the groups to compare, such as by='gpu_type'")
    labels = rows.select(keys).unique().sort(keys, nulls_last=True)
    if not 2 <= labels.height <= MOST_LEVELS:
        raise DataError(
            f"{name} has {labels.height} group{'s' * (labels.height != 1)} of comparable rows; "
            f"from 2 to {MOST_LEVELS} are needed"
        )
    numbered = labels.with_columns(code=pl.int_range(pl.len(), dtype=pl.Int64))
    joined = rows.select(keys).join(
        numbered, on=list(keys), how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["code"].to_numpy(), labels


def cluster_codes(column: pl.Series, /) -> Integers:
    """Return the code of each row's cluster, of which at least two are needed."""
    codes = (column.rank("dense") - 1).cast(pl.Int64).to_numpy()
    if codes.max(initial=0) < 1:
        raise DataError(
            f"column {column.name} has one cluster of comparable rows; at least two are needed"
        )
    return np.asarray(codes)
