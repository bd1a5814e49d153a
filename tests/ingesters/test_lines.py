"""Lines of a CSV at the limits of what is read at once."""

from __future__ import annotations

import pytest

from traceana.ingesters.readers import csv as lines
from traceana.ingesters.readers.csv import Block
from traceana.ingesters.readers.reader import LINE


@pytest.mark.parametrize(("height", "heights"), [(2, [2]), (3, [3]), (4, [3, 1]), (7, [3, 3, 1])])
def test_parts_of_a_block_are_its_lines(
    monkeypatch: pytest.MonkeyPatch, height: int, heights: list[int]
) -> None:
    monkeypatch.setattr(lines, "_CELLS_A_PART", 7)  # 3 lines of 2 cells
    data = b"".join(b"%d,%s\n" % (row, b"x" * row) for row in range(height))
    parts = list(Block(data, ("a", "b"), 5, 1).parts())
    assert [part.lines for part in parts] == heights
    assert b"".join(part.data for part in parts) == data
    assert [n for part in parts for n in part.read()[0][LINE]] == list(range(5, 5 + height))


@pytest.mark.parametrize("byte", [0x80, 0xBF, 0xFF])
def test_one_byte_that_is_no_utf8_is_replaced(byte: int) -> None:
    block = Block(b"a,%c\nb,\x7f\n" % byte, ("x", "y"), 1, 0)
    assert block.read()[0].rows() == [("a", "\ufffd", 1), ("b", "\x7f", 2)]
    assert block.not_utf8
    assert block.read()[1].is_empty()


@pytest.mark.parametrize(("separators", "rule"), [(4, None), (5, "long_row"), (6, "long_row")])
def test_a_line_with_quotes_is_a_row_up_to_a_number_of_separators(
    monkeypatch: pytest.MonkeyPatch, separators: int, rule: str | None
) -> None:
    monkeypatch.setattr(lines, "_MOST_QUOTED", 4)
    text = f'"{"," * (separators - 1)}",b'
    at_once = Block(f"{text}\n1,2\n".encode(), ("x", "y"), 1, 0)
    assert at_once.read()[0].height == 2
    block = Block(f"{text}\n1,2\nshort\n".encode(), ("x", "y"), 1, 0)
    expected = [] if rule is None else [(1, rule, text)]
    assert block.read()[1].rows() == [*expected, (3, "short_row", "short")]
    assert block.read()[0].height == 2 - (rule is not None)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b'"a,\xff",b', None),
        (b'"a\xff"', "short_row"),
        (b'"a\xff",b,c', "long_row"),
        (b'"a\xff,b', "unbalanced_quote"),
    ],
)
def test_a_line_with_quotes_that_is_no_utf8(line: bytes, rule: str | None) -> None:
    block = Block(line + b"\n1,2\n", ("x", "y"), 1, 0)
    good = [("a,\ufffd", "b", 1)] if rule is None else []
    assert block.read()[0].rows() == [*good, ("1", "2", 2)]
    text = line.decode(errors="backslashreplace")
    assert block.read()[1].rows() == ([] if rule is None else [(1, rule, text)])
