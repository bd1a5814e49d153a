"""The section with all traces side by side."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import traceana


def test_traces_stand_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = tmp_path / "store"
    for name, runtimes in (("one", [10.0, 20.0, 30.0]), ("two", [1000.0, 2000.0, 3000.0])):
        jobs = pl.DataFrame({"job_id": ["a", "b", "c"], "runtime_s": runtimes})
        traceana.add_table(jobs, trace=name, table="jobs", store=store, title=f"Cluster {name}")
    page = traceana.build_report(store, out=tmp_path / "out", only="comparison", formats="md")
    text = page.read_text()
    assert (
        "Median runtime: the lowest of 2 traces is 20 s (Cluster one; n = 3). "
        "The highest is 33.3 min (Cluster two; n = 3)." in text
    )
    assert "| Cluster two | 33.3 min (n = 3) |" in text
    # a question that no trace answers is not listed; why one trace has none is
    assert "no times of submission and start" not in text
    assert "- Runtime: rows treated as independent: no user is recorded" in text


def test_a_rate_that_is_biased_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = tmp_path / "store"
    for name, third in (("one", "running"), ("two", "completed")):  # a third still runs in one
        start = pl.Series([100.0 * n for n in range(90)])
        status = pl.Series(["failed", "completed", third] * 30)
        end = (start + 600).set(status == "running", None)
        jobs = pl.DataFrame({"start_s": start, "end_s": end, "status": status})
        jobs = jobs.with_columns(job_id=pl.int_range(90).cast(pl.String))
        traceana.add_table(jobs, trace=name, table="jobs", store=store, title=name)
    page = traceana.build_report(store, out=tmp_path / "out", only="comparison", formats="md")
    text = page.read_text()
    assert "- Cumulative incidence of failure within a stated runtime: the lowest of 2" in text
    assert "- Failure rate among completed and failed: the lowest" not in text
    assert "33 % of all jobs reached no end state: the rate is biased" in text
