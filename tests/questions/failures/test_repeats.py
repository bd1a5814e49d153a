"""Jobs that fail again and again and crashes at start are found as planted, and not by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from traceana import open_store
from traceana.cohorts.cohort import form_cohort
from traceana.ingesters.ingestion import store_frames
from traceana.page.blocks import Content
from traceana.page.finding import Finding
from traceana.questions.failures import section_competing_risks
from traceana.questions.failures.nodes import fewest_tries, find_repeats
from traceana.questions.failures.section_model import state_overall
from traceana.store import Trace
from traceana.tables.formatting import share

HOUR_S = 3600.0


def log(seed: int, n: int = 3000, fails: float = 0.1, **planted: Any) -> pl.DataFrame:
    """A log of 20 users with four names each; jobs of half an hour on two GPUs fail at random."""
    draw = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "user": [f"u{one}" for one in draw.integers(0, 20, n)],
            "job_name": [f"exp{letter}" for letter in draw.choice(list("abcd"), n)],
            "gpus": 2,
            "submit_s": np.sort(draw.uniform(0, 30 * 24 * HOUR_S, n)),
            "runtime_s": draw.exponential(1800, n) + 100,
            "status": np.where(draw.random(n) < fails, "failed", "completed"),
            "end_reason": None,
        },
        schema_overrides={"end_reason": pl.String},
    )
    return frame.with_columns(**planted)


def stored(jobs: pl.DataFrame) -> Trace:
    jobs = jobs.sort("submit_s").with_columns(
        job_id=pl.int_range(pl.len()).cast(pl.String),
        start_s=pl.col("submit_s") + 10,
        end_s=pl.col("submit_s") + 10 + pl.col("runtime_s"),
    )
    return open_store(store_frames({"jobs": jobs})).trace("frames")


def series(n: int, reason: str | None, apart_s: float = 600.0) -> pl.DataFrame:
    """A job of 8 GPUs that fails n times after 90 s, and is submitted again."""
    return log(0, n).with_columns(
        user=pl.lit("eva"),
        job_name=pl.format("resume-{}", pl.int_range(pl.len())),
        gpus=8,
        submit_s=5 * 24 * HOUR_S + pl.int_range(pl.len()) * apart_s,
        runtime_s=pl.lit(90.0),
        status=pl.lit("failed"),
        end_reason=pl.lit(reason, pl.String),
    )


def stated(jobs: pl.DataFrame) -> list[Finding]:
    content: Content = section_competing_risks.build_repeats([stored(jobs)])
    return [one for one in content.findings if isinstance(one, Finding)]


def test_a_job_that_fails_again_and_again_is_stated_with_its_cost() -> None:
    jobs = pl.concat([log(1), series(40, None)], how="vertical_relaxed")
    [found] = stated(jobs)
    failures = jobs.filter(status="failed").height
    assert str(found) == (  # 39 times 600 s and 100 s; 40 * 8 * 90 s
        "frames: job resume# of user eva failed again and again, 40 times (within 6.53 h, "
        f"median runtime 1.5 min): {40 / failures:.0%} of all failures and 8 "
        "GPU-hours.".replace("%", " %")
    )
    assert (found.cost_gpu_h, found.cost_jobs) == (8, 40)


def test_time_limits_faults_and_rare_tries_are_no_series() -> None:
    late = fewest_tries(log(1).height, soon=False)
    for reason, apart_s, n in (
        ("TIMEOUT", 600.0, 40),
        ("NODE_FAIL", 600.0, 40),
        ("FAILED", 2 * HOUR_S, late - 1),
    ):
        jobs = pl.concat([log(1), series(n, reason, apart_s)], how="vertical_relaxed")
        assert stated(jobs) == []


def test_a_timed_job_that_fails_every_two_hours_is_one_series_until_it_completes() -> None:
    planted = series(40, "FAILED", 2 * HOUR_S)
    [found] = stated(pl.concat([log(1), planted], how="vertical_relaxed"))
    assert "job resume# of user eva failed again and again, 40 times (within 3.25 d, " in found
    every_tenth = pl.when(pl.int_range(pl.len()) % 10 == 9).then(pl.lit("completed"))
    planted = planted.with_columns(status=every_tenth.otherwise("status"))
    assert not stated(pl.concat([log(1), planted], how="vertical_relaxed"))


def test_crashes_of_two_series_of_a_user_are_stated_once() -> None:
    both = [series(40, None).with_columns(job_name=pl.lit(name), runtime_s=30.0) for name in "xy"]
    found = stated(pl.concat([log(1), *both], how="vertical_relaxed"))
    assert ["again and again" in one for one in found] == [True, True]


def test_crashes_at_start_are_stated_by_user_or_by_name() -> None:
    jobs, crash = log(2), pl.int_range(pl.len()) % 2 == 0
    for by, what in ((pl.col("user") == "u7", "of user u7"), ("expc", "named expc")):
        mine = pl.col("job_name") == by if isinstance(by, str) else by
        planted = jobs.with_columns(
            status=pl.when(mine & crash).then(pl.lit("failed")).otherwise("status"),
            runtime_s=pl.when(mine & crash).then(30.0).otherwise("runtime_s"),
        )
        n = planted.filter(mine & crash).height
        [found] = stated(planted)
        assert str(found).startswith(f"frames: {n} jobs {what} failed in their first minute, ")
        assert found.cost_gpu_h == n * 2 * 30 / 3600
        # of jobs that are as short when they complete it is no crash
        others = stated(planted.with_columns(runtime_s=pl.lit(30.0)))
        assert not any("minute" in one for one in others)


def test_a_name_with_most_failures_is_stated_with_their_reason() -> None:
    jobs, is_late = log(3), (pl.col("job_name") == "expb") & (pl.int_range(pl.len()) % 2 == 0)
    late = jobs.with_columns(
        status=pl.when(is_late).then(pl.lit("failed")).otherwise("status"),
        end_reason=pl.when(is_late).then(pl.lit("TIMEOUT")).otherwise("end_reason"),
    )
    [found] = stated(late)
    failed = late.filter(pl.col("job_name") == "expb", pl.col("status") == "failed").height
    n = late.filter(is_late).height
    assert f"frames: {failed} jobs named expb failed ({n} ended as TIMEOUT), 5" in found
    part = share(failed / late.filter(status="failed").height)
    assert f": {part} of all failures" in found
    overall = str(state_overall(form_cohort(stored(late))))
    assert f"; {n} failed at a limit of their request, such as time or memory)" in overall
    assert "limit" not in str(state_overall(form_cohort(stored(jobs))))


def test_nothing_is_stated_of_failures_at_random() -> None:
    for seed in range(5):
        assert stated(log(seed, fails=0.05 + 0.1 * seed)) == []


def test_the_length_of_a_series_has_the_stated_rate_of_chance() -> None:
    """One name of which half fail and half are submitted within the hour: 1 % of logs at most."""
    n, logs = 2000, 300
    k = fewest_tries(n)
    assert n / 2 * 4.0 ** (1 - k) <= 0.01 < n / 2 * 4.0 ** (2 - k)
    draw = np.random.default_rng(3)
    found = 0
    for _ in range(logs):
        bad, soon = draw.random(n) < 0.5, draw.random(n) < 0.5
        run = longest = 0
        for is_bad, is_soon in zip(bad, soon, strict=True):
            run = (run + 1 if is_soon and run else 1) if is_bad else 0
            longest = max(longest, run)
        found += longest >= k
    assert found <= 9  # 3 are expected at most; more than 9 have p < 0.001


def test_a_log_without_names_has_no_series() -> None:
    assert find_repeats(stored(series(40, None).drop("job_name"))).series.is_empty()
