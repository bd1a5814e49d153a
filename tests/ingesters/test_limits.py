"""Work and memory do not grow past their limits, whatever a file holds."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.rejected import FIRST_ROWS, FORMATS, ingest_faults
from tests.ingesters.conftest import itp_archive, tar_gz, worker_rows
from traceana.catalog import get_trace
from traceana.errors import DataError, SourceError
from traceana.ingesters import IngestError, build, files, ingest, propose, propose_mapping
from traceana.ingesters.build import KeyFilter
from traceana.ingesters.compiled import Source, compile_mapping
from traceana.ingesters.files import list_csvs, read_tar
from traceana.ingesters.mapping import parse_mapping
from traceana.ingesters.plan import Plan, ingest_plan
from traceana.ingesters.readers import csv as lines
from traceana.ingesters.readers.csv import Block, frame_block
from traceana.ingesters.readers.json import flatten
from traceana.ingesters.readers.parquet import read_frames
from traceana.ingesters.readers.reader import Rows
from traceana.ingesters.readers.sacct import expand_hosts
from traceana.store import open_store

Write = Callable[[str, bytes | str], Path]
JOB = "job_1_norm.csv"
HEAD = b",worker,gpu,time,batch_time_norm\n"
GOOD = "\n".join(worker_rows()).encode() + b"\n"
MAPPING = """[trace]
[jobs]
job_id = "id"
gpus = "CAST(g AS INT)"
runtime_s = "CASE WHEN r = '' THEN 0 ELSE 1 END"
status = "s"
"""


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the frames that are made."""
    made = [0]
    original = pl.DataFrame.__init__

    def count(self: pl.DataFrame, *args: object, **options: object) -> None:
        made[0] += 1
        original(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(pl.DataFrame, "__init__", count)
    return made


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b"%d,0,25,51,100,", "long_row"),
        (b"%d,0", "short_row"),
        (b"", "blank_line"),
        (b'%d,0,25,51,"100', "unbalanced_quote"),
        (b"%d,0,25,51,x", "batch_time_norm|not_a_number"),
        (b"%d,\xff,25,51,100", "worker|not_utf8"),
        (b"%d,0,25,51,-1", "batch_time|min"),
        (b"15,0,25,1,100", "duplicate_key"),
    ],
)
def test_frames_do_not_grow_with_rejected_rows(
    write: Write, tmp_path: Path, frames: list[int], line: bytes, rule: str
) -> None:
    made = {}
    for rows in (1, 100, 20_000):  # the first looks up what is kept
        bad = b"\n".join(line % i if b"%d" in line else line for i in range(rows)) + b"\n"
        frames[0] = 0
        folder = write(JOB, HEAD + GOOD + bad)
        (entry,) = ingest(folder / JOB, store=tmp_path / f"store{rows}").entries
        made[rows] = frames[0]
        assert entry.rejected[rule] >= rows - 1
        assert entry.rows_read == rows + 15
    assert made[20_000] == made[100]


@pytest.mark.parametrize(
    ("name", "line", "rule"),
    [
        ("x.csv", "a%d,-1,1,completed", "gpus|min"),
        ("x.jsonl", "", "blank_line"),
        ("x.jsonl", "{%d", "not_json"),
    ],
)
def test_frames_do_not_grow_with_rows_that_a_mapping_rejects(
    write: Write, tmp_path: Path, frames: list[int], *, name: str, line: str, rule: str
) -> None:
    made = {}
    first = "id,g,r,s\na,1,1,completed\n"
    if name.endswith("jsonl"):
        first = json.dumps({"id": "a", "g": "1", "r": "1", "s": "completed"}) + "\n"
    for rows in (1, 100, 20_000):  # the first looks up what is kept
        bad = "\n".join(line % i if "%d" in line else line for i in range(rows))
        frames[0] = 0
        folder = write(name, first + bad + "\n")
        ledger = ingest(folder / name, mapping=MAPPING, trace="m", store=tmp_path / f"{rows}")
        made[rows] = frames[0]
        assert ledger.entries[0].rejected == {rule: rows}
    assert made[20_000] == made[100]


@pytest.mark.parametrize(("name", "fault"), [(n, f) for n in FORMATS for f in FORMATS[n][2]])
def test_each_faulty_row_of_every_format_is_counted(
    write: Write, tmp_path: Path, name: str, fault: str
) -> None:
    (entry,) = ingest_faults(write("x", "") / name, fault, 300, tmp_path / "store").entries
    assert entry.rows_read == FIRST_ROWS[name] + 300
    assert entry.rows_kept == entry.rows_read - sum(entry.rejected.values())
    assert sum(entry.rejected.values()) + sum(entry.nulled.values()) == 300


@pytest.mark.parametrize("bad", [0, 1, 5, 6, 12])
def test_an_expression_that_fails_rejects_the_row_and_for_many_rows_is_an_error(
    bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_MOST_FAILED", 12 if bad == 12 else 5)
    mapping = parse_mapping('[jobs]\njob_id = "x"\nuser = "x"\n', where="m")
    compiled = compile_mapping(Source(None, Rows(("x",), lambda _: iter(()))), mapping, "jobs")
    failing = pl.col("x\0text").cast(pl.Int64).cast(pl.String)
    compiled = replace(compiled, stated={**compiled.stated, "user": failing})
    lines = b"".join(b"a\n" if row < bad else b"%d\n" % row for row in range(12))
    block = frame_block(Block(lines, ("x",), 1, 0), compiled.kinds)
    if bad == 6:
        with pytest.raises(DataError, match=r"fails for more than 5 rows \(conversion from"):
            build.convert(block, compiled)
        return
    converted = build.convert(block, compiled)
    assert converted.kept["job_id"].to_list() == [str(row) for row in range(bad, 12)]
    assert converted.rejected.rows() == [(n, "user|not_computable", "a") for n in range(1, bad + 1)]


def test_an_expression_that_fails_without_rows_is_no_fault_of_a_row() -> None:
    mapping = parse_mapping('[jobs]\njob_id = "x"\nuser = "x"\n', where="m")
    compiled = compile_mapping(Source(None, Rows(("x",), lambda _: iter(()))), mapping, "jobs")
    compiled = replace(compiled, stated={**compiled.stated, "user": pl.col("nowhere")})
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        build.convert(frame_block(Block(b"a\nb\n", ("x",), 1, 0), compiled.kinds), compiled)


@pytest.mark.parametrize(
    "line", [b"," * (1 << 18), b'","' * (1 << 18), b"x" * (1 << 18), b"\xff," * (1 << 17)]
)
def test_memory_of_a_long_line_is_a_few_times_its_length(line: bytes) -> None:
    block = Block(line + b"\n1,2,3\n", ("a", "b", "c"), 1, 0)
    tracemalloc.start()
    assert block.at_once() is None
    assert block.read()[1]["rule"].to_list() == ["short_row" if b"x" in line else "long_row"]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert block.read()[0].rows() == [("1", "2", "3", 2)]
    assert peak < 20 * len(line)


def test_lines_that_cannot_all_be_rows_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceana.ingesters.readers.csv.arrow", None)
    assert Block(b"1\r2\n" * 1000, ("a", "b", "c"), 1, 0).at_once() is None


def test_a_block_with_a_fault_is_read_in_parts() -> None:
    rows = b"".join(b"%d,2,3\n" % i for i in range(400_000))
    parts = list(Block(rows + b"1\n", ("a", "b", "c"), 5, 1).parts())
    assert [part.lines for part in parts] == [349_525, 50_476]
    assert parts[1].first_line == 5 + 349_525
    assert b"".join(part.data for part in parts) == rows + b"1\n"


def test_the_text_of_a_rejected_row_is_cut(write: Write, tmp_path: Path) -> None:
    ingest(write(JOB, HEAD + GOOD + b"," * 1_000_000), store=tmp_path / "store")
    rejected = open_store(tmp_path / "store").scan_rejected(
        "alibaba-minibatch-2020", "worker_samples"
    )
    assert rejected.collect()["text"].to_list() == ["," * 65_536]


def test_a_long_line_of_the_wide_table_is_rejected_up_to_its_width(
    write: Write, tmp_path: Path
) -> None:
    header = "," + ",".join(map(str, range(2000)))
    row = "job_00" + ",0.5" * 2000
    long = "1," * 1_000_000
    folder = write("coefficient_variation.csv", f"{header}\n{row}\n{long}\n")
    (entry,) = ingest(folder, store=tmp_path / "store").entries
    assert entry.rows_kept == 2000
    assert entry.rejected == {"long_row": 2002}


@pytest.mark.parametrize("line", [b"text\n", b"text," * 50_000 + b"\n"])
def test_a_quoted_cell_of_very_many_lines_is_an_error_early(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    monkeypatch.setattr(build, "_MOST_LINES", 2_000_000 if len(line) > 9 else 1000)
    monkeypatch.setattr(build, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(lines, "_CELLS_A_PART", 500)
    monkeypatch.setattr(files, "_BLOCK", 1 << 16)
    read: list[int] = []
    opened = b'3,0,25,51,"' + line * (20 if len(line) > 9 else 5000)
    folder = write(JOB, HEAD + GOOD + opened + b'"x\n')  # no cell ends so
    with pytest.raises(IngestError, match=r"line 17 has a quote .*; a cell has to end on its"):
        ingest(folder, store=tmp_path / "store", progress=lambda *args: read.append(args[2]))
    assert max(read) < (12 if len(line) > 9 else 2000) + 30
    # lines that are rows again follow in time: the others are counted
    monkeypatch.setattr(build, "_MOST_LINES", 2_000_000)
    monkeypatch.setattr(build, "_MOST_BYTES", 1 << 26)
    (entry,) = ingest(folder, store=tmp_path / "store").entries
    assert entry.rejected["unbalanced_quote"] == 2
    assert sum(entry.rejected.values()) == opened.count(b"\n") + 1


def test_lines_of_which_none_is_a_row_are_an_error_early(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_MOST_LINES", 1000)
    monkeypatch.setattr(files, "_BLOCK", 1 << 10)
    read: list[int] = []
    folder = write(JOB, HEAD + GOOD + b"\n" * 100_000 + GOOD)
    with pytest.raises(IngestError, match=r"none of the [\d,]+ lines up to .*\(blank_line\)"):
        ingest(folder, store=tmp_path / "store", progress=lambda *args: read.append(args[2]))
    assert max(read) < 4000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("jobs.json", '[{"job_id": "a"},' + "{}," * 5000 + '{"job_id": "b"}]'),
        ("jobs.jsonl", '{"job_id": "a"}\n' + "{}\n" * 5000 + '{"job_id": "b"}\n'),
    ],
)
def test_empty_objects_are_no_rows_and_an_error_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    mapping = tmp_path / "m.toml"
    mapping.write_text('[trace]\ntitle = "x"\n[jobs]\njob_id = "job_id"\n', encoding="utf-8")
    store = tmp_path / "store"
    (entry,) = ingest(tmp_path / name, mapping=mapping, store=store).entries
    assert (entry.rows_kept, entry.rejected) == (2, {"no_object": 5000})
    monkeypatch.setattr(build, "_MOST_LINES", 1000)
    monkeypatch.setattr("traceana.ingesters.readers.reader.ROWS_A_BLOCK", 100)
    with pytest.raises(IngestError, match=r"none of the 1,100 lines up to .*\(no_object\)"):
        ingest(tmp_path / name, mapping=mapping, store=tmp_path / "again")


def test_a_list_of_pods_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BLOCK", 1 << 10)
    rows = "".join(f"p{n},1000,1024,1,{n}\n" for n in range(200))
    text = f"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{rows}{',' * 5000}\np,1,1\n{rows}"
    (tmp_path / "pods.csv").write_text(text, encoding="utf-8")
    read: list[int] = []
    (entry,) = ingest(
        tmp_path / "pods.csv",
        store=tmp_path / "store",
        progress=lambda *args: read.append(args[2]),
    ).entries
    assert len(read) > 4
    assert entry.rejected == {"duplicate_key": 200, "long_row": 1, "short_row": 1}
    store = open_store(tmp_path / "store")
    jobs = store.scan("pods", "jobs").collect()
    assert (jobs["gpus"] * 1000).round().to_list() == list(range(200))
    assert jobs["qos"].null_count() == jobs.height == 200
    rejected = store.scan_rejected("pods", "jobs").filter(rule="short_row").collect()
    assert rejected.select("line", "row", "text").rows() == [(203, 202, "p,1,1")]


@pytest.mark.parametrize(
    "text", ["n[" + "1-60000," * 9 + "1]", "n[1-300][1-300]", ",".join(["n[1-60000]"] * 9)]
)
def test_a_list_of_too_many_nodes_stays_as_it_is(text: str) -> None:
    assert expand_hosts(text) == [text]


class Endless(io.RawIOBase):
    """A stream of some bytes and then one of them for ever, which counts what is read."""

    def __init__(self, start: bytes, then: bytes) -> None:
        self.start, self.then, self.count = io.BytesIO(start), then, 0

    def read(self, size: int = -1) -> bytes:
        assert 0 <= size <= 1 << 20
        self.count += size
        data = self.start.read(size)
        return data + self.then * (size - len(data))


def header(kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo("x")
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K", b"X"])
def test_no_more_than_256_kibibytes_of_a_header_is_read(kind: bytes) -> None:
    stream = Endless(header(kind, 2 << 30), b"a")
    with pytest.raises(tarfile.ReadError, match="header of more than 256 KiB"):
        next(read_tar(stream))  # type: ignore[arg-type]
    assert stream.count <= 1 << 18


def test_no_more_than_256_kibibytes_of_a_sparse_map_is_read() -> None:
    sparse = bytearray(header(b"S", 512))
    sparse[482] = 1  # more of the map follows
    stream = Endless(bytes(sparse), b"7")
    with pytest.raises(tarfile.ReadError):
        next(read_tar(stream))  # type: ignore[arg-type]
    assert stream.count <= (1 << 18) + 512


@pytest.mark.parametrize("body", [b"1" * 200_000, b"2 " * 499_999 + b"a="])
def test_a_header_that_takes_the_square_of_its_size_is_not_read(body: bytes) -> None:
    packed = header(b"x", len(body)) + body.ljust(-(-len(body) // 512) * 512, b"\0")
    with pytest.raises(tarfile.ReadError, match=r"more than 255 digits|more than 256 KiB"):
        next(read_tar(io.BytesIO(packed + header(b"0", 0))))


def test_an_archive_of_too_many_members_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_MEMBERS", 10)
    with pytest.raises(tarfile.ReadError, match="more than 10 members"):
        list(read_tar(io.BytesIO(header(b"0", 0) * 20)))


@pytest.mark.parametrize(
    "record",
    [
        b"99999999999999999999 path=x\n",
        b"30 size=99999999999999999999\n\n",
        b"11 size=-5\n",
        b"0 a=b\n",
        b"-1 a=b\n",
        b"13 path=\xff\xfe/\n",
        b"25 GNU.sparse.size=9999\n\n30 GNU.sparse.map=0,99999999\n\n",
        b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n",
        b"x" * 600,
    ],
)
def test_an_absurd_pax_record_is_one_line(tmp_path: Path, record: bytes) -> None:
    content = b"m1,T4,96,512,2\n"
    info = tarfile.TarInfo("pai_machine_spec.csv")
    info.size = len(content)
    parts = [header(b"x", len(record)), record.ljust(-(-len(record) // 512) * 512, b"\0")]
    parts += [info.tobuf(), content.ljust(512, b"\0"), b"\0" * 1024]
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "pai_machine_spec.tar").write_bytes(b"".join(parts))
    itp_archive(folder)
    try:
        ingest(folder, store=tmp_path / "store")
    except IngestError as error:
        assert "\n" not in str(error)  # noqa: PT017  some of these are read as they are
    assert "microsoft-itp-2021" in open_store(tmp_path / "store").traces()


@pytest.mark.parametrize(
    "name", ["foo", "job", "sample", "cov", "__line", "__row", "line", "rule", "text", "literal"]
)
def test_an_unexpected_column_has_any_name(write: Write, tmp_path: Path, name: str) -> None:
    numbers = ",".join(map(str, range(2000)))
    values = "0.5," * 2000
    write("coefficient_variation.csv", f",{numbers},{name}\nj0,{values}x\nj1,{values}\nj2,1\n")
    lines = "\n".join(f"{row},x" for row in worker_rows())
    folder = write(JOB, f",worker,gpu,time,batch_time_norm,{name}\n{lines}\n1,2\n")
    entries = {one.table: one for one in ingest(folder, store=tmp_path / "store").entries}
    assert entries["cov_samples"].rows_kept == 4000
    assert entries["worker_samples"].rows_kept == 15
    assert entries["worker_samples"].rejected == {"short_row": 1}


def test_an_unforeseen_error_of_one_trace_leaves_the_others(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(JOB, HEAD + GOOD)
    itp_archive(folder)

    def fail(found: Plan, *args: Any) -> object:
        if found.trace == "alibaba-minibatch-2020":
            raise RuntimeError("unforeseen")
        return ingest_plan(found, *args)

    monkeypatch.setattr("traceana.ingesters.ingestion.ingest_plan", fail)
    with pytest.raises(RuntimeError, match="unforeseen"):
        ingest(folder, store=tmp_path / "store")
    assert open_store(tmp_path / "store").traces() == ["microsoft-itp-2021"]


def test_names_that_cannot_be_encoded_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    bad = folder / "bad\udcff\n.csv"
    bad.write_bytes(b"id,g,r,s\na,1,1,completed\nb,x,1,completed\n")
    ledger = ingest(bad, mapping=MAPPING, trace="m", store=tmp_path / "store")
    assert ledger.entries[0].files[0].file == "bad\\udcff\\n.csv"
    assert open_store(tmp_path / "store").ledger("m").entries[0].rows_kept == 2


WIDE = {
    "openb_pod_list_default.csv": (
        f"{','.join(get_trace('alibaba-openb-2023').contents[0].columns)}\n".encode(),
        b",",
    ),
    "sacct.txt": (b"JobID|JobName|User|State|Submit|Start|End|Elapsed\n", b"|"),
    "node1.csv": (b"timestamp, index, utilization.gpu [%]\n", b","),
    "node1.log": (b"#Entity GPUTL\n", b"GPU 0 "),
    "run.log": (b"iteration 1/ 2 | elapsed time per iteration (ms): x |\n", b"iteration 1/ 2 "),
}


READ = """
import os, sys
from traceana.ingesters import ingest
*files, store = sys.argv[1:]
for file in files:
    if os.fork():  # before Polars has any thread: the imports are done once for all
        os.wait()
        continue
    try:
        ingest(file, store=store)
    except Exception as error:
        length = len(str(error))
    [peak_kb] = [line.split()[1] for line in open("/proc/self/status") if "VmHWM" in line]
    print(length, peak_kb, flush=True)
    os._exit(0)
"""


def test_a_line_of_millions_of_cells_takes_little_memory(tmp_path: Path) -> None:
    """A file of 2 kB; what ingests it may use 700 MB beyond what Python and Polars need."""
    files = []
    for name, (header, cell) in WIDE.items():
        files.append(tmp_path / f"{name}.xz")
        files[-1].write_bytes(lzma.compress(header + cell * (15_000_000 // len(cell)), preset=1))
    command = [sys.executable, "-c", READ, *map(str, files), str(tmp_path / "store")]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    read = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
    assert len(read) == len(WIDE)
    assert all(length < 300 and peak_kb < 900_000 for length, peak_kb in read), read


def test_a_text_that_a_parquet_file_has_once_is_not_read_a_million_times(tmp_path: Path) -> None:
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), ["x" * 500_000])
    pq.write_table(pa.table({"user": text}), tmp_path / "a.parquet")  # 1 GB in all
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    (file,) = list_csvs(tmp_path, suffixes=(".parquet",)).csvs
    sizes = [(part.height, part.estimated_size()) for part in read_frames(file, ["user"])]
    assert sum(height for height, _ in sizes) == 2_000
    assert max(size for _, size in sizes) < 1 << 27


def test_a_text_of_more_than_a_line_may_have_is_an_error_in_parquet(tmp_path: Path) -> None:
    for text in (["x" * (1 << 24)], ["x" * ((1 << 24) + 1)]):
        for name, column in (
            ("plain", pa.array(text)),
            ("coded", pa.array(text).dictionary_encode()),
        ):
            pq.write_table(pa.table({"id": column}), tmp_path / f"{name}.parquet")
            (file,) = list_csvs(tmp_path / f"{name}.parquet", suffixes=("",)).csvs
            if len(text[0]) == 1 << 24:
                assert [part.height for part in read_frames(file, ["id"])] == [1]
                continue
            with pytest.raises(SourceError, match="a text of more than 16 MiB"):
                list(read_frames(file, ["id"]))


@pytest.mark.parametrize("end", ["json", "jsonl"])
def test_members_by_the_thousand_are_one_line(tmp_path: Path, end: str) -> None:
    rows = [json.dumps({f"k{row}_{member}": 1 for member in range(1000)}) for row in range(11)]
    text = f"[{','.join(rows)}]" if end == "json" else "\n".join(rows)
    path = tmp_path / f"jobs.{end}"
    path.write_text(text)
    with pytest.raises(SourceError, match="it has 11,000 columns or more; at most 10,000 are read"):
        propose_mapping(path)


def test_the_file_is_named_whose_column_has_another_type(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, kind in (("a", pa.int64()), ("b", pa.float32()), ("c", pa.timestamp("s"))):
        table = pa.table({"id": [name], "g": pa.array([1], pa.int64()).cast(kind)})
        pq.write_table(table, folder / f"{name}.parquet")
    mapping = '[trace]\n[jobs]\njob_id = "id"\ngpus = "g"\n'
    with pytest.raises(IngestError, match=r"^c\.parquet: column 'g' has type Datetime, not a num"):
        ingest(folder, mapping=mapping, trace="m", store=tmp_path / "store")
    (folder / "c.parquet").unlink()
    ingest(folder, mapping=mapping, trace="m", store=tmp_path / "store")
    jobs = open_store(tmp_path / "store").scan("m", "jobs").collect()
    assert jobs.select("job_id", "gpus").rows() == [("a", 1.0), ("b", 1.0)]


def test_members_do_not_repeat_a_name_of_any_length() -> None:
    inner = {f"k{number}": "1" for number in range(100)}
    for value in (inner, [inner]):
        cells = flatten({"n" * 100_000: value, "short": value})
        assert sum(map(len, cells)) < 300_000
        assert json.loads(cells["n" * 100_000] or "") == value
        assert cells["short.k0" if value is inner else "short.first.k0"] == "1"


def test_ids_that_repeat_are_counted_without_keeping_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("job_id,gpus\n" + "a,1\nb,2\n" * 3_000)
    kept: list[int] = []

    class Counting(KeyFilter):
        def split(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
            new, repeated = super().split(rows)
            kept.append(new.height)
            return new, repeated

    monkeypatch.setattr(propose, "KeyFilter", Counting)
    text = propose_mapping(tmp_path / "a.csv")
    assert "5,998 of 6,000 rows repeat a job_id" in text
    assert sum(kept) == 2


@pytest.mark.parametrize("packed", ["logs.zip", "logs.tar.gz"])
def test_an_archive_of_very_many_logs_is_to_be_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str
) -> None:
    monkeypatch.setattr(files, "_MOST_LOGS", 3)
    for count in (3, 4):
        members = {f"{number}.csv": f"job_id\nj{number}\n".encode() for number in range(count)}
        if packed.endswith("zip"):
            with ZipFile(tmp_path / packed, "w") as archive:
                for name, content in members.items():
                    archive.writestr(name, content)
        else:
            tar_gz(tmp_path / packed, members)
        given: dict[str, Any] = {
            "mapping": '[trace]\n[jobs]\njob_id = "job_id"\n',
            "store": tmp_path / "store",
        }
        if count == 3:
            (entry,) = ingest(tmp_path / packed, trace="m", **given).entries
            assert entry.rows_kept == 3
            continue
        with pytest.raises(IngestError, match=r"more than 3 logs; unpack it"):
            ingest(tmp_path / packed, trace="n", **given)


@pytest.mark.parametrize(
    "start", [bz2.compress(b"job_id\n"), b"\x28\xb5\x2f\xfd\x24\x07"], ids=["bzip2", "zstd"]
)
def test_other_packings_are_named(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "jobs.csv.bz2").write_bytes(start)
    for asked in (ingest, propose_mapping):
        with pytest.raises(SourceError, match="packed by bzip2 or zstd; unpack it first"):
            asked(tmp_path / "jobs.csv.bz2")


def test_a_footer_of_very_many_row_groups_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traceana.ingesters.readers.parquet._LARGEST_FOOTER", 1 << 10)
    table = pa.table({"id": [f"u{n}" for n in range(25)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    with pytest.raises(IngestError, match=r"footer of .* larger row groups"):
        ingest(
            tmp_path / "a.parquet",
            mapping='[jobs]\njob_id = "id"\n',
            store=tmp_path / "s",
            trace="m",
        )
    pq.write_table(table, tmp_path / "a.parquet")
    (entry,) = ingest(
        tmp_path / "a.parquet", mapping='[jobs]\njob_id = "id"\n', store=tmp_path / "s", trace="m"
    ).entries
    assert entry.rows_kept == 25


@pytest.mark.parametrize("form", ["time", "duration"])
def test_a_duration_is_no_time_and_a_time_no_duration(tmp_path: Path, form: str) -> None:
    kind = pa.duration("s") if form == "time" else pa.timestamp("s")
    table = pa.table({"id": ["a"], "x": pa.array([60], kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    column = "start_s" if form == "time" else "runtime_s"
    mapping = f'[jobs]\njob_id = "id"\n{column} = {{ {form} = "x" }}\n'
    other = "duration" if form == "time" else "time"
    with pytest.raises(IngestError, match=rf"'x' holds .*; write {{ {other} = "):
        ingest(tmp_path / "a.parquet", mapping=mapping, trace="m", store=tmp_path / "store")


def test_times_in_a_zone_that_nobody_knows_are_the_instants_that_are_stored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    times = pa.array([0, 10**9], pa.timestamp("s", "Mars/Olympus"))
    pq.write_table(pa.table({"id": ["a", "b"], "t": times}), tmp_path / "a.parquet")
    mapping = '[trace]\n[jobs]\njob_id = "id"\nsubmit_s = { time = "t" }\n'
    ingest(tmp_path / "a.parquet", mapping=mapping, trace="m", store=tmp_path / "store")
    jobs = open_store(tmp_path / "store").scan("m", "jobs").collect()
    assert jobs["submit_s"].to_list() == [0.0, 1e9]
    assert capfd.readouterr().err == ""  # no panic of Polars


def test_times_and_numbers_beyond_what_polars_writes_are_rejected(tmp_path: Path) -> None:
    far = pa.array([2**63 - 1, -(2**63), 2**62, 60], pa.int64())
    table = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "us": far.cast(pa.timestamp("us")),
            "s": pa.array([2**53, -(2**53), 2**52, 60]).cast(pa.timestamp("s")),
            "day": pa.array([2**31 - 1, -(2**31), 2**30, 1], pa.int32()).cast(pa.date32()),
            "wide": pa.array([Decimal(n) for n in (10**60, -1, 10**50, 1)], pa.decimal256(70, 2)),
            "clock": pa.array([1, 2, 3, 4], pa.int32()).cast(pa.time32("s")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    for column in ("us", "s", "day", "wide"):
        spec = f'"{column}"' if column == "wide" else f'{{ time = "{column}" }}'
        mapping = f'[trace]\n[jobs]\njob_id = "id"\nsubmit_s = {spec}\n'
        (entry,) = ingest(
            tmp_path / "a.parquet", mapping=mapping, trace="m", store=tmp_path / column
        ).entries
        assert entry.rejected == {"submit_s|max": 2, "submit_s|min": 1}, column
    mapping = '[trace]\n[jobs]\njob_id = "id"\nsubmit_s = { time = "clock" }\n'
    with pytest.raises(IngestError, match="times of day without a date"):
        ingest(tmp_path / "a.parquet", mapping=mapping, trace="m", store=tmp_path / "clock")
