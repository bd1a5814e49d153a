"""A source of rows: a file, or a member of an archive, with its columns; or a user's frame."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from traceana.errors import SourceError
from traceana.ingesters.readers import csv, jsonl, parquet
from traceana.ingesters.readers.frames import frame_blocks, frame_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl

    from traceana.ingesters.convert import AnyBlock
    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

SUFFIXES: Final = {
    "csv": (".csv", ".tsv", ".psv"),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
}
"""Ends of names by reader, in a folder; a file that is named itself may have any."""


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
    reader, separator, header
        How it is read.
    types
        Types of its columns, where it has types.
    frame
        The frame, or the open Parquet file.
    unused_columns
        Columns beyond the published ones.
    """

    file: CsvFile | None
    columns: tuple[str, ...]
    tables: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()
    reader: str = "csv"
    separator: str = ","
    header: bool = True
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    frame: pl.LazyFrame | None = field(default=None, repr=False)
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
            return frame_blocks(self.frame, kinds)
        assert self.file is not None  # noqa: S101  what is no frame is a file
        if self.reader == "jsonl":
            return jsonl.read_blocks(self.file, kinds)
        return csv.read_blocks(
            self.file, columns=self.columns, header=self.header, separator=self.separator
        )


def open_source(file: CsvFile, /, *, reader: str | None) -> Source:
    """Find out how a user's file is read, and its columns.

    Raises
    ------
    SourceError
        If it is empty or cannot be read.
    """
    kind = reader or _detect(file)
    if kind == "parquet":
        frame = parquet.scan(file)
        types = frame_types(frame)
        return Source(file, tuple(types), reader=kind, types=types, frame=frame)
    if not file.head.strip():
        raise SourceError(f"{file.where}: the first line is empty; expected names or data")
    if kind == "jsonl":
        return Source(file, jsonl.read_columns(file), reader=kind)
    separator = csv.find_separator(file.head)
    columns = csv.read_header(file.head, separator)
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise SourceError(f"{file.where}: its header names {repeated[0]!r} more than once")
    return Source(file, tuple(columns), reader=kind, separator=separator)


def _detect(file: CsvFile) -> str:
    """Return the reader for a file, from its name or else from its first bytes."""
    for reader, suffixes in SUFFIXES.items():
        if file.name.endswith(suffixes):
            return reader
    if file.head.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if file.head.lstrip().startswith(b"{") else "csv"
