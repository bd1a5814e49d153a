"""Archives of several members, in every form, and damaged ones."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ingesters.conftest import tar_gz
from traceana.ingesters import IngestError, files, ingest
from traceana.ingesters.forward import Forward
from traceana.store import open_store

INSTANCES = "".join(f"j{i},worker,n{i},w{i},i{i},Running,{i + 1}.0,,m1\n" for i in range(3000))
TABLES = {
    "pai_instance_table.csv": INSTANCES.encode(),
    "pai_machine_spec.csv": b"m1,T4,96,512,2\n",
}


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take small members for large ones."""
    monkeypatch.setattr(files, "_LARGE", 1 << 10)


@pytest.mark.parametrize("packed", ["pai_instance_table", "download"])
def test_an_archive_of_one_large_file_is_decompressed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str
) -> None:
    read: list[int] = []
    original = Forward.read

    def count(self: Forward, size: int) -> bytes:
        if not self.tell():
            read.append(0)
        data = original(self, size)
        read[-1] += len(data)
        return data

    monkeypatch.setattr(Forward, "read", count)
    name = "pai_instance_table.csv"
    path = tar_gz(tmp_path / f"{packed}.tar.gz", {name: TABLES[name]})
    ledger = ingest(path, store=tmp_path / "store")
    assert ledger.entries[0].rows_kept == 3000
    listed, whole = read
    assert listed < 1 << 15
    assert whole == len(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("names", [list(TABLES), list(TABLES)[::-1]])
@pytest.mark.parametrize("packed", ["all", "pai_instance_table"])
def test_a_small_member_behind_a_large_one_is_ingested_too(
    tmp_path: Path, names: list[str], packed: str
) -> None:
    path = tar_gz(tmp_path / f"{packed}.tar.gz", {f"./{name}": TABLES[name] for name in names})
    ledger = ingest(path, store=tmp_path / "store")
    assert {entry.table: entry.rows_kept for entry in ledger.entries} == {
        "instances": 3000,
        "machines": 1,
    }
    assert {entry.state for entry in ledger.entries} == {"written"}


def test_a_file_that_nobody_knows_behind_a_large_member_is_told(tmp_path: Path) -> None:
    members = {"pai_instance_table.csv": INSTANCES.encode(), "README": b"hello"}
    name = "pai_instance_table.tar.gz"
    ledger = ingest(tar_gz(tmp_path / name, members), store=tmp_path / "store")
    assert ledger.not_recognized == (f"{name}:README",)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_members_with_long_names_in_every_form(tmp_path: Path, form: int) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=form) as packed:
        for name, content in {"x/" * 60 + n: c for n, c in TABLES.items()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    ledger = ingest(path, store=tmp_path / "store")
    assert sorted(entry.rows_kept for entry in ledger.entries) == [1, 3000]


def cut(data: bytes) -> bytes:
    return data[:-4000] + data[-8:]


def turn_a_bit(data: bytes) -> bytes:
    return data[:-6] + bytes([data[-6] ^ 1]) + data[-5:]


@pytest.mark.parametrize("harm", [cut, turn_a_bit])
def test_damage_is_told_before_a_table_appears(
    tmp_path: Path, harm: Callable[[bytes], bytes]
) -> None:
    name = "pai_instance_table.csv"
    path = tar_gz(tmp_path / "pai_instance_table.tar.gz", {name: TABLES[name]})
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(IngestError, match="cut short or damaged") as error:
        ingest(path, store=tmp_path / "store")
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "store").rglob("*.parquet*"))
    assert not list((tmp_path / "store").rglob("*.tmp"))


def test_several_gzip_streams_in_one_file(tmp_path: Path) -> None:
    whole = gzip.decompress(tar_gz(tmp_path / "a.tar.gz", TABLES).read_bytes())
    parts = [whole[:5000], whole[5000:90000], whole[90000:]]
    (tmp_path / "a.tar.gz").write_bytes(b"".join(map(gzip.compress, parts)))
    ingest(tmp_path / "a.tar.gz", store=tmp_path / "store")
    assert sorted(open_store(tmp_path / "store").tables()["rows"]) == [1, 3000]
