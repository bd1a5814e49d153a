"""JSON lines: one object per line; a member of an object in it is called ``outer.inner``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from traceana.errors import SourceError
from traceana.ingesters.ahead import first_lines, text_lines
from traceana.ingesters.readers.frames import item_blocks
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile
    from traceana.ingesters.readers.frames import FrameBlock

DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
"""Reads numbers as they are written."""


def _open(file: CsvFile, _timezone: str) -> Rows:
    names: dict[str, None] = {}
    for text in first_lines(file):
        found = _parse(text)
        names |= dict.fromkeys(found if isinstance(found, dict) else ())
    if not names:
        raise SourceError(f"{file.where}: no line holds a JSON object; one per line is expected")

    def blocks(kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
        def cells(text: str) -> list[str | None] | str:
            row = _parse(text)
            return row if isinstance(row, str) else [*map(row.get, kinds)]

        return item_blocks(((text, text) for text in text_lines(file)), cells, kinds)

    return Rows(tuple(names), blocks)


def _parse(text: str) -> dict[str, str | None] | str:
    """Return the cells of a line, or the rule it breaks where it is no object."""
    if not text or text.isspace():
        return "blank_line"
    try:
        row = DECODER.decode(text)
        return flatten(row) if isinstance(row, dict) else "not_json"
    except (ValueError, RecursionError):
        return "not_json"


def flatten(row: dict[str, Any], outer: str = "", /) -> dict[str, str | None]:
    """Return the members of an object, those of objects in it as ``outer.inner``; lists as JSON.

    Of a list of objects, ``outer.count``, ``outer.first.inner`` and ``outer.last.inner`` as well.
    """
    cells: dict[str, str | None] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            cells |= flatten(value, f"{outer}{name}.")
        else:
            is_cell = value is None or isinstance(value, str)
            cells[outer + name] = value if is_cell else json.dumps(value)
            if isinstance(value, list):
                cells[f"{outer}{name}.count"] = str(len(value))
                if value and isinstance(value[0], dict) and isinstance(value[-1], dict):
                    cells |= flatten(value[0], f"{outer}{name}.first.")
                    cells |= flatten(value[-1], f"{outer}{name}.last.")
    return cells


SUFFIXES: Final = (".jsonl", ".ndjson")
READER: Final = Reader(
    "jsonl",
    lambda file: file.name.endswith(SUFFIXES) or file.head.lstrip().startswith(b"{"),
    _open,
    SUFFIXES,
)
"""Reader of JSON lines."""
