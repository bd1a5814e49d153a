"""A log of one user, as sacct without --allusers prints it, has a page."""

from __future__ import annotations

from pathlib import Path

import traceana
from tests.report.test_usage_section import write_log


def test_a_log_of_one_user_has_a_page(tmp_path: Path) -> None:
    write_log(tmp_path / "all.txt")
    head, *lines = (tmp_path / "all.txt").read_text().splitlines()
    own = [line for line in lines if "|u0|" in line][:120]
    own = [line.replace("|gpu|", f"|q{number % 2}|") for number, line in enumerate(own)]
    (tmp_path / "sacct.txt").write_text("\n".join([head, *own]) + "\n")
    traceana.ingest(tmp_path / "sacct.txt", store=tmp_path / "store")
    page = traceana.build_report(tmp_path / "store", out=tmp_path / "out", formats="md").read_text()
    assert "could not be computed" not in page
    assert "efficiency by queue" in page
    open_ended = "The log has one user; the jobs of others are not in it."
    allocations = [line for line in page.splitlines() if " were allocated" in line]
    assert allocations
    assert all(open_ended in line for line in allocations)
