"""Facts in the head of a page."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import traceana
from traceana.questions.workload.facts import facts_of, failed_as


def test_the_logs_own_words_for_failed_jobs_are_named(tmp_path: Path) -> None:
    words = ["TIMEOUT"] * 3 + ["FAILED"] * 2 + ["COMPLETED"] * 5 + ["CANCELLED"]
    statuses = ["failed"] * 5 + ["completed"] * 5 + ["cancelled"]
    jobs = pl.DataFrame(
        {
            "job_id": [str(place) for place in range(11)],
            "status": statuses,
            "end_reason": words,
            "runtime_s": [60.0] * 11,
        }
    )
    traceana.add_table(jobs, trace="own", table="jobs", store=tmp_path)
    trace = traceana.open_store(tmp_path).trace("own")
    assert failed_as(trace) == "TIMEOUT (3) and FAILED (2)"
    assert ("Failed", "50 %") in facts_of(trace)


def test_a_log_in_which_no_job_ended_is_described_as_such(tmp_path: Path) -> None:
    def facts(*statuses: str) -> dict[str, str]:
        name = "-".join(statuses)
        jobs = pl.DataFrame(
            {"job_id": [str(place) for place in range(len(statuses))], "status": statuses}
        ).with_columns(runtime_s=60.0)
        traceana.add_table(jobs, trace=name, table="jobs", store=tmp_path)
        return dict(facts_of(traceana.open_store(tmp_path).trace(name)))

    assert facts("running", "running")["Status"] == "all running"
    mixed = facts("running", "pending", "running")
    assert mixed["Status"] == "2 running and 1 pending; none ended"
    assert "Median runtime" not in mixed
    assert "Status" not in facts("running", "completed")
