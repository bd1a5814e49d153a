"""Frames of any engine to a store; stores for files and frames that are read without naming one."""

from __future__ import annotations

import hashlib
import json
import shlex
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
import polars as pl
from platformdirs import user_cache_path

from traceana.errors import DataError, StoreError
from traceana.ingesters.compiled import Source
from traceana.ingesters.discover import name_of
from traceana.ingesters.ingestion import Paths, ingest, read_mapping
from traceana.ingesters.plan import Plan, ingest_plan
from traceana.ingesters.readers.reader import frame_rows
from traceana.schema import get_table
from traceana.store import Ledger, store_path
from traceana.store.cache import note_command, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from narwhals.stable.v2.typing import IntoFrame

    from traceana.ingesters.build import Progress


def add_table(
    frame: IntoFrame,
    /,
    *,
    trace: str,
    table: str,
    store: str | PathLike[str] | None = None,
    title: str | None = None,
    mapping: str | PathLike[str] | None = None,
) -> Ledger:
    """Add a frame to a store, as one table of a trace.

    Parameters
    ----------
    frame
        Frame of Polars (eager or lazy), DuckDB, pandas, pyarrow, PySpark or Ibis.
    trace
        Id of the trace; its other tables are kept.
    table
        Name of the table, which is replaced if it exists.
    store
        Folder of the store; None: TRACEANA_STORE, else ``./data``.
    title
        Title of the trace; None: its id.
    mapping
        TOML file, or its text, with the table's columns in terms of the frame's. None: the frame
        has the names and units of the table; other columns are ignored.

    Raises
    ------
    DataError
        If the frame is of no such engine, or the mapping does not fit.
    SourceError
        If no row could be kept.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [2, 4], "runtime_s": [60.0, -1.0]})
    >>> ledger = traceana.add_table(jobs, trace="mine", table="jobs", store=tempfile.mkdtemp())
    >>> print(ledger)
    mine/jobs: 2 rows read = 1 kept + 1 rejected (written)
    """
    get_table(table)  # raises where there is no such table
    data = to_polars(frame)
    rows = frame_rows(data.lazy(), "frame")
    text = mapping if mapping is not None else _same_names(rows.types, table)
    parsed, name = read_mapping(text, trace)
    if table not in parsed.tables:
        raise DataError(f"{parsed.where}: no [{table}] in it; found {', '.join(parsed.tables)}")
    source = Source(None, rows, (table,), reader="frame")
    facts = {} if title is None else {"title": title}
    plan = Plan(
        name, parsed, [source], "api", {source.label: digest_of(data.select(*rows.columns))}, facts
    )
    return ingest_plan(plan, store_path(store))


def to_polars(frame: IntoFrame, /) -> pl.DataFrame:
    """Return a frame of any engine as one of Polars."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415  what ingests files needs no other engine

    from traceana.store.frames import not_a_frame  # noqa: PLC0415  as above

    try:
        narrow = nw.from_native(frame)
    except TypeError:
        raise DataError(not_a_frame(frame)) from None
    if isinstance(narrow, nw.LazyFrame):
        narrow = narrow.collect(backend="polars")
    return narrow.to_polars()


def _same_names(types: Mapping[str, pl.DataType], table: str) -> str:
    """Return the mapping of a frame whose columns have the table's names."""
    lines = [f"[{table}]"]
    for name, column in get_table(table).columns().items():
        if name in types:
            dtype = types[name]
            is_time = column.dtype == pl.Float64 and dtype.is_temporal()
            form = "duration" if dtype == pl.Duration else "time"
            lines.append(f'{name} = {{ {form} = "{name}" }}' if is_time else f'{name} = "{name}"')
    if len(lines) == 1:
        names = ", ".join(get_table(table).column_names())
        raise DataError(
            f"no column of the frame is one of {table} ({names}): found {', '.join(types)}; "
            "pass mapping="
        )
    return "\n".join(lines) + "\n"


def digest_of(data: pl.DataFrame, /) -> str:
    """Return a digest of a frame's rows and types."""
    digest = hashlib.sha256(json.dumps([str(dtype) for dtype in data.dtypes]).encode())
    if data.width:
        digest.update(data.hash_rows().to_numpy().tobytes())
    return digest.hexdigest()


def ingest_cached(
    paths: Paths,
    /,
    *,
    mapping: str | PathLike[str] | None = None,
    reader: str | None = None,
    timezone: str | None = None,
    progress: Progress | None = None,
    keep: bool = False,
) -> Path:
    """Ingest files into a store of their own, and return its path.

    The same files with the same options use the same store. It is in the user's cache folder
    (`keep`), or in a temporary folder that is deleted when the process ends. The other parameters
    are those of :func:`~traceana.ingesters.ingest`.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> from pathlib import Path
    >>> from traceana.ingesters import ingest_cached
    >>> folder = Path(tempfile.mkdtemp())
    >>> jobs = pl.DataFrame({"job": ["a", "b"], "gpus": [2, 4], "runtime": [60, 90]})
    >>> jobs.write_csv(folder / "march.csv")
    >>> _ = (folder / "mine.toml").write_text(traceana.propose_mapping(folder / "march.csv"))
    >>> store = ingest_cached(folder / "march.csv", mapping=folder / "mine.toml")
    >>> traceana.open_store(store).tables().select("trace", "table", "rows").rows()
    [('mine', 'jobs', 2)]
    """
    names = [paths] if isinstance(paths, str | PathLike) else list(paths)
    given = [str(Path(path).resolve()) for path in names]
    is_file = mapping is not None and "\n" not in fspath(mapping)
    given.append(str(Path(mapping).resolve()) if mapping and is_file else str(mapping))
    key = json.dumps([version("traceana"), given, reader, timezone])
    with _store_of(key, keep=keep) as store:
        ingest(
            names,
            trace=None if mapping is None or is_file else name_of(Path(names[0])),
            mapping=mapping,
            reader=reader,
            timezone=timezone,
            store=store,
            replace=True,
            progress=progress,
        )
    named = "M.toml" if mapping and not is_file else Path(fspath(mapping or "")).name
    options = {"--mapping": named, "--reader": reader, "--timezone": timezone}
    words = [word for option, value in options.items() if value for word in (option, value)]
    words = [Path(name).name for name in names] + words
    note_command(store, f"traceana report {shlex.join(words)}")
    return store


def store_frames(frames: Mapping[str, IntoFrame], /) -> Path:
    """Add frames by the names of their tables to a temporary store, as the trace `frames`."""
    tables = {name: to_polars(frame) for name, frame in frames.items()}
    key = json.dumps([(name, rows.columns, digest_of(rows)) for name, rows in tables.items()])
    with _store_of(key, keep=False) as store:
        for name, rows in tables.items():
            add_table(rows, trace="frames", table=name, store=store)
    note_command(store, "traceana.build_report(frames)")
    return store


@contextmanager
def _store_of(key: str, *, keep: bool) -> Iterator[Path]:
    """Yield the store of a key; another process or thread waits that reads the same."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    store = (user_cache_path("traceana") / "read" if keep else temporary_folder()) / digest
    lock = filelock.FileLock(f"{store}.lock")
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise StoreError(f"{store}: cannot be written: {error.strerror or error}") from error
    try:
        yield store
    finally:
        lock.release()
