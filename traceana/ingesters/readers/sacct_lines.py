"""Lines of ``sacct --parsable2`` become records of text; a name may have any sign in it."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.ahead import first_lines, whole_lines
from traceana.ingesters.readers.lines import BAD_LINES, LINE, Block
from traceana.ingesters.readers.sacct_columns import guess_columns, seems_accounting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceana.ingesters.files import CsvFile

_UNIT_SEPARATOR: Final = b"\x1f"  # replaces a separator of several bytes
_END: Final = "\0end"  # the column after the last separator, which --parsable prints
_FREE_TEXT: Final = (
    *("JobName", "Comment", "AdminComment", "SystemComment", "WorkDir", "SubmitLine"),
    *("StdIn", "StdOut", "StdErr", "Reason", "Extra"),
)
_TRES: Final = ("ReqTRES", "AllocTRES", "TRES", "TRESUsageInTot", "TRESUsageInAve")
_NONE: Final = r"Unknown|None|N/A|INVALID|UNLIMITED|Partition_Limit"
_DURATION: Final = rf"(?:\d+-)?(?:\d+:)?\d+:\d\d(?:\.\d+)?|{_NONE}"
_ID: Final = r"\d+(?:_(?:\d+|\[.*\]))?(?:\+\d+)?(?:\.\w+)?"
_SHAPES: Final = {
    **dict.fromkeys(("JobID", "JobIDRaw"), _ID),
    "State": r"[A-Z_]+\+?(?: by .+)?",
    **dict.fromkeys(("ExitCode", "DerivedExitCode"), r"\d+:\d+"),
    **dict.fromkeys(("Elapsed", "Timelimit", "TotalCPU", "CPUTime"), _DURATION),
    **dict.fromkeys(
        ("Submit", "Start", "End", "Eligible"),
        rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d|\d+|{_NONE}",
    ),
    **dict.fromkeys(
        ("ReqCPUS", "AllocCPUS", "NCPUS", "NNodes", "ReqNodes", "AllocNodes", "Priority", "UID",
         "NTasks", "ElapsedRaw", "TimelimitRaw", "CPUTimeRAW", "ConsumedEnergyRaw", "Restarts"),
        rf"\d+(?:\.\d+)?[KMGTP]?|{_NONE}",
    ),
    **dict.fromkeys(
        ("ReqMem", "MaxRSS", "AveRSS", "MaxVMSize", "ConsumedEnergy"),
        rf"[\d.]+[KMGTP]?[cn]?|\?|{_NONE}",
    ),
    **dict.fromkeys(_TRES, r"[^=,\s]+=\S*"),
    **dict.fromkeys(("User", "Account", "Cluster", "Partition", "QOS"), r"\S+"),
    _END: r"[^\s\S]",
}  # fmt: skip
"""Shapes of fields that are not empty."""
_KNOWN: Final = {*_SHAPES, *_FREE_TEXT, "NodeList"} - {_END}
_FEWEST_KNOWN: Final = 3
_NO_ID: Final = "JobID|not_a_job_id"
_MOST_LINES: Final = 100  # of one record
_MOST_FIELDS: Final = 1000  # sacct has some 120
_MOST_BROKEN: Final = 1 << 16  # lines of a block that are joined: more are no log
_LONGEST_BROKEN: Final = 1 << 18
_BLOCK: Final = 1 << 22
COMMAND: Final = "sacct --allusers --parsable2 --duplicates --format=JobID,..."


def find_layout(file: CsvFile, /) -> Layout | None:
    """Return how a file's lines are split; None where its first line is not sacct's."""
    text = file.head.decode(errors="replace").removeprefix("\ufeff")
    if (file.columns and "JobID" in file.columns) or (
        file.columns is None and seems_accounting(text)
    ):
        return _without_header(file, text)
    words = text.split(" ")  # a tab may separate fields
    if "JobID" in words and len(_KNOWN & set(words)) >= _FEWEST_KNOWN:
        raise SourceError(
            f"{file.where}: sacct printed this for a screen, with names cut; "
            f"add --parsable2: {COMMAND}"
        )
    found = re.match(r"[A-Za-z0-9]+([^A-Za-z0-9]+)[A-Za-z]", text)
    names = text.split(found[1]) if found else []
    if names and not names[-1]:
        names[-1] = _END
    names = [name or f"\0{place}" for place, name in enumerate(names)]  # no name: not read
    if "JobID" not in names:
        names = ["JobID" if name == "JobIDRaw" else name for name in names]
    if not found or "JobID" not in names or len(_KNOWN & set(names)) < _FEWEST_KNOWN:
        return None
    if len(names) != len(set(names)):
        raise SourceError(f"{file.where}: its header names a field more than once")
    if len(names) > _MOST_FIELDS:
        raise SourceError(f"{file.where}: its header has more than {_MOST_FIELDS:,} fields")
    return Layout(found[1], tuple(names))


def _without_header(file: CsvFile, text: str) -> Layout:
    """Return how the lines of a file without a header are split, by stated or found columns."""
    width = text.count("|") + 1
    if file.columns:
        columns = file.columns if len(file.columns) == width else (*file.columns, _END)
        if len(columns) != width or (columns[-1] == _END and not text.endswith("|")):
            raise SourceError(
                f"{file.where}: {len(file.columns)} columns are named, its first line has {width}"
            )
        return Layout("|", columns, header=False)
    lines = first_lines(file)
    if all(line.endswith("|") for line in lines):
        found = guess_columns([line[:-1] for line in lines])
        found = (*found, _END) if found else None
    else:
        found = guess_columns(lines)
    if found is None:
        raise SourceError(
            f"{file.where}: its first line has no names of fields; name them in their order: "
            "--columns JobID,User,Partition,State,Submit,Start,End,..."
        )
    return Layout("|", found, header=False)


@dataclass(frozen=True)
class Layout:
    """How a file's lines are split."""

    separator: str
    columns: tuple[str, ...]
    header: bool = True
    """Whether the first line has the names of the columns."""

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
            if line == 1 and self.header:
                lines, line = lines.partition(b"\n")[2], 2
            if mark != separator:
                lines = lines.replace(separator, mark)
            cut = self._end(lines, mark) if data else len(lines)
            lines, carried = lines[:cut], lines[cut:]
            if lines:
                block = Block(
                    lines, self.columns, line, int(self.header), mark.decode(), quoting=False
                )
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
                    bad = pl.concat([bad, strange]).sort("line")
                    parts = [rows.filter(named)]
                    is_long = bad["text"].str.len_bytes() > _LONGEST_BROKEN
                    if bad.height <= _MOST_BROKEN:
                        joined, left = self._join(bad.filter(~is_long), names, mark.decode())
                        mended, left = self._mend(left, mark.decode())
                        parts += [joined, mended]
                        bad = pl.concat([left, bad.filter(is_long)]).sort("line")
                    rows = pl.concat(part.select(*names, LINE) for part in parts).sort(LINE)
                yield rows.select(*names, LINE), bad, line
                line += block.lines

    def texts(self, records: pl.DataFrame) -> pl.Series:
        """Return records as in the file."""
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

    def _join(
        self, broken: pl.DataFrame, names: list[str], mark: str
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Join what marks in the names of jobs took apart, and return the lines left."""
        free = next((name for name in _FREE_TEXT if name in self.columns), None)
        if free is None:
            return pl.DataFrame(schema=dict.fromkeys(names, pl.String) | {LINE: pl.Int64}), broken
        at, width, cells = self.columns.index(free), len(self.columns), pl.col("cells").list
        wanted = [n for n, name in enumerate(self.columns) if name in names or name in _SHAPES]
        fits = [_fits(self.columns[n]) for n in wanted if self.columns[n] in _SHAPES]
        begins = (
            pl.col("text").str.split(mark).list.get(self.columns.index("JobID"), null_on_oob=True)
        ).str.contains(_whole("JobID"))
        lines = broken.with_columns(
            (begins.fill_null(value=False) | (pl.col("line").diff() != 1))
            .fill_null(value=True)
            .cum_sum()
            .alias("record")
        )
        records = lines.group_by("record", maintain_order=True).agg(
            pl.col("line").first().alias(LINE), pl.col("text").str.join("\n")
        )
        rows = (
            records.with_columns(pl.col("text").str.split(mark).alias("cells"))
            .filter(cells.len() >= width)
            .with_columns(
                cells.slice(at, cells.len() - (width - 1)).list.join(mark).alias(free),
                *(cells.get(n if n < at else n - width).alias(self.columns[n])
                  for n in wanted if n != at),
            )
            .filter(
                pl.col("JobID") != "",
                pl.col("text").str.count_matches("\n") == pl.col(free).str.count_matches("\n"),
                *fits,
            )
        )  # fmt: skip
        left = lines.filter(~pl.col("record").is_in(rows["record"].implode())).drop("record")
        texts = (pl.when(pl.col(name) != "").then(name).alias(name) for name in names)
        return rows.select(*texts, LINE), left

    def _mend(self, bad: pl.DataFrame, mark: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Join what marks in several fields took apart, record by record."""
        texts, places = bad["text"].to_list(), bad["line"].to_list()
        marks = [0, *accumulate(text.count(mark) for text in texts)]
        begins = [self._begins(_split(text, mark)) for text in texts]
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
                text = "\n".join(texts[at:after])
                row = self._fitted(_split(text, mark)) or self._fitted(text.split(mark))
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
            return re.fullmatch(_SHAPES["JobID"], cells[at]) is not None
        return None if at else False

    def _fitted(self, cells: list[str]) -> list[str] | None:
        """Join cells such that each column has its shape; the name takes what is in doubt."""
        ends = [{len(cells)}]  # where the cells of each column may end, the last column first
        for name in reversed(self.columns):
            after = ends[-1]
            if name in _FREE_TEXT:
                begins = set(range(max(after, default=0)))
            else:
                shape = re.compile(_SHAPES.get(name, r"[^\n]+"))
                begins = {
                    at - 1 for at in after
                    if at and (not cells[at - 1] or shape.fullmatch(cells[at - 1]))
                    and (cells[at - 1] or name != "JobID")
                }  # fmt: skip
                for at in range(len(cells) - 1, -1, -1) if name in _TRES else ():
                    if at + 1 in begins and cells[at + 1] and shape.fullmatch(cells[at]):
                        begins.add(at)
            ends.append(begins)
        if 0 not in ends.pop():
            return None
        row, at = [], 0
        for name in self.columns:
            stops = [end for end in ends.pop() if end > at]
            if name in _TRES:  # no resource twice: two such fields may be neighbors
                names = [cell.partition("=")[0] for cell in cells[at : max(stops)]]
                stops = [end for end in stops if len({*names[: end - at]}) == end - at]
            if not stops:
                return None
            stop = max(stops) if name == "JobName" or name in _TRES else min(stops)
            row.append(self.separator.join(cells[at:stop]))
            at = stop
        return row


@cache
def _whole(name: str) -> str:
    return rf"\A(?:{_SHAPES[name]})\z"


def _fits(name: str) -> pl.Expr:
    return (pl.col(name) == "") | pl.col(name).str.contains(_whole(name))


def _split(text: str, mark: str) -> list[str]:
    """Split a line; a comma in brackets, as in ``103_[1,4]`` and ``node[1,4]``, is no separator."""
    return re.split(r",(?![^\[\]\n]*\])", text) if mark == "," else text.split(mark)
