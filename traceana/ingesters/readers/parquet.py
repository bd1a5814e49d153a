"""Parquet files, read some rows at a time.

pyarrow reads them: some damaged files end the whole process when Polars decodes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
import pyarrow as pa
from polars.exceptions import PanicException, PolarsError
from pyarrow.parquet import ParquetFile

from traceana.errors import SourceError
from traceana.ingesters.readers.frames import ROWS_A_BLOCK, FrameBlock, frame_types
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

_FAULTS: Final = (pa.ArrowException, PolarsError, PanicException, OSError, ValueError)


def open_parquet(source: CsvFile, _timezone: str = "", /) -> Rows:
    """Open a Parquet file; a field of a struct is a column ``outer.inner``."""
    if source.member is not None or len(source.paths) > 1:
        raise SourceError(f"{source.where}: Parquet inside an archive is not read; unpack it first")

    try:
        with ParquetFile(source.paths[0]) as file:
            for column in range(len(file.schema)):
                _ = file.schema.column(column).path  # raises where it is no text
            types = frame_types(_flat(file.schema_arrow.empty_table()).lazy())
    except _FAULTS as error:
        reason = _reason(error)
        raise SourceError(f"{source.where}: cannot be read as Parquet ({reason})") from error

    def blocks(kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
        start = 1
        for frame in read_frames(source, kinds):
            yield FrameBlock(frame, kinds, start)
            start += frame.height

    return Rows(tuple(types), blocks, types)


def read_frames(source: CsvFile, columns: Collection[str], /) -> Iterator[pl.DataFrame]:
    """Read these columns, or all if none is named, some rows at a time."""
    try:
        with ParquetFile(source.paths[0]) as file:
            for batch in file.iter_batches(ROWS_A_BLOCK, columns=[*columns] or None):
                batch.validate(full=True)  # neither library looks whether text is UTF-8
                frame = _flat(pa.table(batch))
                yield frame.select(*columns) if columns else frame
    except _FAULTS as error:
        raise SourceError(f"{source.where}: damaged ({_reason(error)}); fetch it again") from error


def _flat(table: pa.Table) -> pl.DataFrame:
    frame = pl.DataFrame(table.replace_schema_metadata())  # Polars panics where it is no text
    while structs := [name for name, dtype in frame.schema.items() if dtype == pl.Struct]:
        fields = (pl.col(name).name.prefix_fields(f"{name}.") for name in structs)
        frame = frame.with_columns(fields).unnest(structs)
    return frame


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


SUFFIXES: Final = (".parquet", ".pq")
READER: Final = Reader(
    "parquet",
    lambda file: file.name.endswith(SUFFIXES) or file.head.startswith(b"PAR1"),
    open_parquet,
    SUFFIXES,
)
"""Reader of Parquet files."""
