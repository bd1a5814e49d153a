"""A store that is deleted while it is read, written by an older version, or of another clock."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from traceana.errors import StoreError
from traceana.exchange import anonymize
from traceana.ingesters import add_table, ingest
from traceana.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [1, 2]})
    add_table(jobs, trace="mine", table="jobs", store=tmp_path / "store")
    return tmp_path / "store"


def test_a_store_that_is_deleted_while_it_is_read_is_one_line(store: Path) -> None:
    session = open_store(store)
    assert session.scan("mine", "jobs").collect().height == 2
    shutil.rmtree(store)
    with pytest.raises(StoreError, match=r"no table 'jobs' of 'mine' \(traces: none\)"):
        session.scan("mine", "jobs")
    with pytest.raises(StoreError, match="trace 'mine' is not in the store"):
        session.manifest("mine")
    with pytest.raises(StoreError, match="no store here"):
        open_store(store)


@pytest.mark.parametrize("name", ["ledger", "manifest"])
def test_a_store_of_an_older_version_says_what_to_do(store: Path, name: str) -> None:
    file = store / "mine" / f"{name}.json"
    content = json.loads(file.read_text())
    content["format"] = 0
    file.write_text(json.dumps(content))
    with pytest.raises(StoreError, match=rf"not a {name} .*format.* ingest the trace again"):
        getattr(Store(store), name)("mine")
    with pytest.raises(StoreError, match=f"not a {name}"):
        _ = Store(store).trace("mine").manifest


def test_the_manifest_of_another_trace_is_refused(store: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [1, 2]})
    add_table(jobs, trace="other", table="jobs", store=store)
    shutil.copy(store / "other" / "manifest.json", store / "mine")
    with pytest.raises(StoreError, match=r"not a manifest .*it is that of 'other'.* ingest the"):
        Store(store).manifest("mine")
    with pytest.raises(StoreError, match="it is that of 'other'"):
        add_table(jobs, trace="mine", table="jobs", store=store)


def test_a_loop_of_links_is_replaced_or_one_line(store: Path) -> None:
    ledger = store / "mine" / "ledger.json"
    ledger.unlink()
    ledger.symlink_to(ledger.name)
    jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [1, 2]})
    add_table(jobs, trace="mine", table="jobs", store=store)
    assert open_store(store).scan("mine", "jobs").collect().height == 2
    (store / "loop").symlink_to("loop")
    with pytest.raises((StoreError, OSError), match="loop"):
        anonymize("mine", store=store, out=store / "loop")


@pytest.mark.parametrize(
    ("name", "field"), [("ledger", "trace"), ("manifest", "title"), ("manifest", "terms")]
)
@pytest.mark.parametrize("value", [None, 1, [], [{}], float("inf")])
def test_a_field_of_another_type_is_one_line(
    store: Path, name: str, field: str, value: object
) -> None:
    file = store / "mine" / f"{name}.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: value}))
    with pytest.raises(StoreError, match=rf"not a {name} .*{field} is not"):
        getattr(Store(store), name)("mine")


@pytest.mark.parametrize(
    ("name", "value"),
    [("mostly_nulled", [1]), ("unknown_words", {"status": {"x": "y"}}), ("crc32", ["1"])],
)
def test_a_member_of_another_type_is_one_line(store: Path, name: str, value: object) -> None:
    file = store / "mine" / "ledger.json"
    content = json.loads(file.read_text())
    content["tables"]["jobs"][name] = value
    file.write_text(json.dumps(content))
    with pytest.raises(StoreError, match=rf"not a ledger .*{name} is not"):
        Store(store).ledger("mine")


@pytest.mark.parametrize("name", ["jobs.parquet", "rejected/jobs.parquet"])
@pytest.mark.parametrize("part", ["data", "footer", "end"])
def test_a_damaged_table_is_refused_before_it_is_decoded(
    tmp_path: Path, name: str, part: str
) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [1, -2]})
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    store = open_store(tmp_path)
    store.scan("mine", "jobs")
    file = tmp_path / "mine" / name
    content = bytearray(file.read_bytes())
    content[{"data": 8, "footer": -60, "end": -1}[part]] ^= 1
    file.write_bytes(content[:-4] if part == "end" else content)
    for read in (store.scan, store.scan_rejected):
        with pytest.raises(StoreError, match=r"mine: jobs\.parquet is not the one in the ledger"):
            read("mine", "jobs")
    with pytest.raises(StoreError, match="ingest again"):
        store.ledger("mine")
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    assert store.scan("mine", "jobs").collect()["job_id"].to_list() == ["a"]


@pytest.mark.parametrize("moment", [0, 4_102_444_800], ids=["1970", "2100"])
def test_the_clock_of_files_does_not_matter(tmp_path: Path, moment: int) -> None:
    log = tmp_path / "a.swf"
    log.write_text("1 0 10 100 4 -1 -1 4 3600 -1 1 1 1 1 1 -1 -1 -1\n")
    assert ingest(log, store=tmp_path / "store").entries[0].state == "written"
    for path in (tmp_path, log, *tmp_path.rglob("*")):
        os.utime(path, (moment, moment))
    assert ingest(log, store=tmp_path / "store").entries[0].state == "unchanged"
    log.write_text(log.read_text().replace("100", "101"))
    os.utime(log, (moment, moment))
    assert ingest(log, store=tmp_path / "store").entries[0].state == "updated"
    runtime = Store(tmp_path / "store").scan("a", "jobs").collect()["runtime_s"]
    assert runtime.to_list() == [101.0]


def test_a_file_is_read_where_neither_a_home_nor_a_cache_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.swf").write_text("1 0 10 100 4 -1 -1 4 3600 -1 1 1 1 1 1 -1 -1 -1\n")
    (tmp_path / "file").touch()
    environment = {**os.environ, "HOME": "/nowhere", "XDG_CACHE_HOME": str(tmp_path / "file")}
    out = ["--only", "data-quality", "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "traceana", "report", str(tmp_path / "a.swf"), *out]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "index.html").is_file()


@pytest.mark.parametrize(
    "name", ["a*b?[c]", "with space", "new\nline", "uni é 中", "#per%20cent", "-dash"]
)
def test_a_store_may_have_any_path(tmp_path: Path, name: str) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [1, -2]})
    for _ in range(2):
        add_table(jobs, trace="mine", table="jobs", store=tmp_path / name)
    store = open_store(tmp_path / name)
    assert store.scan("mine", "jobs").collect()["job_id"].to_list() == ["a"]
    assert store.scan_rejected("mine", "jobs").collect().height == 1


def test_a_malformed_source_date_is_one_line_whatever_is_imported_first(store: Path) -> None:
    command = [sys.executable, "-m", "traceana", "report", "--store", str(store)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "yesterday"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("traceana: SOURCE_DATE_EPOCH is 'yesterday'; it must be")
    assert done.stderr.count("\n") == 1
