"""One correlation: the coefficient, its interval, its p-value and the n behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from traceana.stats.cluster_jackknife import (
    clustered_interval,
    clustered_pvalue,
    jackknife_errors,
)
from traceana.stats.correlation import (
    correlation,
    correlation_pvalue,
    fisher_interval,
    kendall_pvalue,
    n_of_variance,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

MIN_POINTS: Final = 4
"""With fewer points no coefficient is computed."""
FEW_CLUSTERS: Final = 30
"""With fewer clusters error rates were not measured to be near their nominal values."""


class Clusters(NamedTuple):
    """Clusters of the rows of a pair, and errors of its correlations by (level, method)."""

    n: int
    df: int
    errors: dict[tuple[str, str], float]

    @classmethod
    def of(
        cls, x: Floats, y: Floats, clusters: Integers, cells: Integers, asked: Sequence[Any], /
    ) -> Clusters:
        """Compute the errors of each (level, method) asked."""
        n, m = (int(np.count_nonzero(np.bincount(codes))) for codes in (clusters, cells))
        return cls(n, m - 1, jackknife_errors(x, y, cells, asked) if n > 1 else {})


def of_rows(
    pearson: tuple[float | None, float | None],
    method: str,
    n: int,
    rows: tuple[Floats, Floats] | None,
    clusters: Clusters | None,
    /,
    *,
    confidence: float,
) -> dict[str, Any]:
    """Return the estimate over rows; `pearson` is Pearson's r and its error on Fisher's scale."""
    r, error = pearson
    if method != "pearson" and rows is not None:
        r, error = correlation(*rows, method=method), 0.0
    if r is None or np.isnan(r):
        return {"note": "the values vary too little or too much for double precision"}
    if clusters is not None:
        return _clustered(r, ("row", method), clusters, confidence)
    found = _independent(r, n, method, confidence, error=0.0 if abs(r) == 1 else error)
    if method == "kendall" and rows is not None:
        found["pvalue"] = kendall_pvalue(*rows)
    return found


def of_group_means(
    points: pl.DataFrame,
    level: str,
    method: str,
    clusters: Clusters | None,
    /,
    *,
    confidence: float,
) -> dict[str, Any]:
    """Return the estimate over group means [x, size, mean], weighted by the sizes or not."""
    x, size, mean = (points[name].to_numpy().astype(float) for name in ("x", "size", "mean"))
    if len(x) < MIN_POINTS:
        return {"note": f"fewer than {MIN_POINTS} distinct x"}
    weighted = level == "group_mean_weighted"
    r = correlation(x, mean, method=method, weights=size if weighted else None)
    if np.isnan(r):
        return {"note": "all group means are equal"}
    if clusters is not None:
        return _clustered(r, (level, method), clusters, confidence)
    if weighted:
        return _independent(r, float(size.sum() ** 2 / (size**2).sum()), method, confidence)
    found = _independent(r, len(x), method, confidence)
    if method == "kendall":
        found["pvalue"] = kendall_pvalue(x, mean)
    return found


def _independent(
    r: float, n: float, method: str, confidence: float, *, error: float | None = 0.0
) -> dict[str, Any]:
    if n < MIN_POINTS:  # the effective number of weighted points
        note = f"{n:.1f} effective groups: too few for an interval or a test"
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
    r: float, key: tuple[str, str], clusters: Clusters, confidence: float
) -> dict[str, Any]:
    found: dict[str, Any] = {"r": r, "n_clusters": clusters.n}
    if clusters.n < 2:
        return found | {"note": "fewer than two clusters: no interval and no test"}
    error = clusters.errors[key] if abs(r) < 1 else np.nan
    if not error > 0:  # NaN too
        return found | {"note": "the jackknife has no error: no interval and no test"}
    low, high = clustered_interval(r, error, clusters.df, confidence=confidence)
    few = f"fewer than {FEW_CLUSTERS} clusters: the interval may be too short and p too small"
    return found | {
        "ci_low": low,
        "ci_high": high,
        "pvalue": clustered_pvalue(r, error, clusters.df),
        "n_effective": n_of_variance(r, error**2, key[1]),
        "note": few if clusters.n < FEW_CLUSTERS else None,
    }
