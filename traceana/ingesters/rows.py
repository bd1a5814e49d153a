"""Lines of a CSV become frames of text cells; lines that are no row are set apart, never lost.

Polars' own CSV reader fills a short row with nulls, cuts a long one without a word and gives up
a whole file for one bad byte. So each block's separators are counted first: lines that hold
exactly the right number, no quote and valid UTF-8 go to Polars together, the few others are read
one by one.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.files import LONGEST_LINE, CsvFile, open_csv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

LINE: Final = "__line"
"""Column with a row's line number in its file, counted from 1 as an editor does."""

_BLOCK: Final = 1 << 24
_COMMA, _NEWLINE, _QUOTE = b',\n"'


@dataclass(frozen=True)
class BadLine:
    """A line that is no row: what is wrong, and its cells as far as they can be told."""

    line: int
    rule: str
    cells: list[str]
    text: str


@dataclass(frozen=True)
class Block:
    """Some consecutive lines of a CSV.

    Attributes
    ----------
    cells
        One text column a CSV column, and :data:`LINE`; an empty cell is null.
    bad
        The lines that are no row, in order.
    not_utf8
        Whether some cells had bytes that are no UTF-8; U+FFFD stands in their place.
    header_lines
        How many lines of the file are its header: 0 or 1.
    """

    cells: pl.DataFrame
    bad: list[BadLine]
    not_utf8: bool
    header_lines: int
    first_line: int
    data: bytes
    starts: NDArray[np.int64]

    @property
    def lines(self) -> int:
        """How many lines it has, rows and bad ones."""
        return int(self.starts.size)

    def text_of(self, line: int) -> str:
        """Return a line as it stands in the file; bytes that are no UTF-8 are escaped."""
        start = int(self.starts[line - self.first_line])
        return self.data[start : self.data.index(b"\n", start)].decode(errors="backslashreplace")


def read_header(head: bytes) -> list[str]:
    """Return the names in a first line."""
    text = head.decode(errors="backslashreplace").removeprefix("\ufeff")
    return next(csv.reader([text]), [])


def read_blocks(source: CsvFile, /, *, columns: list[str], header: bool) -> Iterator[Block]:
    """Read a CSV block by block.

    Parameters
    ----------
    columns
        Names of the file's columns in their order there.
    header
        Whether the first line holds the names; where it does not, a first line that is equal to
        them is taken for one all the same (somebody put the `.header` file on top).

    Raises
    ------
    SourceError
        If the file is cut short, damaged, or has a line of more than 16 MiB.
    """
    line = 1
    header_lines = 0
    with open_csv(source) as stream:
        for data in _whole_lines(stream, source.where):
            block = data
            if line == 1:
                block = data.removeprefix(b"\xef\xbb\xbf")
                if header or read_header(source.head) == columns:
                    block = block[block.index(b"\n") + 1 :]
                    line = 2
                    header_lines = 1
            if block:
                yield _split(block, columns, line, header_lines)
                line += block.count(b"\n")


def _whole_lines(stream: IO[bytes], label: str) -> Iterator[bytes]:
    rest = b""
    while data := stream.read(_BLOCK):
        cut = data.rfind(b"\n") + 1
        if not cut:
            rest += data
            if len(rest) > LONGEST_LINE:
                raise SourceError(f"{label}: a line of more than 16 MiB; this is no CSV")
            continue
        yield (rest + data[:cut]).replace(b"\r\n", b"\n")
        rest = data[cut:]
    if rest:  # publishers leave out the last line's end
        yield (rest + b"\n").replace(b"\r\n", b"\n")


def _split(data: bytes, columns: list[str], first_line: int, header_lines: int) -> Block:
    """Split whole lines into rows of text cells and bad lines."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw == _NEWLINE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    doubtful = _doubtful(data, raw, starts, ends, separators=len(columns) - 1)
    if not doubtful.size:
        cells = _parse(data, columns, ends.size)
        lines = pl.int_range(first_line, first_line + ends.size, dtype=pl.Int64, eager=True)
        cells = cells.with_columns(lines.alias(LINE))
        return Block(cells, [], False, header_lines, first_line, data, starts)

    plain = np.setdiff1d(np.arange(ends.size), doubtful)
    kept = b"".join(data[starts[i] : ends[i] + 1] for i in plain)
    rows: list[list[str | None]] = []
    row_lines: list[int] = []
    bad: list[BadLine] = []
    not_utf8 = False
    for index in doubtful:
        line = first_line + int(index)
        row, rule = _read_carefully(data[starts[index] : ends[index]], len(columns))
        if rule is None:
            rows.append([cell or None for cell in row])
            row_lines.append(line)
            not_utf8 = not_utf8 or any("\ufffd" in cell for cell in row)
        else:
            text = data[starts[index] : ends[index]].decode(errors="backslashreplace")
            bad.append(BadLine(line, rule, row, text))
    mended = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
    cells = pl.concat(
        [
            _parse(kept, columns, plain.size).with_columns(pl.Series(LINE, plain + first_line)),
            mended.with_columns(pl.Series(LINE, row_lines, dtype=pl.Int64)),
        ]
    )
    return Block(cells.sort(LINE), bad, not_utf8, header_lines, first_line, data, starts)


def _doubtful(
    data: bytes,
    raw: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    separators: int,
) -> NDArray[np.int64]:
    """Return the indices of lines that are not plainly a row."""
    commas = np.flatnonzero(raw == _COMMA)
    doubtful: list[NDArray[np.int64]] = []
    if not _evenly_spread(commas, starts, ends, separators):
        counts = np.diff(np.searchsorted(commas, ends), prepend=0)
        doubtful.append(np.flatnonzero(counts != separators))
    if b'"' in data:
        doubtful.append(np.searchsorted(ends, np.flatnonzero(raw == _QUOTE)))
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            doubtful.append(np.searchsorted(ends, np.flatnonzero(raw > 127)))
    return np.unique(np.concatenate(doubtful)) if doubtful else np.empty(0, np.int64)


def _evenly_spread(
    commas: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    separators: int,
) -> bool:
    """Whether every line has exactly its share of the separators."""
    if commas.size != separators * ends.size:
        return False
    by_line = commas.reshape(ends.size, separators)
    return bool((by_line[:, 0] >= starts).all() and (by_line[:, -1] < ends).all())


def _parse(data: bytes, columns: list[str], height: int) -> pl.DataFrame:
    """Parse lines that are known to be rows."""
    schema = dict.fromkeys(columns, pl.String)
    if not height:
        return pl.DataFrame(schema=schema)
    cells = pl.read_csv(data, has_header=False, schema=schema, quote_char=None)
    if cells.height != height:
        raise AssertionError(f"{height} lines became {cells.height} rows")
    return cells


def _read_carefully(line: bytes, width: int) -> tuple[list[str], str | None]:
    """Return a line's cells, and the rule it breaks if it is no row."""
    text = line.decode(errors="replace")
    if '"' in text:
        try:
            cells = next(csv.reader([text], strict=True))
        except csv.Error:
            return text.split(","), "unbalanced_quote"
    else:
        cells = text.split(",")
    if not text:
        return [], "blank_line"
    if len(cells) != width:
        return cells, "short_row" if len(cells) < width else "long_row"
    return cells, None
