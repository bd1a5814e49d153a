"""JSON lines: one object per line; a member of an object in it is called ``outer.inner``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from traceana.errors import SourceError
from traceana.ingesters.files import first_lines, text_lines
from traceana.ingesters.readers.frames import item_blocks
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceana.ingesters.files import CsvFile

DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
"""Reads numbers as they are written."""


NESTED: Final = "[]."
"""In a path of rows, what leads from a list to a list in each of its elements."""


def unpack(items: Iterable[tuple[str, Any]], path: str, /) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a list in each object, as pages have them; None of one without."""
    for text, item in items:
        inner = item
        for name in path.split("."):
            inner = inner.get(name) if isinstance(inner, dict) else None
        if isinstance(inner, list):
            yield from ((json.dumps(value), value) for value in inner)
        else:
            yield text, None


def _open(file: CsvFile, _timezone: str) -> Rows:
    names: dict[str, None] = {}
    if file.rows:
        return _open_pages(file, file.rows.removeprefix(NESTED))
    for text in first_lines(file):
        parsed = _parse(text)
        names |= dict.fromkeys(parsed if isinstance(parsed, dict) else ())
    if not names:
        raise SourceError(f"{file.where}: no line holds a JSON object; one per line is expected")

    return Rows(
        tuple(names),
        lambda kinds: item_blocks(((text, text) for text in text_lines(file)), _parse, kinds),
    )


def _open_pages(file: CsvFile, path: str) -> Rows:
    """Open a file with pages of an API, one per line, by the path of the list in each."""

    def items(lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
        return unpack(((line, _decode(line)) for line in lines if line.strip()), path)

    def cells(item: Any) -> dict[str, str | None] | str:  # noqa: ANN401
        return flatten(item) if isinstance(item, dict) else "not_json"

    pages = (item for _, item in items(first_lines(file)) if isinstance(item, dict))
    names = tuple(dict.fromkeys(name for item in pages for name in flatten(item)))
    if not names:
        raise SourceError(f"{file.where}: no list of objects called {path} is in its lines")
    return Rows(names, lambda kinds: item_blocks(items(text_lines(file)), cells, kinds))


def _decode(text: str) -> Any:  # noqa: ANN401
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _parse(text: str) -> dict[str, str | None] | str:
    """Return the cells of a line, or the rule it breaks where it is no object or has no member."""
    if not text or text.isspace():
        return "blank_line"
    row = _decode(text)
    try:
        return flatten(row) or "no_object" if isinstance(row, dict) else "not_json"
    except RecursionError:
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
