"""Queueing delays by the GPUs requested, and GPU-hours of tasks, against a count by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.questions.runtimes.ratio import task_gpu_hours
from traceana.questions.utilization.analyze import analyze_utilization
from traceana.questions.workload.analyze import describe_workload, weekdays_and_waits

PAI = "alibaba-pai-2020"


def test_delays_by_the_gpus_requested(tmp_path: Path) -> None:
    rows = {
        "job_id": [str(i) for i in range(6)],
        "submit_s": [0.0] * 6,
        "start_s": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
        "runtime_s": [2.0, 2.0, 10.0, 10.0, 100.0, 100.0],
        "end_s": [3.0, 4.0, 14.0, 18.0, 116.0, 132.0],
        "gpus": [0.0, 0.5, 1.0, 1.0, 8.0, None],
    }
    traceana.add_table(pl.DataFrame(rows), trace="mine", table="jobs", store=tmp_path)
    trace = traceana.open_store(tmp_path).trace("mine")
    waits = trace.once(describe_workload).queueing_by["gpus_requested"]
    found = dict(waits.select("gpus_requested", "mean_s").rows())
    assert found == {"none": 1, "fraction of one": 2, "one": 6, "several": 16, None: 32}
    _, curves = weekdays_and_waits(trace)
    # delays over delay and runtime: 1/3, 1/2, 4/14 and 8/18 of the short jobs
    short = curves["fraction"].filter(length="short")["value"]
    assert short.to_list()[-1] == pytest.approx(0.5)
    assert short.min() == pytest.approx(4 / 14)


def test_gpu_hours_of_tasks() -> None:
    store = traceana.open_sample()
    rows = task_gpu_hours(store.trace(PAI))
    hours = rows.group_by("status").agg((pl.col("gpus") * pl.col("runtime_s")).sum() / 3600)
    tasks, instances = (store.scan(PAI, table).collect() for table in ("tasks", "instances"))
    expected: dict[str, float] = {}
    gpus = {(row["job_id"], row["task_name"]): row for row in tasks.iter_rows(named=True)}
    for row in instances.drop_nulls(["start_s", "end_s"]).iter_rows(named=True):
        task = gpus[row["job_id"], row["task_name"]]
        held = (task["gpus"] or 0) * (row["end_s"] - row["start_s"]) / 3600
        expected[task["status"]] = expected.get(task["status"], 0) + held
    for status, total in hours.rows():
        assert total == pytest.approx(expected.get(status, 0)), status


def test_what_is_requested_and_not_used() -> None:
    trace = traceana.open_sample().trace(PAI)
    found = trace.once(analyze_utilization).unused
    assert found is not None
    assert set(found["resource"]) == {"gpus", "cpus", "memory_gib"}
    assert found["value"].is_between(0, 1).all()
