"""Mean and standard deviation over the workers of each tick, at the price the rows allow.

Three ways to the same values, tried in this order. Rows in order and complete are read as they
lie. Rows in any order are laid out on a grid of jobs, ticks and workers where that is dense
enough. All else, and every engine but Polars, groups by tick. The first two give way where they
do not apply or a row is at fault: the last one names the fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import check_range, clean_columns, collect, reduce_frame
from traceana.analysis.variation.ticks_in_order import moments_in_order
from traceana.analysis.variation.ticks_on_grid import moments_on_grid
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence


def tick_moments(
    frame: nw.LazyFrame[Any],
    by: Sequence[str],
    at: str,
    over: str,
    value: str,
    /,
    *,
    ddof: int,
) -> pl.DataFrame:
    """Return [*by, at, n_workers, mean, std], sorted by (by, at), nulls last.

    Raises
    ------
    DataError
        If `value` is not numeric, negative or infinite; `at` or `over` is null beside a value; or
        a (by, at, over) has more than one value.
    """
    columns = (by, at, over, value)
    if frame.implementation is nw.Implementation.POLARS:
        rows: pl.LazyFrame = frame.to_native()
        clock = rows.collect_schema()[at]
        if clock.is_temporal():
            rows = rows.with_columns(pl.col(at).to_physical())
        for way in (moments_in_order, moments_on_grid):
            ticks = way(rows, *columns, ddof=ddof)
            if ticks is not None:
                return ticks.cast({at: clock})
    return _moments_by_group(clean_columns(frame, (value,)), *columns, ddof=ddof)


def _moments_by_group(
    frame: nw.LazyFrame[Any],
    by: Sequence[str],
    at: str,
    over: str,
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
        (*by, at),
        n_workers=x.count(),
        mean=x.mean(),
        std=x.std(ddof=ddof),
        n_distinct=nw.col(over).n_unique(),
        n_named=nw.col(over).count(),
    )
    if ticks[at].null_count() or (ticks["n_named"] < ticks["n_workers"]).any():
        raise DataError(f"{at} or {over} is null beside a {value}: whose or when it is, is unknown")
    if (ticks["n_workers"] > ticks["n_distinct"]).any():
        raise _repeated(present, (*by, at, over))
    return ticks.drop("n_distinct", "n_named")


def _repeated(present: nw.LazyFrame[Any], key: Sequence[str]) -> DataError:
    repeated = collect(
        present.group_by(*key).agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    )
    first = repeated.sort(key, nulls_last=True).row(0, named=True)
    where = ", ".join(f"{name} {first[name]!r}" for name in key)
    surplus = repeated["rows"].sum() - repeated.height
    return DataError(
        f"a worker would count twice: {surplus} row(s) too many with the same ({', '.join(key)}), "
        f"the first at {where}; keep one row of each"
    )
