"""Write a table, and its rejected rows, beside their final names; then move both into place."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self, cast
from zlib import crc32

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from traceana.schema import REJECTED, get_table

_FINGERPRINT: Final = "traceana.fingerprint"
_COLUMNS: Final = "traceana.columns"
"""Of the metadata of a file: the columns with values."""
_ROWS_A_GROUP: Final = 1 << 16
_BYTES_A_GROUP: Final = 1 << 26
_GROUPS_WAITING: Final = 2
_ROWS_A_PAGE: Final = 1 << 14
_READ_BYTES: Final = 1 << 20
_TIMES_A_WORD: Final = 4


class TableWriter:
    """Parquet files for the kept and the rejected rows of a table, written block by block."""

    def __init__(
        self, folder: Path, table: str, keep: Mapping[str, pl.DataType] | None = None
    ) -> None:
        self.table = table
        self._final = folder / f"{table}.parquet"
        self._final_rejected = folder / "rejected" / f"{table}.parquet"
        self._kept = _ParquetFile(self._final, arrow_schema(table, keep or {}))
        self._rejected: _ParquetFile | None = None

    def keep(self, rows: pl.DataFrame) -> None:
        """Add rows of the table."""
        self._kept.write(rows)

    def reject(self, rows: pl.DataFrame) -> None:
        """Add rejected rows (columns of :data:`~traceana.schema.REJECTED`)."""
        if not rows.height:
            return
        if self._rejected is None:
            schema = rows.head(0).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
            self._rejected = _ParquetFile(self._final_rejected, schema)
        self._rejected.write(rows.select(REJECTED.names()))

    def finish(self, fingerprint: str) -> tuple[int, ...]:
        """Bring all that was written to the disk, and return the CRC-32 of each file."""
        files = (self._kept, self._rejected) if self._rejected else (self._kept,)
        return tuple(file.finish(fingerprint) for file in files)

    def publish(self) -> None:
        """Move both files to their final names, the rejected rows first."""
        if self._rejected:
            self._rejected.publish()
        self._kept.publish()
        if not self._rejected:
            self._final_rejected.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.discard()
        if self._rejected:
            self._rejected.discard()


class _ParquetFile:
    """One Parquet file under a temporary name, to which text goes as string views, uncopied."""

    def __init__(self, final: Path, schema: pa.Schema) -> None:
        final.parent.mkdir(parents=True, exist_ok=True)
        self._beside = final.with_name(f".{final.name}.tmp")
        self._final = final
        self._schema = schema
        is_text = {field.name: pa.types.is_large_string(field.type) for field in schema}
        self._views = pa.schema(
            field.with_type(pa.string_view()).remove_metadata() if is_text[field.name] else field
            for field in schema
        )
        self._stream = pa.OSFile(str(self._beside), "wb")
        self._on_disk = os.open(self._beside, os.O_RDONLY)
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[pl.DataFrame] = []
        self._thread = ThreadPoolExecutor(1)
        self._crc32 = 0
        self._waiting: deque[Future[None]] = deque()
        self._empty = set(schema.names)

    def write(self, rows: pl.DataFrame) -> None:
        if rows.height:
            self._rows.append(rows)
        height = sum(part.height for part in self._rows)
        size = sum(part.estimated_size() for part in self._rows)
        if height >= _ROWS_A_GROUP or size >= _BYTES_A_GROUP:
            self.flush()

    def flush(self) -> None:
        """Pass the collected rows to the thread, unless it is too far behind."""
        if not self._rows:
            return
        if len(self._waiting) == _GROUPS_WAITING:
            self._waiting.popleft().result()
        group, self._rows = pl.concat(self._rows), []
        self._waiting.append(self._thread.submit(self._pack, group))

    def _pack(self, group: pl.DataFrame) -> None:
        self._writer = self._writer or self._open(group)
        self._empty -= {name for name in self._empty if group[name].null_count() < group.height}
        table = group.to_arrow(compat_level=pl.CompatLevel.newest())
        self._writer.write_table(table.cast(self._views), row_group_size=group.height)
        self._crc32 = extend_crc32(self._crc32, self._on_disk)

    def _open(self, first: pl.DataFrame) -> pq.ParquetWriter:
        """Begin the file; its first rows decide which text columns have a dictionary."""
        text = [name for name, dtype in first.schema.items() if dtype == pl.String]
        words = [n for n in text if first[n].n_unique() * _TIMES_A_WORD <= first.height]
        return pq.ParquetWriter(
            self._stream,
            self._views,
            compression="zstd",
            compression_level=1,
            write_batch_size=_ROWS_A_PAGE,
            use_dictionary=words,
            # the lengths apart from the text: a quarter less to compress
            column_encoding=dict.fromkeys(set(text) - set(words), "DELTA_LENGTH_BYTE_ARRAY"),
            write_statistics=[name for name in first.columns if name not in text],
            store_schema=False,
        )

    def finish(self, fingerprint: str) -> int:
        self.flush()
        for group in self._waiting:
            group.result()
        self._thread.shutdown()
        filled = [name for name in self._schema.names if name not in self._empty]
        metadata = {_FINGERPRINT: fingerprint, _COLUMNS: json.dumps(filled)}
        schema = self._schema.with_metadata(metadata)
        encoded = base64.b64encode(schema.serialize().to_pybytes()).decode()
        if self._writer is None:
            self._writer = self._open(
                cast("pl.DataFrame", pl.from_arrow(self._schema.empty_table()))
            )
        self._writer.add_key_value_metadata({**metadata, "ARROW:schema": encoded})
        self._writer.close()
        self._stream.close()
        os.fsync(self._on_disk)
        return extend_crc32(self._crc32, self._on_disk)

    def publish(self) -> None:
        self._beside.replace(self._final)
        sync_folder(self._final.parent)

    def discard(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        if not self._stream.closed:
            with suppress(OSError, pa.ArrowException):  # it goes in any case
                if self._writer:
                    self._writer.close()
            self._stream.close()
        os.close(self._on_disk)
        self._beside.unlink(missing_ok=True)


def arrow_schema(table: str, keep: Mapping[str, pl.DataType]) -> pa.Schema:
    """Return a table's Arrow schema with unit and meaning of every column in its metadata."""
    declared = get_table(table).columns()
    dtypes = {name: column.dtype for name, column in declared.items()} | dict(keep)
    schema = pl.DataFrame(schema=dtypes).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    for place, column in enumerate(declared.values()):
        meaning = {"unit": (column.metadata or {})["unit"], "meaning": column.description}
        schema = schema.set(place, schema.field(place).with_metadata(meaning))
    return schema


def stored_metadata(path: Path) -> tuple[str | None, int]:
    """Return a Parquet file's fingerprint and number of rows; (None, 0) if it cannot be read."""
    try:
        stored = pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return None, 0
    fingerprint = (stored.metadata or {}).get(_FINGERPRINT.encode())
    return (fingerprint.decode() if fingerprint else None), stored.num_rows


def stored_columns(path: Path) -> tuple[str, ...]:
    """Return the columns of a Parquet file with at least one value."""
    return tuple(json.loads(pq.read_metadata(path).metadata[_COLUMNS.encode()]))


def stored_range(path: Path, columns: Collection[str]) -> list[float]:
    """Return the smallest and largest values of some numeric columns, from their statistics."""
    stored = pq.read_metadata(path)
    statistics = (
        stored.row_group(group).column(column).statistics
        for group in range(stored.num_row_groups)
        for column, name in enumerate(stored.schema.names)
        if name in columns
    )
    return [
        end
        for statistic in statistics
        if statistic and statistic.has_min_max
        for end in (statistic.min, statistic.max)
    ]


def extend_crc32(crc: int, descriptor: int) -> int:
    """Extend a CRC-32 by the rest of an open file."""
    while content := os.read(descriptor, _READ_BYTES):
        crc = crc32(content, crc)
    return crc


def write_whole(contents: Mapping[Path, bytes]) -> None:
    """Write files so that all appear whole, or none does; a device or pipe is written to."""
    with renamed_together() as beside:
        for path, content in contents.items():
            if path.exists() and not path.is_file():
                path.write_bytes(content)
                continue
            with beside(path).open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())


@contextmanager
def renamed_together() -> Iterator[Callable[[Path], Path]]:
    """Yield a function that names a file beside another, which takes its place at the end."""
    files: dict[Path, Path] = {}

    def beside(path: Path) -> Path:
        path = Path(os.path.realpath(path))  # of a link, what it leads to; of a loop, itself
        written = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")  # of this writer alone
        files[written] = path
        return written

    try:
        yield beside
        for written, path in files.items():
            written.replace(path)
    finally:
        for written in files:
            written.unlink(missing_ok=True)
    for folder in {path.parent for path in files.values()}:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk, so that a rename outlives a power cut."""
    if os.name == "nt":  # there a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
