"""Utilization of a trace: instances counted once, their requests and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from traceana.ingesters import add_table
from traceana.questions.utilization.analyze import UtilizationTables, analyze_utilization
from traceana.store import open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> UtilizationTables:
    """Worker w1 is tried twice and has two rows of use; w2 shares its GPU; w3 has no times."""
    store: Path = tmp_path_factory.mktemp("use") / "store"
    keys = {"job_id": ["a", "a", "a", "b"], "task_name": ["worker", "worker", "worker", "ps"]}
    tables = {
        "tasks": pl.DataFrame(
            {
                "job_id": ["a", "b"],
                "task_name": ["worker", "ps"],
                "status": "completed",
                "gpus": [1.0, 0.5],
                "cpus": [4.0, 2.0],
                "memory_gib": [8.0, 8.0],
                "gpu_type": ["T4", "V100"],
            }
        ),
        "instances": pl.DataFrame(
            keys
            | {
                "worker_id": ["w1", "w1", "w2", "w3"],
                "status": ["completed", "failed", "completed", "completed"],
                "start_s": [100.0, 900.0, 1000.0, 0.0],
                "end_s": [3700.0, 5000.0, 2800.0, None],
            }
        ),
        "instance_usage": pl.DataFrame(
            keys
            | {
                "worker_id": ["w1", "w1", "w2", "w3"],
                "machine_id": ["m", "m", "m", "n"],
                "gpu_device": "/dev/nvidia0",
                "gpus_used": [0.9, 0.25, 0.0, 0.5],
                "cpus_used": [4.0, 2.0, 4.0, 4.0],
            }
        ),
        "machines": pl.DataFrame(
            {
                "machine_id": ["m", "n"],
                "gpu_type": ["T4", "V100"],
                "gpus": [2.0, 4.0],
                "cpus": 8.0,
                "memory_gib": 64.0,
            }
        ),
        "machine_usage": pl.DataFrame(
            {
                "machine_id": ["m", "m", "n"],
                "start_s": [0.0, 0.0, 0.0],
                "end_s": [100.0, 300.0, 50.0],
                "cpu": [10.0, 50.0, 7.0],
                "gpu": [100.0, 20.0, 8.0],
                "cpu_usr": [9.0, 40.0, 6.0],
                "cpu_iowait": [0.5, None, 0.1],
            }
        ),
    }
    for table, frame in tables.items():
        add_table(frame, trace="somewhere", table=table, store=store)
    return analyze_utilization(open_store(store).trace("somewhere"))


def test_a_repeated_instance_counts_once_with_its_last_row(found: UtilizationTables) -> None:
    assert (found.n_rows, found.n_instances) == (4, 3)
    gpus = found.used["gpu_type"].filter(gpu_type="T4", resource="gpus").row(0, named=True)
    assert gpus["n"] == 2
    assert gpus["used_of_requested"] == pytest.approx((0.25 + 0.0) / 2)
    roles = found.used["task_name"].filter(resource="cpus")
    assert dict(roles.select("task_name", "used_of_requested").rows()) == {
        "ps": pytest.approx(2.0),
        "worker": pytest.approx(6 / 8),
    }


def test_idle_hours_take_the_completed_attempt_and_its_times(found: UtilizationTables) -> None:
    assert found.idle is not None
    rows = {row["gpu_type"]: row for row in found.idle.iter_rows(named=True)}
    assert rows["T4"]["gpu_hours"] == pytest.approx((3600 + 1800) / 3600)
    assert rows["T4"]["idle_gpu_hours"] == pytest.approx(0.75 * 1 + 0.5)
    assert rows["T4"]["unused_gpu_hours"] == pytest.approx(0.5)
    assert (rows["V100"]["n"], rows["V100"]["n_missing"]) == (0, 1)
    assert rows["all"]["n"] == 2


def test_w1_and_w2_share_a_gpu_while_both_run(found: UtilizationTables) -> None:
    assert found.shared is not None
    row = found.shared.filter(gpu_type="T4").row(0, named=True)
    assert (row["devices"], row["instances_max"]) == (1, 2)
    assert (row["busy_hours"], row["shared_hours"]) == pytest.approx((1.0, 0.5))


def test_machines_are_weighted_by_time_and_allocation_is_over_capacity(
    found: UtilizationTables,
) -> None:
    assert found.machines is not None
    assert found.allocation is not None
    t4 = found.machines.filter(gpu_type="T4").row(0, named=True)
    assert t4["cpu"] == pytest.approx((10 * 100 + 50 * 300) / 400)
    assert t4["gpu_each"] == pytest.approx(t4["gpu"] / 2)
    # all three rows of instances of the task, as gpu_capacity_check counts them
    held = (3600 + 4100 + 1800) / (5000 - 100)
    allocated = found.allocation.filter(gpu_type="T4")["gpus_mean"].item()
    assert allocated == pytest.approx(held * 4900 / (6 * 3600))
    rate = found.allocation.filter(gpu_type="T4")["allocation_rate"].item()
    assert rate == pytest.approx(allocated / 2)


def test_cpu_time_of_machines_is_by_kind(found: UtilizationTables) -> None:
    assert found.machine_cpu is not None
    values = found.machine_cpu.group_by("kind", maintain_order=True).agg(
        pl.first("n"), pl.col("value").unique().sort()
    )
    assert values.rows() == [("user", 3, [6.0, 9.0, 40.0]), ("I/O wait", 2, [0.1, 0.5])]


def test_an_instance_holds_its_gpus_from_its_own_start_to_its_own_end(tmp_path: Path) -> None:
    """The second instance starts 12 h after the first has ended, on a machine nobody listed."""
    hour = 3600.0
    requests = {"status": "completed", "gpus": 1.0, "cpus": 4.0, "memory_gib": 8.0}
    keys = {"job_id": ["a", "a"], "task_name": "worker", "worker_id": ["w1", "w2"]}
    tables = {
        "tasks": pl.DataFrame(
            {"job_id": ["a"], "task_name": "worker", "gpu_type": "T4"} | requests
        ),
        "instances": pl.DataFrame(
            keys
            | {"status": "completed", "machine_id": ["m", "elsewhere"]}
            | {"start_s": [0.0, 18 * hour], "end_s": [6 * hour, 24 * hour - 1]}
        ),
        "instance_usage": pl.DataFrame(keys | {"gpus_used": [0.5, 0.5]}),
        "machines": pl.DataFrame(
            {"machine_id": ["m"], "gpu_type": "T4", "gpus": 1.0, "cpus": 8.0, "memory_gib": 64.0}
        ),
    }
    for table, frame in tables.items():
        add_table(frame, trace="somewhere", table=table, store=tmp_path)
    found = analyze_utilization(open_store(tmp_path).trace("somewhere"))
    assert found.allocation is not None
    assert found.allocation_summary is not None
    rates = found.allocation.filter(gpu_type="T4")["allocation_rate"].to_list()
    assert rates == pytest.approx([1, 0, 0, 1], abs=1e-3)
    assert found.allocation_summary["bins_over"].to_list() == [0, 0]
