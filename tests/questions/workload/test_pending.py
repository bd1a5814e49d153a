"""Jobs that wait at the end of a log."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.questions.workload.pending import pending_jobs
from traceana.report import build_report
from traceana.store import Store

HOUR_S = 3600.0
JOBS = pl.DataFrame({
    "job_id": ["a", "b", "stuck", "new", "cancelled", "removed"],
    "user": ["eva", "tom", "eva", "tom", "tom", "tom"],
    "status": ["completed", "running", "pending", "pending", "cancelled", "pending"],
    "submit_s": [0.0, 1 * HOUR_S, 2 * HOUR_S, 50 * HOUR_S, 3 * HOUR_S, 1 * HOUR_S],
    "start_s": [0.5 * HOUR_S, 4 * HOUR_S, None, None, None, None],
    "end_s": [51 * HOUR_S, None, None, None, 4 * HOUR_S, 5 * HOUR_S],
    "gpus": [1.0, 2, 8, 1, 1, 4],
})  # fmt: skip


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
