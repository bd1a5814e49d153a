"""Correlations of failure with requested resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceana.cohorts.definitions import open_outcomes, with_failure
from traceana.cohorts.unit_note import notes_unit
from traceana.errors import DataError
from traceana.questions.correlations.correlate import correlate
from traceana.questions.correlations.runtime import FEATURES
from traceana.store.frames import Names, as_names, column_names

if TYPE_CHECKING:
    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.questions.correlations.tables import CorrelationResult


@notes_unit
def failure_correlations(
    frame: IntoFrame,
    /,
    *,
    features: Names | None = None,
    status: str = "status",
    success: Names = "completed",
    failure: Names = "failed",
    method: Names = ("pearson", "spearman"),
    by: Names = (),
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
    there = column_names(frame)
    names = [name for name in FEATURES if name in there] if features is None else as_names(features)
    if not names:
        raise DataError(
            f"no feature to correlate: none of {', '.join(FEATURES)} in {', '.join(there)}; pass "
            "features="
        )
    columns = (*as_names(by), *as_names(() if cluster is None else cluster))
    lazy, succeeded, failed = open_outcomes(
        frame, (*columns, *names), status=status, success=success, failure=failure
    )
    rows: Any = with_failure(lazy, status, succeeded, failed)
    return correlate(
        rows.to_native(),
        names,
        "failure",
        method=method,
        by=by,
        cluster=cluster,
        adjust=adjust,
        confidence=confidence,
        resamples=resamples,
        rng=rng,
    )
