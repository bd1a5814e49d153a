"""Points of correlations, and the number of points that a published one implies."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Final

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import stdtr

from traceana.errors import DataError
from traceana.questions.correlations.tables import ImpliedN, JointCounts, MeansByValue
from traceana.stats.arguments import check_count
from traceana.store.frames import Names, as_names, open_frame, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

_MAX_BINS: Final = 1000


@returns(MeansByValue)
def mean_by_value(frame: IntoFrame, /, x: str, y: str, *, by: Names = ()) -> pl.DataFrame:
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
    keys = as_names(by)
    refuse_clash(keys, ("value", "n", "mean", "x"))
    lazy = open_frame(frame, keys=keys, measures={"x": x, "y": y})
    both = lazy.filter(~nw.col(x).is_null(), ~nw.col(y).is_null())
    rows = both.select(*keys, nw.col(x).alias("value"), nw.col(y).alias("a y"))
    means = reduce_frame(rows, (*keys, "value"), n=nw.len(), mean=nw.col("a y").mean())
    return declared(means, MeansByValue, by=keys)


@returns(JointCounts)
def joint_counts(
    frame: IntoFrame, /, x: str, y: str, *, by: Names = (), bins: int = 40
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
    keys = as_names(by)
    ends = ("x_low", "x_high", "y_low", "y_high")
    refuse_clash(keys, ("n", *ends, "x bin", "y bin"))
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
    numbered = rows.select(*keys, **bin_of)
    counts = reduce_frame(numbered, (*keys, "x bin", "y bin"), n=nw.len())
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
    """Return a printed number and half a unit of its last digit."""
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
