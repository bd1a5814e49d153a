"""A Slurm log with planted ratios of use over request reaches the section on both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import traceana

FIELDS = (
    "JobID|User|Partition|State|Submit|Start|End|Elapsed|Timelimit|ReqCPUS|NNodes|ReqMem|MaxRSS|"
    "TotalCPU|AllocTRES"
)


def write_log(path: Path) -> None:
    """Jobs of an hour with 4 cores, 8 GiB and a limit of 4 h; use alternates between queues."""
    lines = [FIELDS]
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    for job in range(1, 401):
        start = begin + timedelta(hours=job)
        cpu, rss = ("01:00:00", "2G") if job % 2 else ("03:00:00", "6G")  # of 4 h and of 8 GiB
        queue = "small" if job % 2 else "large"
        running = job == 400
        state = "RUNNING" if running else "FAILED" if job % 5 == 0 else "COMPLETED"
        end = "Unknown" if running else f"{start + timedelta(hours=1):%FT%T}"
        lines.append(
            f"{job}|u{job % 40}|{queue}|{state}|{start:%FT%T}|{start:%FT%T}|{end}|01:00:00|"
            f"04:00:00|4|1|8G||{cpu}|cpu=4"
        )
        memory = "" if job == 399 else rss
        lines.append(f"{job}.batch||||{start:%FT%T}|{start:%FT%T}|{end}|01:00:00||4|1||{memory}||")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("requested")
    write_log(folder / "sacct.txt")
    traceana.ingest(folder / "sacct.txt", store=folder / "store")
    options = {"out": folder / "out", "only": "requested-used", "formats": "md"}
    return traceana.build_report(folder / "store", **options).read_text()  # type: ignore[arg-type]


def test_hours_unused_are_those_of_ended_jobs(page: str) -> None:
    # 200 jobs leave 3 of 4 core-hours, 199 leave 1; the limit leaves 3 of 4 h
    assert "| CPU time (core-hours) | 399 | 0 | 25.0 % | 25.0 % | 75.0 % |" in page
    assert (
        f"| {399 * 4:,} | {200 * 3 + 199:,.1f} | {100 * (200 * 3 + 199) / (399 * 4):.1f} % |"
        in page
    )
    assert "| Time limit (hours) | 399 | 0 | 25.0 % | 25.0 % | 25.0 % |" in page
    assert f"| {399 * 3:,} | 75.0 % |" in page


def test_memory_counts_jobs_without_a_sample(page: str) -> None:
    assert "| Memory (GiB-hours) | 398 | 1 |" in page
    assert f"| {8 * 398:,} | {6 * 199 + 2 * 199:,} | 50.0 % |" in page
