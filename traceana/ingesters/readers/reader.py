"""What a reader of a file format is; other packages add theirs as an entry point."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Final, Protocol

from traceana.errors import SourceError, TraceanaError
from traceana.ingesters.readers.frames import frame_blocks, frame_types

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import polars as pl

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

_LONGEST: Final = 300  # characters of an error
GROUP: Final = "traceana.readers"
"""Group of entry points under which another package registers a :class:`Reader`."""


class AnyBlock(Protocol):
    """Consecutive rows of a source, as returned by a reader."""

    @property
    def lines(self) -> int:
        """How many rows it has, with the bad ones."""

    @property
    def not_applicable(self) -> int:
        """How many further rows of the source it is made from, which belong to no table."""

    @property
    def joined(self) -> int:
        """How many of these lines continue an earlier row."""

    @property
    def nulled(self) -> Mapping[tuple[str, str], int]:
        """By field and rule, cells that the reader set to null."""

    @property
    def header_lines(self) -> int:
        """Number of lines of the file before its first row."""

    @property
    def cells(self) -> pl.DataFrame:
        """The rows, and their line numbers in ``LINE``."""

    @property
    def bad(self) -> pl.DataFrame:
        """The lines that are no rows, with the columns of ``BAD_LINES``."""

    @property
    def not_utf8(self) -> bool:
        """Whether some cells had bytes that are no UTF-8."""

    def typed(self, numbers: Collection[str], /) -> pl.DataFrame | None:
        """Return the rows with these columns as numbers, or None where any is not plainly one."""

    def text_of(self, lines: pl.Series, /) -> pl.Series:
        """Return the rows as in the source."""

    def occasions(self, lines: pl.Series, /) -> pl.Series | None:
        """Return what distinguishes rows with the same job_id; None if job_id is unique."""

    def parts(self) -> Iterator[AnyBlock]:
        """Split into blocks small enough to be read row by row; a small one is its own part."""


@dataclass(frozen=True)
class Rows:
    """An opened file: its columns, and its rows block by block.

    Attributes
    ----------
    columns
        Its columns in their order.
    blocks
        Reads it block by block, given the columns that are used, and how.
    types
        Types of its columns, where it has types.
    facts
        Facts of the manifest that the file states, such as its time zone.

    Examples
    --------
    >>> from traceana.ingesters import Rows
    >>> rows = Rows(("job", "gpus"), blocks=lambda kinds: iter(()), facts={"timezone": "UTC"})
    >>> rows.columns
    ('job', 'gpus')
    """

    columns: tuple[str, ...]
    blocks: Callable[[Mapping[str, Kind]], Iterator[AnyBlock]] = field(repr=False)
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reader:
    """Reader of a file format.

    Attributes
    ----------
    name
        Name, as ``--reader`` takes it.
    detect
        Returns whether a file has this format, from its name and its first line (``file.head``).
    open
        Opens a file, given the time zone of times without an offset. Returns :class:`Rows`, or
        simply a Polars frame, eager or lazy.
    suffixes
        Ends of the names of such files in a folder; a file that is named itself may have any.
    mapping
        Mapping (TOML) of a format whose columns are fixed; files of such a format need none of
        the user's.

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
    detect: Callable[[CsvFile], bool]
    open: Callable[[CsvFile, str], Rows | pl.DataFrame | pl.LazyFrame]
    suffixes: tuple[str, ...] = ()
    mapping: str | None = None

    def rows(self, file: CsvFile, timezone: str, /) -> Rows:
        """Open a file. A fault of a reader is an error of the file that names the reader."""
        with _naming(self.name, file.where):
            opened = self.open(file, timezone)
        if not isinstance(opened, Rows):
            return frame_rows(opened.lazy(), file.where)
        named = (name for name in opened.columns if not re.search("[\0\ud800-\udfff]", name))
        blocks = opened.blocks

        def watched(kinds: Mapping[str, Kind]) -> Iterator[AnyBlock]:
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
        if type(error).__module__.startswith("polars"):
            raise
        at = extract_tb(error.__traceback__)[-1]
        reason = (str(error).splitlines() or [""])[0][:_LONGEST]
        raise SourceError(
            f"{where}: it could not be read. Please report it with these words: traceana "
            f"{version('traceana')}, reader {reader}, {type(error).__name__} in "
            f"{Path(at.filename).name}:{at.lineno}: {reason}"
        ) from error


def frame_rows(frame: pl.LazyFrame, where: str, /) -> Rows:
    """Return the rows of a frame."""
    types = frame_types(frame)
    return Rows(tuple(types), lambda kinds: frame_blocks(frame, kinds, where), types)
