"""Time columns: numbers, datetimes, dates or durations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import collect
from traceana.errors import DataError

if TYPE_CHECKING:
    from polars.datatypes import DataTypeClass


def check_clock(frame: nw.LazyFrame[Any], time: str, /) -> None:
    """Refuse a time column that has values and is neither a number nor a time.

    Raises
    ------
    DataError
        If it is of another type.
    """
    kind = frame.collect_schema()[time]
    if not (kind.is_numeric() or kind.is_temporal()) and has_values(frame, time):
        raise DataError(f"column {time} has type {kind}; time= needs numbers or datetimes")


def has_values(frame: nw.LazyFrame[Any], name: str, /) -> bool:
    """Return whether a column has a value; without any its type is arbitrary."""
    return bool(collect(frame.select(nw.col(name).count())).item())


def in_seconds(kind: pl.DataType | DataTypeClass, name: str, /) -> pl.Expr:
    """Return a time column as seconds; datetimes as Unix seconds (UTC)."""
    column = pl.col(name)
    if kind == pl.Duration:
        return column.dt.total_microseconds() / 1e6
    if kind in (pl.Date, pl.Datetime):
        return column.cast(pl.Datetime("us", getattr(kind, "time_zone", None))).dt.epoch("us") / 1e6
    if kind == pl.Time:
        return column.to_physical() / 1e9
    return column.cast(pl.Float64)
