"""Time columns: numbers, datetimes, dates or durations."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw

from traceana.errors import DataError
from traceana.store.frames import as_seconds, collect


def check_clock(frame: nw.LazyFrame[Any], time: str, /) -> None:
    """Refuse a time column that has values and is neither a number nor a time."""
    kind = frame.collect_schema()[time]
    if kind.is_numeric() or kind.is_temporal():
        return
    # a column without a value has an arbitrary type
    if collect(frame.select(nw.col(time).count())).item():
        raise DataError(f"column {time} has type {kind}; time= needs numbers or datetimes")


def with_seconds(frame: nw.LazyFrame[Any], time: str, /) -> nw.LazyFrame[Any]:
    """Return a frame with a datetime column as Unix seconds; numbers remain."""
    check_clock(frame, time)
    kind = frame.collect_schema()[time]
    if not kind.is_temporal():
        return frame
    return frame.with_columns(as_seconds(nw.col(time), kind, frame.implementation).alias(time))
