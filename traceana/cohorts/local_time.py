"""Local time of Unix times as expressions that any engine runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import polars as pl

from traceana.store.frames import reduce_frame


class Clock(NamedTuple):
    """Offset from UTC and month in a time zone, each from some Unix times on."""

    offsets: pl.DataFrame
    months: pl.DataFrame

    def offset_s(self, time: nw.Expr, /) -> nw.Expr:
        """Return the seconds to add to a Unix time for local time."""
        return step_value(time, *self.offsets)

    def month(self, time: nw.Expr, /) -> nw.Expr:
        """Return the local month of a Unix time, such as 2020-07; null for null."""
        return nw.when(~time.is_null()).then(step_value(time, *self.months))


def read_clock(frame: nw.LazyFrame[Any], time: nw.Expr, zone: str, /) -> Clock:
    """Return the clock of a time zone for the Unix times of a frame."""
    low, high = reduce_frame(frame, (), low=time.min(), high=time.max()).row(0)
    # zones change at quarters of an hour in UTC
    quarters = [int((end or 0) // 900 * 900) for end in (low, high)]
    utc = pl.int_range(quarters[0], quarters[1] + 900, 900, eager=True).alias("from_s")
    local = pl.from_epoch("from_s", time_unit="s").dt.replace_time_zone("UTC")
    local = local.dt.convert_time_zone(zone)
    offset = (local.dt.base_utc_offset() + local.dt.dst_offset()).dt.total_seconds()
    grid = pl.DataFrame(utc).with_columns(offset=offset, month=local.dt.strftime("%Y-%m"))
    return Clock(*(_changes(grid.select("from_s", name)) for name in ("offset", "month")))


def _changes(grid: pl.DataFrame) -> pl.DataFrame:
    value = pl.col(grid.columns[1])
    return grid.filter(value.ne_missing(value.shift(1)))


def step_value(time: nw.Expr, begins: Sequence[float], values: Sequence[Any], /) -> nw.Expr:
    """Return the value of the step that a time is in; steps are nested as a balanced tree."""
    if len(values) == 1:
        return nw.lit(values[0])
    half = len(values) // 2
    before, after = slice(None, half), slice(half, None)
    return (
        nw.when(time < begins[half])
        .then(step_value(time, begins[before], values[before]))
        .otherwise(step_value(time, begins[after], values[after]))
    )
