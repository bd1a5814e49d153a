"""JSON lines: one object per line; the members of an object in it are called ``outer.inner``."""

from __future__ import annotations

import io
import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.ahead import read_ahead, whole_lines
from traceana.ingesters.readers.frames import ROWS_A_BLOCK, FrameBlock
from traceana.ingesters.readers.lines import BAD_LINES, LINE

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
    line = 1
    for data in read_ahead(whole_lines(source)):
        lines = io.StringIO(data.decode(errors="backslashreplace"), newline="\n")
        while texts := list(islice(lines, ROWS_A_BLOCK)):
            rows: list[list[str | int | None]] = []
            bad: list[tuple[int, str, str]] = []
            for number, text in enumerate(texts, line):
                row = _parse(text)
                if row is not None:
                    rows.append([number, *map(row.get, kinds)])
                else:
                    rule = "not_json" if text.strip() else "blank_line"
                    bad.append((number, rule, text.removesuffix("\n")))
            yield FrameBlock(
                pl.DataFrame(rows, schema=schema, orient="row"),
                kinds,
                line,
                pl.Series(texts).str.strip_suffix("\n"),
                pl.DataFrame(bad, schema=BAD_LINES, orient="row"),
            )
            line += len(texts)


def _parse(text: str) -> dict[str, str | None] | None:
    """Return the cells of a line, or None where it is no object."""
    try:
        row = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return dict(_flatten(row)) if isinstance(row, dict) else None


def _flatten(row: dict[str, Any], outer: str = "") -> Iterator[tuple[str, str | None]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{outer}{name}.")
        elif value is None or isinstance(value, str):
            yield outer + name, value
        else:
            yield outer + name, json.dumps(value)
