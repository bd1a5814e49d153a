"""What is taken from the beginning of a file, and what from its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceana.errors import SourceError
from traceana.ingesters.files import CsvFile, list_csvs
from traceana.ingesters.readers import csv, kubectl


def file_of(folder: Path, text: str) -> CsvFile:
    path = folder / "x.csv"
    path.write_text(text)
    (file,) = list_csvs(path).csvs
    return file


@pytest.mark.parametrize(
    ("head", "names"),
    [(",a", ("", "a")), (",,a", ("\x000", "\x001", "a")), ("a,,b,", ("a", "\x001", "b", "\x003"))],
)
def test_several_columns_without_a_name_are_not_read(
    tmp_path: Path, head: str, names: tuple[str, ...]
) -> None:
    assert csv.READER.open(file_of(tmp_path, f"{head}\n1,2,3,4\n"), "UTC").columns == names


def test_a_name_occurs_once(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="names 'a' more than once"):
        csv.READER.open(file_of(tmp_path, "a,b,a\n1,2,3\n"), "UTC")


@pytest.mark.parametrize(("text", "header_lines"), [("1,2\n3,4\n", 0), ("a,b\n1,2\n", 1)])
def test_names_on_top_of_a_file_without_a_header_are_no_row(
    tmp_path: Path, text: str, header_lines: int
) -> None:
    (block,) = csv.read_blocks(
        file_of(tmp_path, text), {"a": "text"}, columns=("a", "b"), header=False
    )
    assert (block.header_lines, block.lines) == (header_lines, 2 - header_lines)


@pytest.mark.parametrize(
    ("members", "known"),
    [('"metadata": {}, "spec": {}', True), ('"metadata": {}', False), ('"spec": {}', False)],
)
def test_an_object_of_kubernetes_has_metadata_and_a_spec(
    tmp_path: Path, members: str, *, known: bool
) -> None:
    assert kubectl.READER.detect(file_of(tmp_path, f'{{"kind": "Pod", {members}}}')) == known
