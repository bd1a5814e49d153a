"""Tasks per user and instances by the size of their task, on tables with counts by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from traceana.ingesters import add_table
from traceana.questions.workload.analyze import task_counts
from traceana.store import open_store


def test_users_by_tasks_and_instances_by_size_of_task(tmp_path: Path) -> None:
    jobs = {"job_id": ["a", "b", "c", "d"], "user": ["u", "v", "u", None]}
    # u has 3 tasks, v 1; of 16 instances 4 are in tasks of one, 4 in that of 4, 8 in that of 8
    tasks = {
        "job_id": ["a", "a", "b", "c", "d", "d", "d"],
        "task_name": ["s", "t", "s", "s", "s", "t", "w"],
        "instances": [1, 1, 4, 8, 1, None, 1],
    }
    for table, rows in (("jobs", jobs), ("tasks", tasks)):
        add_table(pl.DataFrame(rows), trace="mine", table=table, store=tmp_path)
    curves = task_counts(open_store(tmp_path).trace("mine"))
    users, instances = curves["tasks-by-user"], curves["instances-by-task"]
    assert (users["n"][0], users["value"].unique().sort().to_list()) == (2, [1, 3])
    assert instances["n"][0] == 16
    quarter = instances.filter(pl.col("fraction_below").is_in([0.25, 0.5, 0.51]))
    assert quarter["value"].to_list() == [1, 4, 8]


def test_a_trace_without_tasks_has_no_counts(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a"], "user": ["u"]})
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    assert task_counts(open_store(tmp_path).trace("mine")) == {}
