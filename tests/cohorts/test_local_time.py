"""Local times as expressions are those of the time zone database."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import narwhals.stable.v2 as nw
import polars as pl
import pytest

from traceana.cohorts.overlap import local_offset_s


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"])
def test_offset_is_that_of_the_zone(zone: str) -> None:
    begin = int(datetime(2019, 11, 30, tzinfo=UTC).timestamp())
    times = [*range(begin, begin + 3 * 365 * 86_400, 45 * 60), None]
    frame = nw.from_native(pl.LazyFrame({"time_s": times}, schema={"time_s": pl.Float64}))
    at = nw.col("time_s")
    rows = frame.select((at + local_offset_s(frame, at, zone)).alias("local"))
    known = [datetime.fromtimestamp(time, ZoneInfo(zone)) for time in times[:-1] if time]
    found = rows.collect().to_native()
    assert found["local"].drop_nulls().to_list() == [
        one.replace(tzinfo=UTC).timestamp() for one in known
    ]
    assert found["local"][-1] is None


def test_no_time_has_no_local_time() -> None:
    frame = nw.from_native(pl.LazyFrame({"time_s": [None]}, schema={"time_s": pl.Float64}))
    at = nw.col("time_s")
    local = at + local_offset_s(frame, at, "Europe/Berlin")
    assert frame.select(local).collect().to_native()["time_s"].to_list() == [None]
