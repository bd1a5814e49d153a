"""Which reader takes a file, and Parquet in parts, in archives and in blocks."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.ingesters.conftest import tar_gz
from traceana.errors import SourceError
from traceana.ingesters.files import CsvFile, list_csvs
from traceana.ingesters.propose_columns import nested_names
from traceana.ingesters.readers import json as json_reader
from traceana.ingesters.readers import parquet
from traceana.ingesters.readers.reader import Rows, readers


def file_of(path: Path) -> CsvFile:
    (file,) = list_csvs(path, suffixes=(".parquet",)).csvs
    return file


@pytest.mark.parametrize(
    ("name", "head", "json", "columnar"),
    [
        ("x.jsonl", "[", True, False),
        ("x.log", ' {"a": 1}', True, False),
        ("x.log", "a", False, False),
        ("x.parquet", "a", False, True),
        ("x.pq", "a", False, True),
        ("x.log", "PAR1", False, True),
    ],
)
def test_a_format_is_known_by_the_name_or_by_the_beginning(
    tmp_path: Path, name: str, head: str, *, json: bool, columnar: bool
) -> None:
    (tmp_path / name).write_text(f"{head}\n")
    file = file_of(tmp_path / name)
    assert json_reader.LINES.detect(file) == json
    assert parquet.READER.detect(file) == columnar


@pytest.mark.parametrize("fault", [ZeroDivisionError, pl.exceptions.ColumnNotFoundError])
@pytest.mark.parametrize("name", readers())
def test_a_fault_in_a_reader_is_an_error_of_the_file_that_names_it(
    tmp_path: Path, name: str, fault: type[Exception]
) -> None:
    def fail(*_: object) -> Any:
        raise fault("division by zero")

    (tmp_path / "x.parquet").write_text("a\n")
    file, reader = file_of(tmp_path / "x.parquet"), readers()[name]
    said = rf"x.parquet: it .* reader {name}, {fault.__name__} in test_readers.py:\d+ from"
    said += r"( reader.py:\d+ from)? reader.py:\d+: division"
    with pytest.raises(SourceError, match=said):
        replace(reader, detect=fail).detects(file)
    with pytest.raises(SourceError, match=said):
        replace(reader, open=fail).rows(file, "UTC")
    rows = replace(reader, open=lambda *_: Rows(("a",), fail)).rows(file, "UTC")
    with pytest.raises(SourceError, match=said):
        list(rows.blocks({}))


def test_parquet_is_a_file_of_its_own(tmp_path: Path) -> None:
    pl.DataFrame({"a": range(9)}).write_parquet(tmp_path / "x.parquet")
    data = (tmp_path / "x.parquet").read_bytes()
    tar_gz(tmp_path / "packed" / "x.tar.gz", {"x.parquet": data})
    (tmp_path / "parts").mkdir()
    for letter, part in (("a", data[:50]), ("b", data[50:])):
        (tmp_path / "parts" / f"x.parquet.parta{letter}").write_bytes(part)
    for folder in ("packed", "parts"):
        with pytest.raises(SourceError, match="Parquet inside an archive is not read"):
            parquet.open_parquet(file_of(tmp_path / folder))
    (tmp_path / "x.parquet").write_bytes(data[:50])
    with pytest.raises(SourceError, match=r"cannot be read as Parquet \(Parquet magic bytes not"):
        parquet.open_parquet(file_of(tmp_path / "x.parquet"))


_FOOTERS = """
import io, pathlib, sys
import pyarrow as pa, pyarrow.parquet as pq
from traceana.errors import SourceError
from traceana.ingesters.files import list_csvs
from traceana.ingesters.readers.parquet import open_parquet, read_frames

path, whole = pathlib.Path(sys.argv[1]), io.BytesIO()
pq.write_table(pa.table({"id": ["a" * 70_000, "b" * 70_000]}), whole)
data = whole.getvalue()
for at in range(len(data) - 8 - int.from_bytes(data[-8:-4], "little"), len(data) - 8):
    path.write_bytes(data[:at] + b"\x46" + data[at + 1 :])
    (file,) = list_csvs(path, suffixes=(".parquet",)).csvs
    try:
        open_parquet(file)
        list(read_frames(file, ()))
    except SourceError:
        continue
"""


def test_no_byte_of_a_parquet_footer_ends_the_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FOOTERS, str(tmp_path / "x.parquet")]
    subprocess.run(command, check=True)


def test_rows_of_parquet_are_numbered_over_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROWS_A_BLOCK", 3)
    frame = pl.DataFrame({"a": range(7), "b": ["x"] * 7})
    frame.write_parquet(tmp_path / "x.parquet")
    file = file_of(tmp_path / "x.parquet")
    rows = parquet.open_parquet(file)
    assert rows.columns == ("a", "b")
    blocks = list(rows.blocks({"a": "number"}))
    assert [block.lines for block in blocks] == [3, 3, 1]
    assert [row for block in blocks for row in block.cells.rows()] == [
        (float(n), n + 1) for n in range(7)
    ]
    assert pl.concat(parquet.read_frames(file, ())).equals(frame)
    assert pl.concat(parquet.read_frames(file, ["b"])).equals(frame.select("b"))


def test_a_member_has_its_own_name_and_that_of_its_object() -> None:
    assert nested_names("gpus") == {"gpus": 0}
    assert nested_names("run.time") == {"run.time": 0, "run_time": 0}
    assert nested_names("a.gpu.count") == {"a.gpu.count": 50, "gpu_count": 0}
    assert nested_names("owner.id") == {"owner.id": 50, "owner_id": 0, "owner": 1}
