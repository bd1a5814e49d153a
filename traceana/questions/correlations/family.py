"""The correlations of one pair of columns: estimates, intervals, tests and notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.stats.arrays import Floats, Integers
from traceana.stats.correlation import (
    NEAR_ONE,
    carrying_rows,
    clustered_interval,
    clustered_pvalue,
    correlation,
    correlation_pvalue,
    dot,
    excess_kurtosis,
    fisher_interval,
    fisher_variance,
    influence_error,
    jackknife_errors,
    kendall_pvalue,
    kendall_tie_factor,
    n_of_variance,
    weighted_ranks,
)
from traceana.stats.permutation import (
    EXACT,
    effective_clusters,
    group_mean_pvalues,
    leverage,
    row_pvalue,
    sign_flip_pvalue,
    too_few_clusters,
)
from traceana.store.frames import LARGEST, reduce_frame

Key = tuple[str, str]

MIN_POINTS: Final = 4  # with fewer points no coefficient is computed
FEW_CLUSTERS: Final = 30
"""With fewer clusters error rates were not measured to be near their nominal values."""
MIN_DECIDING: Final = 20
"""Fewest effective clusters, weighted by their leverage on a mean of group means, for a test."""
HEAVY: Final = 10
"""Excess kurtosis above which the interval of Pearson's r covers less than it should."""
LEVELS: Final = ("row", "group_mean", "group_mean_weighted")
"""Levels: what a point of a correlation is."""
_WIDEST: Final = 3.0  # half a width on Fisher's scale, beyond which an interval excludes nothing
_FEW_ROWS: Final = 5
_SMALLEST: Final = 1e-12  # fraction of a sum of squares that is rounding error
_DECIDES: Final = 0.8
"""Fraction of the jackknife's sum of squares at which one row decides the error."""


class Clusters(NamedTuple):
    """Clusters of the rows of a pair; errors by method, tests by (level, method)."""

    n: int
    df: float
    effective: float
    errors: dict[str, float]
    pvalues: dict[Key, float]


def of_pair(
    part: pl.DataFrame,
    pair: tuple[str, str],
    asked: Sequence[Key],
    codes: tuple[Integers, Integers] | None,
    ranks: dict[str, tuple[Floats, Floats]],
    /,
    *,
    confidence: float,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Return the columns of :class:`Correlations` by (level, method) for the rows of a group."""
    x, y = (part[name].to_numpy() for name in pair)
    n = part.select(pl.all_horizontal(pl.col(pair).is_not_null()).sum()).item()
    keep = (np.abs(x) <= LARGEST) & (np.abs(y) <= LARGEST)  # False for NaN
    x, y = x[keep], y[keep]
    note = _why_not(n, x, y)
    rows = {"x": pair[0], "y": pair[1], "n": n, "n_missing": part.height - n, "note": note}
    points = pl.DataFrame()
    if any(level != "row" for level, _ in asked):
        of_x = pl.DataFrame({"x": x, "y": y})
        points = reduce_frame(of_x, ("x",), size=pl.len(), mean=pl.col("y").mean())
    lines = [
        rows
        | {"level": level, "method": method, "n_groups": points.height if level != "row" else None}
        for level, method in asked
    ]
    if note is not None:
        return lines
    clusters: Clusters | None = None
    pvalues: dict[Key, float] = {}
    values = {method: (x, y) for level, method in asked if level == "row"}
    if "spearman" in values:
        values["spearman"] = _ranks(pair[0], x, ranks), _ranks(pair[1], y, ranks)
    if codes is not None:
        clusters = _in_clusters(x, y, [code[keep] for code in codes], asked, values, rng=rng)
        pvalues = clusters.pvalues
    elif points.height >= MIN_POINTS:
        pvalues = group_mean_pvalues(x, y, [key for key in asked if key[0] != "row"], rng=rng)
    for line, (level, method) in zip(lines, asked, strict=True):
        if level != "row":
            line.update(_of_group_means(points, level, method, clusters, pvalues))
            continue
        line.update(_of_rows(*values[method], method, clusters, confidence=confidence, rng=rng))
    return lines


def _why_not(n: int, x: Floats, y: Floats) -> str | None:
    """Return why a pair has no correlation at any level; None if it may have one."""
    if beyond := n - len(x):
        return f"{beyond} row(s) with a value beyond {LARGEST:g} (infinite)"
    if n < MIN_POINTS:
        return f"fewer than {MIN_POINTS} rows with both values"
    for name, values in (("x", x), ("y", y)):
        if values.min() == values.max():
            return f"{name} is constant"
    return None


def _ranks(name: str, values: Floats, ranks: dict[str, tuple[Floats, Floats]]) -> Floats:
    """Return the ranks of a column, which pairs with the same rows share."""
    if name not in ranks or not np.array_equal(ranks[name][0], values):
        ranks[name] = values, weighted_ranks(values)
    return ranks[name][1]


def number_clusters(
    rows: pl.DataFrame, names: Sequence[str], resamples: int, rng: np.random.Generator, /
) -> tuple[Integers, Integers] | None:
    """Return the cluster and the cell of each row as integers; None without clusters."""
    for name in names:
        if missing := rows[name].null_count():
            raise DataError(
                f"cluster {name} is null in {missing} row(s): fill it or remove these rows"
            )
    if not names or rows.is_empty():
        return None
    # numbered in the order of their names: the order of rows differs between engines
    unit = pl.struct(names) if len(names) > 1 else pl.col(names[0])
    code = rows.select(unit.rank("dense") - 1).to_series().to_numpy().astype(np.int64)
    n = int(code.max()) + 1
    return code, code if n <= resamples else (rng.permutation(n) % resamples)[code]


def _in_clusters(
    x: Floats,
    y: Floats,
    codes: Sequence[Integers],
    asked: Sequence[Key],
    values: dict[str, tuple[Floats, Floats]],
    *,
    rng: np.random.Generator,
) -> Clusters:
    """Compute the errors over rows, of these values, and the tests of each (level, method)."""
    clusters, cells = codes
    n, m = (int(np.count_nonzero(np.bincount(code))) for code in codes)
    effective = effective_clusters(np.ones(len(x)), clusters)
    df = min(m, effective) - 1
    if too_few_clusters(effective):
        return Clusters(n, df, effective, {}, {})
    pvalues = {}
    for level, method in asked:
        scored = leverage(x, y, level, method)
        # a few groups of one row may decide a mean of group means
        if scored and (
            level == "row" or effective_clusters(scored[0] ** 2, clusters) >= MIN_DECIDING
        ):
            pvalues[level, method] = sign_flip_pvalue(*scored, clusters, rng=rng)
    many = {method for method in values if n > m and method != "kendall"}
    errors = jackknife_errors(x, y, cells, [name for name in values if name not in many])
    errors |= {method: influence_error(*values[method], clusters, method) for method in many}
    return Clusters(n, df, effective, errors, pvalues)


def _of_rows(
    x: Floats,
    y: Floats,
    method: str,
    clusters: Clusters | None,
    /,
    *,
    confidence: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the estimate over rows, which are ranks for Spearman's coefficient."""
    n, (r, error) = len(x), _coefficient(x, y, method)
    if np.isnan(r):
        return {"note": "the values vary too little or too much for double precision"}
    values: dict[str, Any] = {"r": r, "pvalue_t": correlation_pvalue(r, n, method=method)}
    kurtosis = [excess_kurtosis(part) for part in (x, y)] if method == "pearson" else [0, 0]
    if clusters is not None:
        values |= _clustered(r, method, clusters, confidence)
    else:
        values |= _independent(r, n, method, confidence, error)
        if method == "kendall":
            values["pvalue"] = kendall_pvalue(x, y)
        elif np.prod(kurtosis) > n / 10 or (method == "spearman" and n <= EXACT):
            values["pvalue"] = row_pvalue(x, y, rng=rng)
    if method == "pearson":
        if values.get("pvalue", 1) < 1 - confidence and (carried := carrying_rows(x, y, r)):
            values["n_carrying"], values["r_without"] = carried
        if "ci_low" in values and max(kurtosis) > HEAVY:
            values["note"] = _joined(values, "heavy tails: the interval may be too short")
    return values


def _coefficient(x: Floats, y: Floats, method: str) -> tuple[float, float | None]:
    """Return a coefficient, and the least error of its interval on Fisher's scale."""
    if method == "pearson":
        return _pearson(x, y)
    r = correlation(x, y, method="pearson" if method == "spearman" else method)
    if method == "spearman" or np.isnan(r):
        return r, 0.0
    variance = fisher_variance(r, max(len(x), 5), method) * kendall_tie_factor(x, y)
    return r, float(np.sqrt(variance))


def _pearson(x: Floats, y: Floats) -> tuple[float, float | None]:
    """Return Pearson's r and its jackknife error on Fisher's scale.

    With z_i the arctanh of r without row i, the error is sqrt((n - 1) / n sum of
    (z_i - mean z)^2) (Miller, Biometrika 61, 1974). None if x or y is constant without one row, if
    r is 1 or -1, or if one row makes more than 80 % of the sum.
    """
    n = len(x)
    a, b = x - x.mean(), y - y.mean()
    with np.errstate(over="ignore", invalid="ignore"):
        xx, yy = dot(a, a), dot(b, b)
        size = np.sqrt(xx) * np.sqrt(yy)
        if not size > 0:
            return np.nan, None
        r = float(np.clip(dot(a, b) / size, -1, 1))
        times = n / (n - 1)
        left = np.stack([1 - times * a * a / xx, 1 - times * b * b / yy])
        if not (abs(r) < 1 and left.min() > _SMALLEST):
            return r, None
        without = (r - times * a * b / size) / np.sqrt(left[0] * left[1])
    z = np.arctanh(np.clip(without, -NEAR_ONE, NEAR_ONE))
    squares = (z - np.arctanh(min(max(r, -NEAR_ONE), NEAR_ONE))) ** 2
    if squares.max() > _DECIDES * squares.sum():
        return r, None
    return r, float(np.sqrt((n - 1) / n * ((z - z.mean()) ** 2).sum()))


def _of_group_means(
    points: pl.DataFrame,
    level: str,
    method: str,
    clusters: Clusters | None,
    pvalues: dict[Key, float],
) -> dict[str, Any]:
    """Return the estimate over group means [x, size, mean], weighted by the sizes or not."""
    x, size, mean = (points[name].to_numpy().astype(float) for name in ("x", "size", "mean"))
    if len(x) < MIN_POINTS:
        return {"note": f"fewer than {MIN_POINTS} distinct x"}
    weighted = level == "group_mean_weighted"
    r = correlation(x, mean, method=method, weights=size if weighted else None)
    if np.isnan(r):
        return {"note": "all group means are equal"}
    n = float(size.sum() ** 2 / (size**2).sum()) if weighted else float(len(x))
    values: dict[str, Any] = {"r": r, "n_effective": n, "pvalue": pvalues.get((level, method))}
    if n > 2:
        exact = method == "kendall" and not weighted
        values["pvalue_t"] = (
            kendall_pvalue(x, mean) if exact else correlation_pvalue(r, n, method=method)
        )
    if clusters is not None:
        values["n_clusters"] = clusters.n
    if values["pvalue"] is None:
        values["note"] = f"no test ({_why_untested(clusters, level, method)})"
    if small := int((size < _FEW_ROWS).sum()):
        few = f"{small} of {len(x)} means are of fewer than {_FEW_ROWS} rows"
        values["note"] = _joined(values, few)
    if (level, method) == ("group_mean", "pearson") and (carried := carrying_rows(x, mean, r)):
        count, rest = carried
        values["note"] = _joined(values, f"{count} of {len(x)} means carry r (without: {rest:.2f})")
    return values


def _why_untested(clusters: Clusters | None, level: str, method: str) -> str:
    if clusters is None:
        return "too many rows or groups"
    if few := too_few_clusters(clusters.effective):
        return few
    if (level, method) == ("group_mean", "pearson"):
        return f"fewer than {MIN_DECIDING} units of equal size decide the group means"
    return "no calibrated test of ranked group means in clusters"


def _independent(
    r: float, n: int, method: str, confidence: float, error: float | None
) -> dict[str, Any]:
    test = {"pvalue": correlation_pvalue(r, n, method=method), "n_effective": float(n)}
    if abs(r) == 1:
        line = "all rows are on a line" if method == "pearson" else "all pairs have the same order"
        return test | {"note": f"{line}: no interval"}
    if error is None:
        return test | {"note": "one row decides r: no interval"}
    ends = fisher_interval(r, n, method=method, confidence=confidence, error=error)
    return test | _checked(*ends)


def _checked(low: float, high: float) -> dict[str, Any]:
    """Return an interval, or a note if it is undefined or includes nearly every value."""
    inside = max(abs(low), abs(high)) <= 1 - 1e-12  # False for NaN
    if not inside or np.arctanh(high) - np.arctanh(low) > 2 * _WIDEST:
        return {"note": "no interval: too few rows, or few rows decide r"}
    return {"ci_low": low, "ci_high": high}


def _clustered(r: float, method: str, clusters: Clusters, confidence: float) -> dict[str, Any]:
    values: dict[str, Any] = {"n_clusters": clusters.n}
    if few := too_few_clusters(clusters.effective):
        return values | {"note": f"no interval and no test ({few})"}
    error = clusters.errors[method] if abs(r) < 1 else np.nan
    if not error > 0:  # NaN too
        return values | {"note": "the jackknife has no error: no interval and no test"}
    tested = clusters.pvalues.get(("row", method))
    values |= {
        "pvalue": clustered_pvalue(r, error, clusters.df) if tested is None else tested,
        "n_effective": n_of_variance(r, error**2, method),
    }
    values |= _checked(*clustered_interval(r, error, clusters.df, confidence=confidence))
    if clusters.effective < FEW_CLUSTERS and "ci_low" in values:
        few = f"as of fewer than {FEW_CLUSTERS} equal units: the interval may be too short"
        values["note"] = _joined(values, few)
    return values


def _joined(values: dict[str, Any], note: str) -> str:
    return "; ".join(part for part in (values.get("note"), note) if part)
