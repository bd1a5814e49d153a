"""JSON lines: one object per line; the members of an object in it are called ``outer.inner``."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.ahead import numbered_lines, whole_lines
from traceana.ingesters.readers.frames import ROWS_A_BLOCK, FrameBlock, block_of_text
from traceana.ingesters.readers.lines import LINE, BadLine
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile


def read_columns(source: CsvFile, /) -> tuple[str, ...]:
    """Return the members of the objects in a file's first 16 MiB.

    Raises
    ------
    SourceError
        If none of these lines is an object.
    """
    names: dict[str, None] = {}
    for data in whole_lines(source):
        for text in data.decode(errors="replace").splitlines():
            names |= dict.fromkeys(_parse(text) or ())
        break
    if not names:
        raise SourceError(f"{source.where}: no line holds a JSON object; one per line is expected")
    return tuple(names)


def read_blocks(source: CsvFile, kinds: Mapping[str, Kind], /) -> Iterator[FrameBlock]:
    """Read a file block by block; numbers are read as they are written."""
    schema = {LINE: pl.Int64(), **dict.fromkeys(kinds, pl.String())}
    for line, texts in numbered_lines(source, most=ROWS_A_BLOCK):
        rows: list[list[str | int | None]] = []
        bad: list[BadLine] = []
        for number, text in enumerate(texts, line):
            row = _parse(text)
            if row is None:
                bad.append((number, "not_json" if text.strip() else "blank_line", text))
            else:
                rows.append([number, *map(row.get, kinds)])
        yield block_of_text(rows, schema, kinds, first_line=line, texts=texts, bad=bad)


def _parse(text: str) -> dict[str, str | None] | None:
    """Return the cells of a line, or None where it is no object."""
    try:
        row = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return dict(flatten(row)) if isinstance(row, dict) else None


def flatten(row: dict[str, Any], outer: str = "", /) -> Iterator[tuple[str, str | None]]:
    """Yield the members of an object, those of objects in it as ``outer.inner``; lists as JSON."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{outer}{name}.")
        elif value is None or isinstance(value, str):
            yield outer + name, value
        else:
            yield outer + name, json.dumps(value)


SUFFIXES: Final = (".jsonl", ".ndjson")
READER: Final = Reader(
    "jsonl",
    lambda file: file.name.endswith(SUFFIXES) or file.head.lstrip().startswith(b"{"),
    lambda file, _timezone: Rows(read_columns(file), partial(read_blocks, file)),
    SUFFIXES,
)
"""Reader of JSON lines."""
