"""Write a table, and its rejected rows, beside their final names; then move both into place."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from traceana.ingesters import REJECTED
from traceana.schema import describe_table, get_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

FINGERPRINT: Final = b"traceana.fingerprint"
_COMPRESSION: Final = "zstd"


class TableWriter:
    """Parquet files for the kept and the rejected rows of a table, written block by block.

    Nothing stands under a final name before :meth:`publish`; leaving the ``with`` block without
    it removes what was written.
    """

    def __init__(self, folder: Path, table: str, metadata: Mapping[str, str]) -> None:
        self.table = table
        self._final = folder / f"{table}.parquet"
        self._final_rejected = folder / "rejected" / f"{table}.parquet"
        self._metadata = {f"traceana.{key}": value for key, value in metadata.items()}
        self._kept = _ParquetFile(self._final, arrow_schema(table, self._metadata))
        self._rejected: _ParquetFile | None = None

    def keep(self, rows: pl.DataFrame) -> None:
        """Add rows of the table."""
        self._kept.write(rows)

    def reject(self, rows: pl.DataFrame) -> None:
        """Add rejected rows (columns of :data:`~traceana.ingesters.REJECTED`)."""
        if not rows.height:
            return
        if self._rejected is None:
            schema = rows.head(0).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
            self._rejected = _ParquetFile(
                self._final_rejected, schema.with_metadata(self._metadata)
            )
        self._rejected.write(rows.select(REJECTED.names()))

    def finish(self) -> None:
        """Bring all that was written to the disk."""
        self._kept.finish()
        if self._rejected:
            self._rejected.finish()

    def publish(self) -> None:
        """Move both files to their final names, the rejected rows first."""
        if self._rejected:
            self._rejected.publish()
        self._kept.publish()
        if not self._rejected:
            self._final_rejected.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kept.discard()
        if self._rejected:
            self._rejected.discard()


class _ParquetFile:
    """One Parquet file under a temporary name."""

    def __init__(self, final: Path, schema: pa.Schema) -> None:
        final.parent.mkdir(parents=True, exist_ok=True)
        self._final = final
        self._beside = final.with_name(f".{final.name}.tmp")
        self._schema = schema
        self._stream = self._beside.open("wb")
        self._writer = pq.ParquetWriter(self._stream, schema, compression=_COMPRESSION)

    def write(self, rows: pl.DataFrame) -> None:
        if rows.height:
            table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
            self._writer.write_table(table.cast(self._schema))

    def finish(self) -> None:
        self._writer.close()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def publish(self) -> None:
        self._beside.replace(self._final)
        sync_folder(self._final.parent)

    def discard(self) -> None:
        if not self._stream.closed:
            with suppress(OSError, pa.ArrowException):  # it goes in any case
                self._writer.close()
            self._stream.close()
        self._beside.unlink(missing_ok=True)


def arrow_schema(table: str, metadata: Mapping[str, str]) -> pa.Schema:
    """Return a table's Arrow schema with unit and meaning of every column in its metadata."""
    empty = get_table(table).create_empty().to_arrow(compat_level=pl.CompatLevel.oldest())
    described = describe_table(table)
    fields = [
        empty.schema.field(column).with_metadata({"unit": unit, "meaning": meaning})
        for column, unit, meaning in described.select("column", "unit", "meaning").iter_rows()
    ]
    return pa.schema(fields, metadata=dict(metadata))


def stored_metadata(path: Path) -> tuple[str | None, int]:
    """Return a Parquet file's fingerprint and number of rows; (None, 0) if it cannot be read."""
    try:
        stored = pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return None, 0
    fingerprint = (stored.metadata or {}).get(FINGERPRINT)
    return (fingerprint.decode() if fingerprint else None), stored.num_rows


def write_whole(path: Path, text: str) -> None:
    """Write a text file so that it appears whole or not at all."""
    write_bytes_whole(path, text.encode())


def write_bytes_whole(path: Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all."""
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk, so that a rename outlives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sources_json(sources: list[tuple[str, str]]) -> str:
    """Return (file, sha256) pairs as JSON for a table's metadata."""
    return json.dumps([{"file": file, "sha256": sha256} for file, sha256 in sources])
