"""Lines of a CSV become frames of text cells; lines that are no row are set apart, never lost.

Polars' own CSV reader fills a short row with nulls without a word, and gives up a whole file for a
long one or for one bad byte. So a block is parsed at once, numbers as numbers, and its commas, line
ends and other marks are counted: where the counts fit the rows, every line is one. That is the
common case. Else the lines in doubt are found, and read one by one apart from the others.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

LINE: Final = "\0line"
"""Column with a row's line number in its file, counted from 1; no source has such a name."""

_STEP: Final = 1 << 17
_COMMA, _NEWLINE, _QUOTE = b',\n"'
_HYPHEN: Final = ord("-")


@dataclass(frozen=True)
class BadLine:
    """A line that is no row: what is wrong, and its cells as far as they can be told."""

    line: int
    rule: str
    cells: list[str]
    text: str


@dataclass(frozen=True)
class Block:
    """Some consecutive lines of a CSV, whole, each with its line end.

    Attributes
    ----------
    data
        The lines' bytes.
    columns
        Names of the file's columns.
    first_line
        Number of the first of them in the file, counted from 1 as an editor does.
    header_lines
        How many lines of the file are its header: 0 or 1.
    separator
        What stands between two cells.
    quoting
        Whether cells may be quoted as in RFC 4180; else a quote is a character as any other.
    """

    data: bytes
    columns: tuple[str, ...]
    first_line: int
    header_lines: int
    separator: str = ","
    quoting: bool = True
    not_applicable: int = 0

    @cached_property
    def lines(self) -> int:
        """How many lines it has, rows and bad ones."""
        return self.data.count(b"\n")

    def typed(
        self, numbers: Collection[str], only: Sequence[str] | None = None
    ) -> pl.DataFrame | None:
        """Return all lines as rows, the columns `numbers` as numbers and the others as text.

        Of the columns, `only` some may be read. Further there is :data:`LINE`; an empty cell is
        null. None where any line is not plainly a row, or any cell not plainly a number:
        :attr:`cells` then tells which.
        """
        try:
            cells = _parse(self.data, self.columns, self.separator, numbers, only)
        except pl.exceptions.PolarsError:
            return None
        separators = cells.height * (len(self.columns) - 1)
        if self.separator == ",":
            commas, marks = _count(self.data)
        else:
            commas, marks = self.data.count(self.separator.encode()), -1
        # A short line's last cell is null. With as many commas as there should be, it makes
        # another line too long, and that Polars refuses.
        if commas != separators:
            return None
        # Where there are no more marks than that and a line end a row, there is nothing else.
        if marks != separators + cells.height and not self._is_plain(
            cells.height, numbers=bool(numbers)
        ):
            return None
        self.__dict__["lines"] = cells.height
        return cells.with_columns(pl.col(LINE).cast(pl.Int64) + self.first_line)

    def _is_plain(self, height: int, *, numbers: bool) -> bool:
        """Whether there are so many lines, no quote, only UTF-8, and no cell begins with a blank.

        With `numbers`: Polars would read a number that stands behind a blank.
        """
        data = self.data
        separator = self.separator.encode()
        blank = numbers and any(
            mark in data
            and (data.startswith(mark) or separator + mark in data or b"\n" + mark in data)
            for mark in {b" ", b"\t"} - {separator}
        )
        quoted = self.quoting and b'"' in data
        return self.lines == height and not quoted and _is_utf8(data) and not blank

    @property
    def cells(self) -> pl.DataFrame:
        """One text column a CSV column, and :data:`LINE`; an empty cell is null."""
        return self._read_one_by_one[0]

    @property
    def bad(self) -> list[BadLine]:
        """The lines that are no row, in order."""
        return self._read_one_by_one[1]

    @property
    def not_utf8(self) -> bool:
        """Whether some cells had bytes that are no UTF-8; U+FFFD stands in their place."""
        return self._read_one_by_one[2]

    def text_of(self, line: int) -> str:
        """Return a line as it stands in the file; bytes that are no UTF-8 are escaped."""
        start = int(self._starts[line - self.first_line])
        return self.data[start : self.data.index(b"\n", start)].decode(errors="backslashreplace")

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        ends = np.flatnonzero(np.frombuffer(self.data, np.uint8) == _NEWLINE)
        return np.concatenate(([0], ends + 1))

    @cached_property
    def _read_one_by_one(self) -> tuple[pl.DataFrame, list[BadLine], bool]:
        return _split(self)


def _count(data: bytes) -> tuple[int, int]:
    """Count commas, and commas, line ends, quotes, blanks and what is no ASCII together."""
    raw = np.frombuffer(data, np.int8)  # what is no ASCII is negative
    found = np.empty(_STEP, np.bool)
    below = marks = 0
    # steps stay in a processor's cache; numpy tells what is less faster than what is equal
    for start in range(0, raw.size, _STEP):
        step = raw[start : start + _STEP]
        below += int(np.count_nonzero(np.less(step, _COMMA, out=found[: step.size])))
        marks += int(np.count_nonzero(np.less(step, _HYPHEN, out=found[: step.size])))
    return marks - below, marks


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _split(block: Block) -> tuple[pl.DataFrame, list[BadLine], bool]:
    """Split whole lines into rows of text cells and bad lines."""
    data, bounds, columns, first_line = block.data, block._starts, block.columns, block.first_line
    starts, ends = bounds[:-1], bounds[1:] - 1
    separators = len(columns) - 1
    doubtful = _doubtful(
        data, starts, ends, separators=separators, mark=ord(block.separator), quoting=block.quoting
    )
    # what stands between two doubtful lines is taken at once
    before = np.concatenate(([0], bounds[doubtful + 1]))
    after = np.append(bounds[doubtful], len(data))
    kept = b"".join(data[a:b] for a, b in zip(before, after, strict=True))
    plain = np.delete(np.arange(ends.size), doubtful)
    rows: list[list[str | None]] = []
    row_lines: list[int] = []
    bad: list[BadLine] = []
    not_utf8 = False
    for index in doubtful:
        line = first_line + int(index)
        row, rule = _read_carefully(
            data[starts[index] : ends[index]], len(columns), block.separator, quoting=block.quoting
        )
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
            _parse_rows(kept, columns, plain.size, block.separator).with_columns(
                pl.Series(LINE, plain + first_line)
            ),
            mended.with_columns(pl.Series(LINE, row_lines, dtype=pl.Int64)),
        ]
    )
    return cells.sort(LINE), bad, not_utf8


def _doubtful(
    data: bytes,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    separators: int,
    mark: int,
    quoting: bool,
) -> NDArray[np.int64]:
    """Return the indices of lines that are not plainly a row."""
    raw = np.frombuffer(data, np.uint8)
    commas = np.flatnonzero(raw == mark)
    doubtful: list[NDArray[np.int64]] = []
    if not _evenly_spread(commas, starts, ends, separators):
        counts = np.diff(np.searchsorted(commas, ends), prepend=0)
        doubtful.append(np.flatnonzero(counts != separators))
    if quoting and b'"' in data:
        doubtful.append(np.searchsorted(ends, np.flatnonzero(raw == _QUOTE)))
    if not _is_utf8(data):
        doubtful.append(np.searchsorted(ends, np.flatnonzero(raw > 127)))
    return np.unique(np.concatenate(doubtful)) if doubtful else np.empty(0, np.int64)


def _evenly_spread(
    commas: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    separators: int,
) -> bool:
    """Whether every line has exactly its share of the separators."""
    if commas.size != separators * ends.size or not separators:
        return not (separators or commas.size)
    by_line = commas.reshape(ends.size, separators)
    return bool((by_line[:, 0] >= starts).all() and (by_line[:, -1] < ends).all())


def _parse(
    data: bytes,
    columns: Sequence[str],
    separator: str,
    numbers: Collection[str] = (),
    only: Sequence[str] | None = None,
) -> pl.DataFrame:
    schema = {name: pl.Float64 if name in numbers else pl.String for name in columns}
    # the index is counted on the way, so that all columns come in the same pieces
    return pl.read_csv(
        data,
        has_header=False,
        schema=schema,
        columns=None if only is None else [list(columns).index(name) for name in only],
        quote_char=None,
        row_index_name=LINE,
        separator=separator,
    )


def _parse_rows(data: bytes, columns: Sequence[str], height: int, separator: str) -> pl.DataFrame:
    """Parse lines that are known to be rows, as text."""
    if not height:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    cells = _parse(data, columns, separator).drop(LINE)
    if cells.height != height:
        raise AssertionError(f"{height} lines became {cells.height} rows")
    return cells


def _read_carefully(
    line: bytes, width: int, separator: str, *, quoting: bool
) -> tuple[list[str], str | None]:
    """Return a line's cells, and the rule it breaks if it is no row."""
    text = line.decode(errors="replace")
    if quoting and '"' in text:
        try:
            cells = next(csv.reader([text], strict=True, delimiter=separator))
        except csv.Error:
            return text.split(separator), "unbalanced_quote"
    else:
        cells = text.split(separator)
    if not text:
        return [], "blank_line"
    if len(cells) != width:
        return cells, "short_row" if len(cells) < width else "long_row"
    return cells, None
