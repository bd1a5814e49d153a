"""One correlation: the coefficient, its interval, its p-value and the n behind them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from traceana.stats.cluster_correlation import (
    clustered_interval,
    count_distinct,
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
from traceana.stats.null_correlation import Null, null_pvalue

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from traceana.analysis.correlation.resampling import PairRows

LEAST = 4
"""Fewer points have no interval, and are given no coefficient."""
FEW_CLUSTERS = 30
"""Below it the bootstrap over clusters was not seen to hold its level (docs: error rates)."""


def of_rows(
    known: tuple[float | None, float | None],
    n: int,
    method: str,
    rows: PairRows | None,
    null: Null | None,
    /,
    *,
    confidence: float,
) -> dict[str, Any]:
    """Return the estimate over rows, of which `known` is r and its error on Fisher's scale."""
    r, error = known
    if r is None or np.isnan(r):
        return {"note": "the values vary too little or too much for double precision"}
    if rows is not None and rows.draws is not None:
        drawn = partial(pearson_error, rows.x, rows.y, rows.draws)
        if method != "pearson":
            drawn = partial(rank_error, r, rows.x, rows.y, rows.draws, method=method)
        return _clustered(r, method, rows, drawn, null, confidence=confidence)
    if method == "pearson":
        return _independent(r, n, method, confidence, error=0.0 if abs(r) == 1 else error)
    found = _independent(r, n, method, confidence)
    if method == "kendall" and rows is not None:
        found["pvalue"] = kendall_pvalue(rows.x, rows.y)
    return found


def of_group_means(
    points: pl.DataFrame,
    method: str,
    rows: PairRows | None,
    null: Null | None,
    /,
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
        error = null.error if null else np.nan
        return _clustered(r, method, rows, lambda: error, null, confidence=confidence)
    if weighted:
        return _independent(r, float(size.sum() ** 2 / (size**2).sum()), method, confidence)
    found = _independent(r, len(x), method, confidence)
    if method == "kendall":
        found["pvalue"] = kendall_pvalue(x, mean)
    return found


def _independent(
    r: float, n: float, method: str, confidence: float, *, error: float | None = 0.0
) -> dict[str, Any]:
    if n < LEAST:  # what the sizes of groups leave
        note = f"sizes leave {n:.1f} effective groups: too few for an interval or a test"
        return {"r": r, "n_effective": n, "note": note}
    pvalue = correlation_pvalue(r, n, method=method)
    found = {"r": r, "pvalue": pvalue, "n_effective": float(n)}
    if error is None:
        return found | {"note": "without one of the rows x or y is constant: no interval"}
    low, high = fisher_interval(r, n, method=method, confidence=confidence, error=error)
    if np.isnan(low):
        return found | {"note": "too few points for an interval"}
    return found | {"ci_low": low, "ci_high": high}


def _clustered(
    r: float,
    method: str,
    rows: PairRows,
    error_of: Callable[[], float],
    null: Null | None,
    *,
    confidence: float,
) -> dict[str, Any]:
    clusters = count_distinct(rows.clusters)
    found: dict[str, Any] = {"r": r, "n_clusters": clusters}
    if clusters < 2:
        return found | {"note": "fewer than two clusters: no interval and no test"}
    error = error_of() if abs(r) < 1 else np.nan
    if not error > 0:  # NaN too
        return found | {"note": "the resamples give no error: no interval and no test"}
    low, high = clustered_interval(r, error, clusters, confidence=confidence)
    by_chance = null or Null(0.0, error)
    notes = []
    if clusters < FEW_CLUSTERS:
        notes.append(f"fewer than {FEW_CLUSTERS} clusters: the interval may be too short")
    if abs(by_chance.centre) > by_chance.error:
        notes.append(
            f"r is {np.tanh(by_chance.centre):+.2f} on average where there is nothing, for the "
            "sizes of the groups; p allows for it, the interval does not"
        )
    return found | {
        "ci_low": low,
        "ci_high": high,
        "pvalue": null_pvalue(r, by_chance, clusters),
        "n_effective": n_of_variance(r, error**2, method),
        "note": "; ".join(notes) or None,
    }
