"""Jobs from their tasks and instances: start, runtime and GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from traceana.cohorts.tasks import from_tasks, jobs_of_tasks
from traceana.ingesters import add_table
from traceana.questions.runtimes.ratio import capacity
from traceana.questions.workload.analyze import describe_workload
from traceana.store import Store, open_store

if TYPE_CHECKING:
    from pathlib import Path

TRACE = "somewhere"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Job a: a server without GPUs and two workers; b starts before it was submitted; c is lost."""
    store: Path = tmp_path_factory.mktemp("jobs") / "store"
    jobs = pl.DataFrame(
        {"job_id": ["a", "b", "c"], "status": "completed", "submit_s": [100.0, 500.0, 600.0]}
    )
    tasks = pl.DataFrame(
        {
            "job_id": ["a", "a", "b", "c"],
            "task_name": ["ps", "worker", "worker", "worker"],
            "status": "completed",
            "start_s": [130.0, 160.0, 400.0, None],
            "end_s": [1000.0, 1000.0, 900.0, None],
            "gpus": [None, 2.0, 0.5, 1.0],
            "gpu_type": [None, "T4", "V100", "T4"],
        },
    )
    instances = pl.DataFrame(
        {
            "job_id": ["a", "a", "a", "b", "c"],
            "task_name": ["ps", "worker", "worker", "worker", "worker"],
            "start_s": [130.0, 160.0, 200.0, 400.0, 700.0],
            "end_s": [1130.0, 560.0, 300.0, 900.0, None],
        }
    )
    for table, frame in {"jobs": jobs, "tasks": tasks, "instances": instances}.items():
        add_table(frame, trace=TRACE, table=table, store=store)
    return open_store(store)


def test_a_job_starts_with_its_first_task_and_holds_the_gpus_of_its_instances(
    session: Store,
) -> None:
    assert from_tasks(session.trace(TRACE))
    a, b, c = jobs_of_tasks(session.trace(TRACE)).rows(named=True)
    assert (a["submit_s"], a["start_s"], a["runtime_s"]) == (100.0, 130.0, 1000.0)
    assert a["gpus"] == pytest.approx(2 * (400 + 100) / 1000)
    assert a["gpu_type"] == "T4"
    assert (b["start_s"], b["runtime_s"], b["gpus"]) == (None, 500.0, 0.5)
    assert (c["start_s"], c["runtime_s"], c["gpus"]) == (None, None, None)


def test_gpu_hours_are_those_of_the_instances(session: Store) -> None:
    found = describe_workload(session.trace(TRACE))
    expected = (2 * 500 + 0.5 * 500) / 3600
    assert found.summary["gpu_hours"].item() == pytest.approx(expected)
    check = capacity(session.trace(TRACE))
    assert check.filter(end_imputation="drop")["gpu_hours"].item() == pytest.approx(expected)
    assert found.demand is not None
    assert found.demand["gpus_mean"].sum() == pytest.approx(expected)  # b from its submission


def test_the_wait_is_until_the_first_task_starts(session: Store) -> None:
    found = describe_workload(session.trace(TRACE))
    assert found.queueing is not None
    assert found.queueing.select("n", "median_s", "n_no_start").row(0) == (1, 30.0, 2)
    assert found.waits is not None
    assert set(found.waits["value"]) == {30.0}
