"""Rows that the observation window cuts off."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest

from traceana.cohorts.observation import capacity_of, find_window, observe
from traceana.ingesters import add_table
from traceana.store import Trace, open_store
from traceana.store.manifest import Manifest

ROWS = pl.DataFrame(
    {
        "status": ["completed", "running", None, "completed", "running", "completed", "pending"],
        "start_s": [0.0, 4.0, 5.0, 6.0, 2.0, None, None],
        "end_s": [10.0, None, None, None, None, 7.0, None],
        "runtime_s": [10.0, None, None, None, 3.0, None, None],
    }
)
"""Ended; running; without status or end; ended without an end; running with a runtime so far;
ended without a start; never started."""
WINDOW = Manifest(trace="t", title="T", window_start_s=1.0, window_end_s=20.0, window="stated")


def test_open_rows_last_until_the_windows_end() -> None:
    rows, found = observe(ROWS, WINDOW)
    assert rows["duration_s"].to_list() == [10, 16, 15, None, 3, None, None]
    assert rows["observed"].to_list() == [True, False, False, True, False, True, True]
    assert rows["entry_s"].to_list() == [1, 0, 0, 0, 0, 0, 0]
    assert rows["runtime_s"].equals(ROWS["runtime_s"])
    assert (found.n, found.n_truncated, found.n_censored, found.n_open) == (4, 1, 3, 2)
    assert found.n_unstarted == 1
    text = found.describe("jobs")
    assert text.startswith("Jobs with a runtime or a start: 4, of which 1 started before")
    assert "The 2 without an end are taken as running" in text
    assert "1 jobs without a start are excluded" in text


@pytest.mark.parametrize("column", ["status", "end_s"])
def test_rows_without_a_column_are_open_too(column: str) -> None:
    rows, _ = observe(ROWS.drop(column), WINDOW)
    assert rows["duration_s"][1] == 16
    assert not rows["observed"][1]


def test_nothing_is_open_without_a_window() -> None:
    rows, found = observe(ROWS.drop("end_s"), Manifest(trace="t", title="T"))
    assert rows["duration_s"].equals(ROWS["runtime_s"].alias("duration_s"))
    assert found.n_open == 0


def test_a_derived_window_ends_where_running_rows_have_run_until() -> None:
    # the export was made at 12, 3 s after the last end; the runtime of an ended row says nothing
    rows = pl.DataFrame(
        {
            "start_s": [0.0, 4.0, None],
            "submit_s": [0.0, 1.0, 11.0],
            "end_s": [9.0, None, None],
            "runtime_s": [20.0, 8.0, None],
            "status": ["completed", "running", "pending"],
        }
    )
    derived = Manifest(
        trace="t", title="T", window_start_s=0.0, window_end_s=11.0, window="derived"
    )
    assert find_window(rows, derived) == (0, 12)
    assert find_window(rows.drop("end_s"), derived) == (0, 20)
    assert find_window(rows.drop("end_s", "start_s"), derived) == (0, 20)


def test_the_capacity_is_of_the_machines_whichever_engine_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = pl.DataFrame({"machine_id": ["a", "b", "c"], "gpus": [8.0, 4.0, None]})
    add_table(machines, trace="mine", table="machines", store=tmp_path)
    trace = open_store(tmp_path).trace("mine")
    stored = tmp_path / "mine" / "machines.parquet"
    monkeypatch.setattr(Trace, "frame", lambda *_: duckdb.read_parquet(str(stored)))
    found = capacity_of(trace)
    assert found is not None
    assert (found.gpus, found.machines.shape[0]) == (12.0, 2)
