"""A source of rows: a file, or a member of an archive, with its columns; or a user's frame."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from traceana.ingesters.compiled import CompiledMapping, compile_mapping
from traceana.ingesters.readers.reader import open_reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from traceana.ingesters.files import CsvFile
    from traceana.ingesters.mapping import Mapping as MappingFile
    from traceana.ingesters.readers.reader import Rows


@dataclass(frozen=True)
class Source:
    """A source of rows for one or more tables."""

    file: CsvFile | None
    """The file; None for a frame."""
    rows: Rows = field(repr=False)
    """Its columns and rows, as a reader opened it."""
    tables: tuple[str, ...] = ()
    """Tables that its rows go to."""
    not_applicable: tuple[str, ...] = ()
    """Tables that its rows are not for, although its name and columns suggest it."""
    reader: str = "csv"
    """How it is read."""
    unused_columns: tuple[str, ...] = ()
    """Columns beyond the published ones."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns in their order."""
        return self.rows.columns

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        """Types of its columns, where it has types."""
        return self.rows.types

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

    def compiled(
        self,
        mapping: MappingFile,
        table: str,
        keep: Mapping[str, pl.DataType] = {},
        row_ids: str = "",
    ) -> CompiledMapping:
        """Compile a table's mapping for the columns of this source."""
        return compile_mapping(
            mapping.tables[table],
            columns=self.columns,
            timezone=mapping.timezone,
            dtypes=self.types,
            literals=self.literals,
            keep=keep,
            renamed=mapping.keep,
            row_ids=row_ids,
            where=mapping.where,
        )


def open_source(file: CsvFile, /, *, reader: str | None, timezone: str = "UTC") -> Source:
    """Find out how a user's file is read, and its columns."""
    chosen = open_reader(file, reader)
    return Source(file, chosen.rows(file, timezone), reader=chosen.name)
