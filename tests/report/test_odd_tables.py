"""Tables that keep every rule and are unlike any trace still have a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from traceana.ingesters import add_table
from traceana.report import build_report

if TYPE_CHECKING:
    from pathlib import Path

Tables = dict[str, dict[str, Any]]

RUN: dict[str, Any] = {
    "dataset": "ours",
    "network": "n",
    "batch_size": 8,
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "run": 1,
    "target_metric": 0.5,
    "target_epoch": [3],
}
PROFILE: dict[str, Any] = {
    "gpu": "a40",
    "dataset": "ours",
    "network": "n",
    "batch_size": 8,
    "optimizer": "sgd",
    "power_limit_w": 250.0,
    "epoch_s": 60.0,
    "mean_power_w": [200.0],
}
JOB: dict[str, Any] = {
    "job_id": ["a", "b", "c"],
    "gpus": 1.0,
    "submit_s": 0.0,
    "start_s": 0.0,
    "end_s": 7200.0,
    "runtime_s": 7200.0,
    "status": "completed",
}
COV: dict[str, Any] = {"job_id": ["j", "j"], "sample": [0, 1], "time_s": 5.0, "cov": [0.1, 0.3]}
GROUPS: dict[str, Any] = {
    "group": ["g", "g"],
    "start_s": 0.0,
    "end_s": 60.0,
    "dataset": "ours",
    "runtime_ratio": 1.0,
}


@pytest.mark.parametrize(
    ("tables", "only", "says"),
    [
        ({"jobs": JOB | {"end_s": [7200.0, 7200.0, 2.5e11]}}, "workload", "3 jobs"),
        ({"jobs": JOB | {"gpus": 0.0}}, "workload", "3 jobs"),
        ({"jobs": JOB, "cov_samples": COV}, "variation,workload", "share their (job_id, time_s)"),
        (
            {
                "cov_samples": COV | {"time_s": [0.0, 5.0]},
                "worker_samples": {
                    "job_id": "j",
                    "worker_id": "w",
                    "time_s": 0.0,
                    "batch_time": [1.0],
                },
            },
            "variation",
            "No time step has two workers",
        ),
        (
            {
                "jobs": {key: JOB[key] for key in JOB if key != "status"},
                "tasks": {"job_id": ["z"], "task_name": "t", "status": "failed"},
            },
            "comparison,workload",
            "3 jobs",
        ),
        (
            {
                "jobs": {"job_id": ["a"], "user": "u"},
                "job_tags": {"inst_id": ["i"], "group": "g"},
                "tasks": {"job_id": ["z"], "task_name": "t", "status": "failed"},
                "instances": {"job_id": ["z"], "task_name": "t", "start_s": 0.0, "end_s": 60.0},
            },
            "outcomes,distributions",
            "100 % of the completed and failed tasks failed (1 of 1)",
        ),
        (
            {"training_runs": RUN, "power_profiles": PROFILE | {"dataset": "other"}},
            "energy",
            "no data set of this GPU",
        ),
        (
            {
                "jobs": JOB | {"inst_id": "i"},
                "job_tags": {"inst_id": ["i"], "group": "h"},
                "recurring_jobs": GROUPS,
                "training_runs": RUN,
                "power_profiles": PROFILE,
            },
            "recurring",
            "Recurring",
        ),
    ],
)
def test_it_is_made(tables: Tables, only: str, says: str, tmp_path: Path) -> None:
    for table, columns in tables.items():
        add_table(pl.DataFrame(columns), trace="ours", table=table, store=tmp_path / "store")
    page = build_report(tmp_path / "store", out=tmp_path / "out", only=only, formats="md")
    assert says in page.read_text(encoding="utf-8")


def test_an_upper_limit_that_a_curve_does_not_reach_is_open(tmp_path: Path) -> None:
    # two of four rows were seen to end: the median is 90 s, its upper limit beyond the last row
    jobs = pl.DataFrame(
        JOB
        | {
            "job_id": [*"abcd"],
            "submit_s": 1e6,
            "start_s": 1e6,
            "end_s": [1e6 + 60, 1e6 + 90, None, None],
            "runtime_s": [60.0, 90.0, None, None],
            "status": ["completed"] * 2 + ["running"] * 2,
        }
    )
    for trace in ("ours", "yours"):
        add_table(jobs, trace=trace, table="jobs", store=tmp_path / "store")
    page = build_report(tmp_path / "store", out=tmp_path / "out", only="comparison", formats="md")
    assert "or more; n = 4" in page.read_text(encoding="utf-8")
