"""Whatever is wrong with a file, every row is accounted for or one line says what is wrong."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.ingesters.conftest import itp_archive, itp_csv, tar_gz, worker_rows, worker_times
from traceana.errors import SourceError
from traceana.ingesters import IngestError, discover, ingest
from traceana.store import Ledger, open_store

Write = Callable[[str, bytes | str], Path]
JOB = "job_1_norm.csv"
TRACE = "alibaba-minibatch-2020"


def rejected(store: Path, table: str = "worker_samples", trace: str = TRACE) -> pl.DataFrame:
    return open_store(store).scan_rejected(trace, table).collect()


def one_line(error: pytest.ExceptionInfo[SourceError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def ingest_rows(write: Write, tmp_path: Path, rows: list[str | bytes]) -> Ledger:
    lines = [row if isinstance(row, bytes) else row.encode() for row in rows]
    content = b"\n".join([b",worker,gpu,time,batch_time_norm", *lines]) + b"\n"
    return ingest(write(JOB, content), store=tmp_path / "store")


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        ("15,0,25,51", "short_row"),
        ("15,0,25,51,", "batch_time|nullability"),
        ("15,0,25,51,100,7", "long_row"),
        ("15,0,25,51,100,", "long_row"),
        ('15,0,25,51,"100', "unbalanced_quote"),
        ('15,"0,25,51,100', "unbalanced_quote"),
        ("", "blank_line"),
        ("15,0,25,51,fast", "batch_time_norm|not_a_number"),
        ("15,0,25,51, 100", "batch_time_norm|not_a_number"),
        ("15,0,25,51,1_00", "batch_time_norm|not_a_number"),
        ("15,0,25,51,nan", "batch_time_norm|not_a_number"),
        ("15,0,25,51,inf", "batch_time_norm|not_a_number"),
        ("15,0,25,51,-1", "batch_time|min"),
        ("15,0,25,51,1001", "batch_time|max"),
        ("15,0,25,-9,100", "time_s|min"),
        ("15,0,-25,51,100", "gpus|min"),
        ("15,,25,51,100", "worker_id|nullability"),
        ("15,0,25,41,999", "duplicate_key"),
        (b"15,\xff,25,51,100", "worker|not_utf8"),
        (b"15,0,25,51,1\xe20", "batch_time_norm|not_a_number"),
        (b"15,0,25,51\x00,100", "time|not_a_number"),
        (b"\x00\x00\x00\x00", "short_row"),
    ],
)
def test_a_bad_row_is_set_apart_with_its_place(
    write: Write, tmp_path: Path, bad: str | bytes, rule: str
) -> None:
    rows: list[str | bytes] = [*worker_rows()[:7], bad, *worker_rows()[7:]]
    if rule == "duplicate_key":  # the first of equal keys is kept, so the bad one comes later
        rows = [*worker_rows(), bad]
    ledger = ingest_rows(write, tmp_path, rows)

    (entry,) = ledger.entries
    assert (entry.rows_read, entry.rows_kept, entry.rejected) == (16, 15, {rule: 1})
    (row,) = rejected(tmp_path / "store").to_dicts()
    place = len(rows) if rule == "duplicate_key" else 8
    text = bad if isinstance(bad, str) else bad.decode(errors="backslashreplace")
    assert row == {"file": JOB, "row": place, "line": place + 1, "rule": rule, "text": text}
    kept = open_store(tmp_path / "store").scan(TRACE, "worker_samples").collect()
    assert kept["batch_time"].sum() == sum(float(line.split(",")[4]) for line in worker_rows())


def test_one_short_and_one_long_row_do_not_hide_each_other(write: Write, tmp_path: Path) -> None:
    rows: list[str | bytes] = [*worker_rows(), "15,0,25,51", "16,0,25,61,100,7"]
    ledger = ingest_rows(write, tmp_path, rows)
    assert ledger.entries[0].rejected == {"long_row": 1, "short_row": 1}


def test_quoted_cells_and_windows_line_ends_are_read(write: Write, tmp_path: Path) -> None:
    rows = [f'"{a}","{b}",{c}' for a, b, c in (row.split(",", 2) for row in worker_rows())]
    content = "\r\n".join(["\ufeff,worker,gpu,time,batch_time_norm", *rows]) + "\r\n"
    ledger = ingest(write(JOB, content), store=tmp_path / "store")
    assert (ledger.entries[0].rows_kept, ledger.entries[0].rows_rejected) == (15, 0)


def test_columns_in_another_order_and_a_further_one(write: Write, tmp_path: Path) -> None:
    rows = [",".join([*row.split(",")[::-1], "note"]) for row in worker_rows()]
    content = "\n".join(["batch_time_norm,time,gpu,worker,,remark", *rows])
    ledger = ingest(write(JOB, content), store=tmp_path / "store")
    (entry,) = ledger.entries
    assert (entry.rows_kept, entry.files[0].unused_columns) == (15, ("remark",))


@pytest.mark.parametrize("cov", ["3.17", "-0.1", "high", "nan", "1e999"])
def test_a_bad_cell_of_the_wide_table_rejects_one_sample(
    write: Write, tmp_path: Path, cov: str
) -> None:
    header = "," + ",".join(map(str, range(2000)))
    padding = "," * 1997
    content = f"{header}\njob_00,0.1,{cov},0.3{padding}\njob_01,0.5,0.6,0.7{padding}\n"
    ledger = ingest(write("coefficient_variation.csv", content), store=tmp_path / "store")
    (entry,) = ledger.entries
    assert (entry.rows_read, entry.rows_kept, entry.rows_rejected) == (6, 5, 1)
    kept = open_store(tmp_path / "store").scan(TRACE, "cov_samples").collect()
    assert kept.filter(job_id="job_00")["sample"].to_list() == [0, 2]
    assert kept.filter(job_id="job_00")["time_s"].to_list() == [0.0, 20.0]
    (row,) = rejected(tmp_path / "store", "cov_samples").to_dicts()
    assert (row["row"], row["line"]) == (1, 2)
    assert cov in row["text"]


def test_a_gap_in_the_wide_table_is_a_lost_sample_and_padding_is_none(
    write: Write, tmp_path: Path
) -> None:
    header = "," + ",".join(map(str, range(2000)))
    content = f"{header}\njob_00,0.1,,0.3{',' * 1997}\njob_01,0.5,0.6\n"
    ledger = ingest(write("coefficient_variation.csv", content), store=tmp_path / "store")
    (entry,) = ledger.entries
    assert entry.rejected == {"short_row": 2, "cov|nullability": 1}
    assert (entry.rows_read, entry.rows_kept) == (5, 2)


def test_headerless_files_and_their_header_beside_them(write: Write, tmp_path: Path) -> None:
    write("pai_machine_spec.csv", "m1,T4,96,512,2\nm2,CPU,64,256,0\n")
    turned = "cap_gpu,machine,gpu_type,cap_cpu,cap_mem\n"
    folder = write("turned/pai_machine_spec.header", turned)
    ingest(folder / "pai_machine_spec.csv", store=tmp_path / "plain")
    write("turned/pai_machine_spec.csv", "2,m1,T4,96,512\n0,m2,CPU,64,256\n")
    ingest(folder / "turned", store=tmp_path / "turned")
    write(
        "headed/pai_machine_spec.csv",
        "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\nm1,T4,96,512,2\nm2,CPU,64,256,0\n",
    )
    ingest(folder / "headed", store=tmp_path / "headed")
    for store in ("plain", "turned", "headed"):
        machines = open_store(tmp_path / store).scan("alibaba-pai-2020", "machines").collect()
        assert machines.rows() == [
            ("m1", "T4", 2.0, 96.0, 512.0),
            ("m2", None, 0.0, 64.0, 256.0),
        ]


def test_unknown_words_are_counted_and_zero_times_are_missing(write: Write, tmp_path: Path) -> None:
    rows = ["j1,i1,u1,Terminated,10.0,20.0", "j2,i2,u1,Wibble,0,", "j3,i3,u1,Interrupted,5,0.0"]
    ledger = ingest(write("pai_job_table.csv", "\n".join(rows)), store=tmp_path / "store")
    assert ledger.entries[0].unknown_words == {"status": {"Wibble": 1}}
    jobs = open_store(tmp_path / "store").scan("alibaba-pai-2020", "jobs").collect()
    assert jobs["status"].to_list() == ["completed", "unknown", "cancelled"]
    assert jobs["submit_s"].to_list() == [10.0, None, 5.0]
    assert jobs["end_s"].to_list() == [20.0, None, None]


def test_tables_without_a_key_keep_repeated_rows(write: Write, tmp_path: Path) -> None:
    row = "j1,worker,n1,w1,i1,Running,5.0,,m1"
    ledger = ingest(
        write("pai_instance_table.csv", f"{row}\n{row}\n{row}\nj2{row[2:]}\n"),
        store=tmp_path / "store",
    )
    assert ledger.entries[0].rows_kept == 4


def test_a_row_that_breaks_a_rule_does_not_hide_a_good_one_with_its_key(
    write: Write, tmp_path: Path
) -> None:
    rows = ["m1,T4,96,512,-2", "m1,T4,96,512,2", "m1,T4,96,512,4"]
    ledger = ingest(write("pai_machine_spec.csv", "\n".join(rows)), store=tmp_path / "store")
    assert ledger.entries[0].rejected == {"duplicate_key": 1, "gpus|min": 1}
    machines = open_store(tmp_path / "store").scan("alibaba-pai-2020", "machines").collect()
    assert machines["gpus"].to_list() == [2.0]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (JOB, b"", "empty"),
        (JOB, b"\n\n", "empty"),
        (f"{JOB}.gz", gzip.compress(worker_times(), mtime=0)[:-20], "cut short or damaged"),
        (
            f"{JOB}.gz",
            gzip.compress(worker_times(), mtime=0)[:-8] + b"\0" * 8,
            "cut short or damaged",
        ),
        (f"{JOB}.gz", worker_times(), "expected compressed data"),
        (f"{JOB}.xz", lzma.compress(worker_times())[:-20], "cut short or damaged"),
        (JOB, b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "pointer"),
        (JOB, b"\x89PNG\r\n\x1a\n", "columns are not the published ones"),
        (JOB, worker_times().replace(b"worker", b"worker,worker", 1), "has a name twice"),
        (JOB, b"<!DOCTYPE html>\n<html></html>\n", "columns are not the published ones"),
        (JOB, worker_times().replace(b"worker", b"who", 1), "columns are not the published ones"),
        (JOB, worker_times().decode().encode("utf-16"), "save it as UTF-8"),
        ("pai_machine_spec.tar.gz", b"\x1f\x8b", "cut short or damaged"),
        (
            "pai_machine_spec.tar.gz",
            gzip.compress(b"m1,T4,96,512,2\n", mtime=0),
            "cut short or damaged",
        ),
        (f"{JOB}.partab", worker_times(), "part .partaa is missing"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_and_the_others_are_ingested(
    write: Write, tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    folder = write(name, content)
    itp_archive(folder)
    with pytest.raises(IngestError) as error:
        ingest(folder, store=tmp_path / "store")
    assert says in one_line(error)
    assert name.split(".", maxsplit=1)[0] in one_line(error)
    assert open_store(tmp_path / "store").tables()["rows"].to_list() == [30]
    assert not list((tmp_path / "store").rglob("*.tmp"))


@pytest.mark.parametrize(
    "name", ["../cluster01.csv", "/etc/cluster01.csv", "a/../../cluster01.csv"]
)
def test_an_archive_member_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    folder = tar_gz(tmp_path / "files" / "raw-traces.tar.gz", {name: itp_csv(1)}).parent
    with pytest.raises(IngestError, match="leads out of the archive") as error:
        ingest(folder, store=tmp_path / "store")
    one_line(error)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("name", "kind", "target", "message"),
    [
        ("cluster01.csv", tarfile.SYMTYPE, "/etc/passwd", "a link or a device"),
        ("cluster01.csv", tarfile.LNKTYPE, "cluster02.csv", "a link or a device"),
        ("cluster01.csv", tarfile.CHRTYPE, "", "a link or a device"),
        ("cluster01.csv", tarfile.FIFOTYPE, "", "a link or a device"),
        ("more.tar.gz", tarfile.REGTYPE, "", "an archive in it: unpack it first"),
    ],
)
def test_links_devices_and_archives_in_an_archive_are_not_read(
    tmp_path: Path, name: str, kind: bytes, target: str, message: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    with tarfile.open(folder / "raw-traces.tar", "w") as archive:
        archive.addfile(info)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SourceError, match=re.escape(f"found raw-traces.tar:{name} ({message});")):
        ingest(folder, store=tmp_path / "store")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["../a.csv"], "leads out of the archive"),
        (["/a.csv"], "leads out of the archive"),
        (["a.csv", "a.csv"], "is in it twice"),
        ([], "cut short or damaged"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_hostile_zip_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    with zipfile.ZipFile(tmp_path / "log.zip", "w") as archive:
        for name in names:
            archive.writestr(name, "job_id\n1\n")
    if not names:
        (tmp_path / "log.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(IngestError, match=message):
        ingest(tmp_path / "log.zip", store=tmp_path / "store")


def test_an_archive_with_a_member_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "files" / "raw-traces.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        for cluster in (1, 2):
            info = tarfile.TarInfo("cluster01.csv")
            info.size = len(itp_csv(cluster))
            archive.addfile(info, io.BytesIO(itp_csv(cluster)))
    with pytest.raises(IngestError, match="is in it twice") as error:
        ingest(path, store=tmp_path / "store")
    one_line(error)


def test_an_archive_cut_between_members_says_what_is_missing(tmp_path: Path) -> None:
    members = {f"./data/cluster{i:02d}.csv": itp_csv(i) for i in range(1, 8)}
    folder = tar_gz(tmp_path / "files" / "raw-traces.tar.gz", members).parent
    ledger = ingest(folder, store=tmp_path / "store")
    assert ledger.missing["csv"].to_list() == ["cluster08.csv", "cluster09.csv", "cluster10.csv"]
    assert ledger.entries[0].rows_kept == 21


def test_nothing_recognized_names_what_was_expected(write: Write, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"found notes\.txt; expected .*job_1_norm\.csv") as error:
        ingest(write("notes.txt", "hello"), store=tmp_path / "store")
    one_line(error)
    with pytest.raises(SourceError, match="no such file or folder"):
        ingest(tmp_path / "nowhere", store=tmp_path / "store")


def test_a_published_csv_under_another_name_is_told_its_name(write: Write, tmp_path: Path) -> None:
    write("mine.csv", worker_times())
    with pytest.raises(SourceError, match=r"mine\.csv \(its columns are those of job_1_norm\.csv"):
        ingest(tmp_path / "files", store=tmp_path / "store")


def test_an_archive_that_breaks_off_is_told_once(tmp_path: Path) -> None:
    path = itp_archive(tmp_path / "files")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(IngestError, match="cut short or damaged") as error:
        ingest(path, store=tmp_path / "store")
    assert [trace for trace, _ in error.value.ledger.failures] == ["microsoft-itp-2021"]


def test_split_files_are_read_as_one(write: Write, tmp_path: Path) -> None:
    whole = tar_gz(tmp_path / "whole.tar.gz", {"pai_machine_spec.csv": b"m1,T4,96,512,2\n"})
    data = whole.read_bytes()
    write("pai_machine_spec.tar.gz.partaa", data[:50])
    write("pai_machine_spec.tar.gz.partac", data[90:])
    with pytest.raises(IngestError, match=r"part \.partab is missing"):
        ingest(tmp_path / "files", store=tmp_path / "store")
    folder = write("pai_machine_spec.tar.gz.partab", data[50:90])
    ledger = ingest(folder, store=tmp_path / "store")
    assert ledger.entries[0].rows_kept == 1


def test_the_same_csv_twice_is_read_once_or_refused(write: Write, tmp_path: Path) -> None:
    folder = write("a/" + JOB, worker_times())
    write(f"b/{JOB}.gz", gzip.compress(worker_times(), mtime=0))
    ledger = ingest(folder, store=tmp_path / "store")
    assert ledger.entries[0].rows_kept == 15
    assert len(ledger.left_out) == 1
    write("b/" + JOB, worker_times(worker_rows()[:6]))
    with pytest.raises(IngestError, match="is here 2 times") as error:
        ingest(folder, store=tmp_path / "store2")
    one_line(error)
    assert error.value.ledger.left_out == ()


def test_a_csv_in_a_hundred_folders_is_not_compared(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(discover, "content_sha256")
    for place in range(101):
        folder = write(f"{place}/{JOB}", worker_times())
    with pytest.raises(
        IngestError, match=r"is here 101 times: .*, \.\.\.; name one of them"
    ) as error:
        ingest(folder, store=tmp_path / "store")
    assert len(one_line(error)) < 1000


def test_real_and_synthetic_rows_are_not_mixed(write: Write, tmp_path: Path) -> None:
    folder = write("real/" + JOB, worker_times())
    write("made/SYNTHETIC-" + JOB, worker_times())
    assert ingest(folder / "made", store=tmp_path / "made").synthetic
    ingest(folder / "real", store=tmp_path / "store")
    with pytest.raises(IngestError, match="mix synthetic and real"):
        ingest(folder / "made", store=tmp_path / "store")
    assert not open_store(tmp_path / "store").ledger(TRACE).synthetic
