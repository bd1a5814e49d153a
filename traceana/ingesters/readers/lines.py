"""Convert lines of a CSV to frames of text cells; invalid lines are rejected, never lost.

A row in quotes may continue on the next lines. Polars' own CSV reader fills short rows with nulls
silently, and rejects a whole file for a long one or for one bad byte. So a block is parsed at once,
numbers as numbers, and its commas, line ends and other marks are counted: where the counts fit the
rows, every line is one. That is the common case. Else the lines in doubt are found, and read one by
one apart from the others.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

LINE: Final = "\0line"
"""Column with a row's line number in its file, counted from 1; no source has such a name."""

BAD_LINES: Final = pl.Schema({"line": pl.Int64, "rule": pl.String, "text": pl.String})
"""Columns of lines that are no rows: number, the rule that each breaks, and its text."""

_STEP: Final = 1 << 17
_CELLS_A_PART: Final = 1 << 20
_MOST_QUOTED: Final = 1 << 16
_MOST_JOINED: Final = 1000  # lines of one row
_CONTINUED: Final = -2  # of a line, instead of the index of a rule
_RULES: Final = ("", "blank_line", "short_row", "long_row", "unbalanced_quote")
_COMMA, _NEWLINE, _QUOTE = b',\n"'
_HYPHEN: Final = ord("-")


@dataclass(frozen=True)
class Block:
    """Some consecutive lines of a CSV, whole, each with its line end."""

    data: bytes
    """The lines' bytes."""
    columns: tuple[str, ...]
    """Names of the file's columns."""
    first_line: int
    """Number of the first of them in the file, counted from 1 as an editor does."""
    header_lines: int
    """How many lines of the file are its header: 0 or 1."""
    separator: str = ","
    """Separator of two cells."""
    quoting: bool = True
    """Whether cells may be quoted as in RFC 4180; else a quote is a character as any other."""
    not_applicable: int = 0
    nulled: Mapping[tuple[str, str], int] = field(default_factory=dict)

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
        :attr:`cells` has their indices.
        """
        if self.separator == ",":
            commas, marks = _count(self.data)
        else:
            commas, marks = self.data.count(self.separator.encode()), -1
        width, size = len(self.columns), len(self.data)
        # Polars makes a column of each cell of the first line, however many they are
        if self.data.count(self.separator.encode(), 0, self.data.find(b"\n")) != width - 1:
            return None
        # as many lines as this cannot all be rows, and would take much memory as such
        if (marks < 0 or (marks - commas) * width > size) and self.lines * width > size:
            return None
        try:
            cells = _parse(self.data, self.columns, self.separator, numbers, only)
        except pl.exceptions.PolarsError:
            return None
        separators = cells.height * (width - 1)
        partly = only is not None and len(only) < width
        # A short line's last cell is null. With as many commas as there should be, it makes
        # another line too long, and that Polars refuses if it reads all columns.
        if commas != separators or (partly and not self._all_as_wide(cells.height)):
            return None
        # Where there are no more marks than that and a line end a row, there is nothing else.
        if marks != separators + cells.height and not self._is_plain(
            cells.height, numbers=bool(numbers)
        ):
            return None
        self.__dict__["lines"] = cells.height
        return cells.with_columns(pl.col(LINE).cast(pl.Int64) + self.first_line)

    def _all_as_wide(self, height: int) -> bool:
        """Whether each line, of so many, has all separators, of which there are enough."""
        data = np.frombuffer(self.data, np.uint8)
        marks = np.flatnonzero(data == ord(self.separator)).reshape(-1, len(self.columns) - 1)
        ends = np.append(np.flatnonzero(data == _NEWLINE), len(data))[:height]
        return len(ends) == height and bool(
            (marks[:, -1] < ends).all() and (marks[1:, 0] > ends[:-1]).all()
        )

    def _is_plain(self, height: int, *, numbers: bool) -> bool:
        """Whether there are so many lines, no quote, only UTF-8, and no cell begins with a blank.

        With `numbers`: Polars would read a number after a blank.
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
    def joined(self) -> int:
        """How many of its lines continue the row of an earlier one, in quotes."""
        return self._read_one_by_one[3] if "_read_one_by_one" in self.__dict__ else 0

    @property
    def cells(self) -> pl.DataFrame:
        """One text column a CSV column, and :data:`LINE`; an empty cell is null."""
        return self._read_one_by_one[0]

    @property
    def bad(self) -> pl.DataFrame:
        """The lines that are no rows, with the columns of :data:`BAD_LINES`."""
        return self._read_one_by_one[1]

    @property
    def not_utf8(self) -> bool:
        """Whether some cells had invalid UTF-8, replaced by U+FFFD."""
        return self._read_one_by_one[2]

    def occasions(self, _lines: pl.Series) -> pl.Series | None:
        """Return None: a key names one row."""
        return None

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
        if not self.quoting or data.count(b'"') % 2 == 0:
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
        data = self.data
        if not _is_utf8(data):
            data = data.decode(errors="backslashreplace").encode()
        bounds = pa.py_buffer(_bounds(data))
        lines = pa.LargeStringArray.from_buffers(self.lines, bounds, pa.py_buffer(data))
        return cast("pl.Series", pl.from_arrow(lines)).str.strip_suffix("\n")

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return _bounds(self.data)

    @cached_property
    def _read_one_by_one(self) -> tuple[pl.DataFrame, pl.DataFrame, bool, int]:
        return _split(self)


def _bounds(data: bytes) -> NDArray[np.int64]:
    """Return where each line begins, and the end of the last."""
    return np.append(0, np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1)


def _count(data: bytes) -> tuple[int, int]:
    """Count commas, and commas, line ends, quotes, blanks and what is no ASCII together."""
    raw = np.frombuffer(data, np.int8)  # what is no ASCII is negative
    found = np.empty(_STEP, np.bool)
    below = marks = 0
    # steps stay in a processor's cache; numpy compares by < faster than by ==
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


def _split(block: Block) -> tuple[pl.DataFrame, pl.DataFrame, bool, int]:
    """Split whole lines into rows of text cells and bad lines."""
    data, columns, first = block.data, block.columns, block.first_line
    mark, width = block.separator, len(block.columns)
    starts, ends = block._starts[:-1], block._starts[1:] - 1
    raw = np.frombuffer(data, np.uint8)

    def count(found: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.add.reduceat(found, starts, dtype=np.int64)

    excess = count(raw == ord(mark)) - (width - 1)
    none = np.zeros(ends.size, np.bool_)
    quotes = count(raw == _QUOTE) if block.quoting and b'"' in data else np.zeros(ends.size, int)
    quoted = quotes > 0
    foreign = none if _is_utf8(data) else count(raw > 127) > 0
    # 0 is a row
    rules = np.select([ends == starts, excess < 0, excess > 0], [1, 2, 3], 0)
    careful = quoted & (excess < _MOST_QUOTED)
    at_once = np.flatnonzero(careful & ~foreign)
    if at_once.size:
        found = _check_quotes(block.text_of(pl.Series(at_once + first)), mark, width)
        rules[at_once] = found
        careful[at_once[found >= 0]] = False
    rows: dict[int, list[str]] = {}
    for line in np.flatnonzero(careful):
        text = data[starts[line] : ends[line]].decode(errors="replace")
        cells, rule = _read_quoted(text, width, mark)
        rules[line] = _RULES.index(rule)
        if not rule:
            rows[int(line)] = cells
    joined = _join_quoted(block, np.flatnonzero(quotes % 2), rules)
    careful[[*joined]] = True
    rows |= joined
    right = (rules == 0) & ~careful
    recoded = _join(data, block._starts, right & foreign).decode(errors="replace").encode()
    kept = (
        data if right.all() and not foreign.any() else _join(data, block._starts, right & ~foreign)
    )
    lines = [right & ~foreign, right & foreign, (rules == 0) & careful]
    parts = [
        _parse_rows(kept, columns, int(lines[0].sum()), mark, quoted=at_once.size > 0),
        _parse_rows(recoded, columns, int(lines[1].sum()), mark),
        pl.DataFrame(
            [[cell or None for cell in rows[line]] for line in sorted(rows) if not rules[line]],
            schema=dict.fromkeys(columns, pl.String),
            orient="row",
        ),
    ]
    good = pl.concat(
        part.with_columns(pl.Series(LINE, np.flatnonzero(which) + first, dtype=pl.Int64))
        for part, which in zip(parts, lines, strict=True)
    ).sort(LINE)
    wrong = np.flatnonzero(rules > 0)
    numbers = pl.Series("line", wrong + first, dtype=pl.Int64)
    names = pl.Series(_RULES, dtype=pl.String).gather(rules[wrong])
    bad = pl.DataFrame(
        [numbers, names.alias("rule"), block.text_of(numbers).alias("text")], schema=BAD_LINES
    )
    return good, bad, bool(foreign.any()), int(np.count_nonzero(rules == _CONTINUED))


def _join_quoted(
    block: Block, odd: NDArray[np.intp], rules: NDArray[np.int64]
) -> dict[int, list[str]]:
    """Return rows with line ends in quotes, by their first line, and mark the others in `rules`.

    Such a row lasts from a line with an odd number of quotes to the next one.
    """
    rows: dict[int, list[str]] = {}
    bounds, after = block._starts, -1
    for line, last in pairwise(odd.tolist()):
        if line <= after or last - line > _MOST_JOINED or not rules[line]:
            continue
        text = block.data[bounds[line] : bounds[last + 1] - 1].decode(errors="replace")
        try:
            found = list(csv.reader(text.splitlines(True), strict=True, delimiter=block.separator))
        except csv.Error:
            continue
        if len(found) == 1 and len(found[0]) == len(block.columns):
            rows[line] = found[0]
            rules[line], rules[line + 1 : last + 1] = 0, _CONTINUED
            after = last
    return rows


def _check_quotes(texts: pl.Series, mark: str, width: int) -> NDArray[np.int64]:
    """Return the rules that lines with quotes break, 0 for none; -1 where Polars reads another row.

    A cell is quoted as a whole, or quotes in it are literal.
    """
    sign, text = re.escape(mark), pl.col("text")
    quoted, bare = '"(?:[^"]|"")*"', rf'[^"{sign}\r][^{sign}\r]*'
    cell, plain = f"(?:{quoted}|{bare})?", rf'(?:{quoted}|[^"{sign}\r]*)'
    cells = text.str.replace_all('"[^"]*"', "").str.count_matches(sign) + 1
    rule = (
        pl.when(~text.str.contains(f"^{cell}(?:{sign}{cell})*$"))
        .then(pl.lit(_RULES.index("unbalanced_quote")))
        .when(~text.str.contains(f"^{plain}(?:{sign}{plain})*$"))
        .then(pl.lit(-1))
        .when(cells < width)
        .then(pl.lit(_RULES.index("short_row")))
        .when(cells > width)
        .then(pl.lit(_RULES.index("long_row")))
        .otherwise(pl.lit(0))
    )
    return texts.alias("text").to_frame().select(rule.cast(pl.Int64)).to_series().to_numpy()


def _join(data: bytes, bounds: NDArray[np.int64], which: NDArray[np.bool_]) -> bytes:
    """Join some of the lines; neighbors are taken at once."""
    edges = np.flatnonzero(np.diff(which, prepend=False, append=False))
    return b"".join(data[bounds[a] : bounds[b]] for a, b in edges.reshape(-1, 2))


def _parse(
    data: bytes,
    columns: Sequence[str],
    separator: str,
    numbers: Collection[str] = (),
    only: Sequence[str] | None = None,
    *,
    quoted: bool = False,
) -> pl.DataFrame:
    schema = {name: pl.Float64 if name in numbers else pl.String for name in columns}
    # the index is counted on the way, so that all columns are read in the same chunks
    return pl.read_csv(
        data,
        has_header=False,
        schema=schema,
        columns=None if only is None else [list(columns).index(name) for name in only],
        quote_char='"' if quoted else None,
        row_index_name=LINE,
        separator=separator,
    )


def _parse_rows(
    data: bytes, columns: Sequence[str], height: int, separator: str, *, quoted: bool = False
) -> pl.DataFrame:
    """Parse lines that are known to be rows, as text."""
    if not height:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    cells = _parse(data, columns, separator, quoted=quoted).drop(LINE)
    if cells.height != height:
        raise AssertionError(f"{height} lines became {cells.height} rows")
    if quoted:
        cells = cells.select(pl.when(pl.col(name) != "").then(name) for name in columns)
    return cells


def _read_quoted(text: str, width: int, separator: str) -> tuple[list[str], str]:
    """Return the cells of a line with quotes, and the rule it breaks if it is no row."""
    try:
        cells = next(csv.reader([text], strict=True, delimiter=separator))
    except csv.Error:
        return [], "unbalanced_quote"
    return cells, "" if len(cells) == width else "short_row" if len(cells) < width else "long_row"
