"""Streams, headers and blocks at their edges: where one ends, the next byte is not lost."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ingesters.conftest import tar_gz
from traceana.errors import SourceError
from traceana.ingesters import build, files, ingest
from traceana.ingesters import forward as headers
from traceana.ingesters.files import CsvFile, list_csvs, open_csv, open_unwrapped
from traceana.ingesters.forward import Forward
from traceana.ingesters.readers import csv as lines
from traceana.ingesters.readers import sacct_lines
from traceana.store import open_store

DOCS = Path(__file__).parents[2] / "docs" / "explanation" / "ingestion.md"
SPEC = b"m1,T4,96,512,2\nm2,CPU,64,256,0\n"
NAME = "pai_machine_spec.csv"


def source_of(path: Path, content: bytes) -> CsvFile:
    path.write_bytes(content)
    (source,) = list_csvs(path).csvs
    return source


def test_limits_are_those_in_the_documentation() -> None:
    limits = {
        "line, or JSON element": files.LONGEST_LINE,
        "text of a rejected row": build._LONGEST_TEXT,
        "separators in a line with quotes": lines._MOST_QUOTED,
        "expression that fails, other than by `CAST`": build._MOST_FAILED,
        "distinct unknown values of a column": build._WORDS,
        "header of an archive's member": headers._LONGEST_HEADER,
        "members of an archive": files._MOST_MEMBERS,
        "logs of an archive": files._MOST_LOGS,
        "logs of a tar archive, unpacked once from 8 on": files._MOST_UNPACKED,
        "lines of a Slurm record whose name contains line ends": sacct_lines._MOST_LINES,
    }
    stated = re.findall(
        r"^\| (.+): ([\d,]+)(?: (MiB|KiB))?", DOCS.read_text(encoding="utf-8"), re.MULTILINE
    )
    found = {
        what: int(n.replace(",", "")) * {"MiB": 2**20, "KiB": 2**10, "": 1}[unit]
        for what, n, unit in stated
    }
    assert found.items() >= limits.items()
    assert "none of them a row: a million, or 64 MiB" in DOCS.read_text(encoding="utf-8")
    assert (build._MOST_LINES, build._MOST_BYTES) == (10**6, 64 * 2**20)


@pytest.mark.parametrize("size", [1, 2, 7, 32, 33, 64, 1000])
def test_blocks_of_whole_lines_together_are_the_file(tmp_path: Path, size: int) -> None:
    content = b"a,b\r\n1,2\r\n\r\n3\r,4\n" + b"55,66\r\n" * 30 + b"7"
    blocks = list(files.whole_lines(source_of(tmp_path / "x.csv", content), size=size))
    assert b"".join(blocks) == content.replace(b"\r\n", b"\n") + b"\n"
    assert all(block.endswith(b"\n") for block in blocks)


def test_a_line_may_be_as_long_as_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    whole = b"x" * 164 + b"\n"
    for before in (b"", b"a\n" * 32):
        content = before + whole
        blocks = list(files.whole_lines(source_of(tmp_path / "x.csv", content), size=64))
        assert blocks == [block for block in (before, whole) if block]
    with pytest.raises(SourceError, match="a line of more than"):
        list(files.whole_lines(source_of(tmp_path / "x.csv", b"x" + b"x" + whole), size=64))


def test_an_empty_member_has_no_lines(tmp_path: Path) -> None:
    path = tar_gz(tmp_path / "a.tar.gz", {"a.csv": b""})
    assert list(files.whole_lines(list_csvs(path).csvs[0])) == []


def test_a_header_has_at_most_256_kibibytes() -> None:
    forward = Forward(io.BytesIO(b"x" * (5 << 20)))
    with forward.reading_header():
        assert len(forward.read(1 << 17)) + len(forward.read(1 << 17)) == 2**18
    assert len(forward.read(2 << 20)) == 2 * 2**20
    assert forward.tell() == 9 * 2**18
    assert forward.seek(forward.tell()) == forward.tell()
    with pytest.raises(ValueError, match="does not go back"):
        forward.seek(forward.tell() - 1)
    with (
        pytest.raises(tarfile.ReadError, match="more than 256 KiB"),
        forward.reading_header(),
    ):
        forward.read(2**18 + 1)
    assert forward.seek(9 << 20) == 5 << 20


def test_a_blank_line_beside_quotes_is_blank() -> None:
    block = lines.Block(b'"a",1\n\nb,2\nc\n', ("x", "y"), 1, 0)
    assert block.read()[0]["x"].to_list() == ["a", "b"]
    assert block.read()[1].rows() == [(2, "blank_line", ""), (4, "short_row", "c")]


@pytest.mark.parametrize("text", [b"a,1\nb,2,x,y\n", b"a\nb,2,x,y,z\n", b"b,2,x,y\na,1\n"])
def test_a_short_line_beside_a_long_one_is_seen_if_one_column_is_read(text: bytes) -> None:
    assert text.count(b",") == 2 * 2  # as many as two whole rows have
    for more, expected in ((text, None), (b"a,1,x\nb,2,y\n", ["c", "a", "b"])):
        block = lines.Block(b"c,3,z\n" + more, ("p", "q", "r"), 1, 0)
        typed = block.at_once(("p",))
        assert (None if typed is None else typed["p"].to_list()) == expected


def zipped(method: int) -> Callable[[bytes], bytes]:
    def pack(content: bytes) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as packed:
            packed.writestr(f"inner/{NAME}", content)
            packed.writestr("inner/.hidden.csv", "x")
        return buffer.getvalue()

    return pack


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        (NAME, bytes),
        (f"{NAME}.gz", gzip.compress),
        (f"{NAME}.xz", lzma.compress),
        (NAME, gzip.compress),  # a wrong ending does no harm
        (NAME, lzma.compress),
        ("a.zip", zipped(zipfile.ZIP_STORED)),
        ("a.zip", zipped(zipfile.ZIP_DEFLATED)),
        ("a.zip", zipped(zipfile.ZIP_BZIP2)),
        ("a.zip", zipped(zipfile.ZIP_LZMA)),
    ],
)
def test_a_file_is_the_same_in_any_wrapping(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    source = source_of(tmp_path / name, pack(SPEC))
    assert (source.name, source.head) == (NAME, SPEC.partition(b"\n")[0])
    with open_csv(source) as stream:
        assert stream.read() == SPEC
    assert not list_csvs(tmp_path, suffixes=(".jsonl",)).csvs


@pytest.mark.parametrize("parts", [[9], [1, 2, 30], [40, 41]])
def test_parts_are_one_stream(tmp_path: Path, parts: list[int]) -> None:
    packed = gzip.compress(SPEC * 20)
    edges = [0, *parts, len(packed)]
    paths = []
    for letter, start, end in zip("abcd", edges, edges[1:], strict=False):
        paths.append(tmp_path / f"{NAME}.gz.parta{letter}")
        paths[-1].write_bytes(packed[start:end])
    with open_unwrapped(tuple(paths)) as stream:
        assert stream.read() == SPEC * 20
    ledger = ingest(tmp_path, store=tmp_path / "store")
    (file,) = ledger.entries[0].files
    assert (file.file, file.bytes) == (f"{NAME}.gz.partaa..parta{letter}", len(packed))
    assert ledger.entries[0].rejected == {"duplicate_key": 38}


def test_bytes_of_another_compression_are_no_text(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.gz").write_bytes(bz2.compress(SPEC))
    with pytest.raises(SourceError, match=r"packed by bzip2 or zstd; unpack it first"):
        ingest(tmp_path, store=tmp_path / "store")
    (tmp_path / f"{NAME}.gz").write_bytes(b"Rar!" + SPEC)
    with pytest.raises(SourceError, match=r"found bytes that begin b'Rar!.*'; fetch"):
        ingest(tmp_path, store=tmp_path / "store")


def test_the_holes_of_a_sparse_member_are_zeros(tmp_path: Path) -> None:
    info = tarfile.TarInfo(NAME)
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 1024
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    for place, (offset, size) in enumerate([(0, 512), (1024, 512)]):  # as GNU tar writes them
        header[386 + 24 * place : 410 + 24 * place] = b"%011o\0%011o\0" % (offset, size)
    header[483:495] = b"%011o\0" % 1536
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    first, second = b"a" * 511 + b"\n", b"b" * 511 + b"\n"
    packed = gzip.compress(bytes(header) + first + second + b"\0" * 1024)
    source = source_of(tmp_path / "a.tar.gz", packed)
    with open_csv(source) as stream:
        assert stream.read() == first + b"\0" * 512 + second


def test_an_unknown_table_does_not_hide_the_next_member(tmp_path: Path) -> None:
    spec = "".join(f"m{row},T4,96,512,2\n" for row in range(2000)).encode()
    path = tar_gz(tmp_path / "a.tar.gz", {"unknown.csv": b"x,y\n" * 100, NAME: spec})
    ledger = ingest(path, store=tmp_path / "store")
    assert ledger.entries[0].rows_kept == 2000


def test_progress_counts_the_rows_of_all_files(tmp_path: Path) -> None:
    calls: list[tuple[str, str, int]] = []
    for folder, content in (("a", b"x,1\ny,2\nbad\n"), ("b", b"z,3\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.csv").write_bytes(b"id,n\n" + content)
    mapping = '[jobs]\njob_id = "id"\ngpus = "n"\n'
    ingest(
        [tmp_path / "a", tmp_path / "b"],
        mapping=mapping,
        trace="m",
        store=tmp_path / "store",
        progress=lambda *call: calls.append(call),
    )
    assert calls == [("m", "jobs", 3), ("m", "jobs", 4)]


def test_unknown_values_beyond_the_limit_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_WORDS", 2)
    text = "id,s\n" + "".join(f"{row},{word}\n" for row, word in enumerate("ABCADB"))
    (tmp_path / "x.csv").write_text(text)
    mapping = '[jobs]\njob_id = "id"\nstatus = "s"\n'
    ingest(tmp_path / "x.csv", mapping=mapping, trace="m", store=tmp_path / "store")
    (entry,) = open_store(tmp_path / "store").ledger("m").entries
    assert entry.unknown_words == {"s": {"(other values)": 2, "A": 2, "B": 2}}


def test_the_first_rejected_row_is_quoted_up_to_80_characters(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,n\n" + "y" * 300 + "\nz\n")
    mapping = '[jobs]\njob_id = "id"\ngpus = "n"\n'
    first = r"none of 2 rows could be kept: 2 by short_row; the first is line 2 of x.csv: y{80} "
    with pytest.raises(SourceError, match=first):
        ingest(tmp_path / "x.csv", mapping=mapping, trace="m", store=tmp_path / "store")
