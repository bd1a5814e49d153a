"""Lines become rows or bad lines, none is lost; held against Python's own csv module."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana.errors import SourceError
from traceana.ingesters import files
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import list_csvs
from traceana.ingesters.readers import reader
from traceana.ingesters.readers.csv import read_blocks
from traceana.ingesters.readers.reader import LINE, FrameBlock

COLUMNS = ["a", "b", "c"]
KINDS: dict[str, Kind] = {"a": "text", "b": "text", "c": "text"}


def blocks_of(content: bytes) -> list[FrameBlock]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.csv"
        path.write_bytes(content)
        (source,) = list_csvs(path).csvs
        return list(read_blocks(source, KINDS, columns=COLUMNS, header=True))


cells = st.text(st.characters(exclude_characters='",\r\n\x00\ufeff', codec="utf-8"), max_size=4)
lines = st.one_of(
    st.lists(cells, min_size=3, max_size=3).map(",".join).map(str.encode),
    st.lists(cells, max_size=5).map(",".join).map(str.encode),
    st.binary(max_size=12).filter(lambda line: b"\n" not in line and b"\r" not in line),
    st.sampled_from([b'"a,b",c,d', b'"a,b,c', b'a"b,c,d', b'"a"b",c,d', b",,", b""]),
)


@settings(max_examples=30, deadline=None)
@given(content=st.lists(lines, min_size=1, max_size=30), block=st.integers(1, 64))
def test_every_line_is_a_row_or_a_bad_line(content: list[bytes], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", block)
        blocks = blocks_of(b"\n".join([b"a,b,c", *content, b""]))
    good = [row for one in blocks for row in one.cells.rows()]
    bad = [line for one in blocks for line in one.bad["line"]]
    assert sorted([row[-1] for row in good] + bad) == list(range(2, len(content) + 2))
    for *found, number in good:
        text = content[number - 2].decode(errors="replace")
        expected = next(csv.reader([text])) if '"' in text else text.split(",")
        assert found == [cell or None for cell in expected]
    for line in bad:
        text = content[line - 2].decode(errors="replace")
        assert '"' in text or text.count(",") != 2


def test_text_of_a_line_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BLOCK", 8)
    blocks = blocks_of(b"a,b,c\n1,2,3\n4,5,\xff6\n7,8,9")
    lines = [one.cells[LINE] for one in blocks]
    texts = [one.text_of(numbers) for one, numbers in zip(blocks, lines, strict=True)]
    told = dict(zip(pl.concat(lines), pl.concat(texts), strict=True))
    assert told == {2: "1,2,3", 3: "4,5,\\xff6", 4: "7,8,9"}


def test_a_line_without_end_is_no_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 100)
    monkeypatch.setattr(files, "_BLOCK", 64)
    with pytest.raises(SourceError, match="this is no CSV"):
        blocks_of(b"a,b,c\n" + b"x" * 500)


def test_a_carriage_return_within_the_first_line_is_a_part_of_it() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.csv"
        path.write_bytes(b"1,2\r2,3\n")
        (source,) = list_csvs(path).csvs
        (block,) = read_blocks(source, KINDS, columns=COLUMNS, header=False)
    assert block.cells.rows() == [("1", "2\r2", "3", 1)]


def test_items_of_several_blocks_keep_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "ROWS_A_BLOCK", 3)
    items = [(f"t{number}", number) for number in range(1, 9)]

    def parse(number: int) -> list[str | None] | str | bool:
        odd: dict[int, str | bool] = {2: "wrong", 5: "wrong", 6: False, 7: True}
        return odd[number] if number in odd else [str(number)]

    blocks = list(reader.item_blocks(items, parse, {"n": "text"}))
    assert [block.first_line for block in blocks] == [1, 4, 7]
    assert [block.frame.rows() for block in blocks] == [
        [("1", 1), ("3", 3)],
        [("4", 4)],
        [("8", 8)],
    ]
    bad = pl.concat([block.bad for block in blocks])
    assert bad.rows() == [(2, "wrong", "t2"), (5, "wrong", "t5")]
    assert [block.not_applicable for block in blocks] == [0, 1, 0]


def test_a_frame_that_cannot_be_read_has_one_reason(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": range(100)}).write_parquet(path)
    failing = pl.scan_parquet(path).with_columns(pl.col("a").cast(pl.String).str.to_date("%Y"))
    with pytest.raises(SourceError, match=r"^x: damaged \(conversion from .*\); fetch it again$"):
        list(reader.frame_blocks(failing, {}, "x"))


def test_numbers_and_booleans_of_a_frame_are_read_as_numbers() -> None:
    frame = pl.DataFrame({"n": [2, None], "flag": [True, False], "x": [0.5, float("nan")]})
    cells = reader.FrameBlock(frame, dict.fromkeys(frame.columns, "number"), 5).cells
    assert cells.rows() == [(2.0, 1.0, 0.5, 5), (None, 0.0, None, 6)]
    assert cells.dtypes[:3] == [pl.Float64] * 3


def test_a_block_of_items_ends_after_the_longest_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LONGEST_LINE", 10)
    blocks = list(reader.item_blocks([("12345", 0)] * 8, lambda _: ["x"], {"n": "text"}))
    assert [block.frame.height for block in blocks] == [3, 3, 2]
    (block,) = reader.item_blocks([("1", 0), ("2", 0)], lambda _: "wrong", {"n": "text"})
    assert block.cells.schema == {"n": pl.String, LINE: pl.Int64}
    assert (block.cells.height, block.bad.height, block.not_applicable) == (0, 2, 0)


def test_the_text_of_a_frame_is_its_used_cells() -> None:
    frame = pl.DataFrame({"a": ["1", None], "b": ["2", "x"], "c": [0.5, float("inf")]})
    block = reader.FrameBlock(frame, {"a": "text", "b": "text", "c": "number"}, 7)
    assert block.not_applicable == 0
    assert block.text_of(pl.Series([7, 8])).to_list() == [
        '{"a":"1","b":"2","c":"0.5"}',
        '{"a":null,"b":"x","c":"inf"}',
    ]
    finite = reader.FrameBlock(frame[:1], {"c": "number"}, 7)
    assert finite.text_of(pl.Series([7])).to_list() == ['{"c":0.5}']
