"""Facts in the head of a page."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.page.section import sections
from traceana.questions.workload.analyze_consumers import facts_of, failed_as


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
    assert ("Failed", "50 % (5 of 10)") in facts_of(trace)


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


@pytest.mark.parametrize("resource", ["gpus", "cpus"])
def test_the_allocation_in_the_head_is_that_of_the_section(tmp_path: Path, resource: str) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": [str(place) for place in range(6)],
            "user": ["a", "b"] * 3,
            "submit_s": [0.0] * 6,
            "start_s": [0.0, 0.0, 3600.0, 3600.0, 7200.0, 0.0],
            "end_s": [3600.0, 7200.0, 7200.0, 10800.0, 14400.0, 14400.0],
            "status": ["completed"] * 6,
            resource: [4, 2, 2, 4, 4, 2],
        }
    ).with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))
    machines = pl.DataFrame({"machine_id": ["m", "n"], "gpus": [0, 0]} | {resource: [8, 8]})
    traceana.add_table(jobs, trace="own", table="jobs", store=tmp_path)
    traceana.add_table(machines, trace="own", table="machines", store=tmp_path)
    trace = traceana.open_store(tmp_path).trace("own")
    # 4 + 4 + 2 + 8 + 8 + 8 of 16 times 4 hours
    assert dict(facts_of(trace))[f"{resource.upper().rstrip('S')}s allocated"] == "53 % of 16"
    (section,) = (part for part in sections() if part.id == "trends")
    stated = " ".join(section.build([trace]).findings)
    of_all = "64 GPU-hours of 16 GPUs" if resource == "gpus" else "16 CPUs"
    assert of_all in stated
    assert "53 % were allocated" in stated or "53 % of 16 CPUs" in stated
    one_user = jobs.with_columns(user=pl.lit("a"))
    traceana.add_table(one_user, trace="own", table="jobs", store=tmp_path)
    alone = dict(facts_of(traceana.open_store(tmp_path).trace("own")))
    assert not any("allocated" in name for name in alone)


def test_the_period_is_the_window_that_hours_are_of(tmp_path: Path) -> None:
    # the first job is listed because it lasted: ends are recorded from 1,000 s on
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"],
            "submit_s": [0.0, 1500.0],
            "start_s": [0.0, 1500.0],
            "end_s": [1000.0, 2000.0],
            "runtime_s": [1000.0, 500.0],
            "status": ["completed"] * 2,
        }
    )
    columns = "".join(f'{name} = "{name}"\n' for name in jobs.columns)
    survivors = "[trace]\nlists_only_survivors = true\n"
    about = "[jobs.about]\nleft_truncated = true\n"
    mapping = f"{survivors}[jobs]\n{columns}{about}"
    traceana.add_table(jobs, trace="t", table="jobs", store=tmp_path, mapping=mapping)
    facts = dict(facts_of(traceana.open_store(tmp_path).trace("t")))
    assert facts["Period"] == "16.7 min"
    # of those watched from their start on half ran for 500 s
    assert facts["Median runtime"] == "8.33 min (short jobs are missing)"


def test_a_window_to_midnight_ends_on_the_day_before(tmp_path: Path) -> None:
    march, april = 1_772_323_200.0, 1_775_001_600.0  # 2026, UTC
    times = {"submit_s": [march + 5], "start_s": [march + 5], "end_s": [march + 90]}
    jobs = pl.DataFrame({"job_id": ["a"], "status": ["completed"], **times})
    columns = "".join(f'{name} = "{name}"\n' for name in jobs.columns)
    window = f"[trace]\nwindow_start_s = {march}\nwindow_end_s = {april}\n"
    mapping = f"{window}[jobs]\n{columns}"
    traceana.add_table(jobs, trace="t", table="jobs", store=tmp_path, mapping=mapping)
    facts = dict(facts_of(traceana.open_store(tmp_path).trace("t")))
    assert facts["Period"] == "2026-03-01 to 2026-03-31"


def test_a_time_that_means_never_has_no_date(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "start_s": [1.7e9, 1.7e9], "end_s": [1.7e9, 9e11]})
    jobs = jobs.with_columns(submit_s="start_s", gpus=1.0, user=pl.lit("ann"))
    traceana.add_table(jobs, trace="own", table="jobs", store=tmp_path)
    assert dict(facts_of(traceana.open_store(tmp_path).trace("own")))["Period"].endswith(" d")
    failed: list[str] = []
    out = tmp_path / "out"
    traceana.build_report(tmp_path, out=out, only="workload,trends", on_failure=failed.extend)
    assert not failed
