"""Runtimes of tasks by hand and one instance at a time, and what must hold between policies."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from polars.testing import assert_frame_equal

from tests.questions.runtimes import traces
from tests.questions.runtimes.traces import make_instances, make_tasks, runtime_one_by_one
from tests.store.test_frames import ENGINES
from traceana import task_runtimes
from traceana.cohorts.task_times import END_IMPUTATIONS, read_task_times
from traceana.errors import DataError

CONTRACT = [
    "job_id",
    "task_name",
    "status",
    "runtime_s",
    "n_instances",
    "gpus",
    "cpus",
    "memory_gib",
    "gpu_type",
]
TASKS = make_tasks(
    ("j2", "worker", "completed", 0, 100),
    ("j1", "worker", "running", 0, None),  # though one of its instances ended
    ("j1", "ps", "failed", 0, 60),
    ("j0", "ps", "pending", None, None),  # no instance
    ("j0", "worker", "failed", 0, 5),  # ends before its instances start
    ("j3", "worker", "completed", 0, 9),  # no instance has a start
)
INSTANCES = make_instances(
    ("j2", "worker", 10.0, 90.0),
    ("j2", "worker", 20.0, 95.0),
    ("j2", "worker", 10.0, 90.0),  # the same worker once more
    ("j1", "worker", 5.0, 25.0),
    ("j1", "worker", 4.0, None),
    ("j1", "ps", 10.0, 30.0),
    ("j1", "ps", 8.0, None),
    ("j1", "ps", 50.0, None),
    ("j1", "ps", None, 1000.0),
    ("j0", "worker", 6.0, None),
    ("j3", "worker", None, 8.0),
    ("elsewhere", "worker", 0.0, 500.0),
    (None, "worker", 0.0, 500.0),
    ("j2", None, 0.0, 500.0),
)
NO_BOTH = "no instance has both start and end"
LACKS = "an instance lacks its start or its end"


@pytest.mark.parametrize(
    ("policy", "runtimes", "used", "seconds", "notes"),
    [
        (
            "drop",
            [85, 20, 20, None, None, None],
            [3, 1, 1, 0, 0, 0],
            [235, 20, 20, None, None, None],
            [None, None, None, "no instance", NO_BOTH, NO_BOTH],
        ),
        (
            "drop_task",
            [85, None, None, None, None, None],
            [3, 0, 0, 0, 0, 0],
            [235, None, None, None, None, None],
            [None, LACKS, LACKS, "no instance", LACKS, LACKS],
        ),
        (
            "task",
            [85, 20, 52, None, None, None],
            [3, 1, 3, 0, 0, 0],
            [235, 20, 20 + 52 + 10, None, None, None],
            [
                *(None, None, None, "no instance"),
                "the task ends before an instance without an end starts",
                NO_BOTH,
            ],
        ),
        (
            "running",
            [85, 996, 20, None, None, None],
            [3, 2, 1, 0, 0, 0],
            [235, 20 + 996, 20, None, None, None],
            [None, None, None, "no instance", NO_BOTH, NO_BOTH],
        ),
        (
            "trace_end",
            [85, 996, 992, None, 994, None],
            [3, 2, 3, 0, 1, 0],
            [235, 20 + 996, 20 + 992 + 950, None, 994, None],
            [None, None, None, "no instance", None, NO_BOTH],
        ),
    ],
)
def test_policies_by_hand(
    policy: str, runtimes: list[Any], used: list[int], seconds: list[Any], notes: list[Any]
) -> None:
    result = task_runtimes(TASKS, INSTANCES, end_imputation=policy)
    assert result.columns[: len(CONTRACT)] == CONTRACT
    assert_frame_equal(
        result.select("job_id", "task_name", "status", "gpus", "cpus", "memory_gib", "gpu_type"),
        TASKS.drop("start_s", "end_s"),
    )
    assert result["runtime_s"].to_list() == runtimes
    assert result["n_used"].to_list() == used
    assert result["instance_s"].to_list() == seconds
    assert result["note"].to_list() == notes
    # rows are counted whatever the policy
    assert result["n_instances"].to_list() == [3, 2, 4, 0, 1, 1]
    assert result["n_missing_end"].to_list() == [0, 1, 2, 0, 1, 0]
    assert result["n_missing_start"].to_list() == [0, 0, 1, 0, 0, 1]


def test_drop_is_the_default_and_the_ends_are_those_of_who_takes_part() -> None:
    result = task_runtimes(TASKS, INSTANCES)
    assert_frame_equal(result, task_runtimes(TASKS, INSTANCES, end_imputation="drop"))
    # neither the start at 8 nor the end at 1000 has its other half
    assert result.select("start_s", "end_s").row(2) == (10, 30)


def test_the_traces_end_is_the_latest_time_of_either_table() -> None:
    instances = make_instances(("j", "t", 10.0, None))
    tasks = make_tasks(("j", "t", "running", 0, None), ("k", "t", "completed", 0, 70))
    ends = [
        task_runtimes(rows, instances, end_imputation="trace_end")["end_s"][0]
        for rows in (tasks, tasks.head(1), tasks.with_columns(start_s=80.0, end_s=None))
    ]
    assert ends == [70, 10, 80]


@settings(max_examples=25, deadline=None)
@given(tasks=traces.tasks, instances=traces.instances)
def test_every_policy_is_its_wording(tasks: pl.DataFrame, instances: pl.DataFrame) -> None:
    times = [
        time
        for frame in (tasks, instances)
        for name in ("start_s", "end_s")
        for time in frame[name].drop_nulls()
    ]
    for policy in END_IMPUTATIONS:
        result = task_runtimes(tasks, instances, end_imputation=policy)
        for task, row in zip(tasks.rows(named=True), result.rows(named=True), strict=True):
            own = instances.filter(job_id=task["job_id"], task_name=task["task_name"])
            expected = runtime_one_by_one(
                task, own.rows(named=True), policy, max(times, default=math.nan)
            )
            assert (row["runtime_s"], row["n_used"], row["instance_s"]) == expected
            assert row["n_instances"] == own.height
            assert (row["note"] is None) == (row["runtime_s"] is not None)


@settings(max_examples=20, deadline=None)
@given(tasks=traces.tasks, instances=traces.instances)
def test_a_wider_policy_never_shortens_a_runtime(
    tasks: pl.DataFrame, instances: pl.DataFrame
) -> None:
    by = {
        policy: task_runtimes(tasks, instances, end_imputation=policy).select("runtime_s", "n_used")
        for policy in END_IMPUTATIONS
    }
    for order in (("drop_task", "drop", "task", "trace_end"), ("drop", "running", "trace_end")):
        for narrow, wide in pairwise(order):
            assert (by[narrow]["n_used"] <= by[wide]["n_used"]).all()
            assert (by[narrow]["runtime_s"] <= by[wide]["runtime_s"]).all(ignore_nulls=True)
            had = by[narrow]["runtime_s"].is_not_null()
            assert by[wide].filter(had)["runtime_s"].null_count() == 0


@pytest.mark.parametrize("policy", END_IMPUTATIONS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_values(engine: str, policy: str) -> None:
    of = ENGINES[engine]
    for tasks, instances in (
        (TASKS, INSTANCES),
        (TASKS, INSTANCES.clear()),
        (TASKS.clear(), INSTANCES),
        (TASKS.clear(), INSTANCES.clear()),
    ):
        assert_frame_equal(
            task_runtimes(of(tasks), of(instances), end_imputation=policy),
            task_runtimes(tasks, instances, end_imputation=policy),
            rel_tol=1e-12,
            abs_tol=0,
            check_dtypes=not tasks.is_empty(),  # pandas has no type for a column of no text
        )


def test_text_is_text_whatever_it_is_stored_as() -> None:
    expected = task_runtimes(TASKS, INSTANCES)
    stored = INSTANCES.cast({"job_id": pl.Categorical, "task_name": pl.Enum(["ps", "worker"])})
    assert_frame_equal(task_runtimes(TASKS, stored), expected)


def test_by_hash_and_by_name_agree_on_many_blocks() -> None:
    rng = np.random.default_rng(4)
    jobs = [f"job_{number}" for number in range(5000)]
    tasks = make_tasks(*((job, "worker", "completed", None, None) for job in jobs))
    n = 250_000
    start = rng.uniform(0, 1e6, n)
    instances = pl.DataFrame(
        {
            "job_id": pl.Series([*jobs, "elsewhere", None])[rng.integers(0, len(jobs) + 2, n)],
            "task_name": "worker",
            "start_s": np.where(rng.random(n) < 0.9, start, np.nan),
            "end_s": np.where(rng.random(n) < 0.8, start + rng.uniform(0, 9, n), np.nan),
        },
        nan_to_null=True,
    )
    assert_frame_equal(
        task_runtimes(tasks, instances, end_imputation="trace_end"),
        task_runtimes(tasks, ENGINES["duckdb"](instances), end_imputation="trace_end"),
        rel_tol=1e-12,
        abs_tol=0,
    )


@pytest.mark.parametrize("engine", ["polars lazy", "duckdb", "pandas"])
def test_a_sum_of_no_time_is_null_on_every_engine(engine: str) -> None:
    tasks = make_tasks(*((job, "w", "completed", None, None) for job in ("a", "b", "c")))
    instances = make_instances(("a", "w", 5.0, None), ("b", "w", None, None), ("c", "w", 1.0, 3.0))
    found = read_task_times(tasks, ENGINES[engine](instances)).tasks
    assert found["known_s"].to_list() == [None, None, 2.0]
    assert found["open_sum_s"].to_list() == [5.0, None, None]


def test_planted_runtimes_are_found_in_shuffled_instances() -> None:
    jobs = [f"job_{number}" for number in range(200)]
    tasks = make_tasks(*((job, "worker", "completed", None, None) for job in jobs))
    rows = [
        (job, "worker", 1000.0 * number + worker, 1000.0 * number + number + 2 * worker)
        for number, job in enumerate(jobs)
        for worker in range(7)
    ]
    instances = make_instances(*rows).sample(fraction=1, shuffle=True, seed=1)
    result = task_runtimes(tasks, instances)
    assert result["job_id"].to_list() == jobs
    assert result["runtime_s"].to_list() == [number + 12.0 for number in range(200)]
    assert result["n_instances"].unique().to_list() == [7]


@pytest.mark.parametrize(
    ("tasks", "instances", "text"),
    [
        (TASKS, INSTANCES.with_columns(end_s=1.0), "an instance ends before it starts: end_s is"),
        (TASKS, INSTANCES.drop("end_s"), "column end_s is missing; found job_id, task_name, wo"),
        (TASKS.drop("gpus"), INSTANCES, "column gpus is missing"),
        (TASKS, INSTANCES.with_columns(end_s=pl.lit(math.inf)), "column end_s holds inf"),
        (TASKS, INSTANCES.with_columns(start_s=pl.lit(-1)), "column start_s holds -1"),
        (TASKS, INSTANCES.with_columns(end_s=pl.lit("late")), "column end_s holds String; numbers"),
        (pl.concat([TASKS, TASKS.head(1)]), INSTANCES, r"tasks has 2 rows .*\(j2, worker\)"),
        (TASKS, INSTANCES.with_columns(job_id=1), "job_id is String in tasks and Int64 in instan"),
    ],
)
def test_bad_tables_are_refused_in_one_line(
    tasks: pl.DataFrame, instances: pl.DataFrame, text: str
) -> None:
    with pytest.raises(DataError, match=text) as refusal:
        task_runtimes(tasks, instances)
    assert "\n" not in str(refusal.value)


def test_an_unknown_policy_is_refused_with_the_list() -> None:
    with pytest.raises(
        DataError, match=r"end_imputation must be one of drop_task, drop.*; it is 'guess'"
    ):
        task_runtimes(TASKS, INSTANCES, end_imputation="guess")
