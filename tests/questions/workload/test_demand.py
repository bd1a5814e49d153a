"""Demand against a walk over seconds, and against GPU-hours, which it must add up to."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana import gpu_demand, workload_summary
from traceana.errors import DataError
from traceana.questions.workload import demand
from traceana.store import Store

JOBS = pl.DataFrame(
    {
        "cluster": ["a", "a", "a", "b", None],
        "start_s": [5.0, 10.0, None, None, 20.0],
        "end_s": [25.0, 20.0, 50.0, 9.0, 20.0],
        "gpus": [2.0, 0.5, 1.0, 1.0, 4.0],
    }
)


EARLY = "1 job without a start or submission runs from the window's beginning"


def test_demand_by_hand() -> None:
    result = gpu_demand(JOBS, bin_s=10, by="cluster")
    assert result.columns == [
        "cluster",
        "bin_start_s",
        "gpus_mean",
        "jobs_mean",
        "n_excluded",
        "note",
    ]
    assert result.rows() == [
        # a third job of a has no start: it runs from the first time, 5, to 50
        ("a", 0.0, 1.5, 1.0, 0, EARLY),
        ("a", 10.0, 3.5, 3.0, 0, EARLY),
        ("a", 20.0, 2.0, 1.5, 0, EARLY),
        ("a", 30.0, 1.0, 1.0, 0, EARLY),
        ("a", 40.0, 1.0, 1.0, 0, EARLY),
        ("b", 0.0, 0.4, 0.4, 0, EARLY),
        # a job of no duration asks for nothing
        (None, 20.0, 0.0, 0.0, 0, None),
    ]


def test_a_job_that_ends_with_a_bin_is_not_in_the_next() -> None:
    jobs = pl.DataFrame({"start_s": [0.0, 12.0], "end_s": [20.0, 30.0], "gpus": [1, 5]})
    demand = gpu_demand(jobs, bin_s=10).select("bin_start_s", "gpus_mean")
    assert demand.rows() == [(0, 1), (10, 5), (20, 5)]


def test_empty_bins_are_there() -> None:
    jobs = pl.DataFrame({"start_s": [0.0, 31.0], "end_s": [4.0, 33.0], "gpus": [1, 5]})
    assert gpu_demand(jobs, bin_s=10)["gpus_mean"].to_list() == pytest.approx([0.4, 0, 0, 1])


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.25, 1, 8])),
        min_size=1,
        max_size=30,
    ),
    bin_s=st.integers(1, 25),
)
@settings(max_examples=30, deadline=None)
def test_demand_is_what_a_walk_over_seconds_finds(
    jobs: list[tuple[int, int, float]], bin_s: int
) -> None:
    frame = pl.DataFrame(jobs, schema=["submit_s", "runtime_s", "gpus"], orient="row")
    result = gpu_demand(frame, bin_s=bin_s, start="submit_s", runtime="runtime_s")
    seconds = np.zeros(200)
    for submit, runtime, gpus in jobs:
        seconds[submit : submit + runtime] += gpus
    for row in result.iter_rows(named=True):
        begin = int(row["bin_start_s"])
        assert row["gpus_mean"] == pytest.approx(seconds[begin : begin + bin_s].sum() / bin_s)
    assert result["gpus_mean"].sum() * bin_s == pytest.approx(sum(r * g for _, r, g in jobs))
    assert np.allclose(np.diff(result["bin_start_s"].to_numpy()), bin_s)


@pytest.mark.parametrize(
    ("change", "options", "text"),
    [
        ({}, {"bin_s": 0}, "bin_s must be a positive number of seconds; it is 0"),
        ({}, {"bin_s": float("inf")}, "bin_s must be a positive number of seconds; it is inf"),
        ({}, {"bin_s": 1e-9}, "bin_s 1e-09 is too short: there would be .* bins, and at most 10,0"),
        ({"end_s": 1.0}, {}, "a job ends before it starts: end_s is below start_s"),
        ({"start_s": 1e20, "end_s": 1e20}, {}, "bin_s 3600 is too short"),
        ({}, {"by": "gpus_mean"}, "by cannot name gpus_mean: the result has a column"),
    ],
)
def test_what_cannot_be_is_refused(
    change: dict[str, float], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(DataError, match=text):
        gpu_demand(JOBS.with_columns(**{k: pl.lit(v) for k, v in change.items()}), **options)


def test_the_published_clusters_add_up_to_their_gpu_hours(real_store: Store) -> None:
    jobs = real_store.scan("microsoft-itp-2021", "jobs")
    found = gpu_demand(jobs, by="cluster", start="submit_s", runtime="runtime_s")
    hours = found.group_by("cluster").agg(pl.col("gpus_mean").sum()).sort("cluster")
    expected = workload_summary(jobs, by="cluster")
    assert hours["gpus_mean"].to_list() == pytest.approx(expected["gpu_hours"].to_list(), rel=1e-9)
    without_starts = gpu_demand(jobs)
    assert without_starts["gpus_mean"].sum() == pytest.approx(hours["gpus_mean"].sum(), rel=1e-9)
    assert without_starts["note"][0] == "69351 jobs without a start run from submission"


def test_as_many_bins_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand, "_MOST_BINS", 4)
    jobs = pl.DataFrame({"start_s": [0.0, 31.0], "end_s": [4.0, 33.0], "gpus": [1, 5]})
    assert gpu_demand(jobs, bin_s=10).height == 4
    with pytest.raises(DataError, match="there would be 5 bins, and at most 4"):
        gpu_demand(jobs, bin_s=8)


def test_the_number_of_bins_does_not_depend_on_the_clock() -> None:
    late = {"start_s": [1e9, 1e9 + 25], "end_s": [1e9 + 10, 1e9 + 30], "gpus": [1, 1]}
    assert gpu_demand(pl.DataFrame(late), bin_s=10)["gpus_mean"].to_list() == [1, 0, 0.5]


def test_demand_has_at_most_ten_million_bins() -> None:
    jobs = pl.DataFrame({"start_s": [0.0], "end_s": [10_000_001.0], "gpus": [1.0]})
    with pytest.raises(DataError, match=r"there would be 1e.07 bins, and at most 10,000,000"):
        gpu_demand(jobs, bin_s=1)
    # the whole clock of a bin has 2^53 of them
    late = pl.DataFrame({"start_s": [2.0**53 + 4], "end_s": [2.0**53 + 8], "gpus": [1.0]})
    with pytest.raises(DataError, match=r"on a clock of at most 2.53 of them"):
        gpu_demand(late, bin_s=1)
    last = pl.DataFrame({"start_s": [2.0**53], "end_s": [2.0**53], "gpus": [1.0]})
    assert gpu_demand(last, bin_s=1)["bin_start_s"].to_list() == [2.0**53]
    found = gpu_demand(late, bin_s=2)
    assert found["gpus_mean"].to_list() == [1, 1]
    assert found["bin_start_s"].to_list() == [2.0**53 + 4, 2.0**53 + 6]


def test_jobs_that_ask_for_nothing_leave_no_rounding_error() -> None:
    jobs = pl.DataFrame(
        {
            "start_s": [0.0, 3, 5, 0],
            "end_s": [25.0, 17, 38, 100],
            "gpus": [1e11 / 3, 1e11 / 7, 1e11 / 9, 0],
        }
    )
    assert gpu_demand(jobs, bin_s=10)["gpus_mean"].to_list()[4:] == [0.0] * 6
