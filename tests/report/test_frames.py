"""Reports on frames, without a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from traceana.report import build_report

if TYPE_CHECKING:
    from pathlib import Path

JOBS = pl.DataFrame(
    {"job_id": ["a", "b", "b"], "status": ["completed"] * 3, "runtime_s": [60.0, 30.0, 30.0]}
)


@pytest.mark.parametrize("form", ["tables", "frame", "pandas"])
def test_frames_are_reported_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    given = {"tables": {"jobs": JOBS}, "frame": JOBS.lazy(), "pandas": JOBS.to_pandas()}[form]
    page = build_report(given, out=tmp_path / "out", only="data-quality", formats="md")
    assert "1 of 3 in `jobs` (frames)" in page.read_text(encoding="utf-8")  # b came twice
