"""Runtimes relative to the mean of their group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import (
    Names,
    as_names,
    collect,
    column_names,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.errors import DataError

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_RATIO: Final = "runtime_ratio"
LEAST: Final = 1e-150
"""A mean below it is not divided by: the ratio may be beyond the range of a double."""
_QUANTILES: Final = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}


def runtime_ratio(jobs: IntoFrame, /, *, by: Names, runtime: str = "runtime_s") -> pl.DataFrame:
    """Each runtime over the mean runtime of its group.

    It averages 1 over the known runtimes of every group: what a job did against its like, with
    the groups' own sizes taken out (Zeus, NSDI'23, scales recurring jobs by it).

    Parameters
    ----------
    jobs
        One row a job or task: [*by, runtime, ...]; eager or lazy, of any listed engine. All its
        columns are collected.
    by
        Columns to group by; ``()`` for one group. Null in them is a group of its own.
    runtime
        The column of runtimes, in any one unit.

    Returns
    -------
    DataFrame
        The frame (NaN as null, runtime as a float) with runtime_ratio after its columns, in its
        rows' order where the engine keeps one. It is null where the runtime is, and in a group of
        which every known runtime is 0.

    Raises
    ------
    DataError
        If a column is missing, the runtimes are not numeric, one is negative or infinite, or
        there is a column runtime_ratio already.
    """
    keys = as_names(by)
    names = column_names(jobs)
    if _RATIO in names:
        raise DataError(f"there is a column {_RATIO} already; drop or rename it")
    others = [name for name in names if name not in {*keys, runtime}]
    rows = collect(open_frame(jobs, keys=(*keys, *others), measures=(runtime,)))
    mean = pl.col(runtime).mean()
    if keys:
        mean = mean.over(keys)
    ratio = pl.when(mean > 0).then(pl.col(runtime) / mean)
    return rows.select(*names, ratio.alias(_RATIO))


def summarize_runtime_ratio(
    jobs: IntoFrame, /, *, by: Names, runtime: str = "runtime_s"
) -> pl.DataFrame:
    """How far runtimes lie from the mean of their group: the spread of :func:`runtime_ratio`.

    Parameters
    ----------
    jobs, by, runtime
        As in :func:`runtime_ratio`; only these columns are read, and the engine reduces them.

    Returns
    -------
    DataFrame
        [*by, n, mean_s, cov, p05, p25, median, p75, p95, p99, max, n_missing, note], sorted by
        `by`, nulls last. n counts the known runtimes that all the rest is taken over, n_missing
        the rows without one. mean_s is their mean, in the unit of `runtime`. The others are of
        runtime over mean_s, so that their mean is 1: cov is their standard deviation (ddof 1), the
        coefficient of variation of runtime; quantiles interpolate linearly between order
        statistics (type 7 of Hyndman and Fan, 1996). What cannot be had is null: note says why.

    Raises
    ------
    DataError
        As :func:`runtime_ratio`, or if `by` names a column of the result.
    """
    keys, value = as_names(by), nw.col(runtime)
    refuse_clash(keys, ("note",))
    groups = reduce_frame(
        open_frame(jobs, keys=keys, measures=(runtime,)),
        keys,
        n=value.count(),
        mean_s=value.mean(),
        cov=value.std(ddof=1),
        **{
            name: value.quantile(share, interpolation="linear")
            for name, share in _QUANTILES.items()
        },
        max=value.max(),
        n_missing=nw.len() - value.count(),
    )
    spread = ["cov", *_QUANTILES, "max"]
    n, mean = pl.col("n"), pl.col("mean_s")
    note = (
        pl.when(n == 0)
        .then(pl.lit("no known runtime"))
        .when(mean == 0)
        .then(pl.lit("every runtime is 0"))
        .when(mean < LEAST)
        .then(pl.lit("runtimes are too near 0 to be divided by"))
        .when(n == 1)
        .then(pl.lit("one runtime has no deviation"))
    )
    return groups.with_columns(
        *(pl.when(mean >= LEAST).then(pl.col(name) / mean).fill_nan(None) for name in spread),
        note=note,
    )
