"""Work and memory do not grow past their limits, whatever a file holds."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.benchmarks.rejected import FIRST_ROWS, FORMATS, ingest_faults
from tests.ingesters.conftest import itp_archive, worker_rows
from traceana.catalog.model import get_trace
from traceana.errors import DataError, SourceError
from traceana.ingesters import IngestError, build, files, ingest, propose, propose_mapping
from traceana.ingesters.build import KeyFilter
from traceana.ingesters.compiled import Source, compile_mapping
from traceana.ingesters.mapping import parse_mapping
from traceana.ingesters.plan import Plan, ingest_plan
from traceana.ingesters.readers import csv as lines
from traceana.ingesters.readers.csv import Block, frame_block
from traceana.ingesters.readers.json import flatten
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
    with pytest.raises(IngestError, match=r"lines from line 17 on is a row \(unbalanced_quote\)"):
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
    with pytest.raises(
        IngestError, match=r"none of the [\d,]+ lines from line \d+ on is .*\(blank_line\)"
    ):
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
    with pytest.raises(
        IngestError, match=r"none of the 1,100 lines from line \d+ on .*\(no_object\)"
    ):
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


@pytest.mark.parametrize("end", ["json", "jsonl"])
def test_members_by_the_thousand_are_one_line(tmp_path: Path, end: str) -> None:
    rows = [json.dumps({f"k{row}_{member}": 1 for member in range(1000)}) for row in range(11)]
    text = f"[{','.join(rows)}]" if end == "json" else "\n".join(rows)
    path = tmp_path / f"jobs.{end}"
    path.write_text(text)
    with pytest.raises(SourceError, match="it has 11,000 columns or more; at most 10,000 are read"):
        propose_mapping(path)


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
