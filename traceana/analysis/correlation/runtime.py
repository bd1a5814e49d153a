"""The published family: runtime against what tasks asked for, by how they ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.correlation.correlate import correlate
from traceana.analysis.frames import Names, admit_columns, as_names, column_names, reduce_frame
from traceana.errors import DataError
from traceana.schema import STATUSES

if TYPE_CHECKING:
    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.analysis.correlation.result import CorrelationResult

FEATURES: Final = {
    "gpus": ("gpu_percent", 100),
    "cpus": ("cpu_percent", 100),
    "memory_gib": ("memory_gib", 1),
    "n_instances": ("n_instances", 1),
}
"""Columns of a frame with what they are called in the result, and by what they are multiplied."""


def runtime_correlations(
    frame: IntoFrame,
    /,
    *,
    failure: str = "published",
    method: Names = ("pearson", "spearman"),
    level: Names = ("row", "group_mean"),
    by: Names = (),
    cluster: Names = (),
    adjust: str = "fdr_bh",
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: int | np.random.Generator = 1,
) -> CorrelationResult:
    """Correlate runtime with GPUs, CPUs, memory and number of instances, by outcome.

    The family that was published of Alibaba's PAI trace (Pearson's r over group means), with what
    stands beside it: rows, ranks, intervals, and p adjusted over the whole family.

    Parameters
    ----------
    frame
        One row a job or task: [status, runtime_s], and those of [gpus, cpus, memory_gib,
        n_instances] that it has, at least one, as :func:`task_runtimes` gives it or a jobs table
        is; also `by` and `cluster`. Eager or lazy, of any listed engine.
    failure
        ``published``: success is `completed` and failure every other status, running and pending
        ones too. ``strict``: failure is `failed` alone, and rows of any other status are left
        out.
    method, level, by, cluster, adjust, confidence, resamples, rng
        As for :func:`correlate`.

    Returns
    -------
    CorrelationResult
        Of :func:`correlate` by [*by, outcome], outcome "failure" or "success". GPUs and CPUs are
        `gpu_percent` and `cpu_percent`, as published: 100 is one GPU or core. The population is
        the rows with a runtime (0 included) and the feature (0 included); others are n_missing.

    Raises
    ------
    DataError
        As :func:`correlate`; or if there is none of the features, a status is null or not of
        the closed set, or `failure` is neither of the two.
    """
    if failure not in ("published", "strict"):
        raise DataError(f"failure must be 'published' or 'strict'; it is {failure!r}")
    keys, clusters = as_names(by), as_names(cluster)
    features = [name for name in FEATURES if name in column_names(frame)]
    if not features:
        raise DataError(f"there is no feature to correlate: none of {', '.join(FEATURES)}")
    lazy = admit_columns(frame, (*keys, *clusters, "status", "runtime_s", *features))
    _check_statuses(lazy)
    status = nw.col("status").cast(nw.String)
    if failure == "strict":
        lazy = lazy.filter(status.is_in(("completed", "failed")))
    named = {
        called: nw.col(name) * times if times != 1 else nw.col(name)
        for name, (called, times) in FEATURES.items()
        if name in features
    }
    columns = [expression.alias(name) for name, expression in named.items()]
    # a truth value, which takes less time and memory than a word, is put in words at the end
    completed = (status == "completed").alias("outcome")
    rows: Any = lazy.select(*keys, *clusters, completed, "runtime_s", *columns)
    found = correlate(
        rows.to_native(),
        list(named),
        "runtime_s",
        method=method,
        level=level,
        by=(*keys, "outcome"),
        cluster=clusters,
        adjust=adjust,
        confidence=confidence,
        resamples=resamples,
        rng=rng,
    )
    outcome = pl.when("outcome").then(pl.lit("success")).otherwise(pl.lit("failure"))
    return replace(found, table=found.table.with_columns(outcome=outcome))


def _check_statuses(lazy: nw.LazyFrame[Any]) -> None:
    status = nw.col("status").cast(nw.String)
    found = reduce_frame(
        lazy,
        (),
        unknown=nw.when(~status.is_in(STATUSES)).then(status).min(),
        n_null=nw.len() - status.count(),
    ).row(0, named=True)
    if found["unknown"] is not None:
        raise DataError(f"status {found['unknown']!r} is found; statuses are {', '.join(STATUSES)}")
    if found["n_null"]:
        raise DataError(f"status is null in {found['n_null']} row(s): how they ended is unknown")
