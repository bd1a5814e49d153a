"""One correlation: the coefficient, its interval, its p-value and the n behind them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from traceana.stats.cluster_correlation import (
    clustered_interval,
    clustered_pvalue,
    count_distinct,
    group_mean_error,
    pearson_error,
    rank_error,
)
from traceana.stats.correlation import (
    correlation,
    correlation_pvalue,
    fisher_interval,
    kendall_pvalue,
    n_of_variance,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from traceana.analysis.correlation.resampling import PairRows

LEAST = 4
"""Fewer points have no interval, and are given no coefficient."""
FEW_CLUSTERS = 30
"""Below it the bootstrap over clusters was not seen to hold its level (docs: error rates)."""


def of_rows(
    r: float | None,
    n: int,
    method: str,
    rows: PairRows | None,
    *,
    confidence: float,
) -> dict[str, Any]:
    """Return the estimate over rows; `r` is known for Pearson, and else comes from the rows."""
    if r is None and rows is not None:
        r = correlation(rows.x, rows.y, method=method)
    if r is None or np.isnan(r):
        return {"note": "the values vary too little or too much for double precision"}
    if rows is not None and rows.draws is not None:
        error = partial(pearson_error, rows.x, rows.y, rows.draws)
        if method != "pearson":
            error = partial(rank_error, r, rows.x, rows.y, rows.draws, method=method)
        return _clustered(r, method, rows, error, confidence)
    found = _independent(r, n, method, confidence)
    if method == "kendall" and rows is not None:
        found["pvalue"] = kendall_pvalue(rows.x, rows.y)
    return found


def of_group_means(
    points: pl.DataFrame,
    method: str,
    rows: PairRows | None,
    *,
    weighted: bool,
    confidence: float,
) -> dict[str, Any]:
    """Return the estimate over group means [x, size, mean], weighted by the sizes or not."""
    x, size, mean = (points[name].to_numpy().astype(float) for name in ("x", "size", "mean"))
    if len(x) < LEAST:
        return {"note": f"fewer than {LEAST} distinct x"}
    r = correlation(x, mean, method=method, weights=size if weighted else None)
    if np.isnan(r):
        return {"note": "all group means are equal"}
    if rows is not None and rows.draws is not None:
        error = partial(
            group_mean_error, rows.x, rows.y, rows.draws, method=method, weighted=weighted
        )
        return _clustered(r, method, rows, error, confidence)
    if weighted:
        return _independent(r, float(size.sum() ** 2 / (size**2).sum()), method, confidence)
    found = _independent(r, len(x), method, confidence)
    if method == "kendall":
        found["pvalue"] = kendall_pvalue(x, mean)
    return found


def _independent(r: float, n: float, method: str, confidence: float) -> dict[str, Any]:
    if n < LEAST:  # what the sizes of groups leave
        note = f"sizes leave {n:.1f} effective groups: too few for an interval or a test"
        return {"r": r, "n_effective": n, "note": note}
    low, high = fisher_interval(r, n, method=method, confidence=confidence)
    pvalue = correlation_pvalue(r, n, method=method)
    found = {"r": r, "pvalue": pvalue, "n_effective": float(n)}
    if np.isnan(low):
        return found | {"note": "too few points for an interval"}
    return found | {"ci_low": low, "ci_high": high}


def _clustered(
    r: float, method: str, rows: PairRows, error_of: Callable[[], float], confidence: float
) -> dict[str, Any]:
    clusters = count_distinct(rows.clusters)
    found: dict[str, Any] = {"r": r, "n_clusters": clusters}
    if clusters < 2:
        return found | {"note": "fewer than two clusters: no interval and no test"}
    error = error_of() if abs(r) < 1 else np.nan
    if not error > 0:  # NaN too
        return found | {"note": "the resamples give no error: no interval and no test"}
    found |= {
        "pvalue": clustered_pvalue(r, error, clusters),
        "n_effective": n_of_variance(r, error**2, method),
    }
    if clusters < FEW_CLUSTERS:
        found["note"] = f"fewer than {FEW_CLUSTERS} clusters: the interval may be too short"
    low, high = clustered_interval(r, error, clusters, confidence=confidence)
    return found | {"ci_low": low, "ci_high": high}
