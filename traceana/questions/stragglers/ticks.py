"""Mean and standard deviation over the workers of each iteration.

Three implementations return the same values and are tried in this order. Sorted and complete rows
are reduced in one pass. Unsorted rows are placed on a grid of jobs, times and workers if that is
dense enough. Everything else, and every engine but Polars, is grouped by time. On 20 million rows
the first two are several times faster than grouping (``python -m tests.benchmarks cov``). They
return None if they do not apply or a row is invalid: the third names the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import DataError
from traceana.questions.stragglers.ticks_in_order import moments_in_order
from traceana.questions.stragglers.ticks_on_grid import moments_on_grid
from traceana.store.frames import check_range, clean_columns, collect, reduce_frame

if TYPE_CHECKING:
    from collections.abc import Sequence


def tick_moments(
    frame: nw.LazyFrame[Any],
    by: Sequence[str],
    time: str,
    worker: str,
    value: str,
    /,
    *,
    ddof: int,
) -> pl.DataFrame:
    """Return [*by, time, n_workers, mean, std], sorted by (by, time), nulls last.

    Raises a DataError if `value` is not numeric, negative or infinite; `time` or `worker` is null
    beside a value; or a (by, time, worker) has more than one value.
    """
    columns = (by, time, worker, value)
    if frame.implementation is nw.Implementation.POLARS:
        rows: pl.LazyFrame = frame.to_native()
        clock = rows.collect_schema()[time]
        if clock.is_temporal():
            rows = rows.with_columns(pl.col(time).to_physical())
        for way in (moments_in_order, moments_on_grid):
            ticks = way(rows, *columns, ddof=ddof)
            if ticks is not None:
                return ticks.cast({time: clock})
    return _moments_by_group(clean_columns(frame, (value,)), *columns, ddof=ddof)


def _moments_by_group(
    frame: nw.LazyFrame[Any],
    by: Sequence[str],
    time: str,
    worker: str,
    value: str,
    /,
    *,
    ddof: int,
) -> pl.DataFrame:
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
