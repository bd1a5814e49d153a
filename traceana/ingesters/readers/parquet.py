"""Parquet files, read some rows at a time.

pyarrow reads them: some damaged files end the whole process when Polars decodes them.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import IO, Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PanicException, PolarsError
from pyarrow.parquet import ParquetFile, read_metadata

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import LONGEST_LINE, CsvFile
from traceana.ingesters.readers.reader import (
    ROWS_A_BLOCK,
    FrameBlock,
    Reader,
    Rows,
    frame_types,
    readable,
    within_calendar,
)

_FAULTS: Final = (pa.ArrowException, PolarsError, PanicException, OSError, ValueError)

_ROWS_AT_ONCE: Final = 1024
_BYTES_A_BLOCK: Final = 1 << 26
_LARGEST_FOOTER: Final = 1 << 26  # in memory it takes eight times as much
_LARGEST_PAGE: Final = 1 << 27  # DuckDB's have up to 100 MB


def open_parquet(source: CsvFile, _timezone: str = "", /) -> Rows:
    """Open a Parquet file; a field of a struct is a column ``outer.inner``, a list one text."""
    if source.member is not None or len(source.paths) > 1:
        raise SourceError(f"{source.where}: Parquet inside an archive is not read; unpack it first")

    try:
        with source.paths[0].open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(size - 8, 0))
            footer = int.from_bytes(stream.read(4), "little")
        if size > footer > _LARGEST_FOOTER:
            raise SourceError(
                f"{source.where}: its footer of {footer >> 20:,} MiB is more than the "
                f"{_LARGEST_FOOTER >> 20} MiB that are read; write it with larger row groups"
            )
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

    return Rows(readable(types), blocks, types)


def read_frames(source: CsvFile, columns: Collection[str], /) -> Iterator[pl.DataFrame]:
    """Read these columns, or all if none is named, some rows at a time."""
    try:
        with (
            _Pages(source) as pages,
            # before it is used, a buffer would take all row groups into memory
            ParquetFile(pages, metadata=read_metadata(source.paths[0]), pre_buffer=False) as file,
        ):
            for table in _tables(_batches(file, pages, source, [*columns] or None), source):
                frame = _flat(table)
                yield frame.select(*columns) if columns else frame
    except _FAULTS as error:
        raise SourceError(f"{source.where}: damaged ({_reason(error)}); fetch it again") from error


def _batches(
    file: ParquetFile, pages: _Pages, source: CsvFile, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """Read row groups in batches that stay small once each row has its text."""
    text = [
        name
        for name, at in ((file.schema.column(at).path, at) for at in range(len(file.schema)))
        if file.schema.column(at).physical_type == "BYTE_ARRAY"
        and (columns is None or name in columns)
    ]
    for group in map(file.metadata.row_group, range(file.num_row_groups)):
        if group.total_byte_size > max(group.num_rows, 1) * 2 * LONGEST_LINE:  # it is not read
            raise SourceError(f"{source.where}: a row of more than 32 MiB; no log has one")
    coded = ParquetFile(pages, metadata=file.metadata, read_dictionary=text, pre_buffer=False)
    rows = partial(_rows_at_once, coded, frozenset(text))
    for size, groups in groupby(range(file.num_row_groups), rows):
        yield from file.iter_batches(size, row_groups=[*groups], columns=columns)


class _Pages(io.FileIO):
    """A file that refuses to give a column if a page of it takes much memory when unpacked."""

    def __init__(self, source: CsvFile) -> None:
        super().__init__(source.paths[0])
        self._source = source

    def read(self, size: int | None = -1, /) -> bytes:
        """Read the column of a row group, for which pyarrow asks as a whole."""
        at = self.tell()
        end = at + (size or 0)
        with self._source.paths[0].open("rb") as stream:
            while at < end:
                stream.seek(at)
                try:
                    numbers = _page_header(stream)
                    unpacked, at = numbers[2], stream.tell() + max(numbers[3], 0)
                except (LookupError, ValueError, OverflowError, RecursionError):
                    break  # pyarrow raises with the reason
                if unpacked > _LARGEST_PAGE:
                    raise SourceError(
                        f"{self._source.where}: a page of {unpacked >> 20:,} MiB, of which at most "
                        f"{_LARGEST_PAGE >> 20} are read; write it with shorter texts or pages"
                    )
        return super().read(size)


def _page_header(stream: IO[bytes]) -> dict[int, int]:
    """Read a page's header (Thrift): 2 is its number of bytes unpacked, 3 that in the file."""
    numbers: dict[int, int] = {}
    field = 0
    while head := stream.read(1)[0]:
        field = field + (head >> 4) if head >> 4 else _zigzag(stream)
        match head & 15:
            case 1 | 2:  # true and false have no value of their own
                continue
            case 4 | 5 | 6:
                numbers[field] = _zigzag(stream)
            case 8:  # bytes
                stream.seek(_varint(stream), io.SEEK_CUR)
            case 12:
                _page_header(stream)
            case _:
                raise ValueError
    return numbers


def _zigzag(stream: IO[bytes]) -> int:
    number = _varint(stream)
    return number >> 1 ^ -(number & 1)


def _varint(stream: IO[bytes]) -> int:
    byte = stream.read(1)[0]
    return byte if byte < 128 else byte & 127 | _varint(stream) << 7


def _rows_at_once(coded: ParquetFile, text: frozenset[str], group: int) -> int:
    """Return how many rows of a group fit into a block, by the longest text of a dictionary."""
    about = coded.metadata.row_group(group)
    most = min(_ROWS_AT_ONCE, ROWS_A_BLOCK)
    if not text or about.total_byte_size <= _BYTES_A_BLOCK // most:
        return most
    # damage raises here; of a damaged column, about.column() would end the process
    first = next(coded.iter_batches(1, row_groups=[group], columns=[*text]), ())
    dictionaries = [column.dictionary for column in first if pa.types.is_dictionary(column.type)]
    lengths = [pc.max(pc.binary_length(column)).as_py() or 0 for column in dictionaries]
    lengths += [
        about.column(at).total_uncompressed_size // max(about.num_rows, 1)
        for at in range(about.num_columns)
        if coded.schema.column(at).path in text
    ]
    return max(1, min(most, _BYTES_A_BLOCK // max(1, *map(int, lengths))))


def _tables(batches: Iterator[pa.RecordBatch], source: CsvFile) -> Iterator[pa.Table]:
    """Join batches up to a number of rows or bytes: a long text may stand in a file once."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for stored in batches:
        stored.validate(full=True)  # neither library looks whether text is UTF-8
        if any(_longest(column) > LONGEST_LINE for column in stored.columns):
            raise SourceError(f"{source.where}: a text of more than 16 MiB; no log has one")
        columns = [  # dictionaries would hide how large they are
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in stored.columns
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=stored.schema.names)
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_A_BLOCK or size >= _BYTES_A_BLOCK:
            yield pa.Table.from_batches(held).combine_chunks()
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _longest(column: pa.Array) -> int:
    text = column.dictionary if pa.types.is_dictionary(column.type) else column
    is_text = pa.types.is_string(text.type) or pa.types.is_large_string(text.type)
    return (is_text and pc.max(pc.binary_length(text)).as_py()) or 0


def _flat(table: pa.Table) -> pl.DataFrame:
    for place, column in enumerate(table.schema):
        if pa.types.is_decimal256(column.type):  # Polars has none
            table = table.set_column(place, column.name, table[place].cast(pa.float64()))
        elif pa.types.is_timestamp(column.type) and column.type.tz:  # Polars knows few zones
            kind = pa.timestamp(column.type.unit, "UTC")  # as the instants are stored
            table = table.set_column(place, column.name, table[place].cast(kind))
    frame = pl.DataFrame(table.replace_schema_metadata())  # Polars panics where it is no text
    while structs := [name for name, dtype in frame.schema.items() if dtype == pl.Struct]:
        fields = (pl.col(name).name.prefix_fields(f"{name}.") for name in structs)
        frame = frame.with_columns(fields).unnest(structs)
    frame = frame.with_columns(pl.col(pl.List(pl.String)).list.join(",", ignore_nulls=True))
    return within_calendar(frame.lazy()).collect()


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


READER: Final = Reader(
    "parquet",
    lambda file: file.name.endswith((".parquet", ".pq")) or file.head.startswith(b"PAR1"),
    open_parquet,
    (".parquet", ".pq"),
)

_KEY: Final = ("rank", "dp_rank", "stage", "step")
_USED: Final = (*_KEY, "optype", "start_ts", "duration")
_COMPUTE: Final = ("forward-compute", "backward-compute")
_SUMS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(_KEY, pl.Int64()),
    **dict.fromkeys(("compute_s", "step_s"), pl.Float64()),
    "operations": pl.Int64(),
}


def _open_operations(file: CsvFile, _timezone: str) -> Rows:
    columns = open_parquet(file).columns
    if missing := [name for name in _USED if name not in columns]:
        raise SourceError(f"{file.where}: no operation trace; it lacks {', '.join(missing)}")
    return Rows(tuple(_SUMS), partial(_sum_operations, file), _SUMS)


def _sum_operations(file: CsvFile, kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
    """Yield one row per worker and step; a sum of which an operation is unknown is null."""
    start, duration = (pl.col(name).cast(pl.Float64) for name in ("start_ts", "duration"))
    compute = pl.col("optype").cast(pl.String).is_in(_COMPUTE)
    unknown = (compute & duration.is_null()).any() | ~compute.any()
    parts = [*read_frames(file, _USED)]
    if not parts:
        return
    totals = (
        pl.concat(parts)
        .group_by(_KEY, maintain_order=True)
        .agg(
            compute_s=pl.when(~unknown).then(duration.filter(compute).sum()),
            step_s=(start + duration).max() - start.min(),
            operations=pl.len(),
        )
        .cast(pl.Schema(_SUMS))
    )
    others = int(totals["operations"].sum()) - totals.height
    rows = totals.select(*kinds) if kinds else totals
    yield FrameBlock(rows, kinds, 1, not_applicable=others)


OPERATIONS: Final = Reader("operations", lambda _file: False, _open_operations)
"""Reader of operation traces; it is used where a mapping names it."""
