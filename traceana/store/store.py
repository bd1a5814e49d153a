"""A store and its traces: tables, what each trace is, and what was computed from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from html import escape
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import StoreError, did_you_mean
from traceana.schema import REJECTED, TABLES, describe_table
from traceana.store.cache import Cache, code_digest, is_temporary, key_of, versions
from traceana.store.ledger import Ledger, TableEntry, parse_ledger
from traceana.store.manifest import MANIFEST, Manifest, parse_manifest
from traceana.store.spark import scan_by_spark
from traceana.store.writer import extend_crc32, stored_metadata

if TYPE_CHECKING:
    from matplotlib.axes import Axes


DEFAULT_STORE: Final = Path("data")
LEDGER: Final = "ledger.json"
_TABLES: Final = (
    {"trace": pl.String, "table": pl.String}
    | dict.fromkeys(("rows", "rows_rejected", "bytes"), pl.Int64)
    | {"synthetic": pl.Boolean}
)
Parsed = TypeVar("Parsed")


def store_path(path: str | PathLike[str] | None = None, /) -> Path:
    """Return where the store is: the path given, else TRACEANA_STORE, else ``./data``."""
    return Path(path or os.environ.get("TRACEANA_STORE") or DEFAULT_STORE)


@dataclass(frozen=True)
class Store:
    """Tables of traces under one folder: ``<path>/<trace>/<table>.parquet``.

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
    """Folder of the store."""
    only: tuple[str, ...] = ()
    """Traces to include; none means all."""
    master: str | None = None
    """Master of the Spark that reduces tables, or None if Polars does."""
    left_out: tuple[str, ...] = ()
    """Traces that are not included because they cannot be read."""
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
            names = sorted(folder.name for folder in self.path.iterdir() if _is_trace(folder))
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
        return _parse(self.path / trace / MANIFEST, partial(parse_manifest, trace))

    def ledger(self, trace: str, /) -> Ledger:
        """Return the ledger of a trace."""
        ledger = read_ledger(self.path / trace)
        if ledger is None:
            names = self.traces()
            if trace in names:
                raise StoreError(
                    f"{self.path / trace}: {LEDGER} is missing (an ingest was interrupted, or the "
                    "file was deleted); ingest the trace again, or delete the folder"
                )
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
        stored = [
            (trace, entry, self._file(trace, entry.table).stat().st_size)
            for trace in self.traces()
            for entry in self.ledger(trace).entries
        ]
        rows = [
            (trace, entry.table, entry.rows_kept, entry.rows_rejected, size, entry.synthetic)
            for trace, entry, size in stored
        ]
        return pl.DataFrame(rows, schema=_TABLES, orient="row")

    def columns(self, trace: str, table: str, /) -> pl.DataFrame:
        """Return the columns of a stored table that have values: [column, unit]."""
        stored = self.manifest(trace).tables[table]
        units = dict(describe_table(table).select("column", "unit").iter_rows()) | stored.units
        rows = [(name, units.get(name, "the source's")) for name in stored.columns]
        return pl.DataFrame(rows, schema={"column": pl.String, "unit": pl.String}, orient="row")

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
        if path.exists() and not path.is_file():  # a device has no end
            raise OSError(0, "no regular file")  # noqa: TRY301  stated below
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


def _is_trace(folder: Path) -> bool:
    """Return whether a folder has a trace, or what is left of one without its ledger."""
    tables = (folder / f"{table}.parquet" for table in TABLES)
    return (folder / LEDGER).is_file() or (
        (folder / MANIFEST).is_file() and any(table.is_file() for table in tables)
    )


def _files(folder: Path, table: str) -> tuple[Path, Path]:
    return folder / f"{table}.parquet", folder / "rejected" / f"{table}.parquet"


def _crc32(folder: Path, table: str) -> tuple[int, ...]:
    parts = []
    for path in _files(folder, table):
        with suppress(OSError):
            stat = path.stat()
            if path.is_file():
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


Found = TypeVar("Found")
Key = tuple[Hashable, ...]

_COMPUTED_BY: Final = ("cohorts", "questions", "schema", "simulate", "stats", "store", "tables")
_CACHE: Final = Cache("results")


@dataclass(frozen=True)
class Trace:
    """A trace of a store.

    Examples
    --------
    >>> import traceana
    >>> trace = traceana.open_sample().trace("microsoft-itp-2021")
    >>> trace.tables, trace.jobs.height
    (('jobs',), 2081)
    """

    id: str
    """Id of the trace."""
    store: Store
    """The store that has its tables."""
    _known: dict[Key, Any] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    @cached_property
    def manifest(self) -> Manifest:
        """What the trace is: title, license, times, unit of independence, tables."""
        return self.store.manifest(self.id)

    @cached_property
    def ledger(self) -> Ledger:
        """Rows read, kept and rejected, by rule."""
        return self.store.ledger(self.id)

    @property
    def title(self) -> str:
        """Title of the trace; its id where no title is stated."""
        return self.manifest.title

    @cached_property
    def label(self) -> str:
        """Short title of the trace, for text and figures; its title where none is stated.

        With its id where another trace of the store has the same, as logs of one mapping do.
        """
        name = self.manifest.short_title or self.title
        shared = 0
        for trace in self.store.traces():
            with suppress(StoreError):  # one that cannot be read has no name
                manifest = self.store.manifest(trace)
                shared += name == (manifest.short_title or manifest.title)
        return f"{name} ({self.id})" if shared > 1 else name

    @property
    def synthetic(self) -> bool:
        """Whether it has synthetic rows."""
        return self.ledger.synthetic

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its tables."""
        return tuple(entry.table for entry in self.ledger.entries)

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """The table of jobs."""
        return self.table("jobs")

    def table(self, name: str, /) -> pl.DataFrame:
        """Return a table."""
        return self.scan(name).collect()

    def scan(self, table: str, /) -> pl.LazyFrame:
        """Return a table as a lazy frame."""
        return self.store.scan(self.id, table)

    def has(self, table: str, columns: tuple[str, ...] = (), /) -> bool:
        """Return whether a table has a row, and values in all these columns."""
        return self.store.has(self.id, table) and self.manifest.has(table, columns)

    def frame(self, table: str, /) -> IntoFrame:
        """Return a table as the engine of the store reads it: a lazy frame, or one of Spark."""
        if self.store.master is None:
            return self.scan(table)
        return scan_by_spark(self.store, self.id, table, master=self.store.master)

    def rows(self, table: str, /) -> nw.LazyFrame[Any]:
        """Return the table of :meth:`frame` for expressions that every engine runs."""
        return nw.from_native(self.frame(table)).lazy()

    def local(self, rows: IntoFrame, table: str, /) -> pl.LazyFrame:
        """Return rows of a table's frame as Polars has them, with the types of the store."""
        if isinstance(rows, pl.LazyFrame):
            return rows
        frame: pl.DataFrame = nw.from_native(rows).lazy().collect(backend="polars").to_native()
        types = self.scan(table).collect_schema()
        return frame.cast({name: types[name] for name in frame.columns if name in types}).lazy()

    def cached(self, key: Key, function: Callable[[], Found], /, *, on_disk: bool = True) -> Found:
        """Return the result of a function, called once and kept under a key.

        A :class:`Trace` in the key adds its tables to what the result depends on. Unless its store
        is temporary, the result is kept `on_disk`, in the user's cache folder, until the traces,
        the code or the version of a library change.
        """
        if key not in self._known:
            in_memory = self.store.master is not None or is_temporary(self.store.path)
            is_kept = on_disk and not in_memory
            self._known[key] = self._kept(key, function) if is_kept else function()
        return self._known[key]

    def _kept(self, key: Key, function: Callable[[], Found]) -> Found:
        """Return the result in the cache folder; one process computes it, others wait."""
        digest = self._digest(key)
        value: Found | None = _CACHE.load(digest)
        if value is not None:
            return value
        with _CACHE.alone(digest):
            value = _CACHE.load(digest)
            if value is None:
                value = function()
                for trace in (self, *(part for part in key if isinstance(part, Trace))):
                    trace.check_unchanged()
                _CACHE.save(digest, value)
        return value

    def once(self, function: Callable[..., Found], /, *args: Hashable) -> Found:
        """Return ``function(trace, *args)``, cached under its name and arguments.

        It is kept on disk if its code is part of what a kept result depends on.
        """
        module = function.__module__
        on_disk = module.startswith(tuple(f"traceana.{package}." for package in _COMPUTED_BY))
        key = (f"{module}.{function.__qualname__}", *args)
        return self.cached(key, lambda: function(self, *args), on_disk=on_disk)

    def check_unchanged(self) -> None:
        """Raise a StoreError if the trace was deleted or ingested anew since it was opened."""
        try:
            same = self.store.ledger(self.id) == self.ledger
        except StoreError:
            same = False
        if not same:
            raise StoreError(
                f"{self.store.path / self.id}: deleted or changed while it was read; "
                "run again when nothing else changes the store"
            )

    def summary(self) -> str:
        """Return the title and the rows of each table, as text."""
        return f"{self.title}\n{self.ledger}"

    def report(self, *, out: str | PathLike[str] = "reports/latest", **options: Any) -> Path:  # noqa: ANN401
        """Build the report of this trace; the options are those of :func:`build_report`."""
        return import_module("traceana.report").build_report(self, out=out, **options)

    def plot(self, figure: str = "", /, *, ax: Axes | None = None, **options: object) -> Axes:
        """Draw a figure of this trace, such as ``gpu-demand``; without one, the error names all."""
        return import_module("traceana.report.figure_files").plot_trace(
            self, figure, ax=ax, **options
        )

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.table(name)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  always raises
        text = f"a trace has no {name!r}"
        if not name.startswith("_"):
            tables = [f'trace["{table}"]' for table in self.tables]
            text += f"; its tables: {', '.join(tables)}; it has summary(), report(), plot(figure)"
            if name in import_module("traceana").__all__:
                text = f"{name} is a function: traceana.{name}({tables[0]}, ...)"
        raise AttributeError(text, name=name, obj=self)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return f"<p><strong>{escape(self.title)}</strong></p>{self.ledger._repr_html_()}"

    def _digest(self, key: Key) -> str:
        traces = (self, *(part for part in key if isinstance(part, Trace)))
        ledgers = [trace.ledger.json for trace in traces]
        name = tuple(part.id if isinstance(part, Trace) else part for part in key)
        # a result may have the trace itself, with the path as it was given
        place = (str(self.store.path), str(self.store.path.resolve()))
        return key_of((self.id, *name), place, ledgers, code_digest(*_COMPUTED_BY), versions())


def distinct_traces(traces: Sequence[Trace], /) -> list[Trace]:
    """Leave out traces that repeat the jobs of another one: their numbers must not be added.

    Parameters
    ----------
    traces
        Traces of a store, in any order, which is kept.

    Examples
    --------
    >>> import traceana
    >>> from traceana.store import distinct_traces
    >>> store = traceana.open_sample()
    >>> both = [store.trace("elasticflow-2023"), store.trace("microsoft-itp-2021")]
    >>> [trace.id for trace in distinct_traces(both)]
    ['microsoft-itp-2021']
    """
    ids = {trace.id for trace in traces}
    return [trace for trace in traces if trace.manifest.repeats not in ids]
