"""Elements of a JSON array are found wherever the text is cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.errors import SourceError
from traceana.ingesters import ingest, propose_mapping
from traceana.ingesters.files import CsvFile, list_csvs
from traceana.ingesters.readers import json as reader
from traceana.store import open_store


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
    assert [*reader.read_items(file)] == [(text, json.loads(text)) for text in texts]


def test_an_object_after_a_line_of_one_character_is_read(tmp_path: Path) -> None:
    found = reader.read_items(file_of(tmp_path, 'x\n{"a": "1"}'), listed=False)
    assert [*found] == [("x", None), ('{"a": "1"}', {"a": "1"})]


def test_of_very_many_lists_the_message_has_some(tmp_path: Path) -> None:
    lists = ", ".join(f'"{n}{"x" * 50}": [{"{}, " * n}{{}}]' for n in range(100))
    with pytest.raises(SourceError, match=r'\(100 in all\).* such as rows = "99x'):
        reader.list_of(file_of(tmp_path, f"{{{lists}}}"))


def test_very_many_broken_objects_in_succession_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_MOST_BROKEN", 3)
    broken = '{"a":\n'
    for text in (broken * 3 + "{}\n", (broken * 3 + "{}\n") * 2):
        items = [*reader.read_items(file_of(tmp_path, text), listed=False)]
        assert [item for _, item in items] == [None, None, None, {}] * (len(items) // 4)
    with pytest.raises(SourceError, match="not JSON"):
        list(reader.read_items(file_of(tmp_path, broken * 4 + "{}\n"), listed=False))


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


ROWS = [{"id": "a", "n": {"gpus": 1}}, {"id": "b", "n": {"gpus": 2}}]
MAPPING = '[jobs]\njob_id = "id"\ngpus = "n.gpus"\n'


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (ROWS, None),
        ({"meta": {"errors": [], "api": {"v": [1, 2]}}, "jobs": ROWS}, None),
        ({"data": {"items": ROWS, "total": 2}, "next": None}, None),
        ({"data": {"items": ROWS}, "nodes": [{"name": "n1"}]}, "data.items"),
        ({"jobs": ROWS[:1], "note": "{[", "more": {"a": {}, "b": []}}, "jobs"),
    ],
)
def test_a_list_is_found_wherever_it_is(
    tmp_path: Path, content: object, rows: str | None, indent: int | None
) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content, indent=indent, separators=None if indent else (",", ":")))
    head = f'[trace]\nrows = "{rows}"\n' if rows else ""
    (entry,) = ingest(path, mapping=head + MAPPING, trace="m", store=tmp_path / "s").entries
    jobs = open_store(tmp_path / "s").scan("m", "jobs").select("job_id", "gpus").collect().rows()
    assert jobs == [("a", 1.0), ("b", 2.0)][: len(jobs)]
    assert entry.rows_read == entry.rows_kept == len(jobs) >= 1


PAGES = [{"page": n, "jobs": [{"id": f"{n}{m}", "n": {"gpus": 1}} for m in "abcde"]} for n in "12"]


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("x.json", json.dumps(PAGES), "[].jobs"),
        ("x.json", json.dumps({"pages": PAGES}, indent=1), "pages[].jobs"),
        ("x.jsonl", "".join(json.dumps(page) + "\n" for page in PAGES), "[].jobs"),
    ],
)
def test_the_rows_of_pages_are_the_elements_of_their_lists(
    tmp_path: Path, name: str, text: str, rows: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    mapping = f'[trace]\nrows = "{rows}"\n{MAPPING}'
    (entry,) = ingest(path, mapping=mapping, trace="m", store=tmp_path / "s").entries
    assert (entry.rows_read, entry.rows_kept) == (10, 10)
    assert 'rows = "[].jobs"' in propose_mapping(path)


def test_two_lists_are_named_and_one_has_to_be_stated(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"nodes": [{"name": "n1"}], "jobs": ROWS}))
    expected = r'lists of objects: nodes \(1\), jobs \(2\); .* rows = "jobs"'
    with pytest.raises(SourceError, match=expected):
        ingest(path, mapping=MAPPING, trace="m", store=tmp_path / "s")
    with pytest.raises(SourceError, match=r"rows = 'job' is no list of objects; it has nodes"):
        ingest(path, mapping='[trace]\nrows = "job"\n' + MAPPING, trace="m", store=tmp_path / "s")
    proposed = propose_mapping(path)
    assert 'rows = "jobs"' in proposed
    ledger = ingest(path, mapping=proposed, trace="m", store=tmp_path / "s")
    assert ledger.entries[0].rows_kept == 2


def test_objects_with_lists_on_lines_of_their_own_are_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({**row, "tasks": [{"t": 1}]}) + "\n" for row in ROWS))
    (entry,) = ingest(path, mapping=MAPPING, trace="m", store=tmp_path / "s").entries
    assert entry.rows_kept == 2


names = st.text(st.characters(codec="utf-8"), max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


@given(value=st.dictionaries(names, values, max_size=4), indent=st.sampled_from([None, 1]))
def test_lists_are_those_of_the_whole_text(value: dict[str, object], indent: int | None) -> None:
    def lists(inside: object) -> list[int]:
        if isinstance(inside, list):
            return [len(inside)] if any(isinstance(one, dict) for one in inside) else []
        members = inside.values() if isinstance(inside, dict) else ()
        return [count for one in members for count in lists(one)]

    found = reader.find_lists(json.dumps(value, indent=indent))
    assert [one.elements for one in found] == lists(value)
