"""Lines of ``sacct --parsable2`` become records of text; a name may have any sign in it."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.ahead import whole_lines
from traceana.ingesters.readers.lines import BAD_LINES, LINE, Block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceana.ingesters.files import CsvFile

_UNIT_SEPARATOR: Final = b"\x1f"  # replaces a separator of several bytes
_FREE_TEXT: Final = ("JobName", "Comment", "AdminComment", "SystemComment", "WorkDir", "SubmitLine")
_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d+|Unknown|None"
_SHAPES: Final = {
    "JobID": re.compile(r"\d+(?:_(?:\d+|\[.*\]))?(?:\+\d+)?(?:\.\w+)?"),
    "State": re.compile(r"0|[A-Z_]+\+?(?: by .+)?"),
    "ExitCode": re.compile(r"0|\d+:\d+"),
    "Elapsed": re.compile(r"0|(?:\d+-)?\d\d:\d\d:\d\d"),
    **dict.fromkeys(("Submit", "Start", "End"), re.compile(_TIME)),
}
"""Shapes of fields; an empty one is taken for 0."""
_KNOWN: Final = {
    *_SHAPES, *_FREE_TEXT, "User", "Account", "Partition", "NNodes", "AllocCPUS", "ReqCPUS",
    "AllocTRES", "ReqTRES", "ReqMem", "MaxRSS", "ElapsedRaw", "Timelimit", "TotalCPU", "NodeList",
}  # fmt: skip
_FEWEST_KNOWN: Final = 3
_NO_ID: Final = "JobID|not_a_job_id"
_MOST_LINES: Final = 100  # of one record
_BLOCK: Final = 1 << 22
COMMAND: Final = "sacct --allusers --parsable2 --duplicates --format=JobID,..."


def find_layout(file: CsvFile, /) -> Layout | None:
    """Return how a file's lines are split; None where its first line is not sacct's."""
    text = file.head.decode(errors="replace").removeprefix("\ufeff")
    words = text.split(" ")  # a tab may separate fields
    if "JobID" in words and len(_KNOWN & set(words)) >= _FEWEST_KNOWN:
        raise SourceError(
            f"{file.where}: sacct printed this for a screen, with names cut; "
            f"add --parsable2: {COMMAND}"
        )
    found = re.match(r"[A-Za-z0-9]+([^A-Za-z0-9]+)[A-Za-z]", text)
    names = text.split(found[1]) if found else []
    if "JobID" not in names:
        names = ["JobID" if name == "JobIDRaw" else name for name in names]
    if not found or "JobID" not in names or len(_KNOWN & set(names)) < _FEWEST_KNOWN:
        return None
    if len(names) != len(set(names)):
        raise SourceError(f"{file.where}: its header names a field more than once")
    return Layout(found[1], tuple(names))


@dataclass(frozen=True)
class Layout:
    """How a file's lines are split."""

    separator: str
    columns: tuple[str, ...]

    def records(
        self, file: CsvFile, only: tuple[str, ...] | None = None
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame, int]]:
        """Split a file into records of text, lines that are none, and their first line.

        Of the fields, `only` some may be read.
        """
        names = [name for name in self.columns if only is None or name in only]
        line, carried = 1, b""
        separator = self.separator.encode()
        mark = separator if len(separator) == 1 else _UNIT_SEPARATOR
        for data in chain(whole_lines(file, size=_BLOCK), [None]):
            lines = carried + (data or b"")
            if line == 1:
                lines, line = lines.partition(b"\n")[2], 2
            if mark != separator:
                lines = lines.replace(separator, mark)
            cut = self._end(lines, mark) if data else len(lines)
            lines, carried = lines[:cut], lines[cut:]
            if lines:
                block = Block(lines, self.columns, line, 1, mark.decode(), quoting=False)
                rows = block.typed((), names)
                if rows is None:
                    rows, bad = block.cells, block.bad
                else:
                    bad = pl.DataFrame(schema=BAD_LINES)
                named = rows["JobID"].str.contains(r"^\d").fill_null(value=False)
                if bad.height or not named.all():
                    lines_ = rows.filter(~named)[LINE].alias("line")
                    strange = lines_.to_frame().with_columns(
                        rule=pl.lit(_NO_ID), text=block.text_of(lines_)
                    )
                    found = pl.concat([bad, strange]).sort("line")
                    mended, bad = self._mend(found, mark.decode())
                    rows = pl.concat([rows.filter(named), mended.select(rows.columns)]).sort(LINE)
                yield rows.select(*names, LINE), bad, line
                line += block.lines

    def texts(self, records: pl.DataFrame) -> pl.Series:
        """Return records as they stand in the file."""
        cells = (pl.col(name).fill_null("") for name in self.columns)
        return records.select(pl.concat_str(cells, separator=self.separator)).to_series()

    def _end(self, lines: bytes, mark: bytes) -> int:
        """Return where the last record ends that is whole: names may have line ends in them."""
        end = len(lines)
        for _ in range(_MOST_LINES):
            start = lines.rfind(b"\n", 0, max(end - 1, 0)) + 1
            if lines.count(mark, start, end) >= len(self.columns) - 1:
                return end
            end = start
        return len(lines)

    def _mend(self, bad: pl.DataFrame, mark: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Join what a separator or a line end inside a name took apart."""
        texts, places = bad["text"].to_list(), bad["line"].to_list()
        marks = [0, *accumulate(text.count(mark) for text in texts)]
        begins = [self._begins(text.split(mark)) for text in texts]
        stops = [len(texts)] * len(texts)  # where the next record begins, or lines are left out
        for at in range(len(texts) - 2, -1, -1):
            apart = begins[at + 1] is True or places[at + 1] != places[at] + 1
            stops[at] = at + 1 if apart else stops[at + 1]
        rows: list[list[str | None]] = []
        lines: list[int] = []
        lost: list[int] = []
        at, fewest = 0, len(self.columns) - 1
        while at < len(texts):
            # as many lines as have all the marks of a record
            after = bisect_left(marks, marks[at] + fewest, at + 1)
            row = None
            if begins[at] is not False and after <= min(stops[at], at + _MOST_LINES):
                row = self._fitted("\n".join(texts[at:after]).split(mark))
            if row is None:
                lost.append(at)
                at += 1
            else:
                rows.append([cell or None for cell in row])
                lines.append(places[at])
                at = after
        cells = zip(*rows, strict=True) if rows else [()] * len(self.columns)
        named = zip(self.columns, cells, strict=True)
        mended = [pl.Series(name, values, pl.String) for name, values in named]
        return pl.DataFrame([*mended, pl.Series(LINE, lines, pl.Int64)]), bad[lost]

    def _begins(self, cells: list[str]) -> bool | None:
        """Return whether a line begins a record by a job's id; None where that may come later."""
        at = self.columns.index("JobID")
        if at < len(cells):
            return _SHAPES["JobID"].fullmatch(cells[at]) is not None
        return None if at else False

    def _fitted(self, cells: list[str]) -> list[str] | None:
        """Join the cells that are parts of a name, such that the others have their shape."""
        excess = len(cells) - len(self.columns)
        for at in (self.columns.index(name) for name in _FREE_TEXT if name in self.columns):
            joined = self.separator.join(cells[at : at + excess + 1])
            row = [*cells[:at], joined, *cells[at + excess + 1 :]]
            if all(_SHAPES[self.columns[n]].fullmatch(row[n] or "0") for n in self._shaped):
                return row
        return None

    @cached_property
    def _shaped(self) -> list[int]:
        return [n for n, name in enumerate(self.columns) if name in _SHAPES]
