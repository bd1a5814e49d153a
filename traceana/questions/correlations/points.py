"""Points of a correlation: group means with their sizes, and counts of rows in bins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.questions.correlations.pairs import group_means, usable
from traceana.questions.correlations.tables import JointCounts, MeansByValue
from traceana.stats.arguments import check_count
from traceana.store.frames import Names, as_names, open_frame, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

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
    means = group_means(lazy, keys, (x, y)).rename({"x": "value", "size": "n"})
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
    rows = open_frame(frame, keys=keys, measures=(x, y)).filter(usable((x, y)))
    scales = _scales(rows, {"x": x, "y": y}, bins)
    numbered = rows.select(
        *keys,
        *(
            nw.when(nw.col(name) > 0)
            .then(((nw.col(name).log() - first) / width + 0.5).floor())
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
    found = counts.select(*keys, **edges, n="n").sort(*keys, *ends, nulls_last=True)
    return declared(found, JointCounts, by=keys)


def _scales(
    rows: nw.LazyFrame[Any], columns: dict[str, str], bins: int
) -> list[tuple[float, float]]:
    """Return the logarithm of the smallest value above 0 and the bin width of each column."""
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
