"""From files and frames to the tables of a store, named or of their own, with counts of rows."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ByName
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Final

import filelock
import polars as pl
from platformdirs import user_cache_path
from polars.exceptions import PanicException

from traceana.catalog.model import get_trace
from traceana.errors import DataError, SourceError, StoreError, TraceanaError
from traceana.ingesters.build import Progress
from traceana.ingesters.compiled import Source
from traceana.ingesters.discover import Discovery, discover, fit_files, name_of
from traceana.ingesters.files import UnlistedMemberError
from traceana.ingesters.mapping import Mapping, check_zone, parse_mapping
from traceana.ingesters.plan import Plan, ingest_plan
from traceana.ingesters.readers.reader import frame_rows, get_reader
from traceana.schema import get_table
from traceana.store.cache import note_command, temporary_folder
from traceana.store.ledger import Ledger
from traceana.store.store import Store, store_path

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


_LONGEST_MAPPING: Final = 1 << 20
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


class IngestError(SourceError):
    """Some files could not be read; their traces were left as they were, the others ingested.

    Examples
    --------
    >>> import tempfile, traceana
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "trace.tar.gz")
    >>> _ = path.write_bytes(b"not an archive")
    >>> traceana.ingest(path, store=path.parent / "data")
    Traceback (most recent call last):
    ...
    traceana.ingesters.ingestion.IngestError: .../trace.tar.gz: expected compressed data, ...
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__("\ntraceana: ".join(line for _, line in ledger.failures))
        self.ledger = ledger


def ingest(
    paths: Paths,
    /,
    *,
    trace: str | None = None,
    mapping: str | PathLike[str] | None = None,
    reader: str | None = None,
    timezone: str | None = None,
    columns: Sequence[str] | None = None,
    store: str | PathLike[str] | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> Ledger:
    """Read trace files and scheduler logs into a store.

    Every row read is either kept or rejected with file, row number and rule (see
    ``Store.scan_rejected``). A table whose files, mapping, schema and version are the same is kept.
    Later files update a trace that is not a public one: of rows with the same key, the record in
    the latest state (ended, running, others) is kept, and among those that of the later file. Rows
    that only earlier files have are kept, except in tables without a key, which are replaced.

    Parameters
    ----------
    paths
        Folder, file, or several of them, plain, ``.gz``, ``.xz``, in ``.tar.gz``, or split into
        ``.partaa``, ``.partab``, ... Without a mapping: CSVs named as published, and files of
        formats with a mapping of their own (``sacct``, ``swf``, ``kubectl``, ``nvidia-smi``,
        ``dcgmi``, ``prometheus``, ``training-log``, ``kineto``, ``nvrx``).
    trace
        Id of the trace. None: found from names and columns, or the name of the mapping, file or
        folder.
    mapping
        TOML file, or its text, with the tables' columns in terms of the files' columns.
    reader
        Format of the files, such as ``csv``, ``json``, ``parquet`` or ``sacct``; None: detected.
    timezone
        Time zone of times without an offset; None: that of the mapping, else UTC.
    columns
        Names of the columns of files without a header, in their order.
    store
        Folder of the store; None: TRACEANA_STORE, else ``./data``.
    replace
        Replace the tables of a trace instead of updating them.
    progress
        Called after every block with trace, table and the rows read so far.

    Returns
    -------
    Ledger
        Row counts of the tables found, and of the other tables of these traces.

    Raises
    ------
    IngestError
        If a file cannot be read, or no row of a table could be kept. Its trace stays as it was,
        other traces are ingested; ``.ledger`` has the row counts.
    StoreError
        If another process is ingesting the trace, or the store cannot be written.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> folder = tempfile.mkdtemp()
    >>> path = f"{folder}/march.csv"
    >>> pl.DataFrame({"job": ["a", "b"], "gpus": [2, 4], "runtime": [60, 90]}).write_csv(path)
    >>> mapping = traceana.propose_mapping(path)
    >>> ledger = traceana.ingest(path, mapping=mapping, trace="mine", store=f"{folder}/data")
    >>> print(ledger)
    mine/jobs: 2 rows read = 2 kept + 0 rejected (written)
    """
    names = [paths] if isinstance(paths, str | PathLike) else list(paths)
    folders = [Path(trace_name) for trace_name in names]
    folder = store_path(store)
    leave_out = [folder / name for name in Store(folder).traces()]
    if reader is not None and mapping is None and get_reader(reader).mapping is None:
        raise DataError(f"reader {reader!r} needs a mapping: pass mapping= (--mapping FILE)")
    if timezone is not None:
        check_zone(timezone, "timezone")
    stated, name = read_mapping(mapping, trace) if mapping is not None else (None, trace)
    stated = _in_zone(stated, timezone) if stated else None
    if trace is not None:
        check_id(trace)

    def run() -> Ledger:
        discovery = discover(
            folders,
            trace=name,
            mapping=stated,
            reader=reader,
            leave_out=leave_out,
            columns=tuple(columns) if columns else None,
        )
        if stated is None:
            plans = _plans_of(discovery, timezone, replace)
        else:
            sources = discovery.sources[str(name)]
            plans = {str(name): _plan(str(name), stated, sources, timezone, replace)}
        return _ingest_found(discovery, plans, folder, progress)

    try:
        return run()
    except UnlistedMemberError:
        return run()  # the archive is listed to its end


def _plans_of(discovery: Discovery, timezone: str | None, replace: bool) -> dict[str, Plan]:
    """Return the plans of public traces, and of files of formats with a mapping of their own."""
    plans = {}
    for trace, sources in sorted(discovery.sources.items()):
        published = parse_mapping(get_trace(trace).text, where=trace)
        plans[trace] = Plan(trace, published, sources, "catalog")
    for (trace, format_), files in sorted(discovery.formats.items()):
        builtin = parse_mapping(get_reader(format_).mapping or "", where=f"{format_}.toml")
        fitted = _in_zone(builtin, timezone)
        name = trace if trace not in plans else f"{trace}-{format_}"
        fit_files(files, fitted, discovery, trace=name, reader=format_, named=True)
        plans[name] = _plan(name, fitted, discovery.sources[name], timezone, replace)
    return plans


def _plan(
    name: str,
    mapping: Mapping,
    sources: list[Source],
    timezone: str | None,
    replace: bool,
) -> Plan:
    facts = {k: v for source in sources for k, v in source.rows.facts.items()}
    facts |= {"timezone": timezone} if timezone else {}
    return Plan(name, mapping, sources, "mapping", facts=facts, replace=replace)


def _in_zone(mapping: Mapping, timezone: str | None) -> Mapping:
    return dataclasses.replace(mapping, timezone=timezone) if timezone else mapping


def read_mapping(mapping: str | PathLike[str], trace: str | None, /) -> tuple[Mapping, str]:
    """Return a mapping from its file or text, and the id of its trace."""
    name = trace
    if isinstance(mapping, str) and "\n" in mapping:
        text, where = mapping, "mapping"
    else:
        path = Path(mapping)
        name, where = trace or path.stem, path.name
        try:
            with path.open(encoding="utf-8") as stream:
                text = stream.read(_LONGEST_MAPPING)
        except (OSError, ValueError) as error:  # a name with NUL, no UTF-8
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"{path}: the mapping cannot be read ({reason})") from error
    check_id(name)
    if len(text) == _LONGEST_MAPPING:
        raise DataError(f"{where}: longer than 1 MiB, which no mapping is")
    return parse_mapping(text, where=where), name or ""


def check_id(name: str | None, /) -> None:
    """Refuse what cannot be the id of a trace."""
    if not name or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise DataError(
            f"trace {name!r} needs an id of letters, digits, dots, hyphens and underscores: "
            "pass trace= (--trace ID)"
        )


def _ingest_found(
    discovery: Discovery, plans: dict[str, Plan], folder: Path, progress: Progress | None
) -> Ledger:
    failed = dict(discovery.failures)
    ledgers: list[Ledger] = []
    errors: dict[str, BaseException] = {}
    for name, plan in plans.items():
        if name in failed or not plan.sources:
            continue
        try:
            ledgers.append(ingest_plan(plan, folder, progress))
        except (Exception, PanicException) as error:  # noqa: BLE001  raised when all are ingested
            errors[name] = error
    for fault in errors.values():
        if not isinstance(fault, TraceanaError):
            raise fault
    if not (ledgers or discovery.failures) and {*map(type, errors.values())} == {StoreError}:
        raise next(iter(errors.values()))
    failures = [*discovery.failures, *((name, str(fault)) for name, fault in errors.items())]
    ledger = Ledger(
        tuple(entry for ledger in ledgers for entry in ledger.entries),
        tuple(csv for ledger in ledgers for csv in ledger.missing_csvs),
        tuple(discovery.not_recognized),
        tuple(discovery.left_out),
        tuple(failures),
    )
    if failures:
        raise IngestError(ledger)
    return ledger


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
    text = (
        mapping
        if mapping is not None
        else _same_names({name: rows.types[name] for name in rows.columns}, table)
    )
    parsed, name = read_mapping(text, trace)
    if table not in parsed.tables:
        raise DataError(f"{parsed.where}: no [{table}] in it; found {', '.join(parsed.tables)}")
    source = Source(None, rows, (table,), reader="frame")
    facts = {} if title is None else {"title": title}
    digest = digest_of(data.select(pl.selectors.by_name(*rows.columns)))
    plan = Plan(name, parsed, [source], "api", {source.paths: digest}, facts)
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


def _same_names(types: ByName[str, pl.DataType], table: str) -> str:
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
    keep: bool = False,
) -> Path:
    """Ingest files into a store of their own, and return its path.

    The same files with the same options use the same store. It is in the user's cache folder
    (`keep`), or in a temporary folder that is deleted when the process ends.
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
        )
    named = "M.toml" if mapping and not is_file else Path(fspath(mapping or "")).name
    options = {"--mapping": named, "--reader": reader, "--timezone": timezone}
    words = [word for option, value in options.items() if value for word in (option, value)]
    words = [Path(name).name for name in names] + words
    note_command(store, f"traceana report {shlex.join(words)}")
    return store


def store_frames(frames: ByName[str, IntoFrame], /) -> Path:
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
