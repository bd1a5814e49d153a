"""An archive takes bounded memory and time, whatever its members and headers state."""

from __future__ import annotations

import bz2
import io
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.ingesters.conftest import itp_archive, tar_gz
from traceana.errors import SourceError
from traceana.ingesters import IngestError, files, ingest, propose_mapping
from traceana.ingesters.files import Member, read_tar
from traceana.store import open_store


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


def test_an_archive_of_many_logs_is_unpacked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {f"logs/{number}.csv": f"job_id\nj{number}\n".encode() for number in range(40)}
    tar_gz(tmp_path / "logs.tar.gz", members)
    opened: list[object] = []
    original = files.open_archive

    def count(paths: tuple[Path, ...]) -> AbstractContextManager[Iterator[Member]]:
        opened.append(paths)
        return original(paths)

    monkeypatch.setattr(files, "open_archive", count)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    given: dict[str, Any] = {"mapping": '[trace]\n[jobs]\njob_id = "job_id"\n', "trace": "m"}
    ingest(tmp_path / "logs.tar.gz", store=tmp_path / "store", **given)
    assert len(opened) == 2  # to list it and to unpack it
    assert not list((tmp_path / "scratch").iterdir())
    monkeypatch.setattr(files, "_MOST_UNPACKED", 100)  # no room for it
    ingest(tmp_path / "logs.tar.gz", store=tmp_path / "other", **given)
    assert len(opened) > 40
    stores = [open_store(tmp_path / name) for name in ("store", "other")]
    ledgers = [store.ledger("m").json for store in stores]
    assert ledgers[0] == ledgers[1]
    assert stores[0].scan("m", "jobs").collect().equals(stores[1].scan("m", "jobs").collect())
