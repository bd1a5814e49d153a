"""What a reader of a file format is, its blocks of rows, and the readers there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from importlib.resources import files
from typing import Any, Final, TypeAlias

import polars as pl
import polars.selectors as cs
from polars.exceptions import PanicException, PolarsError

from traceana.errors import DataError, SourceError, TraceanaError, ask_for_report
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import LONGEST_LINE, CsvFile, text_lines
from traceana.modules import load_entry_points

LINE: Final = "\0line"
"""Column with a row's line number in its file, counted from 1; no source has such a name."""

SUBMISSION: Final = "\0submission"
"""Column with a job's submission as text, in logs that use an id again."""

BAD_LINES: Final = pl.Schema({"line": pl.Int64, "rule": pl.String, "text": pl.String})
"""Columns of lines that are no rows: number, the rule that each breaks, and its text."""

ROWS_A_BLOCK: Final = 1 << 17
_MOST_COLUMNS: Final = 10_000
"""A table with more is refused: each column takes memory, whether or not it is used."""
_MOST_DAYS: Final = 95_000_000  # 260,000 years
Parsed: TypeAlias = "dict[str, str | None] | Sequence[str | None] | str | bool"
"""Cells of an item by column or in the order of the columns; the rule that it breaks; False for one
that belongs to no table; True for one that is not counted, such as a comment."""


@dataclass(frozen=True)
class FrameBlock:
    """Some consecutive rows."""

    frame: pl.DataFrame
    """The rows; text is that of the source, other columns have their types."""
    kinds: Mapping[str, Kind]
    """How the columns that are used are read."""
    first_line: int
    """Number of the first row, counted from 1."""
    texts: Callable[[pl.Series], pl.Series] | None = None
    """Finds lines of the source by their numbers; None where the rows are a frame's."""
    bad: pl.DataFrame = field(default_factory=BAD_LINES.to_frame)
    header_lines: int = 0
    not_utf8: bool = False
    not_applicable: int = 0
    """Rows of the source that are read and belong to no table, such as the steps of jobs."""
    nulled: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By field and rule, cells that the reader set to null."""

    @property
    def lines(self) -> int:
        """How many rows it has, with the bad ones."""
        return self.frame.height + self.bad.height

    @cached_property
    def cells(self) -> pl.DataFrame:
        """The columns that are used, as text, numbers or times, and ``LINE``."""
        columns = {name: _read(self.frame[name], kind) for name, kind in self.kinds.items()}
        if LINE in self.frame.columns:
            return pl.DataFrame({**columns, LINE: self.frame[LINE]})
        lines = pl.int_range(self.first_line, self.first_line + self.frame.height, eager=True)
        return pl.DataFrame({**columns, LINE: lines})

    def text_of(self, lines: pl.Series, /) -> pl.Series:
        """Return the rows as in the source; of a frame, the used cells as JSON."""
        if self.texts is not None:
            return self.texts(lines)
        rows = self.frame.select(*self.kinds)[lines - self.first_line]
        odd = [row.name for row in rows if row.dtype.is_float() and not row.is_finite().all()]
        text = rows.with_columns(pl.col(odd).cast(pl.String))
        return text.select(pl.struct(pl.all()).struct.json_encode()).to_series()

    def occasions(self, lines: pl.Series, /) -> pl.Series | None:
        """Return when jobs were submitted, where ids are used again."""
        if SUBMISSION not in self.frame.columns:
            return None
        return rows_of(self.frame, lines)[SUBMISSION]


def rows_of(frame: pl.DataFrame, lines: pl.Series, /) -> pl.DataFrame:
    """Return the rows of some lines."""
    return lines.alias(LINE).to_frame().join(frame, on=LINE, maintain_order="left")


def texts_of(texts: pl.Series, first: int, /) -> Callable[[pl.Series], pl.Series]:
    """Return what finds the text of lines by their numbers."""
    return lambda lines: texts.gather(lines - first)


def item_blocks(
    items: Iterable[tuple[str, Any]], parse: Callable[[Any], Parsed], kinds: Mapping[str, Kind], /
) -> Iterator[FrameBlock]:
    """Read items, each given with its text, in blocks of rows, by what `parse` returns of each."""
    given, first = iter(items), 1
    while True:
        texts, lines, rows, wrong, rules = list[str](), list[int](), [], list[int](), list[str]()
        beside = size = 0
        for number, (text, item) in enumerate(given, first):
            texts.append(text)
            size += len(text)
            row = parse(item)
            if isinstance(row, dict):
                row = [*map(row.get, kinds)]
                size += sum(map(len, filter(None, row)))  # hosts are more than their list
            if isinstance(row, str):
                wrong.append(number)
                rules.append(row)
            elif not isinstance(row, bool):
                lines.append(number)
                rows.append(row)
            else:
                beside += not row
            if len(texts) == ROWS_A_BLOCK or size > LONGEST_LINE:
                break
        if not texts:
            return
        cells = zip(*rows, strict=True) if rows else [()] * len(kinds)
        columns = {name: _texts(name, values) for name, values in zip(kinds, cells, strict=True)}
        source = _texts("text", texts)
        place = pl.Series("line", wrong, pl.Int64)
        bad = [place, pl.Series("rule", rules, pl.String), source.gather(place - first)]
        yield FrameBlock(
            pl.DataFrame({**columns, LINE: pl.Series(lines, dtype=pl.Int64)}),
            kinds,
            first,
            texts_of(source, first),
            pl.DataFrame(bad),
            not_applicable=beside,
        )
        first += len(texts)


def line_blocks(
    file: CsvFile, parse: Callable[[str], Parsed], kinds: Mapping[str, Kind], /
) -> Iterator[FrameBlock]:
    """Read the lines of a text file in blocks of rows, as :func:`item_blocks` does."""
    return item_blocks(((line, line) for line in text_lines(file)), parse, kinds)


def _texts(name: str, values: Sequence[str | None]) -> pl.Series:
    try:
        return pl.Series(name, values, pl.String)
    except UnicodeEncodeError:  # JSON may name half a character
        whole = [value and value.encode(errors="backslashreplace").decode() for value in values]
        return pl.Series(name, whole, pl.String)


def frame_blocks(
    frame: pl.LazyFrame, kinds: Mapping[str, Kind], /, where: str
) -> Iterator[FrameBlock]:
    """Split the columns of a frame that are used into blocks."""
    used = within_calendar(frame.select(*kinds) if kinds else frame)
    start = 0
    while True:
        try:
            part = used.slice(start, ROWS_A_BLOCK).collect()
        except (PolarsError, PanicException) as error:
            # the text of a panic differs from run to run
            panic = isinstance(error, PanicException)
            reason = "it cannot be decoded" if panic else str(error).splitlines()[0]
            raise SourceError(f"{where}: damaged ({reason}); fetch it again") from error
        if not part.height:
            return
        yield FrameBlock(part, kinds, start + 1)
        start += part.height


def within_calendar(frame: pl.LazyFrame, /) -> pl.LazyFrame:
    """Limit times to those that Polars can write as text, far beyond what a table may have."""
    ends = [pl.lit(days, pl.Int32).cast(pl.Date) for days in (-_MOST_DAYS, _MOST_DAYS)]
    return frame.with_columns((cs.date() | cs.datetime(("us", "ms"))).clip(*ends))


def frame_types(frame: pl.LazyFrame, /) -> dict[str, pl.DataType]:
    """Return the columns with their types; categories are text."""
    return {
        name: pl.String() if dtype in (pl.Categorical, pl.Enum, pl.Null, pl.Boolean) else dtype
        for name, dtype in frame.collect_schema().items()
        if "\0" not in name
    }


def readable(types: Mapping[str, pl.DataType], /) -> tuple[str, ...]:
    """Return the columns that can be read: no lists and no bytes."""
    unread = (pl.Object, pl.Binary)
    return tuple(
        name for name, dtype in types.items() if not dtype.is_nested() and dtype not in unread
    )


def check_width(file: CsvFile, columns: int, /) -> None:
    """Refuse a file of too many columns."""
    if columns > _MOST_COLUMNS:
        raise SourceError(
            f"{file.where}: it has {columns:,} columns or more; at most {_MOST_COLUMNS:,} are read"
        )


def _read(column: pl.Series, kind: Kind) -> pl.Series:
    dtype = column.dtype
    if kind == "number" and (dtype.is_numeric() or dtype == pl.Boolean):
        return column.cast(pl.Float64).fill_nan(None)
    if kind != "text" and dtype == pl.Time:
        raise DataError(f"column {column.name!r} has times of day without a date; join the date")
    if kind == "number" and dtype.is_temporal():
        form = "duration" if dtype == pl.Duration else "time"
        raise DataError(
            f"column {column.name!r} has type {dtype.base_type()}, not a number; write "
            f"{{ {form} = {column.name!r} }}"
        )
    if kind == "time" and dtype.is_temporal():
        return column
    if dtype.is_float():
        column = column.fill_nan(None)
    text = column.dt.to_string("iso") if dtype == pl.Duration else column.cast(pl.String)
    return text.to_frame().select(pl.when(pl.first() != "").then(pl.first())).to_series()


def scaled(value: str, factor: float, divisor: float = 1.0, /) -> str:
    """Return a number times a factor; what is none stays, and is rejected."""
    try:
        return repr(float(value) * factor / divisor)
    except ValueError:
        return value


GROUP: Final = "traceana.readers"
"""Group of entry points under which another package registers a :class:`Reader`."""


def own_mapping(name: str, /) -> str:
    """Return the mapping of a format whose columns are fixed."""
    place = files("traceana.ingesters.mappings").joinpath(f"{name}.toml")
    return place.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Rows:
    """An opened file: its columns, and its rows block by block.

    Examples
    --------
    >>> from traceana.ingesters import Rows
    >>> rows = Rows(("job", "gpus"), blocks=lambda kinds: iter(()), facts={"timezone": "UTC"})
    >>> rows.columns
    ('job', 'gpus')
    """

    columns: tuple[str, ...]
    """Its columns in their order."""
    blocks: Callable[[Mapping[str, Kind]], Iterator[FrameBlock]] = field(repr=False)
    """Reads it block by block, given the columns that are used, and how."""
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    """Types of its columns, where it has types, and of those that cannot be read."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the manifest that the file states, such as its time zone."""


@dataclass(frozen=True)
class Reader:
    """Reader of a file format.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.ingesters import Reader
    >>> reader = Reader("mylog", detect=lambda file: file.name.endswith(".mylog"),
    ...                 open=lambda file, timezone: pl.DataFrame({"job": ["a"]}))
    >>> reader.name
    'mylog'
    """

    name: str
    """Name, as ``--reader`` takes it."""
    detect: Callable[[CsvFile], bool]
    """Returns whether a file has this format, from its name and its first line (``file.head``)."""
    open: Callable[[CsvFile, str], Rows | pl.DataFrame | pl.LazyFrame]
    """Opens a file, given the time zone of times without an offset: :class:`Rows`, or a frame."""
    suffixes: tuple[str, ...] = ()
    """Ends of the names of such files in a folder; a file that is named itself may have any."""
    mapping: str | None = None
    """Mapping (TOML) of a format with fixed columns; its files need none of the user's."""

    def rows(self, file: CsvFile, timezone: str, /) -> Rows:
        """Open a file. A fault of a reader is an error of the file that names the reader."""
        with _naming(self.name, file.where):
            opened = self.open(file, timezone)
        if not isinstance(opened, Rows):
            return frame_rows(opened.lazy(), file.where)
        named = (name for name in opened.columns if not re.search("[\0\ud800-\udfff]", name))
        blocks = opened.blocks

        def watched(kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
            with _naming(self.name, file.where):
                yield from blocks(kinds)

        return replace(opened, columns=tuple(named), blocks=watched)

    def detects(self, file: CsvFile, /) -> bool:
        """Return whether a file has this format."""
        with _naming(self.name, file.where):
            return self.detect(file)


@contextmanager
def _naming(reader: str, where: str) -> Iterator[None]:
    """Raise what no reader should raise with what a bug report needs."""
    try:
        yield
    except (TraceanaError, OSError, MemoryError):
        raise
    except Exception as error:
        words = ask_for_report(f"reader {reader}", error)
        raise SourceError(f"{where}: it could not be read. {words}") from error


def frame_rows(frame: pl.LazyFrame, where: str, /) -> Rows:
    """Return the rows of a frame."""
    types = frame_types(frame)
    return Rows(readable(types), lambda kinds: frame_blocks(frame, kinds, where), types)


_OWN: Final = (
    "parquet.OPERATIONS",
    "fault_events.READER",
    "parquet.READER",
    "gpu_samples.NVIDIA_SMI",
    "gpu_samples.DCGMI",
    "csv.NODE_EVENTS",
    "sacct.READER",
    "slurm_json.READER",
    "swf.READER",
    "gpu_samples.PROMETHEUS",
    "kineto.READER",
    "kubectl.READER",
    "training_log.STRAGGLER_REPORTS",
    "training_log.READER",
    "csv.PODS",
    "json.READER",
    "json.LINES",
    "csv.READER",
)
"""Readers of the modules of this folder; what is most special is tried first."""


@cache
def readers() -> dict[str, Reader]:
    """Return every reader by its name, in the order in which they are tried."""
    by_name: dict[str, Reader] = {}
    for where, name, reader in load_entry_points(GROUP, "reader"):
        if not isinstance(reader, Reader):
            raise DataError(f"{where}: it is not a traceana Reader")
        by_name[name] = reader
    for module, _, name in (place.partition(".") for place in _OWN):
        reader = getattr(import_module(f"traceana.ingesters.readers.{module}"), name)
        by_name[reader.name] = reader
    return by_name


def get_reader(name: str, /) -> Reader:
    """Return a reader by its name."""
    by_name = readers()
    if name not in by_name:
        raise DataError(f"no reader is called {name!r}; the readers are {', '.join(by_name)}")
    return by_name[name]


def detect_reader(file: CsvFile, /, *, mapped: bool = False) -> Reader | None:
    """Return the first reader that detects a file's format."""
    for reader in readers().values():
        if (reader.mapping or not mapped) and reader.detects(file):
            return reader
    return None


def open_reader(file: CsvFile, name: str | None, /) -> Reader:
    """Return the reader of that name, or the one that detects the file."""
    reader = get_reader(name) if name else detect_reader(file)
    if reader is None:
        raise SourceError(f"{file.where}: its format is not known; name it (--reader NAME)")
    return reader
