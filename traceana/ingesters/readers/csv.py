"""CSV in blocks of whole lines, read at once by pyarrow, else (if any is no row) line by line."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Final, cast

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import csv as arrow

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import CsvFile, read_ahead, whole_lines
from traceana.ingesters.parsing import own_table
from traceana.ingesters.readers.reader import (
    BAD_LINES,
    LINE,
    FrameBlock,
    Reader,
    Rows,
    check_width,
    own_mapping,
)

_SEPARATORS: Final = ",;\t|"
_RARE: Final = "\x1f\x01^~:# "  # of a first line that has none of the others

_CELLS_A_PART: Final = 1 << 20
_MOST_QUOTED: Final = 1 << 16
_MOST_JOINED: Final = 1000  # lines of one row
_NEWLINE: Final = 10


def read_header(head: bytes, separator: str = ",") -> list[str]:
    """Return the names in a first line."""
    text = head.decode(errors="backslashreplace").removeprefix("\ufeff").replace("\0", "\\0")
    try:
        return next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return text.split(separator)


@dataclass(frozen=True)
class Block:
    """Some consecutive lines of a CSV, whole, each with its line end."""

    data: bytes
    columns: tuple[str, ...]
    first_line: int
    """Number of the first of them in the file, counted from 1 as an editor does."""
    header_lines: int
    """How many lines of the file are its header: 0 or 1."""
    separator: str = ","
    quoting: bool = True
    """Whether cells may be quoted as in RFC 4180; else a quote is a character as any other."""

    @cached_property
    def lines(self) -> int:
        """How many lines it has, rows and bad ones."""
        # a third of the time of bytes.count where lines are short
        return int(np.count_nonzero(np.frombuffer(self.data, np.uint8) == _NEWLINE))

    def at_once(self, only: Sequence[str] | None = None) -> pl.DataFrame | None:
        """Return lines as rows of text (`only` some columns); None where one is no plain row."""
        quoted = self.quoting and b'"' in self.data
        # pyarrow is lenient, and finds other lines at CR or after a byte order mark
        odd = self.data.startswith(codecs.BOM_UTF8) or b"\r" in self.data
        if odd or (quoted and not self._is_strict()):
            return None
        places = {name: str(place) for place, name in enumerate(self.columns)}  # any may be a name
        names = [*places.values()]
        used = self.columns if quoted or not only else only  # lines in quotes are counted below
        read = {name: places[name] for name in used}
        try:
            table = arrow.read_csv(
                pa.BufferReader(self.data),
                arrow.ReadOptions(
                    use_threads=False,
                    block_size=len(self.data) + 1,
                    column_names=names,
                ),
                arrow.ParseOptions(delimiter=self.separator, quote_char='"' if quoted else False),
                arrow.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    check_utf8=False,  # read() has checked it
                    include_columns=list(read.values()),
                ),
            )
        except pa.ArrowInvalid:
            return None
        rows = cast("pl.DataFrame", pl.from_arrow(table))
        rows.columns = list(read)
        place = pl.int_range(self.first_line, self.first_line + rows.height, eager=True)
        if rows.height < self.lines:
            breaks = rows.select(pl.sum_horizontal(pl.col(pl.String).str.count_matches("\n")))
            before = breaks.to_series().fill_null(0).cum_sum()
            if rows.height + (before[-1] if quoted and rows.height else 0) < self.lines:
                return None  # pyarrow leaves blank lines out
            place += before.shift(1, fill_value=0)
        return rows.with_columns(place.cast(pl.Int64).alias(LINE))

    def _is_strict(self) -> bool:
        """Whether each cell is quoted as a whole, or does not begin with a quote."""
        end = rf"[\n\x{{{ord(self.separator):x}}}]"
        bare = rf'(?:[^"\n\x{{{ord(self.separator):x}}}][^\n\x{{{ord(self.separator):x}}}]*)?'
        try:
            text = pl.Series([self.data.decode()])
        except UnicodeDecodeError:
            return False
        return text.str.contains(rf'\A(?:(?:"(?:[^"]|"")*"|{bare}){end})*\z').all()

    @cached_property
    def not_utf8(self) -> bool:
        """Whether some cells had invalid UTF-8, replaced by U+FFFD."""
        if self.data.isascii():
            return False
        try:
            self.data.decode()
        except UnicodeDecodeError:
            return True
        return False

    def parts(self) -> Iterator[Block]:
        """Split into blocks small enough to be read line by line; one is made after the other."""
        step = max(_CELLS_A_PART // len(self.columns), 1)
        if self.lines <= step:
            yield self
            return
        ends = np.flatnonzero(np.frombuffer(self.data, np.uint8) == _NEWLINE)[step - 1 : -1 : step]
        edges = [0, *(ends + 1).tolist(), len(self.data)]
        del ends  # it keeps all of them
        first, left = self.first_line, b""
        for start, end in pairwise(edges):
            data = left + self.data[start:end]
            cut = len(data) if end == len(self.data) else self.end_of_rows(data)
            part, left = data[:cut], data[cut:]
            if len(part) == len(self.data):
                yield self
            elif part:
                yield replace(self, data=part, first_line=first)
            first += part.count(b"\n")

    def end_of_rows(self, data: bytes) -> int:
        """Return where the last row ends that is whole: a cell in quotes may have line ends."""
        if not self.quoting or b'"' not in data or data.count(b'"') % 2 == 0:
            return len(data)
        end = len(data)
        for _ in range(_MOST_JOINED):
            start = data.rfind(b"\n", 0, end - 1) + 1
            if data.count(b'"', start, end) % 2:
                return start
            end = start
        return len(data)

    def text_of(self, lines: pl.Series) -> pl.Series:
        """Return lines as in the file; invalid UTF-8 is escaped."""
        return self._texts.gather(lines - self.first_line)

    @cached_property
    def _texts(self) -> pl.Series:
        data = self.data.decode(errors="backslashreplace").encode() if self.not_utf8 else self.data
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1
        bounds = pa.py_buffer(np.append(0, ends))
        lines = pa.LargeStringArray.from_buffers(self.lines, bounds, pa.py_buffer(data))
        return cast("pl.Series", pl.from_arrow(lines)).str.strip_suffix("\n")

    def read(self, only: Sequence[str] | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return rows of text, with the columns `only` or more, and the lines that are none."""
        if self.not_utf8:
            recoded = self.data.decode(errors="replace").encode()
            rows, bad = replace(self, data=recoded).read(only)
            return rows, bad.with_columns(text=self.text_of(bad["line"]))
        rows_at_once = self.at_once(only)
        if rows_at_once is None:
            return self._line_by_line()
        return rows_at_once, BAD_LINES.to_frame()

    def _line_by_line(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        rows: list[list[str]] = []
        places: list[int] = []
        bad: list[tuple[int, str]] = []
        texts = self.data.decode().replace("\r\n", "\n").split("\n")[:-1]
        at = 0
        while at < len(texts):
            cells, rule = self._cells_of(texts[at])
            after = at + 1
            if rule and self.quoting and texts[at].count('"') % 2:
                # a row in quotes lasts to the next line with an odd number of them
                others = range(after, min(at + _MOST_JOINED + 1, len(texts)))
                last = next((line for line in others if texts[line].count('"') % 2), at)
                whole, broken = self._cells_of("\n".join(texts[at : last + 1]))
                if not broken:
                    cells, rule, after = whole, "", last + 1
            if rule:
                bad.append((at + self.first_line, rule))
            else:
                rows.append(cells)
                places.append(at + self.first_line)
            at = after
        columns = zip(*rows, strict=True) if rows else [()] * len(self.columns)
        text = dict(zip(self.columns, columns, strict=True))
        read = pl.DataFrame(text, schema=dict.fromkeys(self.columns, pl.String))
        wrong = pl.DataFrame(bad, {"line": pl.Int64, "rule": pl.String}, orient="row")
        return (
            read.select(pl.when(pl.all() != "").then(pl.all())).with_columns(
                pl.Series(LINE, places, pl.Int64)
            ),
            wrong.with_columns(text=self.text_of(wrong["line"])),
        )

    def _cells_of(self, text: str) -> tuple[list[str], str]:
        width = len(self.columns)
        cells = text.count(self.separator) + 1
        if not text:
            return [], "blank_line"
        if self.quoting and '"' in text and cells < width + _MOST_QUOTED:
            try:
                (row,) = csv.reader([text], strict=True, delimiter=self.separator)
            except (csv.Error, ValueError):
                return [], "unbalanced_quote"
            cells = len(row)
        elif cells == width:
            row = text.split(self.separator)
        if cells != width:
            return [], "short_row" if cells < width else "long_row"
        return row, ""


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
    signs = _SEPARATORS if any(sign.encode() in file.head for sign in _SEPARATORS) else "," + _RARE
    separator = max(signs, key=lambda sign: len(read_header(file.head, sign)))
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
    check_width(file, len(columns))
    repeated = [name for name, times in Counter(columns).items() if times > 1]
    if repeated:
        raise SourceError(f"{file.where}: its header names {repeated[0]!r} more than once")
    return csv_rows(file, columns, separator=separator)


def csv_rows(
    file: CsvFile, columns: Sequence[str], /, *, header: bool = True, separator: str = ","
) -> Rows:
    """Return the rows of a CSV with these columns."""
    read = partial(read_blocks, file, columns=columns, header=header, separator=separator)
    return Rows(tuple(columns), read)


READER: Final = Reader("csv", lambda _: True, _open, (".csv", ".tsv", ".psv"))

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
