"""Jobs that wait, or run for exceptionally long, at the end of a log."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.questions.workload import section_consumers
from traceana.questions.workload.analyze_consumers import overdue_jobs, pending_jobs
from traceana.report import build_report
from traceana.store import Store

HOUR_S = 3600.0
JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "stuck", "new", "cancelled", "removed"],
        "user": ["eva", "tom", "eva", "tom", "tom", "tom"],
        "status": ["completed", "running", "pending", "pending", "cancelled", "pending"],
        "submit_s": [0.0, 1 * HOUR_S, 2 * HOUR_S, 50 * HOUR_S, 3 * HOUR_S, 1 * HOUR_S],
        "start_s": [0.5 * HOUR_S, 4 * HOUR_S, None, None, None, None],
        "end_s": [51 * HOUR_S, None, None, None, 4 * HOUR_S, 5 * HOUR_S],
        "gpus": [1.0, 2, 8, 1, 1, 4],
    }
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    traceana.add_table(JOBS, trace="mine", table="jobs", store=tmp_path / "data")
    return tmp_path / "data"


def test_pending_jobs_wait_until_the_end_of_the_log(store: Path) -> None:
    rows = pending_jobs(Store(store).trace("mine")).rows()
    assert rows == [("stuck", 49 * HOUR_S), ("new", 1 * HOUR_S)]  # the log ends at 51 h


def test_a_job_that_waits_longer_than_any_that_started_is_an_alert(
    store: Path, tmp_path: Path
) -> None:
    page = build_report(store, out=tmp_path / "out", only="consumers", formats="md").read_text()
    alert = (
        "2 jobs wait, the longest for 2.04 d so far (job stuck), longer than any job that started"
    )
    assert f"- {alert} waited (3 h)" in page.partition("### Main results")[0]


def test_the_pending_range_of_an_array_is_not_said_to_be_one_job(tmp_path: Path) -> None:
    jobs = JOBS.with_columns(job_id=pl.col("job_id").replace("new", "9_[2-40]"))
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path / "data")
    page = build_report(tmp_path / "data", out=tmp_path / "out", only="consumers", formats="md")
    stated = "2 jobs (the waiting tasks of an array as one) wait, the longest for 2.04 d so far"
    assert stated in page.read_text()


@pytest.mark.parametrize(
    ("since_h", "stated", "alert"), [(0.5, False, False), (9.5, True, False), (10.01, True, False)]
)
def test_a_wait_as_usual_is_no_main_result(
    tmp_path: Path, since_h: float, *, stated: bool, alert: bool
) -> None:
    """99 jobs waited 0 to 9.8 h and one 10 h; one more waits at the end of the log."""
    submit_s = [HOUR_S * job for job in range(100)]
    wait_s = [HOUR_S * 0.1 * job for job in range(99)] + [10 * HOUR_S]
    start_s = [submit + wait for submit, wait in zip(submit_s, wait_s, strict=True)]
    end_s = [start + 60 for start in start_s]
    last = {"submit_s": max(end_s) - since_h * HOUR_S, "start_s": None, "end_s": None}
    jobs = pl.DataFrame({"submit_s": submit_s, "start_s": start_s, "end_s": end_s})
    jobs = pl.concat([jobs, pl.DataFrame([last], schema=jobs.schema)]).with_columns(
        job_id=pl.int_range(101).cast(pl.String),
        user=pl.lit("eva"),
        gpus=pl.lit(1.0),
        status=pl.Series(["completed"] * 100 + ["pending"]),
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path / "data")
    page = build_report(tmp_path / "data", out=tmp_path / "out", only="consumers", formats="md")
    results = page.read_text().partition("### Main results")[2].partition("\n## ")[0]
    assert ("1 job waits, for" in results) == stated
    assert ("longer than any job" in results) == alert


@pytest.mark.parametrize(
    ("ran_s", "runs", "is_late"), [(4900, 40, 0), (5000, 40, 1), (5000, 19, 0)]
)
@pytest.mark.parametrize("longest_s", [990.0, 9900.0])
def test_a_job_that_runs_far_longer_than_all_before_is_an_alert(
    tmp_path: Path, ran_s: float, runs: int, is_late: int, longest_s: float
) -> None:
    """The others ran 600 s, and the longest 990 s: five times that. Or 9,900 s: it may be usual."""
    start_s = [2 * HOUR_S * job for job in range(runs)] + [1000 * HOUR_S - ran_s, 999 * HOUR_S]
    lasted = [longest_s] + [600.0] * (runs - 1) + [ran_s, HOUR_S]
    jobs = pl.DataFrame(
        {"submit_s": start_s, "start_s": start_s, "runtime_s": lasted}
    ).with_columns(
        job_id=pl.int_range(runs + 2).cast(pl.String),
        job_name=pl.Series([f"train-{job}" for job in range(runs + 1)] + ["other"]),
        user=pl.lit("eva"),
        gpus=pl.lit(8.0),
        status=pl.Series(["completed"] * runs + ["running", "completed"]),
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    found = overdue_jobs(Store(tmp_path).trace("mine"))
    assert found.height == (is_late if longest_s < 1000 else 0)
    alerts = [
        getattr(one, "alert", "")
        for one in section_consumers.build([Store(tmp_path).trace("mine")]).findings
    ]
    text = (
        "1 running job has lasted more than 5 times as long as any before of the same user and name"
    )
    text = f"mine: {text} (job 40: 1.39 h, before at most 16.5 min)"
    assert alerts.count(text) == found.height
