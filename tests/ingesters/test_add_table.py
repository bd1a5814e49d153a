"""A frame of any engine becomes a table like any other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import traceana
from traceana.errors import DataError, SourceError, StoreError
from traceana.report import build_report
from traceana.store import open_store

START = datetime(2026, 3, 1, tzinfo=UTC)
FRAME = pl.DataFrame(
    {
        "job_id": [f"j{i}" for i in range(40)],
        "gpus": [float(1 + i % 4) for i in range(40)],
        "runtime_s": [60.0 * (i + 1) for i in range(40)],
        "status": ["completed", "failed"] * 20,
        "user": [f"u{i % 5}" for i in range(40)],
        "submit_s": [START + timedelta(minutes=i) for i in range(40)],
        "colour": ["red"] * 40,
    }
)
ENGINES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda frame: frame,
    "polars lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "pyarrow": lambda frame: frame.to_arrow(),
    "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow()),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_table(engine: str, tmp_path: Path) -> None:
    frame = ENGINES[engine](FRAME)
    ledger = traceana.add_table(frame, trace="mine", table="jobs", title="Ours", store=tmp_path)
    assert str(ledger) == "mine/jobs: 40 rows read = 40 kept + 0 rejected (written)"
    store = open_store(tmp_path)
    jobs = store.scan("mine", "jobs").collect()
    same = ["job_id", "gpus", "runtime_s", "status", "user"]
    assert jobs.select(same).equals(FRAME.select(same))
    assert jobs["submit_s"].to_list() == [START.timestamp() + 60 * i for i in range(40)]
    assert "colour" not in jobs.columns
    manifest = store.manifest("mine")
    assert (manifest.title, manifest.source, manifest.absolute_times) == ("Ours", "api", True)
    assert set(manifest.tables["jobs"].columns) == {*same, "submit_s"}
    again = traceana.add_table(frame, trace="mine", table="jobs", title="Ours", store=tmp_path)
    assert again.entries[0].state == "unchanged"


def test_tables_accumulate_and_a_changed_frame_replaces_its_own(tmp_path: Path) -> None:
    machines = pl.DataFrame(
        {"name": ["m1", "m2"], "g": [8, 8], "c": [64, 64], "mem": ["512G", "bad"]}
    )
    mapping = """
[trace]
independent_unit = "user"
[machines]
machine_id = "name"
gpus = "g"
cpus = "c"
memory_gib = { size = "mem" }
"""
    traceana.add_table(FRAME, trace="mine", table="jobs", title="Ours", store=tmp_path)
    ledger = traceana.add_table(
        machines, trace="mine", table="machines", mapping=mapping, store=tmp_path
    )
    counts = {entry.table: (entry.rows_kept, entry.rows_rejected) for entry in ledger.entries}
    assert counts == {"jobs": (40, 0), "machines": (2, 0)}
    assert ledger.nulled.rows() == [("mine", "machines", "mem|not_a_size", 1)]
    store = open_store(tmp_path)
    manifest = store.manifest("mine")
    assert (manifest.title, manifest.independent_unit) == ("Ours", "user")
    assert manifest.tables["jobs"].rows == 40
    assert "[machines]" in manifest.tables["machines"].mapping
    assert "[jobs]" in manifest.tables["jobs"].mapping
    assert store.scan("mine", "machines").collect()["memory_gib"].to_list() == [512, None]
    ledger = traceana.add_table(FRAME.head(9), trace="mine", table="jobs", store=tmp_path)
    assert {entry.table: entry.rows_kept for entry in ledger.entries} == {"jobs": 9, "machines": 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": "job"}, "no table is called 'job'"),
        ({"trace": "a/b"}, "needs an id of letters"),
        ({"table": "machines"}, "states no machine_id, which every row needs"),
        ({"table": "training_runs"}, "no column of the frame is one of training_runs"),
        ({"mapping": '[jobs]\njob_id = "name"\n'}, r"no column 'name'"),
        ({"mapping": '[tasks]\njob_id = "job_id"\n'}, r"no \[jobs\] in it; found tasks"),
        ({"mapping": Path("nowhere.toml")}, "nowhere.toml: the mapping cannot be read"),
        ({"mapping": "a name\0"}, r"a name\\x00: the mapping cannot be read"),
        ({"mapping": "\rtwo\u2028lines"}, r"^\\rtwo\\u2028lines: the mapping cannot be read"),
    ],
)
def test_a_mistake_is_one_line(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"trace": "mine", "table": "jobs", "store": tmp_path} | arguments
    with pytest.raises(DataError, match=message) as error:
        traceana.add_table(FRAME, **options)
    assert "\n" not in str(error.value)


def test_what_is_no_frame_and_what_keeps_no_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a .* frame, got dict"):
        traceana.add_table({"a": 1}, trace="mine", table="jobs", store=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match=r"none of 40 rows could be kept: 40 by gpus\|min"):
        traceana.add_table(
            FRAME.with_columns(gpus=-1.0), trace="mine", table="jobs", store=tmp_path
        )
    with pytest.raises(StoreError, match="no store here"):
        open_store(tmp_path)


def test_a_trace_of_no_catalog_is_an_ordinary_trace(tmp_path: Path) -> None:
    traceana.add_table(FRAME, trace="mine", table="jobs", title="Ours, 2026", store=tmp_path / "s")
    store = open_store(tmp_path / "s")
    assert store.missing("mine", "jobs") == ()
    assert store.tables()["trace"].to_list() == ["mine"]
    page = build_report(
        tmp_path / "s", out=tmp_path / "report", only=["traces"], formats="md", workers=1
    )
    assert "Ours, 2026" in Path(page).read_text(encoding="utf-8")


def test_a_duration_in_a_text_column_is_text(tmp_path: Path) -> None:
    frame = FRAME.with_columns(user=pl.lit(timedelta(minutes=90)))
    traceana.add_table(frame, trace="mine", table="jobs", store=tmp_path)
    users = open_store(tmp_path).scan("mine", "jobs").select("user").unique().collect()
    assert users["user"].to_list() == ["PT1H30M"]  # ISO 8601


def test_a_frame_with_one_other_value_replaces_its_table(tmp_path: Path) -> None:
    traceana.add_table(FRAME, trace="mine", table="jobs", store=tmp_path)
    other = FRAME.with_columns(gpus=pl.lit(2.0))
    [entry] = traceana.add_table(other, trace="mine", table="jobs", store=tmp_path).entries
    assert entry.state == "written"
    assert open_store(tmp_path).scan("mine", "jobs").collect()["gpus"].to_list() == [2.0] * 40


@pytest.mark.parametrize("name", ["*", "^job.*$", ""])
def test_a_name_of_a_column_is_no_pattern(name: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"job_id": ["a", "b"], name: [1, 2]})
    ledger = traceana.add_table(frame, trace="t", table="jobs", store=tmp_path)
    assert [entry.rows_kept for entry in ledger.entries] == [2]
