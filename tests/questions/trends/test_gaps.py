"""Gaps without a running job: usual starts in closed form, and waits by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.questions.trends.logs import BEGIN_S, DAY_S, sessions
from traceana import add_table, open_store
from traceana.questions.trends import section
from traceana.questions.trends.gaps import expected_starts, gap_pvalues, waits_in_gaps

HOUR = 3600.0


def test_starts_by_day_alone_make_nights_short() -> None:
    # half of the hours from 8 to 16 have a start, on 70 days: a rate of log 2 per hour
    days = np.arange(70)[:, None] * 24
    begin = np.sort((days + 8 + 2 * np.arange(4) + 0.5).ravel()) * HOUR
    gaps = expected_starts(begin, 0.0, 70 * 24 * HOUR)
    per_hour = -np.log1p(-(70 * 4 / (70 * 24 + 1)))  # all hours alike but for the bounds of few
    assert gaps[0] == pytest.approx(gaps[4], rel=0.02)
    assert gaps[3] < 0.2 * gaps[0] * 9  # a night of 18 h, of which few have starts
    assert per_hour < gaps[0]


def test_a_constant_rate_is_that_of_a_poisson_process() -> None:
    rng = np.random.default_rng(2)
    begin = np.sort(rng.uniform(0, 200 * 24 * HOUR, 200 * 24))  # one per hour
    assert expected_starts(begin, 0.0, 200 * 24 * HOUR).mean() == pytest.approx(1, rel=0.05)


def test_waits_begin_with_the_second_submission_of_a_gap() -> None:
    # 60 gaps of 2 h in which one job waits for some minutes; in one, jobs wait for 5 and 4 h
    rng = np.random.default_rng(3)
    begin = np.linspace(0, 600 * HOUR, 61)
    until = begin + 8 * HOUR
    until[30] = begin[31] - 6 * HOUR
    wait = rng.exponential(300, 60)
    submit = np.append(begin[1:] - wait, begin[31] - np.array([5, 4]) * HOUR)
    start = np.append(begin[1:], [begin[31] + 1, begin[31] + 2])
    found = waits_in_gaps(begin, until, submit, start)
    assert found[30] < 1e-5
    assert waits_in_gaps(begin, until, submit[:-1], start[:-1]).get(30, 1.0) > 0.01
    waits = pl.DataFrame({"submit_s": submit, "start_s": start}).with_columns(user=pl.lit("a"))
    of_all = gap_pvalues(begin, until, waits, (0.0, 610 * HOUR))
    assert len(of_all) == 60
    assert of_all[30] < 0.01
    assert min(p for place, p in of_all.items() if place != 30) > 0.01


@pytest.mark.parametrize("planted", ["storage", "one user", "none"])
def test_jobs_of_many_users_that_fail_together_are_an_alert(tmp_path: Path, planted: str) -> None:
    # a file system kills within 4 min what runs on it, which is two thirds of the running jobs
    rng, at = np.random.default_rng(1), BEGIN_S + 29.6 * DAY_S
    jobs = sessions(2, users=100)
    runs = (pl.col("start_s") < at) & (pl.col("end_s") > at)
    hit = runs & pl.Series(rng.random(jobs.height) < 0.67) & (planted != "none")
    end = pl.when(hit).then(at + pl.Series(rng.uniform(1, 240, jobs.height))).otherwise("end_s")
    user = pl.when(hit).then(pl.lit("u1")).otherwise("user") if planted == "one user" else "user"
    jobs = jobs.with_columns(
        end_s=end, user=user, status=pl.when(hit).then(pl.lit("failed")).otherwise("status")
    ).with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))
    jobs = jobs.with_columns(job_id=pl.format("j{}", pl.int_range(pl.len())))
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    trace = open_store(tmp_path).trace("mine")
    found = [one for one in section.build([trace]).findings if "failed within" in one]
    if planted != "storage":
        assert not found
        return
    [finding] = found
    pattern = r"mine: (\d+) jobs of (\d+) users failed within \d min from 2026-03-31 14:2\d; they"
    [(n, users)] = re.findall(pattern, finding)
    of_event = jobs.filter(pl.col("end_s").is_between(at, at + 240), pl.col("status") == "failed")
    assert of_event.height <= int(n) <= of_event.height + 2  # others fail by chance
    assert int(users) == of_event["user"].n_unique()
    assert finding.alert.startswith("mine: ")  # type: ignore[attr-defined]


def test_jobs_that_fail_together_at_one_time_of_the_day_are_one_finding(tmp_path: Path) -> None:
    """Each of 24 users runs a job from about 1 to 21 h on 60 days; one in twenty fails.

    On four days all fail from 2:10 on, within 4 min, and on another one from 15:10 on.
    """
    draw, days, users = np.random.default_rng(1), 60, 24
    start, end = (draw.normal(hour, 0.3, (days, users)) * 3600 for hour in (1, 21))
    failed = draw.random((days, users)) < 0.05
    for day, hour in ((20, 2), (27, 2), (33, 2), (41, 2), (36, 15)):
        end[day], failed[day] = hour * 3600 + 600 + draw.uniform(1, 240, users), True
    jobs = pl.DataFrame(
        {
            "start_s": (start + BEGIN_S + DAY_S * np.arange(days)[:, None]).ravel(),
            "end_s": (end + BEGIN_S + DAY_S * np.arange(days)[:, None]).ravel(),
            "user": np.tile([f"u{user}" for user in range(users)], days),
            "gpus": 2.0,
            "status": np.where(failed.ravel(), "failed", "completed"),
        }
    ).with_columns(
        submit_s="start_s",
        runtime_s=pl.col("end_s") - pl.col("start_s"),
        job_id=pl.format("j{}", pl.int_range(pl.len())),
    )
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    texts = [str(one) for one in section.build([open_store(tmp_path).trace("mine")]).findings]
    [together] = [text for text in texts if "failed together" in text]
    at_night = (jobs["end_s"] % DAY_S < 3 * 3600) & (jobs["status"] == "failed")
    hours = jobs.filter(at_night)["runtime_s"].sum() * 2 / 3600
    pattern = r"on 4 days, each time at 02:10.* \((\d+) jobs; .* used ([\d.]+) GPU"
    [(n, used)] = re.findall(pattern, together)
    assert int(n) == 96
    assert float(used) == pytest.approx(hours, rel=0.01)
    assert sum("failed within" in text for text in texts) == 1
