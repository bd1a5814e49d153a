"""Lines of ``sacct --parsable2`` become records of text; a name may have any sign in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.files import CsvFile, beginning, first_lines, whole_lines
from traceana.ingesters.parsing import own_table, read_duration
from traceana.ingesters.readers.csv import Block
from traceana.ingesters.readers.reader import BAD_LINES, LINE

_UNIT_SEPARATOR: Final = b"\x1f"  # replaces a separator of several bytes
_END: Final = "\0end"  # the column after the last separator, which --parsable prints
_OWN: Final = own_table("formats")["sacct"]
_FREE_TEXT: Final[list[str]] = _OWN["free_text"].split()
_SHAPES: Final[dict[str, str]] = {
    name: form.replace("EMPTY", "Unknown|None|N/A|INVALID|UNLIMITED|Partition_Limit")
    for names, form in _OWN["forms"].items()
    for name in names.split()
}
"""Forms of fields that are not empty; X is the separator."""
_ID: Final = _SHAPES["JobID"]
_KNOWN: Final = {*_SHAPES, *_FREE_TEXT}
_SPANS: Final = {*_OWN["spans"].split()}
_FEWEST_KNOWN: Final = 3
_NO_ID: Final = "JobID|not_a_job_id"
_MOST_LINES: Final = 100  # of one record
_LONGEST_HEADER: Final = 1 << 16  # bytes up to its end, blank lines before it included
_MOST_FIELDS: Final = 1000  # sacct has some 120
_MOST_BROKEN: Final = 1 << 16  # lines of a block that are joined: more are no log
_LONGEST_BROKEN: Final = 1 << 18
_BLOCK: Final = 1 << 22
COMMAND: Final = "sacct --allusers --parsable2 --duplicates --format=JobID,..."


def find_layout(file: CsvFile, /) -> Layout | None:
    """Return how a file's lines are split; None where its first line is not sacct's."""
    lines = [file.head.decode(errors="replace").removeprefix("\ufeff")]
    if not lines[0].strip():
        lines += beginning(file, _LONGEST_HEADER).decode(errors="replace").splitlines()[1:]
    n_blank = next((n for n, line in enumerate(lines) if line.strip()), 0)
    text = lines[n_blank]
    is_record = _MARK.search(text[:_LONGEST]) is not None
    if is_record if file.columns is None else "JobID" in file.columns:
        return _without_header(file, text)
    words = text.split(" ")  # a tab may separate fields
    if "JobID" in words and len(_KNOWN & set(words)) >= _FEWEST_KNOWN:
        raise SourceError(
            f"{file.where}: sacct printed this for a screen, with names cut; "
            f"add --parsable2: {COMMAND}"
        )
    matched = re.match(r"[A-Za-z0-9]+([^A-Za-z0-9]+)[A-Za-z]", text)
    if matched is None:
        return None
    names = _names(text.split(matched[1]))
    named = {name for name in names if not name.startswith("\0")}
    if "JobID" not in named or len(_KNOWN & named) < _FEWEST_KNOWN:
        return None
    if not named & _SPANS and named - _KNOWN:
        return None  # times have other names: a table of another system with some of the same
    if len(names) != len(set(names)):
        raise SourceError(f"{file.where}: its header names a field more than once")
    if len(names) > _MOST_FIELDS:
        raise SourceError(f"{file.where}: its header has more than {_MOST_FIELDS:,} fields")
    return Layout(matched[1], names, n_blank + 1)


def _names(fields: list[str]) -> tuple[str, ...]:
    """Return the names of a header's fields; one without a name gets one that is not read."""
    names = [name or f"\0{place}" for place, name in enumerate(fields)]
    if not fields[-1]:
        names[-1] = _END
    if "JobID" not in names:
        names = ["JobID" if name == "JobIDRaw" else name for name in names]
    return tuple(names)


def _without_header(file: CsvFile, text: str) -> Layout:
    width = text.count("|") + 1
    if file.columns:
        columns = file.columns if len(file.columns) == width else (*file.columns, _END)
        if len(columns) != width or (columns[-1] == _END and not text.endswith("|")):
            raise SourceError(
                f"{file.where}: {len(file.columns)} columns are named, its first line has {width}"
            )
        return Layout("|", columns, 0)
    lines = first_lines(file)
    ends = all(line.endswith("|") for line in lines)
    guessed = guess_columns([line[:-1] for line in lines] if ends else lines)
    if guessed is None:
        raise SourceError(
            f"{file.where}: its first line has no names of fields; name them in their order: "
            "--columns JobID,User,Partition,State,Submit,Start,End,..."
        )
    return Layout("|", (*guessed, _END) if ends else guessed, 0)


@dataclass(frozen=True)
class Layout:
    """How a file's lines are split."""

    separator: str
    columns: tuple[str, ...]
    header: int = 1
    """Number of the line with the names of the columns; 0 where there is none."""

    def records(
        self, file: CsvFile, only: tuple[str, ...] | None = None
    ) -> Iterator[tuple[pl.DataFrame, pl.DataFrame, int]]:
        """Split a file into records of text (of some fields), other lines, and the first number."""
        names = [*self.columns] if only is None else [n for n in self.columns if n in only]
        line, carried = 1, b""
        separator = self.separator.encode()
        mark = separator if len(separator) == 1 else _UNIT_SEPARATOR
        for data in chain(whole_lines(file, size=_BLOCK), [None]):
            lines = carried + (data or b"")
            while line <= self.header:
                lines, line = lines.partition(b"\n")[2], line + 1
            if mark != separator:
                lines = lines.replace(separator, mark)
            cut = self._end(lines, mark) if data else len(lines)
            lines, carried = lines[:cut], lines[cut:]
            if lines:
                block = Block(lines, self.columns, line, self.header, mark.decode(), quoting=False)
                yield *self._split(block, names), line
                line += block.lines

    def _split(self, block: Block, names: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
        rows, bad = block.read(names)
        named = rows["JobID"].str.contains(r"^\d").fill_null(value=False)
        if bad.height or not named.all():
            nameless = rows.filter(~named)[LINE].alias("line")
            strange = nameless.to_frame().with_columns(
                rule=pl.lit(_NO_ID), text=block.text_of(nameless)
            )
            bad = pl.concat([bad, strange]).sort("line")
            rows = rows.filter(named).select(*names, LINE)
            is_long = bad["text"].str.len_bytes() > _LONGEST_BROKEN
            if bad.height <= _MOST_BROKEN:
                joined, left = self._join(bad.filter(~is_long), block.separator)
                rows = pl.concat([rows, joined.select(*names, LINE)]).sort(LINE)
                bad = pl.concat([left, bad.filter(is_long)]).sort("line")
        return rows.select(*names, LINE), bad

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

    def _join(self, broken: pl.DataFrame, mark: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Join what marks and line ends in free text took apart, and return the lines left."""
        place = self.columns.index("JobID")
        begins = pl.col("text").str.split(mark).list.get(place, null_on_oob=True)
        begins = begins.str.contains(rf"\A(?:{_ID})\z|\A\d+_\[").fill_null(value=False)
        apart = (pl.col("line").diff() != 1).fill_null(value=True)
        lines = broken.with_columns(record=(begins | apart).cum_sum())
        records = lines.group_by("record", maintain_order=True).agg(
            pl.col("line").first(), pl.col("text").str.join("\n")
        )
        fields = pl.col("text").str.extract_groups(self._pattern(mark)).struct
        cells = records.select(
            "line", *(fields[n].alias(name) for n, name in enumerate(self.columns))
        ).filter(pl.col("JobID") != "")
        breaks = pl.sum_horizontal(pl.col(pl.String).str.count_matches("\n"))
        ends = cells.select(start="line", end=pl.col("line") + breaks)
        left = broken.join_asof(ends, left_on="line", right_on="start")
        left = left.filter(pl.col("end").is_null() | (pl.col("line") > pl.col("end")))
        texts = (pl.when(pl.col(name) != "").then(name) for name in self.columns)
        return cells.select(pl.col("line").alias(LINE), *texts), left.select(BAD_LINES.names())

    def _pattern(self, mark: str) -> str:
        sign = re.escape(mark)
        name = next((name for name in _FREE_TEXT if name in self.columns), "")
        free = {**dict.fromkeys(_FREE_TEXT, "(?s:.*?)"), name: "(?s:.*)", _END: ""}
        shapes = {name: f"(?:{shape.replace('X', sign)})?" for name, shape in _SHAPES.items()}
        shapes_of_fields = shapes | free | {"JobID": _ID}
        other = rf"[^\n{sign}]*"
        fields = (f"({shapes_of_fields.get(name, other)})" for name in self.columns)
        return rf"\A{sign.join(fields)}(?:\n|\z)"


_GUESSED: Final[dict[str, Any]] = _OWN["guessed"]
_MARK: Final = re.compile(rf"^[^|]*\d[^|]*\|.*(?:^|\|){_GUESSED['state']}(?:\||$)")
_TIMES: Final = {3: ("Submit", "Start", "End"), 4: ("Submit", "Eligible", "Start", "End")}
_GUESSED_LINES: Final = 1000
_LONGEST: Final = 4096  # characters of a line: searching takes the square of them
_FIT: Final = 0.98


def guess_columns(lines: list[str], /) -> tuple[str, ...] | None:
    """Return the fields of records by the form of cells; None without JobID, State and times."""
    columns = _columns(lines)
    names: dict[int, str] = {}

    for name, form in (("JobID", _ID), ("State", _GUESSED["state"])):
        names |= dict.fromkeys(_find(columns, names, form)[:1], name)
    times = _find(columns, names, _GUESSED["time"])
    if len(names) < 2 or len(times) not in _TIMES or not _in_order([columns[n] for n in times]):
        return None
    names |= dict(zip(times, _TIMES[len(times)], strict=True))
    for n in _find(columns, names, _GUESSED["span"], ":"):
        fits = {
            "Elapsed": _is_elapsed(columns[n], columns[times[-2]], columns[times[-1]]),
            "Timelimit": _fits(columns[n], _GUESSED["limit"]),
        }
        untaken = (name for name in fits if fits[name] and name not in names.values())
        names[n] = next(untaken, "")
    tres = _find(columns, names, r"(?:\S+=\S+,)*cpu=\d\S*")
    names |= dict(zip(tres, ("ReqTRES", "AllocTRES")[len(tres) == 1 :], strict=False))
    for name, (form, sign) in _GUESSED["further"].items():
        names |= dict.fromkeys(_find(columns, names, form, sign)[:1], name)
    return tuple(names.get(n) or f"column {n + 1}" for n in range(len(columns)))


def _columns(lines: list[str]) -> list[tuple[str, ...]]:
    rows = [line.split("|") for line in lines[:_GUESSED_LINES]]
    rows = [row for row in rows if len(row) == len(rows[0])]
    jobs = [row for row in rows if "." not in row[0]]
    return list(zip(*(jobs or rows), strict=True))


def _find(
    columns: list[tuple[str, ...]], names: dict[int, str], form: str, sign: str = ""
) -> list[int]:
    """Return the columns without a name whose cells have a form, with a sign in one of them."""
    return [
        n
        for n, cells in enumerate(columns)
        if n not in names and _fits(cells, form) and any(re.search(sign, cell) for cell in cells)
    ]


def _fits(cells: tuple[str, ...], form: str) -> bool:
    given = [cell for cell in cells if cell]
    matched = sum(re.fullmatch(form, cell) is not None for cell in given)
    return bool(given) and matched >= _FIT * len(given)


def _in_order(times: list[tuple[str, ...]]) -> bool:
    pairs = [
        (before, after)
        for row in zip(*times, strict=True)
        for before, after in pairwise(row)
        if before[:1].isdigit() and after[:1].isdigit()
    ]
    ordered = sum(before <= after for before, after in pairs)
    return bool(ordered >= _FIT * len(pairs))


def _is_elapsed(cells: tuple[str, ...], start: tuple[str, ...], end: tuple[str, ...]) -> bool:
    """Return whether durations are those from start to end, but for summer time."""
    frame = pl.DataFrame({"cell": cells, "start": start, "end": end})
    begin, finish = (
        pl.col(name).str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False) for name in ("start", "end")
    )
    between = (finish - begin).dt.total_seconds()
    equal = ((between - read_duration(pl.col("cell"))).abs() < 2).fill_null(value=False)
    return bool(frame.select(equal.filter(between.is_not_null()).mean() >= 0.9).item())
