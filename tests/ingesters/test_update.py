"""Later exports of a log update the trace: the newest record of each job stays."""

from __future__ import annotations

import hashlib
from itertools import product
from typing import TYPE_CHECKING

import polars as pl
import pytest

from traceana.errors import StoreError
from traceana.ingesters import ingest
from traceana.store import Ledger, open_store

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "JobID|User|State|Submit|Start|End|Elapsed\n"
MARCH = HEAD + (
    "71|anna|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30|01:00:00\n"
    "72|eva|RUNNING|2026-03-31T20:00:00|2026-03-31T21:00:00|Unknown|03:00:00\n"
    "73|eva|PENDING|2026-03-31T22:00:00|Unknown|Unknown|00:00:00\n"
    "74_[4-9]|eva|PENDING|2026-03-31T22:00:00|Unknown|Unknown|00:00:00\n"
    "75|bob|RUNNING|2026-03-31T23:00:00|2026-03-31T23:10:00|Unknown|00:50:00\n"
    "76|bob|COMPLETED|soon|2026-03-31T23:10:00|2026-03-31T23:20:00|00:10:00\n"
)
APRIL = HEAD + (
    "72|eva|COMPLETED|2026-03-31T20:00:00|2026-03-31T21:00:00|2026-04-01T02:00:00|05:00:00\n"
    "73|eva|FAILED|2026-03-31T22:00:00|2026-04-01T01:00:00|2026-04-01T02:00:00|01:00:00\n"
    "74_4|eva|COMPLETED|2026-03-31T22:00:00|2026-04-01T01:00:00|2026-04-01T02:00:00|01:00:00\n"
    "74_[5-9]|eva|PENDING|2026-03-31T22:00:00|Unknown|Unknown|00:00:00\n"
    "75|bob|COMPLETED|2026-04-01T03:00:00|2026-04-01T03:10:00|2026-04-01T03:40:00|00:30:00\n"
    "71|zoe|COMPLETED|2026-04-20T08:00:00|2026-04-20T08:00:30|2026-04-20T08:10:30|00:10:00\n"
)
BOTH = [
    ("71", "anna", "completed", 3600.0),
    ("71@2026-04-20T08:00:00", "zoe", "completed", 600.0),  # the id was used again
    ("72", "eva", "completed", 18000.0),
    ("73", "eva", "failed", 3600.0),
    ("74_4", "eva", "completed", 3600.0),
    ("74_[5-9]", "eva", "pending", None),  # the shorter range
    ("75", "bob", "completed", 1800.0),  # requeued, so submitted anew
]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def jobs(folder: Path) -> list[tuple[object, ...]]:
    found = open_store(folder / "store").scan("mine", "jobs")
    return found.select("job_id", "user", "status", "runtime_s").sort("job_id").collect().rows()


def add(folder: Path, *files: tuple[str, str], replace: bool = False) -> Ledger:
    paths = [write(folder, name, text) for name, text in files]
    return ingest(paths, trace="mine", store=folder / "store", replace=replace)


@pytest.mark.parametrize("at_once", [True, False])
def test_the_newest_record_of_a_job_stays(tmp_path: Path, at_once: bool) -> None:
    march, april = ("march.txt", MARCH), ("april.txt", APRIL)
    if at_once:
        ledger = add(tmp_path, march, april)
    else:
        add(tmp_path, march)
        ledger = add(tmp_path, april)
    assert jobs(tmp_path) == BOTH
    [entry] = ledger.entries
    # 72, 73, the range 74 and the requeued 75 of March
    assert (entry.rows_read, entry.rows_kept, entry.rows_replaced) == (12, 7, 4)
    assert entry.rejected == {"Submit|not_a_time": 1}
    for file in entry.files:
        assert file.rows_read == file.rows_kept + file.rows_rejected == 6
    assert "12 rows read = 7 kept + 4 replaced + 1 rejected" in str(ledger)
    store = open_store(tmp_path / "store")
    assert store.scan_rejected("mine", "jobs").collect()["row"].to_list() == [6]
    assert store.manifest("mine").tables["jobs"].rows == 7
    assert store.ledger("mine").entries[0].rows_replaced == 4


def test_the_same_file_again_changes_nothing(tmp_path: Path) -> None:
    for name, text in (("march.txt", MARCH), ("april.txt", APRIL)):
        add(tmp_path, (name, text))
    folder = tmp_path / "store" / "mine"

    def digests() -> dict[str, str]:
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = digests()
    for name, text in (("march.txt", MARCH), ("april.txt", APRIL)):
        ledger = add(tmp_path, (name, text))
        assert [entry.state for entry in ledger.entries] == ["unchanged"]
    assert digests() == before


def test_an_ended_record_stays_when_an_older_export_comes_late(tmp_path: Path) -> None:
    add(tmp_path, ("april.txt", APRIL))
    add(tmp_path, ("march.txt", MARCH))
    found = {row[0]: row[2] for row in jobs(tmp_path)}
    assert (found["72"], found["73"]) == ("completed", "failed")


def test_a_file_of_the_same_name_is_a_later_export_unless_it_replaces(tmp_path: Path) -> None:
    add(tmp_path, ("sacct.txt", MARCH))
    add(tmp_path, ("sacct.txt", APRIL))
    assert jobs(tmp_path) == BOTH
    [entry] = add(tmp_path, ("sacct.txt", MARCH), replace=True).entries
    assert (entry.rows_read, entry.rows_kept, entry.rows_replaced) == (6, 5, 0)
    assert len(jobs(tmp_path)) == 5


def test_files_of_one_name_in_folders_of_one_name_are_two(tmp_path: Path) -> None:
    """Each has a checksum of its own, and is read again when it changes."""
    for cluster in ("a", "b"):
        (tmp_path / cluster / "2026-03").mkdir(parents=True)
    april = ("b/2026-03/sacct.txt", APRIL)
    [entry] = add(tmp_path, ("a/2026-03/sacct.txt", HEAD + MARCH.splitlines()[1]), april).entries
    april_sha256 = hashlib.sha256(APRIL.encode()).hexdigest()
    assert [file.sha256 == april_sha256 for file in entry.files] == [False, True]
    [entry] = add(tmp_path, ("a/2026-03/sacct.txt", MARCH), april).entries
    assert entry.state == "updated"
    assert jobs(tmp_path) == BOTH


def test_many_rows_over_several_exports_against_a_dictionary(tmp_path: Path) -> None:
    newest: dict[int, tuple[str, float]] = {}
    states = {"PENDING": 0, "RUNNING": 1, "COMPLETED": 2, "FAILED": 2}
    read = 0
    for month in range(4):
        lines = [HEAD]
        for job in range(month * 700, month * 700 + 1500):
            state = list(states)[(job * 7 + month * 3) % 4]
            lines.append(
                f"{job}|u|{state}|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|"
                f"00:00:{month + 1:02}\n"
            )
            old = newest.get(job)
            if old is None or states[old[0]] <= states[state]:
                newest[job] = (state, month + 1.0)
            read += 1
        ledger = add(tmp_path, (f"{month}.txt", "".join(lines)))
    assert [(int(str(name)), str(status).upper(), s) for name, _, status, s in jobs(tmp_path)] == [
        (job, state, s) for job, (state, s) in sorted(newest.items(), key=lambda item: str(item[0]))
    ]
    [entry] = ledger.entries
    assert entry.rows_read == read == entry.rows_kept + entry.rows_replaced


def test_columns_carried_along_stay_and_other_formats_update_by_their_key(tmp_path: Path) -> None:
    mapping = '[trace]\nkeep = ["rack"]\n[jobs]\njob_id = "id"\nstatus = "state"\n'
    store = tmp_path / "store"
    first = write(tmp_path, "a.csv", "id,state,rack\nx,running,7\ny,completed,8\n")
    second = write(tmp_path, "b.csv", "id,state,rack\nx,completed,r9\nz,failed,r1\n")
    ingest(first, mapping=mapping, trace="mine", store=store)
    ingest(second, mapping=mapping, trace="mine", store=store)
    found = open_store(store).scan("mine", "jobs").sort("job_id").collect()
    assert found.select("job_id", "status", "rack").rows() == [
        ("x", "completed", "r9"),
        ("y", "completed", "8"),
        ("z", "failed", "r1"),
    ]
    third = write(tmp_path, "c.csv", "id,state\nw,failed\n")
    bare = mapping.partition("\n[jobs]")[2]
    ingest(third, mapping=f"[jobs]{bare}", trace="mine", store=store)
    found = open_store(store).scan("mine", "jobs").sort("job_id").collect()
    assert found["rack"].to_list() == [None, "r9", "8", "r1"]


def test_a_table_that_is_not_the_one_in_the_ledger_is_not_updated(tmp_path: Path) -> None:
    add(tmp_path, ("march.txt", MARCH))
    pl.DataFrame({"job_id": ["1"]}).write_parquet(tmp_path / "store" / "mine" / "jobs.parquet")
    with pytest.raises(StoreError, match="--replace"):
        add(tmp_path, ("april.txt", APRIL))
    add(tmp_path, ("march.txt", MARCH), ("april.txt", APRIL))  # all of it is read again
    assert jobs(tmp_path) == BOTH


STATES = ["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]


def test_of_two_records_an_ended_one_stays_and_else_the_later(tmp_path: Path) -> None:
    line = "{id}|u|{state}|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30|01:00:00\n"
    pairs = list(product(STATES, repeat=2))
    exports = [
        (f"{at}.txt", HEAD + "".join(line.format(id=n, state=p[at]) for n, p in enumerate(pairs)))
        for at in (0, 1)
    ]
    add(tmp_path, *exports)
    rank = {"PENDING": 0, "RUNNING": 1, "COMPLETED": 2, "FAILED": 2, "CANCELLED": 2}
    found = {int(str(row[0])): row[2] for row in jobs(tmp_path)}
    for n, (first, second) in enumerate(pairs):
        expected = first if rank[first] > rank[second] else second
        assert found[n] == expected.lower()


def test_an_update_that_fails_leaves_the_trace_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files() -> dict[Path, bytes]:
        return {p: p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file()}

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    add(tmp_path, ("march.txt", MARCH))
    before = files()
    monkeypatch.setattr("traceana.ingesters.build.merge_newest", fail)
    with pytest.raises(StoreError, match="cannot be written: No space left"):
        add(tmp_path, ("april.txt", APRIL))
    assert files() == before
