"""Trends against hours by hand and in total; planted outages and regressions, and controls."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from tests.questions.trends.logs import BEGIN_S, DAY_S, sessions, slower, stationary, with_outage
from traceana import (
    add_table,
    build_report,
    level_changes,
    open_store,
    outages,
    trends,
    workload_summary,
)
from traceana.errors import DataError
from traceana.figures import plot_trends
from traceana.page.finding import Finding
from traceana.questions.trends.by_period import comparable_days, divide_window
from traceana.questions.trends.capacity import trends_of
from traceana.questions.trends.section import _growth, build


def test_use_is_by_overlap_and_events_where_they_happen() -> None:
    jobs = pl.DataFrame(
        {
            "submit_s": [0.0, 0.0, 100_000.0],
            "start_s": [0.0, 43_200.0, 172_000.0],
            "end_s": [3600.0, 129_600.0, None],
            "gpus": [4.0, 1.0, 2.0],
            "cpus": [8.0, 8.0, 8.0],
            "user": ["ann", "bob", "ann"],
            "status": ["completed", "failed", "running"],
        }
    )
    found = trends(jobs, period="day", window=(0.0, 3 * DAY_S), gpus=10)
    assert found["jobs"].to_list() == [2, 1, 0]
    assert found["users"].to_list() == [2, 1, 0]
    # the running job has 800 s of the second day and all of the third
    assert found["gpu_hours"].to_list() == pytest.approx([16, 12 + 2 * 800 / 3600, 48])
    assert found["cpu_hours"].to_list() == pytest.approx([8 + 96, 96 + 8 * 800 / 3600, 192])
    assert found["utilization"].to_list() == pytest.approx([16 / 240, (12 + 4 / 9) / 240, 0.2])
    assert found["wait_s_median"].to_list() == [21_600, 72_000, None]
    assert found["failure_rate"].to_list() == [0, 1, None]
    assert found["n_ended"].to_list() == [1, 1, 0]
    assert found["node_hours"].null_count() == 3


def test_periods_add_up_to_the_window() -> None:
    jobs = stationary(3)
    found = trends(jobs, timezone="Europe/Berlin")
    assert 8 <= found.height <= 60
    total = workload_summary(jobs)["gpu_hours"].item()
    assert found["gpu_hours"].sum() == pytest.approx(total, rel=1e-9)
    assert found["jobs"].sum() == jobs.height
    assert found["n_ended"].sum() == jobs.height


@pytest.mark.parametrize(
    ("days", "name"), [(2, "hour"), (10, "6 hours"), (31, "day"), (365, "week"), (900, "month")]
)
def test_the_period_follows_from_the_span(days: int, name: str) -> None:
    periods = divide_window((BEGIN_S, BEGIN_S + days * DAY_S), timezone="Europe/Berlin")
    assert periods.name == name
    assert 8 <= len(periods.labels) <= 61


def test_days_begin_at_local_midnight_also_when_clocks_change() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first, last = (datetime(2026, 3, day, 12, tzinfo=zone).timestamp() for day in (27, 31))
    periods = divide_window((first, last), period="day", timezone="Europe/Berlin")
    assert periods.labels == [f"2026-03-{day}" for day in (27, 28, 29, 30, 31)]
    lengths = [b - a for a, b in zip(periods.edges_s[1:-1], periods.edges_s[2:], strict=False)]
    assert [length / 3600 for length in lengths] == [24, 23, 24, 12]


def test_a_planted_outage_is_found_to_the_hour() -> None:
    at = datetime(2026, 4, 14, 8, tzinfo=UTC).timestamp()
    found = outages(with_outage(stationary(1), at, 48), timezone="UTC")
    assert found.height == 1
    assert found["start_s"].item() == pytest.approx(at, abs=900)
    assert found["duration_s"].item() == pytest.approx(48 * 3600, rel=0.05)
    assert found["pvalue"].item() < 0.01


def test_a_standstill_of_eight_hours_of_a_busy_cluster_is_found() -> None:
    at = datetime(2026, 3, 25, 10, tzinfo=UTC).timestamp()
    jobs = with_outage(sessions(2), at, 8)
    [row] = outages(jobs, timezone="UTC").rows(named=True)
    assert row["start_s"] == pytest.approx(at, abs=900)
    assert row["duration_s"] == pytest.approx(8 * 3600, rel=0.2)
    assert outages(sessions(2)).is_empty()
    assert outages(jobs.drop("user"))["start_s"].to_list() == [row["start_s"]]


@pytest.mark.parametrize("hours", [8, 24])
def test_jobs_that_wait_while_none_runs_are_an_outage(hours: int) -> None:
    at = datetime(2026, 3, 25, 9, tzinfo=UTC).timestamp()
    end, found = at + 3600 * hours, 0
    for seed in range(5):
        jobs = stationary(seed, days=60, per_day=35).drop("user", "job_name")
        runs, waits = (pl.col("start_s") < at) & (pl.col("end_s") > at), pl.col("start_s") >= at
        late = waits & (pl.col("start_s") < end)
        start = pl.when(late).then(end + (pl.col("start_s") - at) / 20).otherwise("start_s")
        jobs = jobs.with_columns(
            end_s=pl.when(runs)
            .then(at)
            .when(late)
            .then(start + pl.col("runtime_s"))
            .otherwise("end_s"),
            start_s=start,
        ).drop("runtime_s")
        rows = outages(jobs, timezone="UTC").rows(named=True)
        assert all(row["start_s"] <= at + 900 and row["end_s"] >= end for row in rows)
        found += len(rows)
    assert found >= 4


def test_a_cluster_that_is_empty_while_many_users_wait_is_an_outage() -> None:
    # of six hours, in a log in which long waits are usual
    at = datetime(2026, 3, 25, 10, tzinfo=UTC).timestamp()
    end, rng = at + 6 * 3600, np.random.default_rng(1)
    jobs = sessions(3, days=40)
    longer = np.where(rng.random(jobs.height) < 0.3, rng.exponential(20_000, jobs.height), 0)
    jobs = jobs.with_columns(pl.col("start_s", "end_s") + pl.Series(longer))
    start, until = pl.col("start_s"), pl.col("end_s")
    late = start.is_between(at, end)
    down = jobs.with_columns(
        start_s=pl.when(late).then(end + (start - at) / 20).otherwise(start),
        end_s=pl.when(start < at).then(until.clip(upper_bound=at)).otherwise(until),
    ).with_columns(end_s=pl.max_horizontal("end_s", start + 60))
    down = down.with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))
    [row] = outages(down, timezone="UTC").rows(named=True)
    assert row["start_s"] == pytest.approx(at, abs=900)
    assert outages(down.drop("user"), timezone="UTC").is_empty()
    assert outages(jobs, timezone="UTC").is_empty()


def test_an_outage_of_one_gpu_type_is_stated_of_it(tmp_path: Path) -> None:
    at = datetime(2026, 3, 25, 9, tzinfo=UTC).timestamp()
    on_b = pl.col("user").str.contains("[0-4]$")
    jobs = sessions(3).with_columns(gpu_type=pl.when(on_b).then(pl.lit("B")).otherwise(pl.lit("A")))
    away = pl.concat([jobs.filter(~on_b), with_outage(jobs.filter(on_b), at, 36)])
    waits = pl.col("submit_s").is_between(at, at + 36 * 3600)
    late = jobs.filter(on_b & waits).with_columns(
        start_s=at + 36 * 3600, end_s=at + 36 * 3600 + pl.col("runtime_s")
    )
    down = pl.concat([away, late.select(away.columns)])
    for name, rows in (("clean", jobs), ("away", away), ("down", down)):
        add_table(rows, trace=name, table="jobs", store=tmp_path)
        found = trends_of(open_store(tmp_path).trace(name))
        assert found.outages.is_empty()
        assert found.of_types["gpu_type"].to_list() == ["B"] * (name == "down")
    [row] = found.of_types.rows(named=True)
    assert row["start_s"] == pytest.approx(at, abs=7200)
    assert row["duration_s"] == pytest.approx(36 * 3600, rel=0.1)
    findings = build([open_store(tmp_path).trace("down")]).findings
    assert any("no job ran on B from 2026-03-25 0" in getattr(one, "alert", "") for one in findings)


def test_an_outage_in_local_time_names_the_zone_as_tables_have_utc(tmp_path: Path) -> None:
    at = datetime(2026, 3, 25, 1, tzinfo=UTC).timestamp()  # 21:00 of the day before
    jobs = with_outage(stationary(4, days=40, per_day=200), at, 24)
    columns = "\n".join(f'{name} = "{name}"' for name in jobs.columns)
    mapping = f'[trace]\ntimezone = "America/New_York"\n[jobs]\n{columns}'
    add_table(jobs, trace="mine", table="jobs", store=tmp_path, mapping=mapping)
    found = build([open_store(tmp_path).trace("mine")]).findings
    [alert] = [text for one in found if (text := getattr(one, "alert", ""))]
    assert re.search(r"no job ran from 2026-03-24 2\d:\d\d \(America/New_York\) for 2\d h", alert)


def test_a_week_in_which_all_users_are_away_is_no_outage() -> None:
    for seed in range(4):
        jobs, rng = sessions(seed), np.random.default_rng(seed)
        away = ((jobs["submit_s"] - BEGIN_S) // (7 * DAY_S) == 4).to_numpy()
        jobs = jobs.filter(pl.Series(~away | (rng.random(jobs.height) < 0.1)))
        assert outages(jobs).is_empty()


def test_waits_of_one_queue_are_stated_of_it() -> None:
    since = BEGIN_S + 30 * DAY_S
    jobs = sessions(2, queues=3)
    wait = pl.col("start_s") - pl.col("submit_s")
    late = (pl.col("queue") == "q1") & (pl.col("submit_s") >= since)
    start = pl.col("submit_s") + pl.when(late).then(3 * wait).otherwise(wait)
    jobs = jobs.with_columns(start_s=start, end_s=start + pl.col("runtime_s"))
    [row] = level_changes(jobs, timezone="UTC").filter(measure="wait").rows(named=True)
    assert (row["queue"], row["user"], row["end_s"]) == ("q1", None, None)
    assert row["start_s"] == pytest.approx(since, abs=DAY_S)
    before = jobs.filter(pl.col("queue") == "q1", pl.col("submit_s") < since)
    assert row["level_rest"] == pytest.approx((before.select(wait).to_series()).median(), rel=0.1)
    assert row["level"] / row["level_rest"] == pytest.approx(3, rel=0.25)


def test_a_planted_regression_is_dated_and_its_interval_has_the_truth() -> None:
    since = datetime(2026, 5, 1, tzinfo=UTC).timestamp()
    jobs = slower(stationary(2, days=120, per_day=300), since, 1.15)
    found = level_changes(jobs, timezone="UTC")
    assert found["measure"].to_list() == ["runtime"]
    row = found.row(0, named=True)
    assert abs(row["start_s"] - since) <= 3 * DAY_S
    assert row["end_s"] is None
    assert row["ci_low"] < 0.15 < row["ci_high"]
    assert row["ci_low"] > 0.05


def test_a_regression_of_a_log_of_fifty_days_is_found() -> None:
    jobs, since = stationary(10, days=50, per_day=60), BEGIN_S + 30 * DAY_S
    [row] = level_changes(slower(jobs, since, 1.25), timezone="UTC").rows(named=True)
    assert (row["measure"], row["user"]) == ("runtime", None)
    assert abs(row["start_s"] - since) <= DAY_S
    assert row["end_s"] is None or row["end_s"] > since + 15 * DAY_S
    assert row["ci_low"] < 0.25 < row["ci_high"]
    assert level_changes(jobs, timezone="UTC").is_empty()


def test_a_bad_week_is_a_stretch_of_failures() -> None:
    jobs = stationary(4, days=90, per_day=200)
    low = BEGIN_S + 40 * DAY_S
    bad = pl.col("start_s").is_between(low, low + 7 * DAY_S) & (pl.col("gpus") <= 2)
    jobs = jobs.with_columns(status=pl.when(bad).then(pl.lit("failed")).otherwise("status"))
    found = level_changes(jobs, timezone="UTC").filter(measure="failure rate")
    assert found["start_s"][0] == pytest.approx(low, abs=DAY_S)
    assert found["end_s"][0] == pytest.approx(low + 7 * DAY_S, abs=DAY_S)
    assert found["effect"][0] > 0.3


@pytest.mark.parametrize("is_planted", [True, False])
def test_failures_on_weekends_are_stated_of_them(tmp_path: Path, is_planted: bool) -> None:
    """A quarter of the jobs that end on a Saturday or Sunday fails besides."""
    jobs, rng = stationary(7, days=56, per_day=100), np.random.default_rng(7)
    free = pl.from_epoch(pl.col("end_s").cast(pl.Int64)).dt.weekday() > 5
    bad = free & pl.Series(rng.random(jobs.height) < 0.25 * is_planted)
    jobs = jobs.with_columns(status=pl.when(bad).then(pl.lit("failed")).otherwise("status"))
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    found = build([open_store(tmp_path).trace("mine")]).findings
    stated = [one for one in found if isinstance(one, Finding) and "percentage points" in one]
    assert len(stated) == is_planted
    for one in stated:
        assert "higher" in one
        assert "on Saturdays and Sundays (n = " in one
        assert one.alert.endswith("on Saturdays and Sundays")
        assert one.ci_low is not None
        assert one.ci_high is not None
        assert one.ci_low < 0.25 * 0.85 < one.ci_high  # of those that would not have failed


def test_jobs_that_run_on_from_friday_make_no_weekend_good() -> None:
    rng = np.random.default_rng(1)
    day = rng.choice(56, 5000, p=np.where(np.arange(56) % 7 < 5, 1, 0.2) / 43.2)
    start, fails = BEGIN_S + (day + rng.random(5000)) * DAY_S, rng.random(5000) < 0.3
    runtime = np.where(fails, 600.0, DAY_S)
    jobs = pl.DataFrame({"start_s": start, "end_s": start + runtime, "runtime_s": runtime})
    jobs = jobs.with_columns(status=np.where(fails, "failed", "completed"), gpus=1)
    found = level_changes(jobs, timezone="UTC", window=(BEGIN_S, BEGIN_S + 57 * DAY_S))
    assert found.filter(pl.col("begin").str.contains("Saturdays")).is_empty()


@pytest.mark.parametrize(
    ("column", "since", "text"),
    [
        ("end_s", 20, "no job ended from 2026-03-21 23:"),
        ("submit_s", 54, "no job was submitted from 2026-04-24 22:"),
        ("end_s", 60, ""),
    ],
)
def test_a_week_without_records_is_stated(
    tmp_path: Path, column: str, since: int, text: str
) -> None:
    """Jobs that ended in a week, or were submitted in the last week, are not in the log."""
    rng = np.random.default_rng(3)
    start = BEGIN_S + np.sort(rng.random(6000)) * 60 * DAY_S
    end = start + np.minimum(rng.lognormal(10, 1.2, 6000), 9 * DAY_S)
    jobs = pl.DataFrame({"submit_s": start - 9, "start_s": start, "end_s": end, "gpus": 1.0})
    jobs = jobs.with_columns(
        job_id=pl.format("j{}", pl.int_range(pl.len())),
        runtime_s=pl.col("end_s") - pl.col("start_s"),
        status=pl.lit("completed"),
    ).filter(pl.col("end_s") < BEGIN_S + 60 * DAY_S)
    low = BEGIN_S + since * DAY_S
    jobs = jobs.filter(~pl.col(column).is_between(low, low + 7 * DAY_S))
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    found = build([open_store(tmp_path).trace("mine")]).findings
    stated = [one for one in found if isinstance(one, Finding) and "while jobs ran" in one]
    assert [text in one for one in stated] == [True] * bool(text)
    alerts = [one.alert.startswith("mine: records may be missing: ") for one in stated]
    assert alerts == [column == "end_s" for one in stated]


def test_a_stationary_log_has_no_change() -> None:
    for seed in range(3):
        jobs = stationary(seed + 10)
        assert outages(jobs).is_empty()
        assert level_changes(jobs).is_empty()


def test_what_cannot_be_used_is_refused_in_one_line() -> None:
    with pytest.raises(DataError, match="none of the columns submit_s"):
        trends(pl.DataFrame({"gpus": [1.0]}))
    with pytest.raises(DataError, match="no job has a time"):
        trends(pl.DataFrame({"submit_s": [None]}, schema={"submit_s": pl.Float64}))
    with pytest.raises(DataError, match="period must be one of"):
        trends(pl.DataFrame({"submit_s": [1.0, 9.0]}), period="fortnight")
    with pytest.raises(DataError, match="gpus must be a number above 0"):
        trends(pl.DataFrame({"submit_s": [1.0, 9.0]}), gpus=0)


def test_longer_waits_and_less_demand_are_stretches() -> None:
    jobs = stationary(5, days=90, per_day=200)
    since = BEGIN_S + 50 * DAY_S
    late = pl.col("submit_s") >= since
    shift = pl.when(late).then(3600.0).otherwise(0.0)
    waiting = jobs.with_columns(pl.col("start_s", "end_s") + shift)
    found = level_changes(waiting, timezone="UTC").filter(measure="wait")
    assert found["start_s"].to_list() == [pytest.approx(since, abs=DAY_S)]
    assert found["level"].item() == pytest.approx(3600 + found["level_rest"].item(), rel=0.1)
    fewer = jobs.filter(~late | (pl.int_range(pl.len()) % 3 == 0))
    found = level_changes(fewer, timezone="UTC").filter(measure="demand")
    assert found["start_s"].to_list() == [pytest.approx(since, abs=4 * DAY_S)]
    assert found["effect"].item() == pytest.approx(-2 / 3, abs=0.12)


def test_long_jobs_after_the_last_start_are_no_lower_demand() -> None:
    jobs = stationary(5, days=40, per_day=200)
    last = jobs.filter(pl.int_range(pl.len()) == pl.len() - 1)
    end = BEGIN_S + 65 * DAY_S
    longer = last.with_columns(end_s=end, runtime_s=end - pl.col("start_s"))
    found = level_changes(pl.concat([jobs[:-1], longer]), timezone="UTC")
    assert found.filter(measure="demand").is_empty()


def test_medians_of_few_jobs_are_not_drawn() -> None:
    periods = pl.DataFrame(
        {
            "start_s": [0.0, DAY_S, 2 * DAY_S],
            "end_s": [DAY_S, 2 * DAY_S, 3 * DAY_S],
            "failure_rate": [0.1, 0.2, 1.0],
            "n_ended": [100, 90, 1],
        }
    )
    [line] = plot_trends(periods, measure="failure_rate").lines
    assert list(np.isnan(line.get_ydata())) == [False, False, True, True]


def test_a_page_names_the_definition_of_failure_of_its_trends(tmp_path: Path) -> None:
    jobs = stationary(3)
    columns = "".join(f'{name} = "{name}"\n' for name in jobs.columns)
    own = 'failure_statuses = ["failed", "cancelled"]\nfailure_definition = "Only D is a success."'
    pages = []
    for name, facts in (("own", own), ("usual", "")):
        mapping = f"[trace]\n{facts}\n[jobs]\n{columns}"
        add_table(jobs, trace=name, table="jobs", store=tmp_path / name, mapping=mapping)
        out = tmp_path / f"{name}-out"
        pages.append(build_report(tmp_path / name, out=out, only="trends", formats="md"))
    stated = "Failures are those of the published definition here: Only D is a success."
    assert [stated in page.read_text() for page in pages] == [True, False]


def test_users_who_are_active_mostly_before_or_after_a_change_do_not_hide_its_size() -> None:
    """Runtimes are 15 % longer from day 30 on; 85 % of the days of a user are on one side of it."""
    draw, rows = np.random.default_rng(2), []
    for user in range(40):
        before = 17 if user % 2 else 3
        days = [*draw.choice(30, before, replace=False), *(30 + draw.choice(30, 20 - before))]
        for day in np.repeat(np.unique(days), 4):
            runtime = np.exp(draw.normal(7 + user / 10, 0.3)) * (1.15 if day >= 30 else 1)
            start = day * DAY_S + draw.uniform(0, DAY_S / 2)
            rows.append((f"u{user}", "train", start, start, runtime, "completed"))
    names = ["user", "job_name", "submit_s", "start_s", "runtime_s", "status"]
    found = level_changes(pl.DataFrame(rows, schema=names, orient="row"))
    [row] = found.filter(measure="runtime").to_dicts()
    assert row["effect"] == pytest.approx(0.15, abs=0.03)
    assert row["ci_low"] < 0.15 < row["ci_high"]


def test_demand_that_doubles_is_stated_with_its_interval(tmp_path: Path) -> None:
    jobs, rng = stationary(1, days=120, per_day=300), np.random.default_rng(1)
    part = (jobs["submit_s"] - BEGIN_S) / (120 * DAY_S)
    jobs = jobs.filter(pl.Series(rng.random(jobs.height)) < (1 + part) / 2)
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    found = build([open_store(tmp_path).trace("mine")]).findings
    [grown] = [one for one in found if isinstance(one, Finding) and "per week" in one]
    match = re.search(
        r"to ([\d.]+) times that of the start \(95 % CI ([\d.]+) to ([\d.]+)\)", grown
    )
    assert match is not None
    times, low, high = map(float, match.groups())
    assert times == pytest.approx(2, rel=0.3)
    assert 1 < low < 2 < high
    # half of the growth is above the start: a third of the mean demand
    assert grown.cost_gpu_h == pytest.approx(
        workload_summary(jobs)["gpu_hours"].item() / 3, rel=0.3
    )
    assert grown.heading.startswith("mine: the demand rises to ")


def test_waits_that_grow_in_one_queue_are_stated_of_it_and_a_step_is_no_drift(
    tmp_path: Path,
) -> None:
    jobs, rng = stationary(3, days=56, per_day=90), np.random.default_rng(3)
    large = pl.Series(rng.random(jobs.height) < 0.3)
    week = (jobs["submit_s"] - BEGIN_S) / (7 * DAY_S)
    middle = pl.when(large).then(3600 * 1.25**week).otherwise(60.0)  # 25 % a week
    waits = middle * pl.Series(np.exp(rng.normal(0, 0.5, jobs.height)))
    since = BEGIN_S + 28 * DAY_S
    longer = pl.when(pl.col("submit_s") >= since).then(1.4).otherwise(1.0)
    jobs = jobs.with_columns(
        queue=pl.when(large).then(pl.lit("large")).otherwise(pl.lit("batch")),
        start_s=pl.col("submit_s") + waits,
        runtime_s=pl.col("runtime_s") * longer,
    ).with_columns(end_s=pl.col("start_s") + pl.col("runtime_s"))
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    found = [str(one) for one in build([open_store(tmp_path).trace("mine")]).findings]
    [drift] = [one for one in found if "per week" in one]
    match = re.search(r"in queue large rises by (\d+) % per week \(95 % CI (\d+) to (\d+)", drift)
    assert match is not None
    rise, low, high = map(int, match.groups())
    assert low <= 25 <= high
    assert rise == pytest.approx(25, abs=4)
    assert any("median runtime of comparable jobs" in one and "longer" in one for one in found)


def test_waits_that_grow_in_every_queue_are_of_none(tmp_path: Path) -> None:
    jobs, rng = stationary(5, days=56, per_day=90), np.random.default_rng(5)
    week = (jobs["submit_s"] - BEGIN_S) / (7 * DAY_S)
    noise = pl.Series(np.exp(rng.normal(0, 0.5, jobs.height)))
    names = pl.Series(np.where(rng.random(jobs.height) < 0.4, "large", "batch"))
    jobs = jobs.with_columns(
        queue=names, start_s=pl.col("submit_s") + pl.Series(600 * 1.25**week * noise)
    ).with_columns(end_s=pl.col("start_s") + pl.col("runtime_s"))
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    found = [str(one) for one in build([open_store(tmp_path).trace("mine")]).findings]
    [drift] = [one for one in found if "per week" in one]
    assert "the wait of comparable jobs rises by" in drift


def test_waits_that_end_are_of_0_s_and_limits_of_a_drift_are_whole_percentages(
    tmp_path: Path,
) -> None:
    jobs, rng = stationary(5, days=56, per_day=90), np.random.default_rng(5)
    week = (jobs["submit_s"] - BEGIN_S) / (7 * DAY_S)
    none = pl.Series(np.where(week < 4, 3600 * np.exp(rng.normal(0, 0.5, jobs.height)), 0))
    table = level_changes(jobs.with_columns(start_s=pl.col("submit_s") + none), timezone="UTC")
    assert table.filter(measure="wait")["level"].to_list() == [0.0]
    assert not np.signbit(table.filter(measure="wait")["level"].to_numpy()).any()
    doubled = pl.Series(60 * 3.0**week * np.exp(rng.normal(0, 0.5, jobs.height)))
    jobs = jobs.with_columns(start_s=pl.col("submit_s") + doubled)
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    found = [str(one) for one in build([open_store(tmp_path).trace("mine")]).findings]
    [drift] = [one for one in found if "wait of comparable jobs" in one]
    assert re.search(r"rises by 1\d\d % per week \(95 % CI 1\d\d to 1\d\d;", drift), drift


def test_a_month_of_twice_the_demand_costs_what_it_adds(tmp_path: Path) -> None:
    jobs, rng = stationary(2, days=90, per_day=120), np.random.default_rng(2)
    day = (jobs["submit_s"] - BEGIN_S) / DAY_S
    busy = day.is_between(30, 60)
    jobs = jobs.filter(busy | pl.Series(rng.random(jobs.height) < 0.5))
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    found = build([open_store(tmp_path).trace("mine")]).findings
    [more] = [one for one in found if isinstance(one, Finding) and "emand" in one]
    assert re.search(r"demand \d+ % higher: [\d.]+ instead of [\d.]+ GPUs in use", more)
    hours = workload_summary(jobs)["gpu_hours"].item()  # 30 of 120 half months
    assert more.cost_gpu_h == pytest.approx(hours / 4, rel=0.25)


def test_a_ratio_to_a_demand_near_0_is_not_stated() -> None:
    trends = pl.DataFrame({"start_s": [0.0], "end_s": [28 * 86_400.0], "gpu_hours": [100.0]})
    found: Any = SimpleNamespace(trends=trends)
    # of four weeks, from 1 - 2 x 0.3 to 1 + 2 x 0.3 of the mean
    text, hours = _growth(found, {"ci_low": 0.1, "per_week": 0.3, "ci_high": 0.5})
    assert text == ", to 4 times that of the start (95 % CI 1.5 or more)"
    assert hours == pytest.approx(60)
    assert _growth(found, {"ci_low": 0.4, "per_week": 0.46, "ci_high": 0.5}) == ("", 0.0)


@pytest.mark.parametrize(("years", "periods"), [(1, 346), (7, 363), (54, 218), (500, None)])
def test_one_wrong_time_does_not_make_periods_many(years: int, periods: int | None) -> None:
    jobs = stationary(20)
    late = pl.when(pl.int_range(pl.len()) == 0).then((years * 365.0 - 20) * DAY_S).otherwise(0.0)
    jobs = jobs.with_columns(pl.col("submit_s", "start_s", "end_s") + late)
    found = comparable_days(jobs, "UTC", None, ("completed", "failed"), outages(jobs))
    numbers = {len(edges) - 1 for *_, edges in found}
    assert bool(numbers) == (periods is not None)
    assert all(number == pytest.approx(periods, abs=5) for number in numbers)
