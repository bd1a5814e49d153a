"""Hazards over runtime, ends at time limits, and goodput: closed forms and planted rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traceana
from traceana.errors import DataError

HOUR = 3600.0


def test_planted_hazards_are_found() -> None:
    # failures at 2 per hour in the first ten minutes and .05 per hour later; others complete
    rng = np.random.default_rng(1)
    early, late = rng.exponential(1800, 20_000), 600 + rng.exponential(20 * HOUR, 20_000)
    fails = np.where(early < 600, early, late)
    ends = rng.exponential(5 * HOUR, 20_000)
    jobs = pl.DataFrame(
        {
            "runtime_s": np.minimum(fails, ends),
            "status": np.where(fails < ends, "failed", "completed"),
        }
    )
    found = traceana.hazard_by_runtime(jobs, edges_s=[0, 600, 6 * HOUR])
    failed = found.filter(event="failed")
    assert failed["hazard_per_h"].to_list() == pytest.approx([2, 0.05, 0.05], rel=0.1)
    for truth, row in zip((2, 0.05, 0.05), failed.iter_rows(named=True), strict=True):
        assert row["ci_low"] < truth < row["ci_high"]
    assert failed["ratio"][0] > 5
    assert failed["ratio"][1] < 1
    completed = found.filter(event="completed")
    assert completed["hazard_per_h"].to_list() == pytest.approx([0.2] * 3, rel=0.1)
    assert completed["run_hours"].sum() == pytest.approx(np.minimum(fails, ends).sum() / HOUR)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.sampled_from(["failed", "completed"])),
        min_size=1,
        max_size=20,
    )
)
def test_events_and_hours_add_up(rows: list[tuple[int, int, str]]) -> None:
    jobs = pl.DataFrame(
        [(float(a), float(a + b), status) for a, b, status in rows],
        ["entry", "runtime_s", "status"],
        orient="row",
    )
    found = traceana.hazard_by_runtime(
        jobs, edges_s=[0, 10, 20, 40], entry="entry", events=("failed", "completed")
    )
    by_event = dict(found.group_by("event").agg(pl.col("n_events").sum()).iter_rows())
    counts = dict(jobs.group_by("status").len().iter_rows())
    assert {k: v for k, v in by_event.items() if v} == counts
    for _, own in found.group_by("event"):
        assert own["run_hours"].sum() == pytest.approx(sum(b for _, b, _ in rows) / HOUR)


def test_users_that_fail_together_widen_the_interval() -> None:
    rng = np.random.default_rng(2)
    users = np.repeat(np.arange(20), 50)
    jobs = pl.DataFrame(
        {
            "user": [f"u{i}" for i in users],
            "runtime_s": rng.exponential(HOUR, 1000),
            "status": np.where(np.isin(users, range(4)), "failed", "completed"),
        }
    )
    options: dict[str, Any] = {"events": "failed", "edges_s": [0]}
    by_row = traceana.hazard_by_runtime(jobs, **options).row(0, named=True)
    by_user = traceana.hazard_by_runtime(jobs, cluster="user", **options).row(0, named=True)
    assert by_user["hazard_per_h"] == by_row["hazard_per_h"]
    width = {name: row["ci_high"] - row["ci_low"] for name, row in (("r", by_row), ("u", by_user))}
    assert width["u"] > 4 * width["r"]


def test_groups_and_censored_rows() -> None:
    jobs = pl.DataFrame(
        {
            "queue": ["a", "a", "b", None],
            "runtime_s": [HOUR, None, 2 * HOUR, 0.0],
            "status": ["failed", "failed", "running", "failed"],
        }
    )
    found = traceana.hazard_by_runtime(jobs, by="queue", events="failed", edges_s=[0])
    assert found.select("queue", "n_at_risk", "n_events", "run_hours", "hazard_per_h").rows() == [
        ("a", 1, 1, 1.0, 1.0),
        ("b", 1, 0, 2.0, 0.0),
        (None, 1, 1, 0.0, None),
    ]


@pytest.mark.parametrize("edges", [[], [1, 2], [0, 5, 5], [0, "a"], 7])
def test_edges_ascend_from_zero(edges: Any) -> None:
    with pytest.raises(DataError, match="edges_s must"):
        traceana.hazard_by_runtime(
            pl.DataFrame({"runtime_s": [1.0], "status": ["failed"]}), edges_s=edges
        )


def test_ends_at_the_time_limit_are_counted() -> None:
    jobs = pd.DataFrame(
        {
            "queue": ["a"] * 4 + ["b"],
            "runtime_s": [HOUR, 2 * HOUR, HOUR, None, 10.0],
            "time_limit_s": [HOUR, 4 * HOUR, None, HOUR, 0.0],
            "gpus": [8.0, 1.0, 1.0, 1.0, 1.0],
        }
    )
    found = traceana.time_limit_ends(jobs, by="queue").rows(named=True)
    first = {"n": 2, "n_missing": 2, "at_limit": 1, "fraction_at_limit": 0.5, "hours": 8.0}
    assert {key: found[0][key] for key in first} == first
    assert found[0]["fraction_hours"] == pytest.approx(0.8)
    assert (found[0]["p25"], found[0]["median"], found[0]["p75"]) == (0.625, 0.75, 0.875)
    assert (found[1]["n"], found[1]["n_missing"], found[1]["fraction_at_limit"]) == (0, 1, None)


def test_goodput_divides_the_gpu_hours() -> None:
    runs = [
        # failed twice before it completed; the second attempt began when the first had ended
        ("u", "train", "failed", 0.0, HOUR, 8.0),
        ("u", "train", "cancelled", HOUR, 2 * HOUR, 8.0),
        ("u", "train", "completed", 4 * HOUR, 10 * HOUR, 8.0),
        # two at once: the one that failed did not start again
        ("u", "sweep", "failed", 0.0, 5 * HOUR, 1.0),
        ("u", "sweep", "completed", HOUR, HOUR, 1.0),
        # another user's run of that name is another job; one without a name is no repeat
        ("v", "train", "failed", 0.0, HOUR, 4.0),
        ("v", None, "failed", 0.0, HOUR, 4.0),
        ("v", None, "completed", 2 * HOUR, HOUR, 4.0),
        ("v", "long", "running", 0.0, 3 * HOUR, 2.0),
        ("v", "lost", "failed", 0.0, None, 2.0),
    ]
    names = ["user", "job_name", "status", "start_s", "runtime_s", "gpus"]
    jobs = pl.DataFrame(runs, names, orient="row").with_columns(
        end_s=pl.col("start_s") + pl.col("runtime_s")
    )
    found = traceana.goodput(jobs)
    hours = {"useful": 80 + 1 + 4, "repeated": 8 + 16, "lost": 5 + 4 + 4, "unfinished": 6}
    assert dict(found.select("kind", "gpu_hours").iter_rows()) == hours
    assert found["fraction_of_all"].sum() == pytest.approx(1)
    assert found["n_missing"].to_list() == [0, 0, 1, 0]
    nobody = traceana.goodput(jobs, same=())
    assert dict(nobody.select("kind", "gpu_hours").iter_rows())["repeated"] == 0
    by_user = traceana.goodput(jobs, by="user")
    assert by_user.group_by("user").len()["len"].to_list() == [4, 4]
    assert by_user["gpu_hours"].sum() == sum(hours.values())
