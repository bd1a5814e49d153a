"""Parquet files, read some rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from traceana.errors import SourceError
from traceana.ingesters.readers.reader import Reader

if TYPE_CHECKING:
    from traceana.ingesters.files import CsvFile


def scan(source: CsvFile, /) -> pl.LazyFrame:
    """Open a Parquet file; a field of a struct is a column ``outer.inner``."""
    if source.member is not None or len(source.paths) > 1:
        raise SourceError(f"{source.where}: Parquet inside an archive is not read; unpack it first")
    frame = pl.scan_parquet(source.paths[0], glob=False)
    try:
        while structs := [n for n, t in frame.collect_schema().items() if t == pl.Struct]:
            fields = (pl.col(name).name.prefix_fields(f"{name}.") for name in structs)
            frame = frame.with_columns(fields).unnest(structs)
    except (PolarsError, PanicException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise SourceError(f"{source.where}: cannot be read as Parquet ({reason})") from error
    return frame


SUFFIXES: Final = (".parquet", ".pq")
READER: Final = Reader(
    "parquet",
    lambda file: file.name.endswith(SUFFIXES) or file.head.startswith(b"PAR1"),
    lambda file, _timezone: scan(file),
    SUFFIXES,
)
"""Reader of Parquet files."""
