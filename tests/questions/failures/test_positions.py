"""Positions in job arrays from which tasks fail are found as planted; bursts in time are none."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import open_store
from traceana.ingesters.ingestion import store_frames
from traceana.questions.failures.nodes import failing_positions
from traceana.questions.failures.section_competing_risks import build_repeats as build
from traceana.store import Trace


def arrays(rate: np.ndarray, seed: int = 1) -> Trace:
    """12 arrays of one user and name; the rate of failure of each array (row) and task."""
    fails = np.random.default_rng(seed).random(rate.shape) < rate
    n_arrays, tasks = rate.shape
    ids = [(array, task) for array in range(n_arrays) for task in range(tasks)]
    jobs = pl.DataFrame(
        {
            "job_id": [f"{1000 + array}_{task}" for array, task in ids],
            "array_id": [f"{1000 + array}" for array, _ in ids],
            "user": "eva",
            "job_name": "sweep",
            "submit_s": [86_400.0 * array + task for array, task in ids],
            "start_s": [86_400.0 * array + task for array, task in ids],
            "end_s": [86_400.0 * array + task + 600 for array, task in ids],
            "runtime_s": 600.0,
            "gpus": 1.0,
            "status": np.where(fails.ravel(), "failed", "completed"),
        }
    )
    return open_store(store_frames({"jobs": jobs})).trace("frames")


@pytest.mark.parametrize("is_end", [True, False])
def test_tasks_that_fail_at_one_end_of_arrays_are_stated(*, is_end: bool) -> None:
    task = np.arange(64)
    bad = task >= 48 if is_end else task < 16
    trace = arrays(np.tile(np.where(bad, 0.9, 0.05), (12, 1)))
    [row] = failing_positions(trace)
    assert row["from"] == (48 if is_end else 16)
    status = trace.jobs.with_columns(at=pl.col("job_id").str.split("_").list[1].cast(pl.Int64))
    failed = pl.col("status") == "failed"
    is_bad = pl.col("at") >= 48 if is_end else pl.col("at") < 16
    many, few = (status.filter(side, failed).height for side in (is_bad, ~is_bad))
    texts = [str(one) for one in build([trace]).findings]
    where = "from task 48 on" if is_end else "before task 16"
    text = next(one for one in texts if "arrays sweep" in one)
    assert f"fail {where}: " in text
    assert f"({many} of 192)" in text
    assert f"({few} of 576; 12 arrays)" in text


@pytest.mark.parametrize("seed", range(5))
def test_failures_at_random_or_in_one_array_are_none(seed: int) -> None:
    rate = np.full((12, 64), 0.2)
    assert failing_positions(arrays(rate, seed)) == []
    rate[3, 20:] = 1  # an outage while one array ran
    rate[7, :30] = 1
    rate[8, 40:] = 1
    assert failing_positions(arrays(rate, seed)) == []
