"""GPU-hours under each policy by hand, and that a false policy is seen to be one."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from polars.testing import assert_frame_equal

from tests.questions.runtimes import traces
from tests.questions.runtimes.traces import make_instances, make_tasks
from tests.store.test_frames import ENGINES
from traceana import gpu_capacity_check, task_runtimes
from traceana.cohorts.task_times import END_IMPUTATIONS
from traceana.errors import DataError

H = 3600.0
TASKS = make_tasks(
    ("a", "worker", "completed", 0, 2 * H),
    ("b", "worker", "running", 0, None),
    ("c", "worker", "failed", 0, 3 * H),
    ("d", "ps", "completed", 0, 4 * H),
).with_columns(gpus=pl.Series([2.0, 1.0, 0.5, None]))
INSTANCES = make_instances(
    ("a", "worker", 0.0, 2 * H),
    ("a", "worker", 1 * H, 2 * H),
    ("b", "worker", 4 * H, None),
    ("c", "worker", 1 * H, None),
    ("d", "ps", 0.0, 4 * H),
    ("e", "worker", 0.0, 10 * H),
)
MACHINES = pl.DataFrame({"gpus": [2.0, 0.0, 1.0]})


def test_by_hand() -> None:
    check = gpu_capacity_check(TASKS, INSTANCES, MACHINES)
    # from 0 to the end of e, which is in no task: 10 h of three GPUs
    expected = {
        "end_imputation": ["drop_task", "drop", "task", "running", "trace_end"],
        "tasks": [4] * 5,
        "tasks_with_runtime": [2, 2, 3, 3, 4],
        "mean_s": [3 * H, 3 * H, 8 / 3 * H, 4 * H, 21 / 4 * H],
        "median_s": [3 * H, 3 * H, 2 * H, 4 * H, 5 * H],
        "instances": [5] * 5,
        "instances_used": [3, 3, 4, 4, 5],
        "gpu_hours": [6, 6, 6 + 1, 6 + 6, 6 + 6 + 4.5],
        "gpu_hours_gang": [8, 8, 8 + 1, 8 + 6, 8 + 6 + 4.5],
        "machine_gpus": [3.0] * 5,
        "span_h": [10.0] * 5,
        "capacity_gpu_hours": [30.0] * 5,
        "fraction_of_capacity": [0.2, 0.2, 7 / 30, 0.4, 16.5 / 30],
        "tasks_without_gpus": [1] * 5,
        "instances_of_no_task": [1] * 5,
        "note": pl.Series([None] * 5, dtype=pl.String),
    }
    assert_frame_equal(check, pl.DataFrame(expected, strict=False), rel_tol=1e-14)


def test_that_all_ran_to_the_end_is_more_than_there_was() -> None:
    jobs = [f"job_{number}" for number in range(1000)]
    # one machine with one GPU, always busy; a tenth of the ends is lost
    tasks = make_tasks(*((job, "worker", "completed", None, None) for job in jobs))
    rows = [
        (job, "worker", 100.0 * number, None if number % 10 == 5 else 100.0 * number + 100)
        for number, job in enumerate(jobs)
    ]
    check = gpu_capacity_check(
        tasks.with_columns(gpus=1.0), make_instances(*rows), pl.DataFrame({"gpus": [1]})
    )
    share = dict(check.select("end_imputation", "fraction_of_capacity").iter_rows())
    assert share["drop"] == pytest.approx(0.9)
    assert share["trace_end"] > 40


@settings(max_examples=20, deadline=None)
@given(tasks=traces.tasks, instances=traces.instances)
def test_it_sums_up_task_runtimes(tasks: pl.DataFrame, instances: pl.DataFrame) -> None:
    check = gpu_capacity_check(tasks, instances, MACHINES)
    for row in check.rows(named=True):
        runtimes = task_runtimes(tasks, instances, end_imputation=row["end_imputation"])
        assert row["tasks_with_runtime"] == runtimes["runtime_s"].count()
        assert row["gpu_hours"] == pytest.approx((runtimes["instance_s"] * 0.5 / 3600).sum())
        # no instance ran longer than its task
        assert row["gpu_hours"] <= row["gpu_hours_gang"] * (1 + 1e-12)
        assert row["instances"] + row["instances_of_no_task"] == instances.height
    hours = dict(check.select("end_imputation", "gpu_hours").iter_rows())
    assert hours["drop_task"] <= hours["drop"] <= hours["task"] <= hours["trace_end"]
    assert hours["drop"] <= hours["running"] <= hours["trace_end"]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_values(engine: str) -> None:
    of = ENGINES[engine]
    assert_frame_equal(
        gpu_capacity_check(of(TASKS), of(INSTANCES), of(MACHINES)),
        gpu_capacity_check(TASKS, INSTANCES, MACHINES),
        rel_tol=1e-12,
        abs_tol=0,
    )


@pytest.mark.parametrize(
    ("instances", "machines"),
    [
        (INSTANCES, MACHINES.with_columns(gpus=0.0)),
        (INSTANCES, MACHINES.clear()),
        (INSTANCES.clear(), MACHINES),
    ],
)
def test_without_capacity_there_is_no_share(
    instances: pl.DataFrame, machines: pl.DataFrame
) -> None:
    tasks = TASKS if instances.height else TASKS.clear()
    check = gpu_capacity_check(tasks, instances, machines)
    assert check["end_imputation"].to_list() == list(END_IMPUTATIONS)
    assert check["fraction_of_capacity"].null_count() == len(END_IMPUTATIONS)
    assert check["note"].unique().item().startswith("no capacity: the machines have no GPU")


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        ([None, 1.0], "1 machine.* no number of gpus"),
        ([math.inf, 1.0], "column gpus holds inf"),
        (["two", "one"], "column gpus holds String; numbers are needed"),
    ],
)
def test_machines_without_a_number_of_gpus_are_refused(gpus: list[Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        gpu_capacity_check(TASKS, INSTANCES, pl.DataFrame({"gpus": gpus}))
