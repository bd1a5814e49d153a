"""Elements of a JSON array are found wherever the text is cut."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from traceana.errors import SourceError
from traceana.ingesters.files import CsvFile, list_csvs
from traceana.ingesters.readers import json as reader


def file_of(folder: Path, text: str) -> CsvFile:
    path = folder / "x.json"
    path.write_text(text)
    (file,) = list_csvs(path, suffixes=(".json",)).csvs
    return file


@pytest.mark.parametrize("size", [1, 4, 9, 1000])
def test_elements_are_the_same_however_much_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(reader, "_BYTES", size)
    texts = ['{"a": "1"}', '{"b": ["]", null]}', "{}"]
    file = file_of(tmp_path, f"[{texts[0]},\n {texts[1]} ,{texts[2]}]")
    if size == 1:  # the beginning of an array is looked for in the first part
        monkeypatch.setattr(reader, "_OPENING", re.compile(r"\["))
    assert [*reader.read_items(file)] == [(text, json.loads(text)) for text in texts]


def test_an_object_after_a_line_of_one_character_is_read(tmp_path: Path) -> None:
    found = reader.read_items(file_of(tmp_path, 'x\n{"a": "1"}'), listed=False)
    assert [*found] == [("x", None), ('{"a": "1"}', {"a": "1"})]


@pytest.mark.parametrize(("longest", "length", "fits"), [(20, 24, True), (46, 50, False)])
def test_an_element_may_be_as_long_as_a_line_and_two_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int, length: int, *, fits: bool
) -> None:
    monkeypatch.setattr(reader, "_BYTES", 4)  # looked at: 7, 14, 28 and 56 characters
    monkeypatch.setattr(reader, "LONGEST_LINE", longest)
    text = '{"a": "' + "x" * (length - 9) + '"}'
    items = reader.read_items(file_of(tmp_path, f"[{text}{' ' * 20}]"))
    if fits:
        assert next(items)[0] == text
    else:
        with pytest.raises(SourceError, match="longer than 16 MiB"):
            next(items)


@pytest.mark.parametrize(("before", "names"), [(9_999, ("a", "b")), (10_000, ("a",))])
def test_members_are_those_of_the_first_ten_thousand_elements(
    tmp_path: Path, before: int, names: tuple[str, ...]
) -> None:
    file = file_of(tmp_path, f'[{"{}, " * (before - 1)}{{"a": 1}}, {{"b": 1}}]')
    assert reader.READER.open(file, "UTC").columns == names
