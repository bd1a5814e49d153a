"""Tables come back from files as they went in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import traceana
from traceana.cli import app
from traceana.errors import DataError, StoreError

JOBS = pl.DataFrame(
    {
        "job_id": ["b", "a", "c"],
        "user": ["=cmd()", "eva", None],
        "queue": ["gpu", "cpu", "gpu"],
        "status": ["failed", "completed", "running"],
        "submit_s": [1000.0, 940.4, None],
        "start_s": [1010.0, 1000.4, None],
        "runtime_s": [61.5, 0.0, None],
        "cpus": [4.0, 0.5, None],
        "memory_gib": [8.0, 1.0, None],
        "time_limit_s": [3600.0, None, None],
        "cpu_time_s": [200.0, None, None],
    }
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    traceana.add_table(JOBS, trace="mine", table="jobs", store=folder)
    return folder


def test_parquet_and_csv_hold_every_row(store: Path, tmp_path: Path) -> None:
    held = traceana.open_store(store).scan("mine", "jobs").collect()
    [path] = traceana.export_tables("mine", store=store, out=tmp_path)
    assert pl.read_parquet(path).equals(held)
    [path] = traceana.export_tables("mine", store=store, out=tmp_path, file_format="csv")
    back = pl.read_csv(path, schema_overrides=held.schema)
    assert back["user"][0] == "'=cmd()"  # a spreadsheet runs nothing
    assert back.drop("user").equals(held.drop("user"))


def test_threads_that_write_the_same_file_do_not_share_a_temporary_one(
    store: Path, tmp_path: Path
) -> None:
    def export(_: int) -> list[Path]:
        return traceana.export_tables("mine", store=store, out=tmp_path, file_format="swf")

    with ThreadPoolExecutor(8) as pool:
        assert len({path for (path,) in pool.map(export, range(32))}) == 1
    assert [path.name for path in tmp_path.glob("*jobs*")] == ["jobs.swf"]


def test_swf_has_the_eighteen_fields_of_the_standard(store: Path, tmp_path: Path) -> None:
    [path] = traceana.export_tables("mine", store=store, out=tmp_path, file_format="swf")
    lines = [line for line in path.read_text().splitlines() if not line.startswith(";")]
    # job submit wait run used cpu mem requested limit mem status user group exe queue partition
    assert lines == [
        "1 0 60 0 1 -1 -1 1 -1 1048576 1 1 -1 -1 1 -1 -1 -1",
        "2 60 10 62 4 50 -1 4 3600 2097152 0 2 -1 -1 2 -1 -1 -1",
        "3 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 2 -1 -1 -1",
    ]


def test_our_own_reader_reads_it_back(store: Path, tmp_path: Path) -> None:
    [path] = traceana.export_tables("mine", store=store, out=tmp_path, file_format="swf")
    jobs = traceana.read(path).jobs.drop_nulls("submit_s")
    assert jobs["cpus"].to_list() == [1, 4]
    assert jobs["status"].to_list() == ["completed", "failed"]
    assert jobs["memory_gib"].to_list() == [1, 8]
    assert (jobs["start_s"] - jobs["submit_s"]).to_list() == [60, 10]


def test_unix_times_come_back_by_the_header(tmp_path: Path) -> None:
    store = tmp_path / "unix"
    jobs = JOBS.with_columns(pl.col("submit_s", "start_s") + 1_700_000_000)
    traceana.add_table(jobs, trace="mine", table="jobs", store=store)
    [path] = traceana.export_tables("mine", store=store, out=tmp_path, file_format="swf")
    back = traceana.read(path).jobs["submit_s"].drop_nulls().sort()
    assert back.to_list() == [1_700_000_940, 1_700_001_000]


def test_mistakes_are_one_line(store: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="format 'xls' is unknown; use parquet, csv, swf"):
        traceana.export_tables("mine", store=store, out=tmp_path, file_format="xls")
    with pytest.raises(DataError, match="SWF holds jobs alone, not tasks"):
        traceana.export_tables(
            "mine", store=store, out=tmp_path, tables=["tasks"], file_format="swf"
        )
    with pytest.raises(StoreError, match="no table 'tasks'"):
        traceana.export_tables("mine", store=store, out=tmp_path / "new", tables=["tasks"])
    assert not (tmp_path / "new").exists()


def test_the_tables_of_a_store_are_not_replaced(store: Path) -> None:
    with pytest.raises(DataError, match="mine: a trace of a store; pass another folder"):
        traceana.export_tables("mine", out=store / "mine", store=store)
    assert traceana.open_store(store).scan("mine", "jobs").collect().height == JOBS.height


def test_the_command_prints_the_files(store: Path, tmp_path: Path) -> None:
    command = ["export", "mine", "--store", str(store), "--out", str(tmp_path), "--format", "csv"]
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'jobs.csv'}\n")
