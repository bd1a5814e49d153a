"""Mean and standard deviation over the workers of each iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw

from traceana.errors import DataError
from traceana.store.frames import check_range, clean_columns, collect, reduce_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl


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
