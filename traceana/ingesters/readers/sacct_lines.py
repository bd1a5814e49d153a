"""Lines of ``sacct --parsable2`` become records of text; a name may have any sign in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.ahead import whole_lines
from traceana.ingesters.readers.lines import BAD_LINES, LINE, BadLine, Block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceana.ingesters.files import CsvFile

_UNIT_SEPARATOR: Final = b"\x1f"  # stands for a separator of several bytes
_FREE_TEXT: Final = ("JobName", "Comment", "AdminComment", "SystemComment", "WorkDir", "SubmitLine")
_JOB_ID: Final = r"\d+(?:_(?:\d+|\[.*\]))?(?:\+\d+)?(?:\.\w+)?"
_SHAPES: Final = {
    "JobID": _JOB_ID,
    "State": r"[A-Z_]+\+?(?: by .+)?",
    "ExitCode": r"\d+:\d+",
    "Elapsed": r"(?:\d+-)?\d\d:\d\d:\d\d",
    **dict.fromkeys(("Submit", "Start", "End"), r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\d+|Unknown|None"),
}
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
    """Return how a file's lines are split; None where its first line is not sacct's.

    Raises
    ------
    SourceError
        If it is sacct's table for the screen, in which names are cut.
    """
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
                    found = pl.concat([bad, strange]).sort("line").rows()
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
        while end:
            start = lines.rfind(b"\n", 0, end - 1) + 1
            if lines.count(mark, start, end) >= len(self.columns) - 1:
                return end
            end = start
        return len(lines)

    def _mend(self, bad: list[BadLine], mark: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Join what a separator or a line end inside a name took apart."""
        rows: list[list[str | int | None]] = []
        lost: list[BadLine] = []
        width, at = len(self.columns), 0
        while at < len(bad):
            (line, _, text), after = bad[at], at + 1
            while (
                text.count(mark) < width - 1
                and after < min(len(bad), at + _MOST_LINES)
                and bad[after][0] == line + after - at
                and not self._begins(bad[after][2].split(mark))
            ):
                text += f"\n{bad[after][2]}"
                after += 1
            row = self._fitted(text.split(mark)) if text.count(mark) >= width - 1 else None
            if row is None:
                lost.append(bad[at])
                at += 1
            else:
                rows.append([*(cell or None for cell in row), line])
                at = after
        schema = {**dict.fromkeys(self.columns, pl.String), LINE: pl.Int64}
        return (
            pl.DataFrame(rows, schema=schema, orient="row"),
            pl.DataFrame(lost, schema=BAD_LINES, orient="row"),
        )

    def _begins(self, cells: list[str]) -> bool:
        """Return whether a line begins a record: it has a job's id where that belongs."""
        at = self.columns.index("JobID")
        return at < len(cells) and re.fullmatch(_JOB_ID, cells[at]) is not None

    def _fitted(self, cells: list[str]) -> list[str] | None:
        """Join the cells that are parts of a name, such that the others have their shape."""
        excess = len(cells) - len(self.columns)
        for name in _FREE_TEXT:
            if name in self.columns:
                at = self.columns.index(name)
                joined = self.separator.join(cells[at : at + excess + 1])
                row = [*cells[:at], joined, *cells[at + excess + 1 :]]
                pairs = zip(self.columns, row, strict=True)
                if all(
                    re.fullmatch(_SHAPES.get(one, "(?s).*"), cell or "0") for one, cell in pairs
                ):
                    return row
        return None
