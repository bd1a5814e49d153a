"""What a correlation is taken over: group means with their sizes, and where the rows lie."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.correlation.pairs import group_means, usable
from traceana.analysis.frames import Names, as_names, open_frame, reduce_frame, refuse_clash
from traceana.errors import DataError
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_MOST_BINS: Final = 1000


def mean_by_value(frame: IntoFrame, /, x: str, y: str, *, by: Names = ()) -> pl.DataFrame:
    """Mean of a measure at each distinct value of another: the points of a group-mean correlation.

    Parameters
    ----------
    frame
        One row an observation: [*by, x, y], no value negative; eager or lazy, of any listed
        engine. Rows without both values (null or NaN) are left out.
    x, y
        Columns of numbers.
    by
        Columns to group by; null in them is a group of its own.

    Returns
    -------
    DataFrame
        [*by, value, n, mean], sorted by `by` (nulls last) and value: mean is that of y over the n
        rows where x is value.

    Raises
    ------
    DataError
        If a column is missing or named twice, or a value is not a number, negative or infinite.
    """
    keys = as_names(by)
    refuse_clash(keys, ("value", "n", "mean", "x"))
    lazy = open_frame(frame, keys=keys, measures=(x, y))
    return group_means(lazy, keys, (x, y)).select(*keys, value="x", n="size", mean="mean")


def joint_counts(
    frame: IntoFrame, /, x: str, y: str, *, by: Names = (), bins: int = 40
) -> pl.DataFrame:
    """Count rows by two measures at once, in bins of equal width on logarithmic scales.

    Parameters
    ----------
    frame, x, y, by
        As in :func:`mean_by_value`.
    bins
        Bins of each measure, from 2 to 1000: the centre of the first is its least value above 0
        and that of the last its largest, over all rows; values of 0 have a bin of their own.

    Returns
    -------
    DataFrame
        [*by, x_low, x_high, y_low, y_high, n], sorted, nulls last: the rows in each bin that has
        any, both its ends 0 where the value is. A measure with one value above 0 has one bin,
        from half to twice that.

    Raises
    ------
    DataError
        As :func:`mean_by_value`, or if `bins` is out of range.
    """
    if not (is_number(bins, whole=True) and 2 <= bins <= _MOST_BINS):
        raise DataError(f"bins must be a whole number from 2 to {_MOST_BINS:,}; it is {bins!r}")
    keys = as_names(by)
    ends = ("x_low", "x_high", "y_low", "y_high")
    refuse_clash(keys, ("n", *ends, "x bin", "y bin"))
    rows = open_frame(frame, keys=keys, measures=(x, y)).filter(usable((x, y)))
    scales = _scales(rows, {"x": x, "y": y}, bins)
    numbered = rows.select(
        *keys,
        *(
            nw.when(nw.col(name) > 0)
            .then(((nw.col(name).log() - first) / width + 0.5).floor().clip(0, bins - 1))
            .otherwise(nw.lit(-1.0))
            .alias(f"{axis} bin")
            for (axis, name), (first, width) in zip({"x": x, "y": y}.items(), scales, strict=True)
        ),
    )
    counts = reduce_frame(numbered, (*keys, "x bin", "y bin"), n=nw.len())
    edges: dict[str, pl.Expr] = {}
    for axis, (first, width) in zip("xy", scales, strict=True):
        number = pl.col(f"{axis} bin")
        for end, side in (("low", -0.5), ("high", 0.5)):
            edge = (first + (number + side) * width).exp()
            edges[f"{axis}_{end}"] = pl.when(number < 0).then(0.0).otherwise(edge)
    return counts.select(*keys, **edges, n="n").sort(*keys, *ends, nulls_last=True)


def _scales(
    rows: nw.LazyFrame[Any], columns: dict[str, str], bins: int
) -> list[tuple[float, float]]:
    """Return the logarithm of each measure's least value above 0, and the width of its bins."""
    positive = {axis: nw.when(nw.col(name) > 0).then(name) for axis, name in columns.items()}
    found = reduce_frame(
        rows,
        (),
        **{f"{axis} low": value.min() for axis, value in positive.items()},
        **{f"{axis} high": value.max() for axis, value in positive.items()},
    ).row(0, named=True)
    scales = []
    for axis in columns:
        low, high = found[f"{axis} low"], found[f"{axis} high"]
        if low is None:  # all are 0
            scales.append((0.0, 1.0))
        elif low == high:
            scales.append((math.log(low), 2 * math.log(2)))
        else:
            scales.append((math.log(low), math.log(high / low) / (bins - 1)))
    return scales
