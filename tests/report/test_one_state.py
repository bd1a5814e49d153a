"""Logs whose jobs all have one state have a page that states their hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from traceana.ingesters import ingest
from traceana.report import build_report

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "JobID|JobName|User|Partition|Submit|Start|End|Elapsed|Timelimit|State|NNodes|"
HEADER += "AllocCPUS|AllocTRES"


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("RUNNING", "| u1 | 20 |"),
        ("TIMEOUT", "- 60 jobs that ended as TIMEOUT used 100 % of all 240 GPU-hours"),
        ("FAILED", "- 60 jobs that ended as FAILED used 100 % of all 240 GPU-hours"),
        ("COMPLETED", "240 GPU-hours"),
    ],
)
def test_jobs_of_one_state(tmp_path: Path, state: str, says: str) -> None:
    lines = [HEADER]
    for job in range(60):
        day, hour = f"2026-04-{1 + job // 20:02}", job % 20
        start = f"{day}T{hour:02}:00:00"
        end = "Unknown" if state == "RUNNING" else f"{day}T{hour + 2:02}:00:00"
        lines.append(
            f"{job}|train|u{job % 3}|gpu|{start}|{start}|{end}|02:00:00|04:00:00|{state}|1|8|"
            "cpu=8,mem=32G,node=1,gres/gpu=2"
        )
    log = tmp_path / "sacct.txt"
    log.write_text("\n".join(lines) + "\n")
    ingest(log, trace="ours", store=tmp_path / "store")
    page = build_report(tmp_path / "store", out=tmp_path / "out", formats="md")
    text = page.read_text(encoding="utf-8")
    assert says in text
    assert "computed:" not in text
    assert "could not be computed" not in text
