"""Periods of a window: hours, days, weeks, months or quarters, chosen by its length."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

import polars as pl

from traceana.errors import DataError
from traceana.stats.arguments import check_choice

if TYPE_CHECKING:
    from traceana.cohorts.overlap import Window

DAY_S: Final = 86_400.0
_LENGTHS_S: Final = {
    "hour": 3600.0, "6 hours": 21_600.0, "day": DAY_S, "week": 7 * DAY_S, "month": 30 * DAY_S,
    "quarter": 91 * DAY_S, "year": 365 * DAY_S,
}  # fmt: skip
_EVERY: Final = {
    "hour": "1h", "6 hours": "6h", "day": "1d", "week": "1w", "month": "1mo", "quarter": "1q",
    "year": "1y",
}  # fmt: skip
_SHOWN: Final = {
    "hour": "%Y-%m-%d %H:%M", "6 hours": "%Y-%m-%d %H:%M", "month": "%Y-%m", "quarter": "%Y-%m",
    "year": "%Y",
}  # fmt: skip
_MOST: Final = 60
_MOST_ALLOWED: Final = 5000


class Periods(NamedTuple):
    """Periods of a window: their length by name, the edges, and what each is called."""

    name: str
    edges_s: list[float]
    labels: list[str]


def divide_window(
    window: Window, /, *, period: str | None = None, timezone: str | None = None
) -> Periods:
    """Divide a window into whole periods, the first and last clipped to it."""
    first, last = window
    if period is None:
        period = next((p for p, s in _LENGTHS_S.items() if last - first <= _MOST * s), "year")
    check_choice("period", period, _LENGTHS_S)
    length = _LENGTHS_S[period]
    if (last - first) / length > _MOST_ALLOWED:
        raise DataError(f"period {period!r} is too short: more than {_MOST_ALLOWED:,} periods")
    begins, labels = (
        _on_own_clock(first, last, length, period)
        if timezone is None
        else _on_calendar(first, last, period, timezone)
    )
    edges = [first, *(one for one in begins[1:] if one < last), max(last, first)]
    return Periods(period, edges, labels[: len(edges) - 1])


def local_time(time_s: float, timezone: str | None, /, *, clock: bool = True) -> str:
    """Return a time in a sentence: a date (with the time of day), or that on the trace's clock."""
    if timezone is None:
        return f"day {time_s / DAY_S:.4g}"
    moment = datetime.fromtimestamp(time_s, UTC).astimezone(ZoneInfo(timezone))
    return moment.strftime("%Y-%m-%d %H:%M" if clock else "%Y-%m-%d")


def _on_own_clock(
    first: float, last: float, length: float, period: str
) -> tuple[list[float], list[str]]:
    low = first // length
    numbers = range(int(low), max(int(-(-last // length)), int(low) + 1))
    return [number * length for number in numbers], [f"{period} {number + 1}" for number in numbers]


def _on_calendar(
    first: float, last: float, period: str, timezone: str
) -> tuple[list[float], list[str]]:
    zone = ZoneInfo(timezone)
    try:
        ends = [datetime.fromtimestamp(time, UTC).astimezone(zone) for time in (first, last)]
        floor = pl.Series([ends[0]]).dt.convert_time_zone(timezone).dt.truncate(_EVERY[period])
        begins = pl.datetime_range(
            floor.item(), ends[1] + timedelta(seconds=1), _EVERY[period], eager=True,
            time_zone=timezone,
        )  # fmt: skip
    except (OverflowError, ValueError, OSError) as error:
        raise DataError(f"the times {first:g} to {last:g} s are not Unix times") from error
    seconds = begins.dt.timestamp("ms").cast(pl.Float64) / 1000
    return seconds.to_list(), begins.dt.strftime(_SHOWN.get(period, "%Y-%m-%d")).to_list()
