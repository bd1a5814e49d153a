"""A source of rows: a file, or a member of an archive, with its columns; or a user's frame."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from traceana.ingesters.readers import csv
from traceana.ingesters.readers.frames import frame_blocks
from traceana.ingesters.readers.registry import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile
    from traceana.ingesters.readers.reader import AnyBlock, Rows


@dataclass(frozen=True)
class Source:
    """A source of rows for one or more tables.

    Attributes
    ----------
    file
        The file; None for a frame.
    columns
        Its columns in their order.
    tables
        Tables that its rows go to.
    not_applicable
        Tables that its rows are not for, although its name and columns suggest it.
    reader, header
        How it is read.
    types
        Types of its columns, where it has types.
    frame
        The frame.
    rows
        The file as a reader opened it; None for a published CSV.
    unused_columns
        Columns beyond the published ones.
    """

    file: CsvFile | None
    columns: tuple[str, ...]
    tables: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()
    reader: str = "csv"
    header: bool = True
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    frame: pl.LazyFrame | None = field(default=None, repr=False)
    rows: Rows | None = field(default=None, repr=False)
    unused_columns: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """How the ledger calls it."""
        return self.file.label if self.file else "frame"

    @property
    def synthetic(self) -> bool:
        """Whether its name marks it as synthetic."""
        return self.file is not None and self.file.synthetic

    @property
    def literals(self) -> dict[str, str]:
        """Values of the pseudo-columns ``file_name`` and ``file_folder``."""
        if self.file is None:
            return {}
        inner = PurePosixPath(self.file.member or "").parent.name
        folder = inner or Path(self.file.folder).resolve().name
        return {"file_name": re.sub(r"(?<=.)\.[^.]+$", "", self.file.name), "file_folder": folder}

    def blocks(self, kinds: Mapping[str, Kind], /) -> Iterator[AnyBlock]:
        """Read it block by block; `kinds` are the columns that are used, and how."""
        if self.frame is not None:
            return frame_blocks(self.frame, kinds, self.label)
        if self.rows is not None:
            return self.rows.blocks(kinds)
        assert self.file is not None  # noqa: S101  what is no frame is a file
        return csv.read_blocks(self.file, columns=self.columns, header=self.header)


def open_source(file: CsvFile, /, *, reader: str | None, timezone: str = "UTC") -> Source:
    """Find out how a user's file is read, and its columns.

    Raises
    ------
    SourceError
        If it is empty or cannot be read.
    """
    chosen = open_reader(file, reader)
    rows = chosen.rows(file, timezone)
    return Source(file, rows.columns, reader=chosen.name, types=rows.types, rows=rows)
