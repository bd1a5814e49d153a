"""Hours and weekdays of submissions against Python's own calendar."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana import arrival_rhythm
from traceana.errors import DataError
from traceana.store import Store

HOUR, DAY = 3600, 86400


@given(
    times=st.lists(st.integers(0, 40 * DAY), min_size=1, max_size=40),
    offset=st.sampled_from([-24, -9.5, 0, 5.75, 8, 24]),
)
@settings(max_examples=30, deadline=None)
def test_hours_and_weekdays_are_those_of_the_calendar(times: list[int], offset: float) -> None:
    zone = timezone(timedelta(hours=offset)) if abs(offset) < 24 else UTC
    later = timedelta(0) if abs(offset) < 24 else timedelta(hours=offset)
    local = [datetime.fromtimestamp(time, zone) + later for time in times]
    jobs = pl.DataFrame({"submit_s": times})
    by_hour = arrival_rhythm(jobs, per="hour", utc_offset_h=offset)
    hours = Counter(time.hour for time in local)
    assert dict(by_hour.select("hour", "jobs").rows()) == {h: hours[h] for h in range(24)}
    by_day = arrival_rhythm(jobs, per="weekday", utc_offset_h=offset)
    days = Counter(time.isoweekday() for time in local)
    assert dict(by_day.select("weekday", "jobs").rows()) == {d: days[d] for d in range(1, 8)}
    for result in (by_hour, by_day):
        assert result["fraction_of_all"].sum() == pytest.approx(1)
        # every moment from the first to the last submission belongs to one slot
        assert result["observed_h"].sum() == pytest.approx((max(times) - min(times)) / HOUR)
        assert (result["observed_h"] >= 0).all()


def test_rates_take_out_how_often_a_weekday_was_there() -> None:
    # one job an hour for eight days from a Thursday, the first of the clock: two Thursdays
    jobs = pl.DataFrame({"submit_s": [hour * HOUR for hour in range(8 * 24 + 1)]})
    result = arrival_rhythm(jobs, per="weekday")
    assert result["jobs"].to_list() == [24, 24, 24, 48, 25, 24, 24]
    assert result["observed_h"].to_list() == [24, 24, 24, 48, 24, 24, 24]
    assert result["jobs_per_h"].to_list() == pytest.approx([1, 1, 1, 1, 25 / 24, 1, 1])


def test_groups_have_spans_of_their_own_and_missing_times_are_not_counted() -> None:
    jobs = pl.DataFrame(
        {
            "cluster": ["a", "a", None, "c", "a"],
            "submit_s": [0.0, 1.5 * HOUR, 5.0 * HOUR, None, float("nan")],
        }
    )
    result = arrival_rhythm(jobs, per="hour", by="cluster")
    assert result["cluster"].to_list() == ["a"] * 24 + [None] * 24
    rows = result.filter(pl.col("jobs") > 0).rows()
    assert rows == [
        ("a", 0, 1, 0.5, 1.0, 1.0),
        ("a", 1, 1, 0.5, 0.5, 2.0),
        # one submission spans no time: there is no rate
        (None, 5, 1, 1.0, 0.0, None),
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"per": "month"}, "per must be one of hour, weekday; it is 'month'"),
        ({"per": "hour", "utc_offset_h": 28800}, "utc_offset_h must lie from -24 to 24 hours; it"),
        ({"per": "hour", "utc_offset_h": 24.5}, "utc_offset_h must lie from -24 to 24 hours; it"),
        ({"per": "hour", "utc_offset_h": -24.5}, "utc_offset_h must lie from -24 to 24 hours; it"),
        (
            {"per": "hour", "by": "fraction_of_all"},
            "by cannot name fraction_of_all: the result has a column of that",
        ),
        ({"per": "hour", "by": "hour"}, "by cannot name hour: the result has a column of that"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], text: str) -> None:
    jobs = pl.DataFrame({"submit_s": [1.0], "fraction_of_all": [1], "hour": [1]})
    with pytest.raises(DataError, match=text):
        arrival_rhythm(jobs, **options)


def test_the_published_clusters(real_store: Store) -> None:
    jobs = real_store.scan("microsoft-itp-2021", "jobs").collect()
    for (cluster,), part in jobs.group_by("cluster"):
        result = arrival_rhythm(part, per="hour", by="cluster")
        hours = Counter(int(time // HOUR % 24) for time in part["submit_s"])
        assert result["cluster"].unique().to_list() == [cluster]
        assert result["jobs"].to_list() == [hours[hour] for hour in range(24)]


def test_without_a_submission_there_is_no_rate() -> None:
    jobs = pl.DataFrame({"submit_s": [1.0, 2]}).clear()
    for per in ("hour", "weekday"):
        assert arrival_rhythm(jobs, per=per).is_empty()


def test_times_are_exact_up_to_2_to_the_53rd() -> None:
    last = arrival_rhythm(pl.DataFrame({"submit_s": [2.0**53]}), per="hour")
    assert last.filter(pl.col("jobs") > 0)["hour"].to_list() == [2**53 // HOUR % 24]
    with pytest.raises(DataError, match=r"submit_s is above 2\^53 s"):
        arrival_rhythm(pl.DataFrame({"submit_s": [2.0**53 + 2]}), per="hour")
