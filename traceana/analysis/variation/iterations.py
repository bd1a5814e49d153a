"""How much the workers of a synchronous job differ from each other, tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import (
    Names,
    admit_columns,
    as_names,
    collect,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.analysis.variation.ticks import tick_moments
from traceana.errors import DataError
from traceana.results.tables import declared, returns
from traceana.results.variation import IterationCov
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

QUANTILES: Final = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
"""What a CoV's summary names."""

_THRESHOLDS = {"share_above_0_1": 0.1, "share_above_0_5": 0.5, "share_above_1": 1.0}


@returns(IterationCov)
def iteration_cov(
    samples: IntoFrame,
    /,
    *,
    ddof: int,
    by: Names = ("job_id",),
    at: str = "time_s",
    over: str = "worker_id",
    value: str = "batch_time",
    min_workers: int = 2,
) -> pl.DataFrame:
    """Coefficient of variation of a value over the workers of a job, at each tick.

    CoV = s / m with m the mean over the tick's n workers and
    s = sqrt(sum (x - m)^2 / (n - ddof)). For values that are not negative it is at most
    sqrt(n - 1) with ddof 0 and sqrt(n) with ddof 1.

    Parameters
    ----------
    samples
        One row a worker and tick: [*by, at, over, value]; eager or lazy, of any listed engine.
    ddof
        0 for the population's standard deviation (the definition printed with AntMan's CoV,
        OSDI'20), 1 for the sample's. It is part of any claim about a CoV and has no default.
    by, at, over
        Columns of the job, of the tick within the job, and of the worker. Null in `by` is a
        group of its own.
    value
        Column on a ratio scale. A worker whose value is null or NaN is not counted at that tick.
    min_workers
        Ticks with fewer workers are left out; at least 2.

    Returns
    -------
    DataFrame
        Sorted by (by, at), nulls last, with the columns `by`, `at` and

        {columns}

    Raises
    ------
    DataError
        If `ddof` or `min_workers` is out of range; a column is missing or not numeric; a value is
        negative or infinite; `at` is infinite, or neither a number nor a time; `at` or `over` is
        null beside a value; or a (by, at, over) has more than one value, so that a worker would
        count twice.
    """
    if not is_number(ddof, whole=True) or ddof not in (0, 1):
        raise DataError(f"ddof must be 0 (population) or 1 (sample); it is {ddof!r}")
    if not is_number(min_workers, whole=True) or min_workers < 2:
        raise DataError(f"min_workers must be a whole number and at least 2; it is {min_workers!r}")
    names = as_names(by)
    refuse_clash((*names, at), ("n_workers", "mean", "std", "cov"))
    frame = admit_columns(samples, (*names, at, over, value))
    clock = frame.collect_schema()[at]
    # a column without any value has whatever type its maker guessed
    if (
        not (clock.is_numeric() or clock.is_temporal())
        and collect(frame.select(nw.col(at).count())).item()
    ):
        raise DataError(f"column {at} holds {clock}; numbers or times are needed")
    ticks = tick_moments(frame, names, at, over, value, ddof=ddof)
    if ticks.schema[at].is_float() and ticks[at].is_infinite().any():
        raise DataError(f"column {at} holds inf; a tick has a finite time")
    cov = pl.col("std") / pl.col("mean")
    found = ticks.filter(pl.col("n_workers") >= min_workers).with_columns(
        cov=pl.when(pl.col("mean") > 0).then(cov)
    )
    return declared(found, IterationCov, by=(*names, at))


def summarize_cov(
    cov: IntoFrame, /, *, by: Names = ("job_id",), value: str = "cov"
) -> pl.DataFrame:
    """Quantiles of a CoV and how often it is large, by job or over all rows.

    Every tick counts once, so that with ``by=()`` a long job weighs more than a short one.

    Parameters
    ----------
    cov
        One row a tick: [*by, value], as from :func:`iteration_cov` or the published CoV table.
    by
        Columns to group by; ``()`` for one row over all.
    value
        Column of the CoV.

    Returns
    -------
    DataFrame
        [*by, n, n_null, mean, q05, q25, median, q75, q95, max, share_above_0_1, share_above_0_5,
        share_above_1], sorted by `by`, nulls last. n counts the values that all the rest is taken
        over, n_null the rows without one. Quantiles interpolate linearly between order statistics
        (type 7 of Hyndman and Fan, 1996); a share is of values strictly above. All are null where
        n is 0.

    Raises
    ------
    DataError
        If a column is missing or not numeric, or a value is negative or infinite.
    """
    keys = as_names(by)
    frame = open_frame(cov, keys=keys, measures=(value,))
    x = nw.col(value)
    return reduce_frame(
        frame,
        keys,
        n=x.count(),
        n_null=nw.len() - x.count(),
        mean=x.mean(),
        **{name: x.quantile(q, interpolation="linear") for name, q in QUANTILES.items()},
        max=x.max(),
        **{name: (x > limit).cast(nw.Float64).mean() for name, limit in _THRESHOLDS.items()},
    )
