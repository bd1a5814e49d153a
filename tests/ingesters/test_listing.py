"""What is listed of a folder and of archives, and what only named."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.ingesters.conftest import tar_gz
from traceana.ingesters.files import list_csvs, open_csv


def test_files_of_other_kinds_are_named_but_for_notes_on_synthetic_data(tmp_path: Path) -> None:
    for name in ("notes.txt", "SYNTHETIC-notes.txt", ".hidden.csv", "a.csv"):
        (tmp_path / name).write_text("x\n")
    tar_gz(tmp_path / "b.tar.gz", {"b.csv": b"x\n", "b.txt": b"x\n", ".b.csv": b"x\n"})
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as packed:
        for name in ("c.csv", "c.txt", ".c.csv"):
            packed.writestr(name, "x\n")
    listing = list_csvs(tmp_path)
    assert [one.name for one in listing.csvs] == ["a.csv", "b.csv", "c.csv"]
    assert sorted(listing.others) == [
        *(".hidden.csv", "b.tar.gz:.b.csv", "b.tar.gz:b.txt", "c.zip:.c.csv", "c.zip:c.txt"),
        "notes.txt",
    ]


@pytest.mark.parametrize(("place", "value"), [(6, 1), (8, 97)])  # encrypted; packed by "JPEG"
def test_a_member_that_cannot_be_unpacked_is_named(tmp_path: Path, place: int, value: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a.csv", "x\n")
    data = bytearray(path.read_bytes())
    data[place] = value
    data[data.index(b"PK\1\2") + place + 2] = value
    path.write_bytes(data)
    ((name, error),) = list_csvs(path).broken
    assert name == "a.zip"
    assert "member 'a.csv' has a password or an unknown packing" in str(error)


def test_parts_are_lettered_aa_to_az_and_on(tmp_path: Path) -> None:
    content = "".join(f"{n}\n" for n in range(10, 38)).encode()
    letters = [f"{a}{b}" for a in "ab" for b in "abcdefghijklmnopqrstuvwxyz"]
    for place in range(28):
        part = content[3 * place : 3 * place + 3]
        (tmp_path / f"a.csv.part{letters[place]}").write_bytes(part)
    (source,) = list_csvs(tmp_path).csvs
    with open_csv(source) as stream:
        assert stream.read() == content
    (tmp_path / "a.csv.partaz").unlink()
    ((_, error),) = list_csvs(tmp_path).broken
    assert str(error).endswith("part .partaz is missing; fetch it")
