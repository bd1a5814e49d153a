"""One correlation: the coefficient, its interval, its p-value and the n behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from traceana.stats.cluster_jackknife import (
    clustered_interval,
    clustered_pvalue,
    influence_error,
    jackknife_errors,
)
from traceana.stats.correlation import (
    carrying_rows,
    correlation,
    correlation_pvalue,
    excess_kurtosis,
    fisher_interval,
    fisher_variance,
    kendall_pvalue,
    kendall_tie_factor,
    n_of_variance,
)
from traceana.stats.permutation import EXACT, row_pvalue
from traceana.stats.wild_bootstrap import (
    effective_clusters,
    leverage,
    sign_flip_pvalue,
    too_few_clusters,
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
MIN_DECIDING: Final = 20
"""Fewest effective clusters, weighted by their leverage on a mean of group means, for a test."""
HEAVY: Final = 10
"""Excess kurtosis above which the interval of Pearson's r covers less than it should."""
_WIDEST: Final = 3.0  # half a width on Fisher's scale, beyond which an interval excludes nothing


class Clusters(NamedTuple):
    """Clusters of the rows of a pair; errors by method, tests by (level, method)."""

    n: int
    df: float
    effective: float
    errors: dict[str, float]
    pvalues: dict[tuple[str, str], float]

    @classmethod
    def of(
        cls,
        x: Floats,
        y: Floats,
        clusters: Integers,
        cells: Integers,
        asked: Sequence[Any],
        /,
        *,
        rng: np.random.Generator,
    ) -> Clusters:
        """Compute the errors over rows and the tests of each (level, method)."""
        n, m = (int(np.count_nonzero(np.bincount(codes))) for codes in (clusters, cells))
        effective = effective_clusters(np.ones(len(x)), clusters)
        df = min(m, effective) - 1
        if too_few_clusters(effective):
            return cls(n, df, effective, {}, {})
        pvalues = {}
        for key in asked:
            scored = leverage(x, y, *key)
            # a few groups of one row may decide a mean of group means
            if scored and (
                key[0] == "row" or effective_clusters(scored[0] ** 2, clusters) >= MIN_DECIDING
            ):
                pvalues[key] = sign_flip_pvalue(*scored, clusters, rng=rng)
        methods = [method for level, method in asked if level == "row"]
        many = {method for method in methods if n > m and method != "kendall"}
        errors = jackknife_errors(x, y, cells, [name for name in methods if name not in many])
        errors |= {method: influence_error(x, y, clusters, method) for method in many}
        return cls(n, df, effective, errors, pvalues)


def of_rows(
    pearson: tuple[float | None, float | None],
    method: str,
    n: int,
    rows: tuple[Floats, Floats] | None,
    clusters: Clusters | None,
    /,
    *,
    confidence: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the estimate over rows, which are ranks for Spearman's coefficient.

    `pearson` is Pearson's r and its error on Fisher's scale.
    """
    r, error = pearson
    if method != "pearson" and rows is not None:
        on = "pearson" if method == "spearman" else method
        r, error = correlation(*rows, method=on), 0.0
        if method == "kendall":
            error = float(
                np.sqrt(fisher_variance(r, max(n, 5), method) * kendall_tie_factor(*rows))
            )
    if r is None or np.isnan(r):
        return {"note": "the values vary too little or too much for double precision"}
    found: dict[str, Any] = {"r": r, "pvalue_t": correlation_pvalue(r, n, method=method)}
    kurtosis = [excess_kurtosis(part) for part in rows] if rows and method == "pearson" else [0, 0]
    if clusters is not None:
        found |= _clustered(r, ("row", method), clusters, confidence)
    else:
        found |= _independent(r, n, method, confidence, error)
        if method == "kendall" and rows is not None:
            found["pvalue"] = kendall_pvalue(*rows)
        elif rows and (np.prod(kurtosis) > n / 10 or (method == "spearman" and n <= EXACT)):
            found["pvalue"] = row_pvalue(*rows, rng=rng)
    if rows is not None and method == "pearson":
        if found.get("pvalue", 1) < 1 - confidence and (carried := carrying_rows(*rows, r)):
            found["n_carrying"], found["r_without"] = carried
        if found.get("ci_low") is not None and max(kurtosis) > HEAVY:
            found["note"] = _joined(found, "heavy tails: the interval may be too short")
    return found


def of_group_means(
    points: pl.DataFrame,
    level: str,
    method: str,
    clusters: Clusters | None,
    pvalues: dict[tuple[str, str], float],
    /,
) -> dict[str, Any]:
    """Return the estimate over group means [x, size, mean], weighted by the sizes or not.

    `pvalues` are of the permutation test, by (level, method).
    """
    x, size, mean = (points[name].to_numpy().astype(float) for name in ("x", "size", "mean"))
    if len(x) < MIN_POINTS:
        return {"note": f"fewer than {MIN_POINTS} distinct x"}
    weighted = level == "group_mean_weighted"
    r = correlation(x, mean, method=method, weights=size if weighted else None)
    if np.isnan(r):
        return {"note": "all group means are equal"}
    n = float(size.sum() ** 2 / (size**2).sum()) if weighted else float(len(x))
    found: dict[str, Any] = {"r": r, "n_effective": n}
    if n > 2:
        published = correlation_pvalue(r, n, method=method)
        found["pvalue_t"] = (
            kendall_pvalue(x, mean) if (weighted, method) == (False, "kendall") else published
        )
    known = pvalues if clusters is None else clusters.pvalues
    if clusters is not None:
        found["n_clusters"] = clusters.n
    found["pvalue"] = known.get((level, method))
    if found["pvalue"] is None:
        why = (
            "too many rows or groups"
            if clusters is None
            else _why_untested(clusters, level, method)
        )
        return found | {"note": f"no test ({why})"}
    return found


def _why_untested(clusters: Clusters, level: str, method: str) -> str:
    if few := too_few_clusters(clusters.effective):
        return few
    if (level, method) == ("group_mean", "pearson"):
        return f"fewer than {MIN_DECIDING} units of equal size decide the group means"
    return "no calibrated test of ranked group means in clusters"


def _independent(
    r: float, n: int, method: str, confidence: float, error: float | None
) -> dict[str, Any]:
    found = {"pvalue": correlation_pvalue(r, n, method=method), "n_effective": float(n)}
    if abs(r) == 1:
        line = "all rows are on a line" if method == "pearson" else "all pairs have the same order"
        return found | {"note": f"{line}: no interval"}
    if error is None:
        return found | {"note": "one row decides r: no interval"}
    return found | _checked(
        *fisher_interval(r, n, method=method, confidence=confidence, error=error)
    )


def _checked(low: float, high: float) -> dict[str, Any]:
    """Return an interval, or a note if it is undefined or includes nearly every value."""
    if np.isnan(low) or max(abs(low), abs(high)) > 1 - 1e-12:
        return {"note": "no interval: too few rows, or few rows decide r"}
    if np.arctanh(high) - np.arctanh(low) > 2 * _WIDEST:
        return {"note": "no interval: too few rows, or few rows decide r"}
    return {"ci_low": low, "ci_high": high}


def _clustered(
    r: float, key: tuple[str, str], clusters: Clusters, confidence: float
) -> dict[str, Any]:
    found: dict[str, Any] = {"n_clusters": clusters.n}
    if few := too_few_clusters(clusters.effective):
        return found | {"note": f"no interval and no test ({few})"}
    error = clusters.errors[key[1]] if abs(r) < 1 else np.nan
    if not error > 0:  # NaN too
        return found | {"note": "the jackknife has no error: no interval and no test"}
    found |= {
        "pvalue": clusters.pvalues.get(key, clustered_pvalue(r, error, clusters.df)),
        "n_effective": n_of_variance(r, error**2, key[1]),
    }
    found |= _checked(*clustered_interval(r, error, clusters.df, confidence=confidence))
    if clusters.effective < FEW_CLUSTERS and "ci_low" in found:
        few = f"as of fewer than {FEW_CLUSTERS} equal units: the interval may be too short"
        found["note"] = _joined(found, few)
    return found


def _joined(found: dict[str, Any], note: str) -> str:
    return "; ".join(part for part in (found.get("note"), note) if part)
