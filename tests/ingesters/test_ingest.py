"""Tables appear whole, again is a no-op, and what changed is built anew."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import filelock
import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.exceptions import PanicException

from tests.ingesters.conftest import itp_archive, itp_csv, tar_gz, worker_rows, worker_times
from traceana.errors import SourceError, StoreError
from traceana.ingesters import IngestError, ingest, ingestion, plan
from traceana.schema import TABLES, describe_table
from traceana.store import open_store

Write = Callable[[str, bytes | str], Path]
TRACE = "alibaba-minibatch-2020"
COLUMNS = ["job_id", "worker_id", "time_s", "step", "host", "gpus", "batch_time"]


@pytest.fixture
def files(write: Write) -> Path:
    write("alibaba/job_1_norm.csv", worker_times())
    folder = write("alibaba/job_2_norm.csv", worker_times(worker_rows()[:9]))
    itp_archive(folder / "microsoft")
    return folder


def snapshot(store: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in store.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_rows_arrive_with_our_names_and_units(files: Path, tmp_path: Path) -> None:
    ingest(files, store=tmp_path / "store")
    samples = open_store(tmp_path / "store").scan(TRACE, "worker_samples").collect()
    assert samples.columns == COLUMNS
    assert samples.height == 15 + 9
    row = samples.row(
        by_predicate=(pl.col("job_id") == "job_1")
        & (pl.col("time_s") == 41.0)
        & (pl.col("worker_id") == "2")
    )
    assert row == ("job_1", "2", 41.0, None, None, 0.25, 124.0)

    jobs = open_store(tmp_path / "store").scan("microsoft-itp-2021", "jobs").collect()
    assert jobs.select("job_id", "cluster", "submit_s", "runtime_s", "gpus").row(5) == (
        "c2-job2",
        "cluster02",
        200.0,
        602.0,
        4.0,
    )
    assert jobs["status"].null_count() == 30


def test_every_column_carries_its_unit_and_meaning(files: Path, tmp_path: Path) -> None:
    ingest(files, store=tmp_path / "store")
    path = tmp_path / "store" / TRACE / "worker_samples.parquet"
    schema = pq.read_schema(path)
    for row in describe_table("worker_samples").to_dicts():
        stored = schema.field(row["column"]).metadata
        assert stored == {b"unit": row["unit"].encode(), b"meaning": row["meaning"].encode()}


def test_the_ledger_on_disk_adds_up_and_comes_back_as_it_was(files: Path, tmp_path: Path) -> None:
    made = ingest(files, store=tmp_path / "store")
    stored = json.loads((tmp_path / "store" / TRACE / "ledger.json").read_text())
    table = stored["tables"]["worker_samples"]
    assert table["rows_read"] == table["rows_kept"] + table["rows_rejected"] == 24
    assert [file["rows_read"] for file in table["files"]] == [15, 9]
    again = open_store(tmp_path / "store").ledger(TRACE)
    mine = made.files.filter(pl.col("trace") == TRACE)
    assert again.files.equals(mine)
    assert again.missing["csv"].to_list() == [
        "job_3_norm.csv",
        "job_4_norm.csv",
        "coefficient_variation.csv",
    ]


def test_a_second_time_changes_nothing(files: Path, tmp_path: Path) -> None:
    ingest(files, store=tmp_path / "store")
    before = snapshot(tmp_path / "store")
    ledger = ingest(files, store=tmp_path / "store")
    assert set(ledger.tables["state"]) == {"unchanged"}
    assert snapshot(tmp_path / "store") == before


def test_the_same_files_make_the_same_bytes(files: Path, tmp_path: Path) -> None:
    ingest(files, store=tmp_path / "one")
    ingest(files, store=tmp_path / "two")
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")


def test_a_changed_source_or_schema_builds_its_table_anew(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(files, store=tmp_path / "store")
    (files / "alibaba" / "job_2_norm.csv").write_bytes(worker_times(worker_rows()[:12]))
    ledger = ingest(files, store=tmp_path / "store")
    assert dict(ledger.tables.select("table", "state").iter_rows()) == {
        "worker_samples": "written",
        "jobs": "unchanged",
    }
    assert ledger.entries[0].rows_kept == 15 + 12
    monkeypatch.setattr(plan, "schema_version", lambda table: f"next version of {table}")
    ledger = ingest(files, store=tmp_path / "store")
    assert set(ledger.tables["state"]) == {"written"}


def test_rejected_rows_go_when_their_table_is_built_from_a_mended_file(
    write: Write, tmp_path: Path
) -> None:
    folder = write("job_1_norm.csv", worker_times([*worker_rows(), "15,0,25"]))
    ingest(folder, store=tmp_path / "store")
    assert open_store(tmp_path / "store").scan_rejected(TRACE, "worker_samples").collect().height
    write("job_1_norm.csv", worker_times())
    ingest(folder, store=tmp_path / "store")
    rejected = open_store(tmp_path / "store").scan_rejected(TRACE, "worker_samples").collect()
    assert rejected.columns == ["file", "row", "line", "rule", "text"]
    assert rejected.height == 0
    assert not list((tmp_path / "store" / TRACE / "rejected").iterdir())


def test_tables_of_an_earlier_ingest_stay(write: Write, tmp_path: Path) -> None:
    ingest(write("a/pai_job_table.csv", "j1,i1,u1,Terminated,1.0,2.0\n"), store=tmp_path / "store")
    write("b/pai_machine_spec.csv", "m1,T4,96,512,2\n")
    ledger = ingest(tmp_path / "files" / "b", store=tmp_path / "store")
    assert open_store(tmp_path / "store").tables()["table"].to_list() == ["jobs", "machines"]
    assert len(ledger.missing) == 5


def test_rows_of_a_file_that_a_table_is_not_for_are_counted_apart(tmp_path: Path) -> None:
    columns = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration"
    rows = [f"job{i},{i},1000,bert,{900 + i},64,4,{700 + i}" for i in range(4)]
    members = {
        "cluster01.csv": "\n".join([columns, *rows]).encode(),
        "195job.csv": "\n".join([columns, *rows[:2]]).encode(),
    }
    folder = tar_gz(tmp_path / "files" / "elasticflow-traces.tar.gz", members).parent
    ledger = ingest(folder, store=tmp_path / "store")
    counts = ledger.tables.select("table", "rows_read", "rows_kept", "rows_not_applicable").rows()
    assert counts == [("jobs", 4, 4, 2), ("training_plans", 6, 6, 0)]
    plans = open_store(tmp_path / "store").scan("elasticflow-2023", "training_plans").collect()
    assert plans.group_by("cluster").len().sort("cluster").rows() == [
        ("195job", 2),
        ("cluster01", 4),
    ]


def test_itp_and_elasticflow_share_names_and_are_told_apart_by_columns(
    write: Write, tmp_path: Path
) -> None:
    write("itp/cluster01.csv", itp_csv(1))
    folder = write(
        "ef/cluster01.csv",
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
        "j,1,2,bert,3,4,5,6\n",
    )
    ledger = ingest(folder, store=tmp_path / "store")
    assert ledger.tables.select("trace", "rows_kept").unique().sort("trace").rows() == [
        ("elasticflow-2023", 1),
        ("microsoft-itp-2021", 3),
    ]


KILLED = """
import itertools, os, signal, sys
from traceana.ingesters import ingest, plan
from traceana.store import writer
publish, turns = writer._ParquetFile.publish, itertools.count()
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def publish_or_die(self):
    die() if str(next(turns)) == moment else publish(self)
for line in sys.stdin:
    folder, store, moment = line.rstrip().split(",")
    child = os.fork()  # before Polars has any thread: the imports are done once for all
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    writer._ParquetFile.publish = publish_or_die
    if moment == "3":
        plan.write_whole = die
    ingest(folder, store=store, progress=die if moment == "rows" else None)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def killer() -> Iterator[subprocess.Popen[str]]:
    """A process that starts ingests and kills them."""
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


@pytest.mark.parametrize("moment", ["rows", "0", "1", "2", "3"])
def test_a_kill_leaves_the_old_table_or_the_new_and_the_next_run_mends(
    write: Write, tmp_path: Path, killer: subprocess.Popen[str], moment: str
) -> None:
    """Killed while rows are written, before each of three renames, and before the ledger."""
    header = "," + ",".join(map(str, range(2000)))
    write("coefficient_variation.csv", f"{header}\njob_00,0.1,0.2{',' * 1998}\n")
    folder = write("job_1_norm.csv", worker_times())
    store = tmp_path / "store"
    ingest(folder, store=store)
    old = snapshot(store)
    write("coefficient_variation.csv", f"{header}\njob_00,0.1,0.2,0.3{',' * 1997}\n")
    write("job_1_norm.csv", worker_times([*worker_rows(), "15,0,25,51,100", "bad"]))
    assert killer.stdin
    assert killer.stdout
    killer.stdin.write(f"{folder},{store},{moment}\n")
    killer.stdin.flush()
    assert killer.stdout.readline() == "-9\n"
    heights = {
        table: pl.read_parquet(store / TRACE / f"{table}.parquet").height
        for table in ("worker_samples", "cov_samples")
    }
    assert heights["worker_samples"] == (15 if moment in ("rows", "0", "1") else 16)
    assert heights["cov_samples"] == (2 if moment != "3" else 3)
    if moment in ("rows", "0"):
        whole = {k: v for k, v in snapshot(store).items() if not k.endswith(".tmp")}
        assert whole == old
        open_store(store).ledger(TRACE)
    else:
        with pytest.raises(StoreError, match="ingest again"):
            open_store(store).ledger(TRACE)
    ledger = ingest(folder, store=store)
    assert ledger.tables["rows_kept"].to_list() == [16, 3]
    assert ledger.tables["rows_rejected"].to_list() == [1, 0]
    assert open_store(store).ledger(TRACE).tables.drop("state").equals(ledger.tables.drop("state"))
    assert not list(store.rglob("*.tmp"))


def test_a_store_that_somebody_is_writing_is_left_alone(files: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store" / TRACE
    folder.mkdir(parents=True)
    with (
        filelock.FileLock(folder / ".lock"),
        pytest.raises(
            IngestError, match="another process is ingesting alibaba-minibatch-2020"
        ) as error,
    ):
        ingest(files, store=tmp_path / "store")
    assert error.value.ledger.tables["trace"].to_list() == ["microsoft-itp-2021"]
    assert list(folder.iterdir()) == [folder / ".lock"]


def test_a_store_that_cannot_be_written_is_one_line(files: Path, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file, not a folder")
    with pytest.raises(StoreError, match="cannot be written"):
        ingest(files, store=tmp_path / "store")


def test_a_table_changed_by_hand_is_noticed_and_built_anew(files: Path, tmp_path: Path) -> None:
    ingest(files, store=tmp_path / "store")
    path = tmp_path / "store" / TRACE / "worker_samples.parquet"
    pl.read_parquet(path).head(3).write_parquet(path)
    with pytest.raises(StoreError, match="not the one in the ledger"):
        open_store(tmp_path / "store").ledger(TRACE)
    ledger = ingest(files, store=tmp_path / "store")
    assert ledger.entries[0].state == "written"


def test_a_store_inside_the_folder_is_not_read(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    ingest(".", store="data")
    ledger = ingest(".", store="data")
    assert ledger.not_recognized == ()
    assert len(ingest(".", store=".").entries) == 2
    assert len(ingest(".", store=".").entries) == 2


def test_a_trace_named_by_the_user(files: Path, tmp_path: Path) -> None:
    ledger = ingest(files, store=tmp_path / "store", trace="microsoft-itp-2021")
    assert ledger.tables["trace"].unique().to_list() == ["microsoft-itp-2021"]
    with pytest.raises(SourceError, match=r"expected .* pai_"):
        ingest(files, store=tmp_path / "store", trace="alibaba-pai-2020")


def test_a_wrong_file_is_a_failure_of_its_own_trace(write: Write, tmp_path: Path) -> None:
    write("cluster01.csv", itp_csv(1))
    folder = write("coefficient_variation.csv", "a,b\n1,2\n")
    with pytest.raises(IngestError, match="columns are not the published ones") as error:
        ingest(folder, store=tmp_path / "store")
    assert [entry.trace for entry in error.value.ledger.entries] == ["microsoft-itp-2021"]
    assert [trace for trace, _ in error.value.ledger.failures] == ["alibaba-minibatch-2020"]


@pytest.mark.parametrize("kind", [ZeroDivisionError, PanicException])
def test_a_fault_in_one_trace_comes_after_the_others_are_ingested(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    one = plan.ingest_plan

    def fail(made: plan.Plan, *given: Any) -> Any:
        if made.trace == "alibaba-minibatch-2020":
            raise kind("boom")
        return one(made, *given)

    monkeypatch.setattr(ingestion, "ingest_plan", fail)
    write("cluster01.csv", itp_csv(1))
    with pytest.raises(kind):
        ingest(write("job_1_norm.csv", worker_times()), store=tmp_path / "store")
    assert open_store(tmp_path / "store").traces() == ["microsoft-itp-2021"]


def test_a_file_that_is_not_recognized_has_the_command_that_maps_it(tmp_path: Path) -> None:
    for name in ("own", "other"):
        (tmp_path / f"{name}.csv").write_text("a,b\n1,2\n")
    own = tmp_path / "own.csv"
    with pytest.raises(SourceError, match=rf"`traceana map {re.escape(str(own))} --out"):
        ingest(own, store=tmp_path / "store")
    for several in (tmp_path, [own, tmp_path / "other.csv"]):
        with pytest.raises(SourceError, match="`traceana map FILE --out"):
            ingest(several, store=tmp_path / "store")


def test_asking_a_store_for_what_it_lacks(files: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store here"):
        open_store(tmp_path / "store")
    ingest(files, store=tmp_path / "store")
    store = open_store(tmp_path / "store")
    assert store.has(TRACE, "worker_samples")
    assert not store.has(TRACE, "jobs")
    with pytest.raises(StoreError, match=r"no table 'jobs' .*its tables: worker_samples"):
        store.scan(TRACE, "jobs")
    with pytest.raises(StoreError, match="not in the store"):
        store.ledger("zeus-2023")
    assert set(store.tables()["table"]) <= set(TABLES)


STARTS = """
import os, sys
from traceana.ingesters import files
from traceana.ingesters import ingest
from traceana.store import writer
files._BLOCK, writer._ROWS_A_GROUP = 1 << 14, 500  # so that many blocks and groups are under way
for folder in sys.stdin:
    child = os.fork()  # before Polars has any thread: the imports are done once for all
    if not child:
        ingest(folder.strip(), store=sys.argv[1])
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


def test_killed_at_any_moment_no_table_is_half_and_no_row_is_lost_or_doubled(
    tmp_path: Path,
) -> None:
    """Ten kills at random moments of a run, in turn over two versions of the same files."""
    rng = random.Random(7)
    row = "j{i},worker,n{i},w{i},i{i},Running,{i}.0,,m1"
    versions = []
    for rows in (4000, 6000):
        text = "\n".join([row.format(i=i) for i in range(rows)] + ["short", ""])
        path = tmp_path / "files" / str(rows) / "pai_instance_table.tar.gz"
        tar_gz(path, {"pai_instance_table.csv": text.encode()})
        versions.append((rows, tmp_path / "files" / str(rows)))
    store = tmp_path / "store"
    for _, folder in versions[::-1]:  # the first run is for imports, the second tells how long
        begun = time.perf_counter()
        ingest(folder, store=store)
    lasts = time.perf_counter() - begun
    rows_before = versions[0][0]
    path = store / "alibaba-pai-2020" / "instances.parquet"
    command = [sys.executable, "-c", STARTS, str(store)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdin
        assert starter.stdout
        for turn in range(10):
            wanted, folder = versions[(turn + 1) % 2]
            starter.stdin.write(f"{folder}\n")
            starter.stdin.flush()
            child = int(starter.stdout.readline())
            time.sleep(rng.uniform(0, 1.5 * lasts))
            with suppress(ProcessLookupError):  # it was faster
                os.kill(child, signal.SIGKILL)
            assert starter.stdout.readline() == "ended\n"
            kept = pl.read_parquet(path)
            assert kept.height in (rows_before, wanted)
            assert kept["instance_id"].n_unique() == kept.height
            (entry,) = ingest(folder, store=store).entries
            assert (entry.rows_read, entry.rows_kept) == (wanted + 1, wanted)
            kept = pl.read_parquet(path)
            assert kept["instance_id"].to_list() == [f"n{i}" for i in range(wanted)]
            mended = open_store(store)
            assert mended.ledger("alibaba-pai-2020").entries[0].rows_rejected == 1
            assert mended.scan_rejected("alibaba-pai-2020", "instances").collect().height == 1
            assert not list(store.rglob("*.tmp"))
            rows_before = wanted
