"""Open a store and read from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeVar

import polars as pl

from traceana.errors import StoreError, did_you_mean
from traceana.schema import REJECTED, TABLES
from traceana.store.ledger import Ledger, TableEntry, parse_ledger
from traceana.store.manifest import MANIFEST, Manifest, parse_manifest
from traceana.store.trace import Trace
from traceana.store.writer import extend_crc32, stored_metadata

DEFAULT_STORE: Final = Path("data")
LEDGER: Final = "ledger.json"
Parsed = TypeVar("Parsed")


def store_path(path: str | PathLike[str] | None = None, /) -> Path:
    """Return where the store is: the path given, else TRACEANA_STORE, else ``./data``.

    Examples
    --------
    >>> from traceana.store import store_path
    >>> store_path("data/2026").name
    '2026'
    """
    return Path(path or os.environ.get("TRACEANA_STORE") or DEFAULT_STORE)


@dataclass(frozen=True)
class Store:
    """Tables of traces under one folder: ``<path>/<trace>/<table>.parquet``.

    Attributes
    ----------
    path
        Folder of the store.
    only
        Traces to include; none means all.
    master
        Master of the Spark that reduces tables; None: Polars does.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> store.traces("machines")
    ['alibaba-openb-2023', 'alibaba-pai-2020']
    >>> store.scan("alibaba-openb-2023", "machines").select("gpus").max().collect().item()
    8.0
    """

    path: Path
    only: tuple[str, ...] = ()
    master: str | None = None
    _opened: dict[str, Trace] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}

    def trace(self, trace: str, /) -> Trace:
        """Return a trace by its id; the same object each time, with what was computed from it.

        Raises a StoreError if the store has no such trace.
        """
        if trace not in self._opened:
            opened = Trace(trace, self)
            _ = opened.ledger  # one that cannot be read is found before hours of work
            self._opened[trace] = opened
        return self._opened[trace]

    def traces(self, table: str | None = None, columns: Sequence[str] = ()) -> list[str]:
        """Return the traces in the store, in alphabetical order.

        Parameters
        ----------
        table
            Only traces with at least one row in this table.
        columns
            Only traces whose table has values in all these columns.
        """
        try:  # glob would take a folder that cannot be read for an empty one
            names = sorted(
                folder.name for folder in self.path.iterdir() if (folder / LEDGER).is_file()
            )
        except (FileNotFoundError, NotADirectoryError):
            names = []
        traces = [trace for trace in names if not self.only or trace in self.only]
        if table is None:
            return traces
        return [
            trace
            for trace in traces
            if self.has(trace, table) and self.manifest(trace).has(table, tuple(columns))
        ]

    def manifest(self, trace: str, /) -> Manifest:
        """Return what a trace is: title, license, times, tables and the columns with values."""
        if not (self.path / trace / MANIFEST).is_file():
            self.ledger(trace)  # raises where there is no such trace
        return _parse(self.path / trace / MANIFEST, parse_manifest)

    def ledger(self, trace: str, /) -> Ledger:
        """Return the ledger of a trace."""
        ledger = read_ledger(self.path / trace)
        if ledger is None:
            names = self.traces()
            listed = ", ".join(names) or "none"
            raise StoreError(
                f"{self.path}: trace {trace!r} is not in the store (there: {listed}); ingest its "
                f"files with `traceana ingest PATH --store {self.path}`{did_you_mean(trace, names)}"
            )
        for entry in ledger.entries:
            if not is_whole(self.path / trace, entry):
                raise self._changed(trace, entry.table)
        return ledger

    def missing(self, trace: str, table: str, /) -> tuple[str, ...]:
        """Return the published CSVs of a table that were not ingested."""
        missing = self.ledger(trace).missing_csvs
        return tuple(csv for _, csv, tables in missing if table in tables)

    def tables(self) -> pl.DataFrame:
        """Return the stored tables: [trace, table, rows, rows_rejected, bytes, synthetic]."""
        return pl.DataFrame(
            [
                {
                    "trace": trace,
                    "table": entry.table,
                    "rows": entry.rows_kept,
                    "rows_rejected": entry.rows_rejected,
                    "bytes": self._file(trace, entry.table).stat().st_size,
                    "synthetic": entry.synthetic,
                }
                for trace in self.traces()
                for entry in self.ledger(trace).entries
            ],
            schema={
                "trace": pl.String,
                "table": pl.String,
                "rows": pl.Int64,
                "rows_rejected": pl.Int64,
                "bytes": pl.Int64,
                "synthetic": pl.Boolean,
            },
        )

    def _repr_html_(self) -> str:
        return f"<p>Store {escape(str(self.path))}</p>{self.tables()._repr_html_()}"

    def has(self, trace: str, table: str, /) -> bool:
        """Return whether a table is in the store."""
        return self._file(trace, table).is_file()

    def scan(self, trace: str, table: str, /) -> pl.LazyFrame:
        """Return a table as a lazy frame; see :doc:`/reference/tables` for its columns."""
        if not self.has(trace, table):
            tables = sorted(path.stem for path in (self.path / trace).glob("*.parquet"))
            of = "its tables" if tables else "traces"
            held = ", ".join(tables or self.traces()) or "none"
            hint = did_you_mean(table, tables)
            raise StoreError(
                f"{self.path}: no table {table!r} of {trace!r} ({of}: {held}); "
                f"ingest it with `traceana ingest PATH --store {self.path}`{hint}"
            )
        self._check(trace, table)
        return pl.scan_parquet(self._file(trace, table), glob=False)

    def scan_rejected(self, trace: str, table: str, /) -> pl.LazyFrame:
        """Return the rejected rows of a table: [file, row, line, rule, text].

        `row` counts data rows and `line` lines of the file, both from 1; `rule` is the first
        that the row broke; `text` is the row as published.
        """
        self.scan(trace, table)  # raises where there is no such table
        path = _files(self.path / trace, table)[1]
        if path.is_file():
            return pl.scan_parquet(path, glob=False)
        return pl.LazyFrame(schema=REJECTED)

    def _check(self, trace: str, table: str) -> None:
        """Check the files of a table: Polars may end the process over a damaged one."""
        ledger = read_ledger(self.path / trace)
        expected = {entry.table: entry.crc32 for entry in ledger.entries} if ledger else {}
        if expected.get(table) != _crc32(self.path / trace, table):
            raise self._changed(trace, table)

    def _changed(self, trace: str, table: str) -> StoreError:
        return StoreError(
            f"{self.path / trace}: {table}.parquet is not the one in the ledger (an ingest was "
            "interrupted, the file was changed, or another version wrote it); ingest again"
        )

    def _file(self, trace: str, table: str) -> Path:
        return self.path / trace / f"{table}.parquet"


def open_store(path: str | PathLike[str] | None = None, /) -> Store:
    """Open a store to read from.

    Parameters
    ----------
    path
        Folder of the store; None: TRACEANA_STORE, else ``./data``.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> folder = tempfile.mkdtemp()
    >>> jobs = pl.DataFrame({"job_id": ["a"], "submit_s": [5.0], "gpus": [2]})
    >>> ledger = traceana.add_table(jobs, trace="mine", table="jobs", store=folder)
    >>> traceana.open_store(folder).tables().select("trace", "table", "rows").rows()
    [('mine', 'jobs', 1)]
    """
    store = Store(store_path(path))
    if not store.traces():
        raise StoreError(
            f"{store.path}: no store here (no {LEDGER} in any folder of it); "
            f"make one with `traceana ingest PATH --store {store.path}`"
        )
    return store


def read_ledger(folder: Path, /) -> Ledger | None:
    """Read a trace's ledger, or None if there is none."""
    path = folder / LEDGER
    return _parse(path, parse_ledger) if path.is_file() else None


def _parse(path: Path, parse: Callable[[str], Parsed]) -> Parsed:
    """Read a file of a store; one that is malformed, or of another version, is one clear error."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else "malformed"
        if isinstance(error, OSError):
            reason = error.strerror or "not readable"
        raise StoreError(
            f"{path}: not a {path.stem} that this version can read ({reason}); ingest the trace "
            f"again, after deleting {path.parent}, or use the version that wrote it"
        ) from error


def is_whole(folder: Path, entry: TableEntry, /) -> bool:
    """Return whether a table's files are those of its entry in the ledger, and as declared."""
    if entry.table not in TABLES or entry.crc32 != _crc32(folder, entry.table):
        return False
    path, rejected = _files(folder, entry.table)
    if stored_metadata(path) != (entry.fingerprint, entry.rows_kept):
        return False
    schema = pl.scan_parquet(path, glob=False).collect_schema()
    declared = TABLES[entry.table].columns().items()
    if any(schema.get(name) != column.dtype for name, column in declared):
        return False
    if not entry.rows_rejected:
        return not rejected.exists()
    return stored_metadata(rejected) == (entry.fingerprint, entry.rows_rejected)


def _files(folder: Path, table: str) -> tuple[Path, Path]:
    """Return the files of kept and of rejected rows."""
    return folder / f"{table}.parquet", folder / "rejected" / f"{table}.parquet"


def _crc32(folder: Path, table: str) -> tuple[int, ...]:
    """Return the checksums of a table's files that are there."""
    parts = []
    for path in _files(folder, table):
        with suppress(OSError):
            stat = path.stat()
            parts.append(_crc32_of(path, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(parts)


@lru_cache(maxsize=256)
def _crc32_of(path: Path, *_: int) -> int:
    """Return a file's checksum, computed once per process while the file stays the same."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return extend_crc32(0, descriptor)
    finally:
        os.close(descriptor)
