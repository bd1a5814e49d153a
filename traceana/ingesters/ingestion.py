"""From files to tables, with counts of every row."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceana.catalog import get_trace
from traceana.errors import DataError, SourceError, StoreError, TraceanaError
from traceana.ingesters.discover import Discovery, discover, fit_files, match_files
from traceana.ingesters.mapping import Mapping, check_zone, parse_mapping
from traceana.ingesters.plan import Plan, ingest_plan
from traceana.ingesters.readers.reader import get_reader
from traceana.store.ledger import Ledger
from traceana.store.store import Store, store_path

if TYPE_CHECKING:
    from traceana.ingesters.build import Progress
    from traceana.ingesters.compiled import Source

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
    ``Store.scan_rejected``). A table is replaced only when the new one is complete, and kept as it
    is while its files, mapping, schema and version are the same.

    Later files update a trace that is not a public one. Of rows with the same key, the record in
    the latest state (ended, running, others) is kept, and among those that of the later file. The
    others are counted as replaced. Rows that only earlier files have are kept, except in tables
    without a key, which are replaced.

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
    SourceError
        If no file has a known format, or a path does not exist.
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
    of_mapping, name = read_mapping(mapping, trace) if mapping is not None else (None, "")
    if trace is not None:
        check_id(trace)

    named_columns = tuple(columns) if columns else None
    if of_mapping is None:
        discovery = discover(
            folders, trace=trace, reader=reader, leave_out=leave_out, columns=named_columns
        )
        plans = _plans_of(discovery, timezone, replace)
    else:
        fitted = _in_zone(of_mapping, timezone)
        discovery = match_files(
            folders,
            fitted,
            trace=name,
            reader=reader,
            leave_out=leave_out,
            columns=named_columns,
        )
        plans = {name: _plan(name, fitted, discovery.sources[name], timezone, replace)}
    return _ingest_found(discovery, plans, folder, progress)


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
    """Return the plan of a trace, with what its files and the user state of it."""
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
    errors: dict[str, Exception] = {}
    for name, plan in plans.items():
        if name in failed or not plan.sources:
            continue
        try:
            ledgers.append(ingest_plan(plan, folder, progress))
        except Exception as error:  # noqa: BLE001  raised below, when the others are ingested
            errors[name] = error
    for fault in errors.values():
        if not isinstance(fault, TraceanaError):
            raise fault
    if not (ledgers or discovery.failures) and {*map(type, errors.values())} == {StoreError}:
        raise next(iter(errors.values()))
    failures = [*discovery.failures, *((name, str(fault)) for name, fault in errors.items())]
    ledger = Ledger(
        tuple(chain.from_iterable(ledger.entries for ledger in ledgers)),
        tuple(chain.from_iterable(ledger.missing_csvs for ledger in ledgers)),
        tuple(discovery.not_recognised),
        tuple(discovery.left_out),
        tuple(failures),
    )
    if failures:
        raise IngestError(ledger)
    return ledger
