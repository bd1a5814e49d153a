"""Points and rows that are correlated, families of tests, and the correlation of each pair."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import stdtr

from traceana.errors import DataError
from traceana.questions.correlations.tables import ImpliedN, JointCounts, MeansByValue
from traceana.stats.arguments import check_count
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
from traceana.store.frames import LARGEST, Names, as_keys, open_frame, reduce_frame
from traceana.tables.declare import declared, returns

_MAX_BINS: Final = 1000


@returns(MeansByValue)
def mean_by_value(frame: IntoFrame, /, x: str, y: str, by: Names = ()) -> pl.DataFrame:
    """Compute the mean of a column at each distinct value of another.

    These are the points of a group-mean correlation.

    Parameters
    ----------
    frame
        One row per observation: `by`, `x` and `y`, none negative; eager or lazy, of any supported
        engine. Rows without both values (null or NaN) are excluded.
    x, y
        Columns of numbers.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.

    Returns
    -------
    DataFrame
        Sorted by `by` (nulls last) and value, with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 1, 8, 8], "runtime_s": [60.0, 90.0, 600.0, 900.0]})
    >>> traceana.mean_by_value(jobs, "gpus", "runtime_s").rows()
    [(1.0, 2, 75.0), (8.0, 2, 750.0)]
    """
    keys = as_keys(by, ("value", "n", "mean", "x"))
    lazy = open_frame(frame, keys=keys, measures={"x": x, "y": y})
    both = lazy.filter(~nw.col(x).is_null(), ~nw.col(y).is_null())
    rows = both.select(*keys, nw.col(x).alias("value"), nw.col(y).alias("a y"))
    means = reduce_frame(rows, (*keys, "value"), n=nw.len(), mean=nw.col("a y").mean())
    return declared(means, MeansByValue, by=keys)


@returns(JointCounts)
def joint_counts(
    frame: IntoFrame, /, x: str, y: str, by: Names = (), *, bins: int = 40
) -> pl.DataFrame:
    """Count rows in logarithmic bins of two columns.

    Parameters
    ----------
    frame, x, y, by
        As in :func:`mean_by_value`.
    bins
        Bins of each column, from 2 to 1000. The center of the first bin is the smallest value
        above 0, that of the last the largest; values of 0 have a separate bin.

    Returns
    -------
    DataFrame
        One row per bin with rows, sorted, nulls last, with the columns of `by` and
        {columns}

        A column with one value above 0 has one bin, from half to twice that value.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 1, 8, 8], "runtime_s": [60.0, 90.0, 600.0, 900.0]})
    >>> counts = traceana.joint_counts(jobs, "gpus", "runtime_s", bins=2)
    >>> counts.select("n", pl.col("x_low", "y_low").round(2)).rows()
    [(2, 0.35, 15.49), (2, 2.83, 232.38)]
    """
    check_count("bins", bins, least=2, most=_MAX_BINS)
    ends = ("x_low", "x_high", "y_low", "y_high")
    keys = as_keys(by, ("n", *ends, "x bin", "y bin"))
    lazy = open_frame(frame, keys=keys, measures=(x, y))
    rows = lazy.filter(~nw.col(x).is_null(), ~nw.col(y).is_null())
    values = {"x": nw.col(x), "y": nw.col(y)}
    bounds = reduce_frame(
        rows,
        (),
        **{f"{axis} low": nw.when(value > 0).then(value).min() for axis, value in values.items()},
        **{f"{axis} high": value.max() for axis, value in values.items()},
    ).row(0, named=True)
    scales = {axis: _scale(bounds[f"{axis} low"], bounds[f"{axis} high"], bins) for axis in values}
    bin_of = {
        f"{axis} bin": nw.when(value > 0)
        .then(((value.log() - scales[axis][0]) / scales[axis][1] + 0.5).floor())
        .otherwise(nw.lit(-1.0))
        for axis, value in values.items()
    }
    counts = reduce_frame(rows.select(*keys, **bin_of), (*keys, "x bin", "y bin"), n=nw.len())
    edges: dict[str, pl.Expr] = {}
    for axis, (first, width) in scales.items():
        number = pl.col(f"{axis} bin")
        for end, side in (("low", -0.5), ("high", 0.5)):
            edge = (first + (number + side) * width).exp()
            edges[f"{axis}_{end}"] = pl.when(number < 0).then(0.0).otherwise(edge)
    table = counts.select(*keys, **edges, n="n").sort(*keys, *ends, nulls_last=True)
    return declared(table, JointCounts, by=keys)


def _scale(low: float | None, high: float, bins: int) -> tuple[float, float]:
    """Return the logarithm of the smallest value above 0 and the bin width of a column."""
    if low is None:  # all are 0
        return 0.0, 1.0
    return math.log(low), (math.log(high / low) / (bins - 1) if low < high else 2 * math.log(2))


_FEWEST_TESTED: Final = 3  # points that a test of r needs
_LARGEST: Final = 10**15  # a double does not distinguish n from n + 1 beyond it


def implied_n(r: str | float | Decimal, pvalue: str | float | Decimal, /) -> ImpliedN:
    """Compute how many points a published Pearson correlation and its p-value imply.

    The two-sided test of r = 0 over n points is Student's t of r sqrt((n - 2) / (1 - r^2)) with
    n - 2 degrees of freedom, so r and p determine n. Both are rounded to their last printed digit:
    n is any number of points at which some r and p within half a unit of it agree.

    Parameters
    ----------
    r, pvalue
        As printed, such as ``"0.44"`` in [-1, 1] and ``"2.01e-02"`` in [0, 1]: the digits define
        the precision. A float is its shortest decimal representation, without trailing zeros.

    Returns
    -------
    ImpliedN
        `low`, `high` and `note`. If there is no n, p is from another test or other points, or is
        misprinted. If there is no largest n, r may be 0.

    Examples
    --------
    >>> import traceana
    >>> print(traceana.implied_n("0.64", "4.51e-07"))
    n from 50 to 51
    """
    value, half = _printed("r", r)
    p, p_half = _printed("p", pvalue)
    if abs(value) > 1 or not 0 <= p <= 1:
        raise DataError(f"r must lie from -1 to 1 and p from 0 to 1; they are {r} and {pvalue}")
    nearest = float(max(abs(value) - half, Decimal(0)))
    farthest = float(min(abs(value) + half, Decimal(1)))
    smallest, largest = float(max(p - p_half, Decimal(0))), float(min(p + p_half, Decimal(1)))
    # p falls as |r| or n grows: the largest |r| reaches the largest p first
    low = _first(lambda n: _pvalue(farthest, n) <= largest)
    past = _first(lambda n: _pvalue(nearest, n) < smallest)
    if low is None or (past is not None and past <= low):
        return ImpliedN(None, None, "no number of points gives this p with this r")
    if past is None:
        return ImpliedN(low, None, "r or p may be 0 as printed: there is no largest n")
    return ImpliedN(low, past - 1, None)


def _printed(what: str, number: str | float | Decimal) -> tuple[Decimal, Decimal]:
    try:
        value = Decimal(str(number).strip())
    except InvalidOperation:
        value = Decimal("nan")
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):  # NaN and infinity
        raise DataError(f"{what} must be a number as printed, such as 2.01e-02; it is {number!r}")
    return value, Decimal(5).scaleb(exponent - 1)


def _pvalue(r: float, n: int) -> float:
    if r == 1:
        return 0.0
    return float(2 * stdtr(n - 2, -r * ((n - 2) / (1 - r * r)) ** 0.5))


def _first(holds: Callable[[int], bool]) -> int | None:
    """Return the smallest n for which a monotone condition holds; None if there is none."""
    numbers = range(_FEWEST_TESTED, _LARGEST)
    at = bisect_left(numbers, True, key=holds)
    return numbers[at] if at < len(numbers) else None


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
        values["spearman"] = weighted_ranks(x), weighted_ranks(y)
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
            values["note"] = _joined(values, "heavy tails: the interval may be too narrow")
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
    """Return Pearson's r and the jackknife error of arctanh r (Miller, Biometrika 61, 1974)."""
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
        few = f"equivalent to fewer than {FEW_CLUSTERS} units of equal size"
        few += ": the interval may be too narrow"
        values["note"] = _joined(values, few)
    return values


def _joined(values: dict[str, Any], note: str) -> str:
    return "; ".join(part for part in (values.get("note"), note) if part)
