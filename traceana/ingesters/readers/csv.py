"""CSV in blocks of whole lines; node events of Slurm, and pods and nodes of a simulator in CSV."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.files import read_ahead, whole_lines
from traceana.ingesters.parsing import own_table
from traceana.ingesters.readers.frames import FrameBlock
from traceana.ingesters.readers.lines import Block
from traceana.ingesters.readers.reader import Reader, Rows, own_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

_SEPARATORS: Final = ",;\t|"
_RARE: Final = "\x1f\x01^~:# "  # of a first line that has none of the others


MOST_COLUMNS: Final = 10_000
"""A table with more is refused: each column takes memory, whether or not it is used."""


def read_header(head: bytes, separator: str = ",") -> list[str]:
    """Return the names in a first line."""
    text = head.decode(errors="backslashreplace").removeprefix("\ufeff").replace("\0", "\\0")
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return text.split(separator)


def find_separator(head: bytes) -> str:
    """Return what separates a first line's names: the sign that makes most of them."""
    signs = _SEPARATORS if any(sign.encode() in head for sign in _SEPARATORS) else "," + _RARE
    return max(signs, key=lambda sign: len(read_header(head, sign)))


def read_blocks(
    source: CsvFile,
    kinds: Mapping[str, Kind],
    /,
    *,
    columns: Sequence[str],
    header: bool = True,
    separator: str = ",",
) -> Iterator[FrameBlock]:
    """Read a CSV block by block: the columns that are used."""
    line = 1
    header_lines = 0
    left = b""
    for data in read_ahead(chain(whole_lines(source), [b""])):
        lines = left + data
        if line == 1:
            lines = lines.removeprefix(b"\xef\xbb\xbf")
            if header or read_header(source.head, separator) == list(columns):
                lines = lines[lines.index(b"\n") + 1 :]
                line = 2
                header_lines = 1
        block = Block(lines, tuple(columns), line, header_lines, separator)
        cut = block.end_of_rows(lines) if data else len(lines)
        lines, left = lines[:cut], lines[cut:]
        if lines:
            block = replace(block, data=lines)
            yield from (frame_block(part, kinds) for part in block.parts())
            line += block.lines


def frame_block(block: Block, kinds: Mapping[str, Kind], /) -> FrameBlock:
    """Return the rows of some lines."""
    rows, bad = block.read([*kinds])
    return FrameBlock(
        rows,
        kinds,
        block.first_line,
        block.text_of,
        bad,
        block.header_lines,
        not_utf8=block.not_utf8,
    )


def _open(file: CsvFile, _timezone: str) -> Rows:
    if not file.head.strip():
        raise SourceError(f"{file.where}: the first line is empty; expected names or data")
    if b"\r" in file.head and b'"' not in file.head:
        raise SourceError(f"{file.where}: lines end in CR alone; save it with LF or CR LF")
    separator = find_separator(file.head)
    columns = read_header(file.head, separator)
    if file.columns:
        if len(columns) != len(file.columns):
            raise SourceError(
                f"{file.where}: {len(file.columns)} columns are named, its first line has "
                f"{len(columns)}"
            )
        return csv_rows(file, file.columns, header=False, separator=separator)
    if columns.count("") > 1:  # doubled separators, or several at the end: not read
        columns = [name or f"\0{place}" for place, name in enumerate(columns)]
    if len(columns) > MOST_COLUMNS:
        raise SourceError(
            f"{file.where}: its first line has {len(columns):,} cells or more; at most "
            f"{MOST_COLUMNS:,} columns are read"
        )
    repeated = [name for name, times in Counter(columns).items() if times > 1]
    if repeated:
        raise SourceError(f"{file.where}: its header names {repeated[0]!r} more than once")
    return csv_rows(file, columns, separator=separator)


def csv_rows(
    file: CsvFile, columns: Sequence[str], /, *, header: bool = True, separator: str = ","
) -> Rows:
    """Return the rows of a CSV with these columns."""
    return Rows(
        tuple(columns),
        lambda kinds: read_blocks(file, kinds, columns=columns, header=header, separator=separator),
    )


READER: Final = Reader("csv", lambda _: True, _open, (".csv", ".tsv", ".psv"))
"""Reader of tables with a header: separated by comma, semicolon, tab, bar or a rarer sign."""

_EVENT_FIELDS: Final = {"NodeName", "TimeStart", "TimeEnd", "State", "Reason"}
NODE_EVENTS: Final = Reader(
    "sacctmgr",
    lambda file: set(read_header(file.head, "|")) >= _EVENT_FIELDS,
    _open,
    (".txt", ".csv"),
    own_mapping("sacctmgr"),
)
"""Reader of node events; events of the whole cluster have no node and are rejected."""

_PODS: Final[list[str]] = own_table("formats")["openb"]["pods"].split()
_NODES: Final[list[str]] = own_table("formats")["openb"]["nodes"].split()


def _has_pods(file: CsvFile) -> bool:
    """Return whether the columns, in any order, are those of pods or of nodes."""
    columns = set(read_header(file.head))
    pods = columns >= {"name", "num_gpu", "gpu_milli"}
    return pods or columns >= set(_NODES) or {"sn", "gpu"} <= columns <= set(_NODES)


def _open_pods(file: CsvFile, timezone: str) -> Rows:
    rows = READER.rows(file, timezone)
    expected = _NODES if "sn" in rows.columns else _PODS
    absent = [name for name in expected if name not in rows.columns]

    def blocks(kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
        present = {name: kind for name, kind in kinds.items() if name not in absent}
        for block in rows.blocks(present):
            nulls = (pl.lit(None, pl.String).alias(name) for name in absent)
            yield replace(block, frame=block.frame.with_columns(nulls), kinds=kinds)

    return replace(rows, columns=(*rows.columns, *absent), blocks=blocks)


PODS: Final = Reader(
    "openb-pods",
    _has_pods,
    _open_pods,
    suffixes=(".csv",),
    mapping=own_mapping("openb_pods"),
)
