"""Ratios of a log in which some jobs still run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from traceana.cohorts.task_times import END_IMPUTATIONS
from traceana.questions.runtimes.section import _finding
from traceana.report import build_report
from traceana.report.page import _without

N = 200


@pytest.mark.parametrize(("running", "is_stated"), [(2, True), (40, False)])
def test_few_running_jobs_leave_the_finding(tmp_path: Path, running: int, is_stated: bool) -> None:
    numbers = range(N)
    jobs = pl.DataFrame(
        {
            "job_id": [str(job) for job in numbers],
            "user": [f"u{job % 20}" for job in numbers],
            "gpu_type": ["A100" if job % 2 else "H100" for job in numbers],
            "submit_s": [60.0 * job for job in numbers],
            "start_s": [60.0 * job for job in numbers],
            "end_s": [
                None if job >= N - running else 60.0 * job + 100 + job % 97 for job in numbers
            ],
            "status": ["running" if job >= N - running else "completed" for job in numbers],
        }
    )
    page = build_report({"jobs": jobs}, out=tmp_path / "o", only="runtime-ratio", formats="md")
    text = page.read_text()
    assert ("of the mean of their group" in text) == is_stated
    assert ("not estimable while jobs still run" in text) != is_stated


def test_a_card_does_not_begin_with_the_colon_after_its_heading() -> None:
    assert _without("19 % of A100 fail: a difference of 6.7 points.", "19 % of A100 fail") == (
        "A difference of 6.7 points."
    )


def test_gpu_hours_of_a_cluster_of_unknown_capacity_are_said_to_be() -> None:
    check = pl.DataFrame({"end_imputation": END_IMPUTATIONS, "gpu_hours": 10.0})
    text = _finding(check.with_columns(fraction_of_capacity=pl.lit(None, pl.Float64)))
    assert text.endswith("if they run to the end of the trace; the capacity is not known.")
