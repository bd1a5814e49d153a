"""Correlations of runtime with requested resources, by outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.unit_note import notes_unit
from traceana.errors import DataError
from traceana.questions.correlations.correlate import correlate
from traceana.schema import STATUSES
from traceana.store.frames import Names, admit_columns, as_names, column_names, reduce_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.questions.correlations.tables import CorrelationResult

FEATURES: Final = ("gpus", "cpus", "memory_gib", "n_instances")
"""Columns that are correlated with the runtime by default, if they are present."""
PERCENT: Final = {"gpus": "gpu_percent", "cpus": "cpu_percent"}
"""Features that are correlated in percent, 100 being one GPU or core, and their name in a result"""


@notes_unit
def runtime_correlations(
    frame: IntoFrame,
    /,
    *,
    features: Names | None = None,
    runtime: str = "runtime_s",
    status: str = "status",
    success: Names = "completed",
    failure: Names = "failed",
    method: Names = ("pearson", "spearman"),
    level: Names = ("row", "group_mean"),
    by: Names = (),
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
        Of :func:`correlate` by `by` and outcome ("failure" or "success"). gpus and cpus are
        `gpu_percent` and `cpu_percent`, as published: 100 is one GPU or core. Rows without a
        runtime or the feature count in n_missing, those with another status in n_excluded; rows
        with 0 are included.

    Raises
    ------
    DataError
        If no row has a status in `success` or `failure`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> tasks = pl.DataFrame(
    ...     {"gpus": [1, 2, 4, 8], "runtime_s": [60, 50, 90, 200], "status": ["completed"] * 4}
    ... )
    >>> result = traceana.runtime_correlations(tasks, features="gpus", method="pearson")
    >>> result.table.head(1).select("x", "n", pl.col("r").round(2)).rows()
    [('gpu_percent', 4, 0.97)]
    """
    keys, clusters = as_names(by), as_names(() if cluster is None else cluster)
    there = column_names(frame)
    names = [name for name in FEATURES if name in there] if features is None else as_names(features)
    if not names:
        raise DataError(
            f"no feature to correlate: none of {', '.join(FEATURES)} in {', '.join(there)}; pass "
            "features="
        )
    wins, fails = as_names(success), as_names(failure)
    if shared := sorted(set(wins) & set(fails)):
        raise DataError(f"success and failure share the status {', '.join(shared)}")
    columns = (*keys, *clusters, status, runtime, *names)
    lazy = admit_columns(frame, columns, roles={"status": status, "runtime": runtime})
    value = nw.col(status).cast(nw.String)
    lazy = lazy.with_columns(value.alias(status))
    excluded = _count_excluded(lazy, keys, status, wins, fails)
    called = {name: PERCENT.get(name, name) for name in names}
    measures = [
        (nw.col(name) * 100 if name in PERCENT else nw.col(name)).alias(called[name])
        for name in names
    ]
    rows: Any = lazy.filter(nw.col(status).is_in([*wins, *fails])).select(
        *keys,
        *clusters,
        runtime,
        *measures,
        # a Boolean takes less memory than text, which replaces it at the end
        nw.col(status).is_in(list(wins)).alias("outcome"),
    )
    found = correlate(
        rows.to_native(),
        list(called.values()),
        runtime,
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
    table = found.table.with_columns(outcome=outcome)
    if keys:
        table = table.join(excluded, on=keys, how="left", nulls_equal=True, maintain_order="left")
    else:
        table = table.with_columns(n_excluded=pl.lit(excluded["n_excluded"].item(), pl.Int64))
    return replace(found, table=table)


def _count_excluded(
    lazy: nw.LazyFrame[Any],
    keys: Sequence[str],
    status: str,
    success: Sequence[str],
    failure: Sequence[str],
) -> pl.DataFrame:
    """Return [*keys, n_excluded]: the rows whose status is neither a success nor a failure."""
    named = [*success, *failure]
    if not set(named) <= set(STATUSES):
        present = reduce_frame(lazy, (status,), n=nw.len())[status].to_list()
        if absent := sorted(set(named).difference(STATUSES, present)):
            raise DataError(
                f"status {', '.join(absent)} is neither in column {status} nor one of "
                f"{', '.join(STATUSES)}"
            )
    used = nw.col(status).is_in(named)
    counts = reduce_frame(
        lazy, keys, n_rows=nw.len(), n_used=nw.when(used).then(nw.col(status)).count()
    )
    if counts["n_rows"].sum() and not counts["n_used"].sum():
        found = reduce_frame(lazy, (status,), n=nw.len()).sort("n", descending=True)[status]
        raise DataError(
            f"no row has status {', '.join(named)}; found "
            f"{', '.join(str(one) for one in found.head(10))}; pass success= and failure="
        )
    return counts.select(*keys, n_excluded=pl.col("n_rows") - pl.col("n_used"))
