"""Units, times, durations and sizes, each by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

import polars as pl
import pytest

from traceana.ingesters.parsing import (
    BYTES,
    SECONDS,
    read_datetime,
    read_duration,
    read_size,
    read_time,
)
from traceana.ingesters.readers.kubectl import read_quantity


def read(texts: Sequence[str | None], value: pl.Expr) -> list[float | None]:
    return (
        pl.DataFrame({"x": texts}, schema={"x": pl.String}).select(value.alias("x"))["x"].to_list()
    )


X = pl.col("x")


def test_units() -> None:
    day = 24 * 60 * 60
    assert {
        "ns": 0.000000001,
        "us": 0.000001,
        "ms": 0.001,
        "s": 1,
        "min": 60,
        "h": 60 * 60,
        "d": day,
    } == SECONDS
    assert BYTES == {
        "B": 1,
        "KB": 1000,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "PB": 10**15,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
        "PiB": 2**50,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("+3", 3),
        ("-.5", -0.5),
        ("2e3", 2000),
        ("1E-3", 0.001),
        ("1.5m", 0.0015),
        ("5u", 5e-6),
        ("5n", 5e-9),
        ("2k", 2000),
        ("2M", 2 * 10**6),
        ("2G", 2 * 10**9),
        ("2T", 2 * 10**12),
        ("2P", 2 * 10**15),
        ("2E", 2 * 10**18),
        ("2Ki", 2048),
        ("2Mi", 2 * 2**20),
        ("2Gi", 2 * 2**30),
        ("2Ti", 2 * 2**40),
        ("2Pi", 2 * 2**50),
        ("2Ei", 2 * 2**60),
        ("", None),
        (None, None),
        ("2 Gi", None),
        ("2X", None),
        ("G", None),
    ],
)
def test_quantities_of_kubernetes(text: str | None, value: float | None) -> None:
    assert read_quantity(text) == (None if value is None else pytest.approx(value))


def test_sizes() -> None:
    texts = [
        "3",
        "3B",
        "2K",
        "2kB",
        "2KiB",
        "1.5M",
        "2g",
        "2GiB",
        "2t",
        "2P",
        "1e3",
        "2 G",
        "x",
        "2X",
        "-1",
        None,
    ]
    found = read(texts, read_size(X, unit="MiB", base=1000))
    assert found == [
        3 * 2**20,
        3,
        2000,
        2000,
        2048,
        1.5e6,
        2e9,
        2 * 2**30,
        2e12,
        2e15,
        1000 * 2**20,
        2e9,
        None,
        None,
        None,
        None,
    ]
    assert read(["2K", "2M", "2Mi", "7"], read_size(X, unit="B", base=1024)) == [
        2048,
        2 * 2**20,
        2 * 2**20,
        7,
    ]


def test_durations() -> None:
    texts = [
        "00:01",
        "02:03",
        "1:02:03",
        "2-01:02:03",
        "1 day, 00:00:01",
        "3 days 10:00:00",
        "00:00.25",
        "100:00:00",
        "7",
        "1:2:3:4",
        "x",
        None,
    ]
    day = 86_400
    assert read(texts, read_duration(X)) == [
        1,
        123,
        3723,
        2 * day + 3723,
        day + 1,
        3 * day + 36_000,
        0.25,
        360_000,
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("text", ["\uff11\uff12", "\u0663", "1:\uff12\uff10:00", "\uff11 G"])
def test_digits_of_other_scripts_are_no_numbers(text: str) -> None:
    assert read([text], read_size(X, unit="B", base=1024)) == [None]
    assert read([text], read_duration(X)) == [None]


def test_times() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
    texts = [
        "2026-03-01 12:00:00",
        "2026-03-01T12:00:00",
        "2026-03-01 12:00",
        "2026-03-01T12:00:00Z",
        "2026-03-01T13:00:00+01:00",
        "2026-03-01 06:30:00 -0530",
        "2026-03-01T12:00:00.25",
        "2026-03-01",
        "12:00",
        "x",
        None,
    ]
    found = read(texts, read_time(X, layout=None, timezone="UTC"))
    assert found == [noon] * 6 + [noon + 0.25, noon - 12 * 3600, None, None, None]
    # an hour ahead in winter and two in summer; 2:30 was there twice in autumn, never in spring
    berlin = ["2026-03-01 13:00:00", "2026-10-25 02:30:00", "2026-03-29 02:30:00"]
    autumn = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
    assert read(berlin, read_time(X, layout=None, timezone="Europe/Berlin")) == [
        noon,
        autumn,
        None,
    ]
    layout = "%d.%m.%Y %H:%M"
    assert read(["01.03.2026 13:00"], read_time(X, layout=layout, timezone="Europe/Berlin")) == [
        noon
    ]
    offset = read_time(X, layout=f"{layout} %z", timezone="Europe/Berlin")
    assert read(["01.03.2026 13:00 +0100"], offset) == [noon]


def test_datetimes() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    zoned = pl.DataFrame({"x": [noon]})
    plain = pl.DataFrame({"x": [noon.replace(tzinfo=None)]})
    day = pl.DataFrame({"x": [date(2026, 3, 1)]})
    for frame, hours in ((zoned, 0), (plain, -1), (day, -13)):
        value = read_datetime(X, frame.schema["x"], timezone="Europe/Berlin")
        assert frame.select(value)["x"].item() == noon.timestamp() + 3600 * hours
