"""Resources of groups of jobs are sums that one can do by hand."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import traceana

JOBS = pl.DataFrame(
    {
        "user": ["ann", "ann", "eva", "eva"],
        "status": ["completed", "failed", "completed", "running"],
        "submit_s": [0.0, 0.0, 3600.0, 3600.0],
        "start_s": [3600.0, 1800.0, 3600.0, 7200.0],
        "end_s": [7200.0, 5400.0, 14_400.0, None],
        "runtime_s": [3600.0, 3600.0, 10_800.0, None],
        "gpus": [2.0, 4.0, 8.0, 1.0],
        "cpus": [8.0, 8.0, 1.0, 1.0],
        "nodes": [1, 1, 2, 1],
        "cpu_time_s": [14_400.0, None, 5_400.0, None],
        "memory_gib": [10.0, 10.0, 10.0, 10.0],
        "memory_gib_used": [5.0, 5.0, 1.0, None],
        "gpu_utilization": [0.5, None, 0.1, None],
        "energy_j": [3.6e6, None, None, None],
    }
)


def test_sums_by_hand() -> None:
    ann, eva = traceana.resource_usage(JOBS, by="user").sort("user").rows(named=True)
    # ann: 2 + 4 GPU-hours; eva: 24, and the running job from 7200 s to the end at 14,400 s
    assert (ann["gpu_hours"], eva["gpu_hours"]) == (6.0, 24.0 + 2.0)
    assert (ann["cpu_hours"], ann["node_hours"], eva["node_hours"]) == (16.0, 2.0, 6.0 + 2.0)
    assert ann["fraction_of_all"] == pytest.approx(6 / 32)
    assert (ann["wait_s_median"], eva["wait_s_median"]) == (2700.0, 1800.0)
    assert ann["expansion_median"] == (2.0 + 1.5) / 2
    assert (ann["failure_rate"], eva["failure_rate"]) == (0.5, 0.0)
    assert (ann["wasted_hours"], ann["fraction_wasted"]) == (4.0, pytest.approx(4 / 6))
    assert (ann["cpu_used"], eva["cpu_used"]) == (0.5, 0.5)
    assert (ann["memory_used"], eva["memory_used"]) == (0.5, 0.1)
    assert (ann["gpu_utilization"], ann["idle_gpu_hours"]) == (0.5, 1.0)
    assert (eva["measured_gpu_hours"], eva["idle_gpu_hours"]) == (24.0, pytest.approx(21.6))
    assert (ann["energy_kwh"], eva["energy_kwh"]) == (pytest.approx(1), None)
    assert eva["note"] == "1 job without an end runs to the window's end"


def test_totals_do_not_depend_on_the_grouping() -> None:
    whole = traceana.resource_usage(JOBS).row(0, named=True)
    groups = traceana.resource_usage(JOBS, by="user")
    for name in ("jobs", "gpu_hours", "cpu_hours", "node_hours", "wasted_hours", "idle_gpu_hours"):
        assert groups[name].sum() == pytest.approx(whole[name])


def test_a_number_may_be_the_group() -> None:
    groups = traceana.resource_usage(JOBS, by="cpus")
    of_eight, of_one = groups.sort("cpus", descending=True).rows(named=True)
    assert (of_eight["cpus"], of_eight["cpu_hours"]) == (8.0, 16.0)
    assert (of_one["cpus"], of_one["gpu_hours"]) == (1.0, 26.0)


def test_a_log_without_gpus_has_all_but_gpu_hours() -> None:
    rows = JOBS.drop("gpus", "gpu_utilization")
    found = traceana.resource_usage(rows, by="user")
    assert found["gpu_hours"].null_count() == 2
    assert found["fraction_of_all"].sum() == pytest.approx(1)
    # ann's failed job had 8 of her 16 CPU-hours
    assert found.filter(user="ann")["fraction_wasted"].item() == 0.5


def test_each_job_is_a_group_of_its_own() -> None:
    rows = JOBS.with_columns(job_id=pl.Series(["1", "2", "3", "4"]))
    found = traceana.resource_usage(rows, by="job_id").sort("job_id")
    assert found["cpu_used"].to_list() == [0.5, None, 0.5, None]


def test_engines_agree() -> None:
    assert_frame_equal(
        traceana.resource_usage(JOBS, by="user"),
        traceana.resource_usage(JOBS.to_arrow(), by="user"),
    )
