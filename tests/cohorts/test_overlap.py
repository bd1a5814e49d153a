"""What of each job lies in the window, against sums by hand and by a walk over seconds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana import concentration, gpu_demand, gpu_hours_by, workload_summary
from traceana.cohorts.observation import window_of
from traceana.errors import DataError
from traceana.store import Store

HOUR = 3600.0
RUNNING = pl.DataFrame(
    {
        "submit_s": [0.0, 0, 0, 0],
        "start_s": [0.0, HOUR, 0, HOUR],
        "end_s": [HOUR, 10 * HOUR, None, None],
        "runtime_s": [HOUR, 9 * HOUR, None, None],
        "gpus": [2, 4, 64, 64],
        "status": ["completed", "completed", "running", "running"],
    }
)


def test_jobs_that_still_run_count_until_the_end_of_the_export() -> None:
    summary = workload_summary(RUNNING).row(0, named=True)
    expected = 2 * 1 + 4 * 9 + 64 * 10 + 64 * 9
    assert summary["gpu_hours"] == expected
    assert summary["gpus_mean"] == pytest.approx(expected / 10)
    assert summary["note"] == "2 jobs without an end run to the window's end"
    demand = gpu_demand(RUNNING)
    assert demand["gpus_mean"].sum() == pytest.approx(expected)
    by_status = gpu_hours_by(RUNNING, "status")
    assert by_status["gpu_hours"].to_list() == [64 * 19, 2 + 36]
    assert concentration(RUNNING)["gpu_hours"].item() == expected


def test_a_window_clips_what_ran_before_and_after() -> None:
    window = (0.5 * HOUR, 2 * HOUR)
    summary = workload_summary(RUNNING, window=window).row(0, named=True)
    expected = 2 * 0.5 + 4 * 1 + 64 * 1.5 + 64 * 1
    assert summary["gpu_hours"] == expected
    assert gpu_demand(RUNNING, window=window)["gpus_mean"].sum() == pytest.approx(expected)
    assert gpu_hours_by(RUNNING, "status", window=window)["gpu_hours"].sum() == expected


@pytest.mark.parametrize(
    ("row", "hours"),
    [
        ({"submit_s": 0.0, "end_s": HOUR, "status": "completed"}, 1),  # from its submission
        ({"end_s": HOUR, "runtime_s": HOUR, "status": "completed"}, 1),  # from end - runtime
        ({"end_s": 2 * HOUR, "status": "completed"}, 2),  # from the window's beginning
        ({"end_s": 2 * HOUR}, 2),
        ({"submit_s": 2 * HOUR, "status": "unknown"}, 8),  # a service still there
        ({"status": "unknown"}, 10),  # there all the time
        ({"submit_s": 0.0, "end_s": HOUR, "status": "pending"}, None),  # never ran
        ({"submit_s": 0.0, "end_s": HOUR, "status": "cancelled"}, None),
        ({"start_s": 0.0, "status": "completed"}, None),  # when it ended is not known
        ({"start_s": 11 * HOUR, "runtime_s": HOUR, "status": "completed"}, None),  # outside
    ],
)
def test_jobs_without_a_time(row: dict[str, float | str], hours: float | None) -> None:
    times = dict.fromkeys(("submit_s", "start_s", "end_s", "runtime_s"), pl.Float64)
    schema = {**times, "gpus": pl.Float64, "status": pl.String}
    other = {"start_s": 0.0, "end_s": 1.0, "gpus": 0.0, "status": "completed"}
    jobs = pl.DataFrame([{"gpus": 1.0, **row}, other], schema=schema)
    found = workload_summary(jobs, window=(0.0, 10 * HOUR)).row(0, named=True)
    assert found["gpu_hours"] == (hours or 0)
    assert found["jobs_without_gpu_hours"] == (1 if hours is None else 0) + 0


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 60) | st.none(), st.sampled_from([0.5, 8])),
        min_size=1,
        max_size=20,
    ),
    ends=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
@settings(max_examples=25, deadline=None)
def test_hours_are_what_a_walk_over_seconds_finds(
    jobs: list[tuple[int, int | None, float]], ends: tuple[int, int]
) -> None:
    first, last = sorted(ends)
    rows = [
        (start, None if run is None else start + run, gpus, "completed" if run else "running")
        for start, run, gpus in jobs
    ]
    schema = {"start_s": pl.Float64, "end_s": pl.Float64, "gpus": pl.Float64, "status": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    frame = frame.with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"), submit_s="start_s")
    seconds = np.zeros(200)
    for start, end, gpus, _ in rows:
        seconds[start : last if end is None else end] += gpus
    expected = seconds[first:last].sum()
    window = (float(first), float(last))
    demand = gpu_demand(frame, bin_s=7, window=window)["gpus_mean"].sum() * 7
    assert demand == pytest.approx(expected)
    hours = gpu_hours_by(frame, "status", window=window)["gpu_hours"].sum()
    assert hours * 3600 == pytest.approx(expected)


def test_a_window_is_two_numbers_in_order() -> None:
    with pytest.raises(DataError, match="window must be two numbers of seconds"):
        gpu_demand(RUNNING, window=(2.0, 1.0))


def test_the_published_pods_in_their_window(real_store: Store) -> None:
    trace = real_store.trace("alibaba-openb-2023")
    window = window_of(trace)
    assert window is not None
    # pods that ended, by hand: from the later of the start and the first end to their end
    pods = trace.jobs.drop_nulls("start_s")
    begin = np.maximum(pods["start_s"].to_numpy(), pods["end_s"].to_numpy().min())
    expected = float(((pods["end_s"].to_numpy() - begin) * pods["gpus"].to_numpy()).sum() / 3600)
    assert round(expected) == 29_439
    found = workload_summary(trace.jobs, window=window).row(0, named=True)
    assert found["gpu_hours"] == pytest.approx(expected)
    assert round(found["gpus_mean"], 1) == 36.1
