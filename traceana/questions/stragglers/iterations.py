"""Coefficient of variation across the workers of a synchronous job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import DataError
from traceana.questions.stragglers.tables import CovSummary, IterationCov
from traceana.stats.arguments import check_count, is_number
from traceana.store.clock import check_clock
from traceana.store.frames import (
    Names,
    admit_columns,
    as_names,
    check_range,
    clean_columns,
    collect,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def tick_moments(
    frame: nw.LazyFrame[Any], by: Sequence[str], time: str, worker: str, value: str, /, *, ddof: int
) -> pl.DataFrame:
    """Return [*by, time, n_workers, mean, std], sorted by (by, time), nulls last.

    Raises a DataError if `value` is not numeric, negative or infinite; `time` or `worker` is null
    beside a value; or a (by, time, worker) has more than one value.
    """
    frame = clean_columns(frame, (value,))
    check_range(frame, (value,))
    x = nw.col(value)
    present = frame.filter(~x.is_null())
    ticks = reduce_frame(
        present,
        (*by, time),
        n_workers=x.count(),
        mean=x.mean(),
        std=x.std(ddof=ddof),
        n_distinct=nw.col(worker).n_unique(),
        n_named=nw.col(worker).count(),
    )
    if ticks[time].null_count() or (ticks["n_named"] < ticks["n_workers"]).any():
        raise DataError(f"{time} or {worker} is null in a row with a {value}; drop such rows")
    if (ticks["n_workers"] > ticks["n_distinct"]).any():
        raise _repeated(present, (*by, time, worker))
    return ticks.drop("n_distinct", "n_named")


def _repeated(present: nw.LazyFrame[Any], key: Sequence[str]) -> DataError:
    repeated = collect(
        present.group_by(*key).agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    )
    first = repeated.sort(key, nulls_last=True).row(0, named=True)
    where = ", ".join(f"{name} {first[name]!r}" for name in key)
    surplus = repeated["rows"].sum() - repeated.height
    return DataError(
        f"{surplus} duplicate row(s) with the same ({', '.join(key)}), the first at {where}; "
        "keep one row of each"
    )


QUANTILES: Final = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}
"""Quantiles of a summary by column."""

_THRESHOLDS = {"fraction_above_0_1": 0.1, "fraction_above_0_5": 0.5, "fraction_above_1": 1.0}


@returns(IterationCov)
def iteration_cov(
    samples: IntoFrame,
    /,
    *,
    ddof: int,
    by: Names = ("job_id",),
    time: str = "time_s",
    worker: str = "worker_id",
    value: str = "batch_time",
    min_workers: int = 2,
) -> pl.DataFrame:
    """Compute the coefficient of variation across workers at each time step.

    CoV = s / m with m the mean over the n workers of a time step and s^2 = sum (x - m)^2 /
    (n - ddof). For values of 0 or more it is at most sqrt(n - 1) with ddof 0 and sqrt(n) with 1.

    Parameters
    ----------
    samples
        One row per worker and time step: `by`, `time`, `worker` and `value`; eager or lazy, of any
        supported engine.
    ddof
        0 for the population standard deviation (the definition in AntMan, OSDI'20), 1 for the
        sample standard deviation. It has no default, because every CoV depends on it.
    by
        Columns of the job; null is a job of its own.
    time
        Column of the time step within the job: numbers, such as a step, or datetimes.
    worker
        Column of the worker.
    value
        Column on a ratio scale. A worker whose value is null or NaN is not counted.
    min_workers
        Time steps with fewer workers are excluded; at least 2.

    Returns
    -------
    DataFrame
        Sorted by (by, time), nulls last, with the columns `by`, `time` and
        {columns}

    Raises
    ------
    DataError
        If `time` or `worker` is null in a row with a value, or a (by, time, worker) has several
        values.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30],
    ...                         "worker_id": [0, 1, 0, 1], "batch_time": [1.0, 1.0, 1.0, 3.0]})
    >>> traceana.iteration_cov(samples, ddof=0).select("time_s", "n_workers", "cov").rows()
    [(0, 2, 0.0), (30, 2, 0.5)]
    """
    if not is_number(ddof, whole=True) or ddof not in (0, 1):
        raise DataError(f"ddof must be 0 (population) or 1 (sample); it is {ddof!r}")
    check_count("min_workers", min_workers, least=2, most=10**12)
    names = as_names(by)
    refuse_clash((*names, time), IterationCov.columns())
    roles = {"time": time, "worker": worker, "value": value}
    frame = admit_columns(samples, (*names, time, worker, value), roles=roles)
    check_clock(frame, time)
    ticks = tick_moments(frame, names, time, worker, value, ddof=ddof)
    if ticks.schema[time].is_float() and ticks[time].is_infinite().any():
        raise DataError(f"column {time} has an infinite value; time= needs finite numbers")
    cov = pl.col("std") / pl.col("mean")
    table = ticks.filter(pl.col("n_workers") >= min_workers).with_columns(
        cov=pl.when(pl.col("mean") > 0).then(cov.fill_nan(0.0))  # 0 over the least number
    )
    return declared(table, IterationCov, by=(*names, time))


@returns(CovSummary)
def summarize_cov(
    cov: IntoFrame, /, by: Names = ("job_id",), *, value: str = "cov"
) -> pl.DataFrame:
    """Summarize the distribution of a coefficient of variation, by job or overall.

    Every time step counts once, so that with ``by=()`` a long job has more weight.

    Parameters
    ----------
    cov
        One row per time step: `by` and `value`, as :func:`iteration_cov` returns it or from a
        published table.
    by
        Columns to group by; null is a group of its own, and ``()`` takes all rows as one group.
    value
        Column of the CoV.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns `by` and
        {columns}

        Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan, 1996).
        Everything is null where n is 0.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> cov = pl.DataFrame({"job_id": ["a"] * 3 + ["b"], "cov": [0.1, 0.2, 0.6, 0.4]})
    >>> found = traceana.summarize_cov(cov)
    >>> found.select("job_id", "n", "median", pl.col("fraction_above_0_5").round(2)).rows()
    [('a', 3, 0.2, 0.33), ('b', 1, 0.4, 0.0)]
    """
    keys = as_names(by)
    frame = open_frame(cov, keys=keys, measures={"value": value})
    x = nw.col(value)
    table = reduce_frame(
        frame,
        keys,
        n=x.count(),
        n_missing=nw.len() - x.count(),
        mean=x.mean(),
        **{name: x.quantile(q, interpolation="linear") for name, q in QUANTILES.items()},
        max=x.max(),
        **{name: (x > limit).cast(nw.Float64).mean() for name, limit in _THRESHOLDS.items()},
    )
    return declared(table, CovSummary, by=keys)
