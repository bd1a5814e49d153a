"""Planted changes of one user or one name, and controls."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.questions.trends.logs import BEGIN_S, DAY_S, slower, stationary
from traceana import (
    level_changes,
    open_store,
)
from traceana.ingesters.ingestion import store_frames
from traceana.questions.trends import section


def test_a_regression_is_also_stated_without_a_user_of_most_jobs() -> None:
    jobs = stationary(2, days=60, per_day=200)
    most = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("svc")).otherwise("user")
    slow = slower(jobs.with_columns(user=most), BEGIN_S + 40 * DAY_S, 1.4)
    [row] = level_changes(slow, timezone="UTC").filter(measure="runtime").rows(named=True)
    assert row["note"].startswith("without svc: ")
    assert row["earliest"] <= "2026-04-11" <= row["latest"]
    assert row["ci_low"] < 0.4 < row["ci_high"]


def _with_name(
    jobs: pl.DataFrame,
    since_s: float | None,
    factor: float,
    *,
    user: str = "ann",
    sigma: float = 0.12,
    seed: int = 7,
) -> pl.DataFrame:
    """Add four jobs a day of one user and name whose runtimes change at a time."""
    rng = np.random.default_rng(seed)
    start = BEGIN_S + DAY_S * np.sort(rng.uniform(0, 90, 360))
    runtime = np.exp(rng.normal(9, sigma, 360))
    if since_s is not None:
        runtime *= np.where(start >= since_s, factor, 1.0)
    own = pl.DataFrame(
        {
            "user": user,
            "job_name": [f"nightly-{one}" for one in range(360)],
            "gpus": 4.0,
            "job_id": [f"n{one}" for one in range(360)],
            "status": "completed",
            "submit_s": start - 60,
            "start_s": start,
            "end_s": start + runtime,
            "runtime_s": runtime,
        }
    )
    return pl.concat([jobs, own], how="diagonal")


def test_a_regression_of_one_name_of_a_user_is_stated_as_theirs() -> None:
    since = BEGIN_S + 55 * DAY_S
    jobs = _with_name(stationary(6), since, 1.15)
    [row] = level_changes(jobs, timezone="UTC").rows(named=True)
    assert (row["measure"], row["user"], row["job_name"]) == ("runtime", "ann", "nightly#")
    assert abs(row["start_s"] - since) <= 3 * DAY_S
    assert row["end_s"] is None
    assert row["ci_low"] < 0.15 < row["ci_high"]
    assert row["ci_low"] > 0.1
    # jobs that began on the last days may not have ended
    kept = jobs.filter(pl.col("user") == "ann", pl.col("start_s") < BEGIN_S + 89 * DAY_S)
    assert row["n"] + row["n_rest"] == pytest.approx(kept.height, abs=8)


@pytest.mark.parametrize(("after", "in_queue"), [(0.45, False), (0.7, True)])
def test_failures_of_one_user_since_a_date_are_stated_as_theirs(
    after: float, *, in_queue: bool
) -> None:
    """Also in a queue with a user of more jobs."""
    since = BEGIN_S + 50 * DAY_S
    jobs, rng = _with_name(stationary(6), None, 1.0), np.random.default_rng(9)
    rate = pl.when(pl.col("start_s") >= since).then(after).otherwise(0.05)
    fails = (pl.col("user") == "ann") & (pl.Series(rng.random(jobs.height)) < rate)
    jobs = jobs.with_columns(status=pl.when(fails).then(pl.lit("failed")).otherwise("status"))
    if in_queue:
        is_short = pl.col("user").is_in(["ann", "u0"])
        jobs = jobs.with_columns(queue=pl.when(is_short).then(pl.lit("a")).otherwise(pl.lit("b")))
    [row] = level_changes(jobs, timezone="UTC").rows(named=True)
    assert (row["measure"], row["user"], row["job_name"]) == ("failure rate", "ann", None)
    assert abs(row["start_s"] - since) <= 2 * DAY_S
    assert row["ci_low"] < after - 0.05 < row["ci_high"]
    trace = open_store(store_frames({"jobs": jobs})).trace("frames")
    texts = [str(one) for one in section.build([trace]).findings]
    stated = f"failure rate of comparable jobs of user ann {100 * row['effect']:.2g} percentage"
    assert any(stated in text for text in texts)


def test_a_regression_of_two_users_is_stated_of_both() -> None:
    since = BEGIN_S + 55 * DAY_S
    bob: dict[str, Any] = {"user": "bob", "sigma": 0.22, "seed": 8}
    ann = _with_name(stationary(6), since, 1.15)
    found = level_changes(_with_name(ann, since, 1.15, **bob), timezone="UTC")
    assert sorted(found.filter(measure="runtime")["user"]) == ["ann", "bob"]
    assert found["start_s"].to_list() == [pytest.approx(since, abs=5 * DAY_S)] * 2
    alone = _with_name(ann, None, 1.0, **bob)
    assert level_changes(alone, timezone="UTC")["user"].to_list() == ["ann"]


def test_a_change_of_all_jobs_is_not_that_of_one_name() -> None:
    since = BEGIN_S + 55 * DAY_S
    jobs = _with_name(stationary(6, per_day=300), None, 1.0)
    found = level_changes(slower(jobs, since, 1.2), timezone="UTC")
    assert found.select("measure", "user").rows() == [("runtime", None)]


def test_names_of_users_without_a_change_have_none() -> None:
    for seed in (1, 2):
        assert level_changes(_with_name(stationary(seed + 20), None, 1.0)).is_empty()
