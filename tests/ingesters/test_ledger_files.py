"""The ledger's entries of files: what each is, and which ones a table has no more."""

from __future__ import annotations

import hashlib
import re
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tests.ingesters.conftest import Write, tar_gz, worker_rows, worker_times
from traceana.errors import DataError, SourceError
from traceana.ingesters import IngestError, ingest
from traceana.ingesters.files import list_csvs
from traceana.ingesters.ingestion import ingest_cached, read_mapping, store_frames
from traceana.store import Ledger, open_store

MARK = "SYNTHETIC-"
SPEC = b"m1,T4,96,512,2\n"
MAPPING = '[jobs]\njob_id = "id"\nstatus = "s"\n'


@pytest.mark.parametrize(
    ("name", "file", "member", "as_published"),
    [
        ("pai_machine_spec.csv", "pai_machine_spec.csv", None, None),
        ("pai_machine_spec.tar.gz", "pai_machine_spec.tar.gz", "x/pai_machine_spec.csv", False),
        ("other.tar.gz", "other.tar.gz", "x/pai_machine_spec.csv", None),
    ],
)
def test_a_file_has_its_digest_size_and_place(
    tmp_path: Path, name: str, file: str, member: str | None, *, as_published: bool | None
) -> None:
    if member:
        tar_gz(tmp_path / name, {member: SPEC})
    else:
        (tmp_path / name).write_bytes(SPEC)
    data = (tmp_path / name).read_bytes()
    (entry,) = ingest(tmp_path / name, store=tmp_path / "store").entries[0].files
    assert (entry.file, entry.member) == (file, member)
    assert (entry.bytes, entry.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert entry.as_published is as_published
    assert (entry.rows_read, entry.rows_kept, entry.rows_not_applicable) == (1, 1, 0)
    assert not entry.synthetic


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip", ""])
@pytest.mark.parametrize(("archive", "member"), [("", ""), (MARK, ""), ("", MARK), (MARK, MARK)])
def test_a_mark_of_an_archive_or_of_its_member_counts(
    tmp_path: Path, suffix: str, archive: str, member: str
) -> None:
    name = "pai_machine_spec.csv"
    path = tmp_path / f"{archive}a{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr(f"x/{member}{name}", SPEC)
    elif suffix:
        tar_gz(path, {f"x/{member}{name}": SPEC})
    else:
        path = tmp_path / f"{archive or member}{name}"
        path.write_bytes(SPEC)
    (file,) = list_csvs(path).csvs
    assert (file.name, file.synthetic) == (name, bool(archive or member))


def test_files_that_a_table_has_no_more_are_named(write: Write, tmp_path: Path) -> None:
    write("job_1_norm.csv", worker_times())
    folder = write("job_2_norm.csv", worker_times(worker_rows()[:9]))
    assert ingest(folder, store=tmp_path / "store").entries[0].replaced_files == ()
    (entry,) = ingest(folder / "job_1_norm.csv", store=tmp_path / "store").entries
    assert entry.replaced_files == ("job_2_norm.csv",)
    assert [file.file for file in entry.files] == ["job_1_norm.csv"]


def test_an_update_replaces_no_file_and_a_replacement_does(write: Write, tmp_path: Path) -> None:
    def run(name: str, text: str, *, replace: bool = False) -> Ledger:
        path = write(name, f"id,s\n{text}\n") / name
        return ingest(path, mapping=MAPPING, trace="m", store=tmp_path / "store", replace=replace)

    assert run("a.csv", "1,running").entries[0].state == "written"
    (entry,) = run("b.csv", "1,completed\n2,failed").entries
    assert (entry.state, entry.rows_replaced, entry.replaced_files) == ("updated", 1, ())
    assert [file.file for file in entry.files] == ["a.csv", "b.csv"]
    (entry,) = run("b.csv", "1,completed\n2,failed").entries
    assert entry.state == "unchanged"
    (entry,) = run("c.csv", "2,failed\n2,running", replace=True).entries
    assert (entry.state, entry.replaced_files) == ("written", ("a.csv", "b.csv"))
    assert entry.rejected == {"duplicate_key": 1}
    assert entry.rows_replaced == 0


def test_of_equal_keys_in_two_published_files_the_first_is_kept(tmp_path: Path) -> None:
    head = "job_id,submission_time,duration,num_gpu\n"
    members = {f"cluster0{n}.csv": f"{head}same,{n},60{n},1\n".encode() for n in (1, 2)}
    path = tar_gz(tmp_path / "raw-traces.tar.gz", members)
    (entry,) = ingest(path, store=tmp_path / "store").entries
    assert (entry.rejected, entry.rows_replaced) == ({"duplicate_key": 1}, 0)
    jobs = open_store(tmp_path / "store").scan("microsoft-itp-2021", "jobs").collect()
    assert jobs["runtime_s"].to_list() == [601]


def test_a_trace_with_a_broken_file_stays_as_it_was(write: Write, tmp_path: Path) -> None:
    write("job_1_norm.csv", worker_times())
    folder = write("job_2_norm.csv", b"")
    with pytest.raises(IngestError, match=r"job_2_norm\.csv: the file is empty") as error:
        ingest(folder, store=tmp_path / "store")
    assert error.value.ledger.entries == ()
    assert not list(tmp_path.rglob("*.parquet"))


def test_files_are_read_into_a_store_by_their_names_and_options(tmp_path: Path) -> None:
    (tmp_path / "march.csv").write_text("id,s\n1,failed\n")
    (tmp_path / "ours.toml").write_text(MAPPING)
    first = ingest_cached(tmp_path / "march.csv", mapping=MAPPING)
    assert open_store(first).traces() == ["march"]
    assert ingest_cached([tmp_path / "march.csv"], mapping=MAPPING) == first
    second = ingest_cached(tmp_path / "march.csv", mapping=tmp_path / "ours.toml")
    assert open_store(second).traces() == ["ours"]
    third = ingest_cached(tmp_path / "march.csv", mapping=MAPPING, timezone="Asia/Tokyo")
    assert len({first, second, third}) == 3


def test_threads_that_read_the_same_file_wait_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "march.csv").write_text("id,s\n" + "".join(f"{i},failed\n" for i in range(500)))
    jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [1.0, 9.0]})
    with ThreadPoolExecutor(8) as pool:
        read = pool.map(partial(ingest_cached, mapping=MAPPING), [tmp_path / "march.csv"] * 8)
        assert len({*read}) == 1
        assert len({*pool.map(store_frames, [{"jobs": jobs}] * 8)}) == 1


def test_a_temporary_store_does_not_depend_on_the_folder_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "march.csv").write_text("id,s\n1,failed\n")
    first = ingest_cached(tmp_path / "march.csv", mapping=MAPPING)
    monkeypatch.chdir(tmp_path)
    assert ingest_cached("march.csv", mapping=MAPPING) == first


def test_equal_frames_are_in_one_temporary_store() -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [1.0, 8.0]})
    machines = pl.DataFrame({"machine_id": ["m"], "gpus": [8.0]})
    first = store_frames({"jobs": jobs, "machines": machines})
    assert store_frames({"jobs": jobs.clone(), "machines": machines}) == first
    assert store_frames({"jobs": jobs.with_columns(gpus=2.0), "machines": machines}) != first
    tables = open_store(first).tables().select("trace", "table", "rows").rows()
    assert sorted(tables) == [("frames", "jobs", 2), ("frames", "machines", 1)]


@pytest.mark.parametrize(("size", "fits"), [((1 << 20) - 1, True), (1 << 20, False)])
def test_a_mapping_is_shorter_than_a_mebibyte(tmp_path: Path, size: int, *, fits: bool) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(MAPPING + "#" * (size - len(MAPPING)))
    if fits:
        assert [read_mapping(path, trace)[1] for trace in (None, "mine")] == ["ours", "mine"]
    else:
        with pytest.raises(DataError, match="longer than 1 MiB"):
            read_mapping(path, None)


@pytest.mark.parametrize("n_files", [12, 13])
def test_twelve_names_of_unknown_files_are_shown(
    write: Write, tmp_path: Path, n_files: int
) -> None:
    names = [f"x{number:02}.csv" for number in range(n_files)]
    folders = [write(name, "a,b\n1,2\n") for name in names]
    shown = ", ".join(names[:12]) + (", ... (13 in all)" if n_files == 13 else "")
    with pytest.raises(SourceError, match=re.escape(f"found {shown}; expected")):
        ingest(folders[0], store=tmp_path / "store")
