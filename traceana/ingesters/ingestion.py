"""From publishers' files to tables, with accounts of every row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from os import PathLike
from pathlib import Path

import filelock

from traceana.catalog import get_trace
from traceana.errors import SourceError, StoreError
from traceana.ingesters.archive import UnlistedMemberError
from traceana.ingesters.build import Progress, TableBuilder, read_source
from traceana.ingesters.checksums import Checksums
from traceana.ingesters.describe import describe_trace
from traceana.ingesters.discover import Discovery, Source, discover
from traceana.ingesters.recipes import INGESTERS
from traceana.schema import schema_version
from traceana.store.ledger import FileEntry, Ledger, TableEntry, ledger_json
from traceana.store.manifest import MANIFEST, manifest_json
from traceana.store.store import LEDGER, Store, is_whole, read_ledger, store_path
from traceana.store.writer import TableWriter, sources_json, write_whole

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


class IngestError(SourceError):
    """Some files could not be read; their traces were left as they were, the others ingested."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__("\ntraceana: ".join(line for _, line in ledger.failures))
        self.ledger = ledger


def ingest(
    path: Paths,
    /,
    *,
    trace: str | None = None,
    store: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Ledger:
    """Read publishers' files into a store.

    Each table is written beside its final name and moved there when it is whole; a table whose
    sources, schema and version are those of last time is left alone. Every row read is either
    kept or set apart with file, row number and rule (see ``Store.scan_rejected``).

    Parameters
    ----------
    path
        Folder, file, or several of them: CSVs named as published, plain, ``.gz``, ``.xz``, in
        ``.tar.gz``, or split into ``.partaa``, ``.partab``, ...
    trace
        The trace that they belong to; None finds it from names and columns.
    store
        Folder of the store; None stands for TRACEANA_STORE, else ``./data``.
    progress
        Called with trace, table and the rows read so far, after every block.

    Returns
    -------
    Ledger
        The accounts of what was found, and of what else the store holds of these traces.

    Raises
    ------
    IngestError
        If a file cannot be read at all (cut short, empty, a Git LFS pointer, other columns): its
        trace is left as it was, the other traces are ingested; the ledger is in ``.ledger``.
    SourceError
        If nothing is recognised, or a path does not exist.
    StoreError
        If another process is ingesting the trace, or the store cannot be written.
    """
    names = [path] if isinstance(path, str | PathLike) else list(path)
    paths = [Path(one) for one in names]
    folder = store_path(store)
    tables = [folder / name for name in Store(folder).traces()]
    try:
        found = discover(paths, trace=trace, leave_out=tables)
        return _ingest_found(found, folder, progress)
    except UnlistedMemberError:  # an archive holds more than its size says
        found = discover(paths, trace=trace, leave_out=tables, read_through=True)
        return _ingest_found(found, folder, progress)


def _ingest_found(found: Discovery, folder: Path, progress: Progress | None) -> Ledger:
    failures = list(found.failures)
    failed = {name for name, _ in failures}
    ledgers = []
    for name, sources in sorted(found.sources.items()):
        if name in failed:
            continue
        try:
            ledgers.append(_ingest_trace(name, sources, folder, progress))
        except SourceError as error:
            failures.append((name, str(error)))
        except OSError as error:
            raise StoreError(
                f"{folder / name}: cannot be written: {error.strerror or error}"
            ) from error
    ledger = _joined(ledgers, found, failures)
    if failures:
        raise IngestError(ledger)
    return ledger


def _ingest_trace(
    name: str, sources: list[Source], store: Path, progress: Progress | None
) -> Ledger:
    folder = store / name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(folder / ".lock", timeout=0):
            return _ingest_locked(name, sources, folder, progress)
    except filelock.Timeout:
        raise StoreError(
            f"{folder}: another process is ingesting {name} into this store; "
            "run again when it has finished"
        ) from None


def _ingest_locked(
    name: str, sources: list[Source], folder: Path, progress: Progress | None
) -> Ledger:
    for left in folder.rglob(".*.tmp"):  # of an ingest that was killed
        left.unlink()
    old = read_ledger(folder)
    _keep_real_and_synthetic_apart(name, sources, old, folder)
    entries = {entry.table: entry for entry in old.entries} if old else {}
    with ExitStack() as stack:
        checksums = stack.enter_context(Checksums(dict.fromkeys(s.csv.paths for s in sources)))
        describe = partial(_file_entry, name, checksums)
        writers = []
        for recipe in INGESTERS[name]:
            mine = [s for s in sources if recipe.table in s.content.tables]
            if not mine:
                continue
            beside = [s for s in sources if recipe.table in s.content.not_applicable]
            fingerprint = partial(_fingerprint, name, recipe.table, [*mine, *beside], checksums)
            before = entries.get(recipe.table)
            if before and before.fingerprint == fingerprint() and is_whole(folder, before):
                entries[recipe.table] = replace(before, state="unchanged")
                continue
            writer = stack.enter_context(TableWriter(folder, recipe.table))
            builder = TableBuilder(name, recipe, writer, progress)
            entry = builder.build(mine, describe=describe, fingerprint=fingerprint)
            counted = tuple(
                replace(
                    describe(source),
                    rows_not_applicable=sum(block.lines for block in read_source(source)),
                )
                for source in beside
            )
            gone = {file.label for file in before.files} if before else set()
            gone -= {file.label for file in entry.files + counted}
            entries[recipe.table] = replace(
                entry, files=entry.files + counted, replaced_files=tuple(sorted(gone))
            )
            metadata = {
                "trace": name,
                "table": recipe.table,
                "version": version("traceana"),
                "schema_version": entry.schema_version,
                "fingerprint": entry.fingerprint,
                "synthetic": json.dumps(any(s.csv.synthetic for s in mine)),
                "sources": sources_json([(f.label, f.sha256) for f in entry.files]),
            }
            writer.finish(metadata)
            writers.append(writer)
        for writer in writers:
            writer.publish()
    ledger = Ledger(
        tuple(entries[recipe.table] for recipe in INGESTERS[name] if recipe.table in entries),
        _missing(name, entries),
    )
    if writers:
        manifest = describe_trace(ledger, folder, get_trace(name).text, source="catalog")
        write_whole(folder / MANIFEST, manifest_json(manifest))
        write_whole(folder / LEDGER, ledger_json(ledger))
    return ledger


def _file_entry(trace: str, checksums: Checksums, source: Source) -> FileEntry:
    csv = source.csv
    sha256 = checksums[csv.paths]
    published = {file.name: file.sha256 for file in get_trace(trace).files}
    name = csv.label.removesuffix(f":{csv.member}")
    whole_name = name.split(".part")[0]
    known = published.get(whole_name)
    return FileEntry(
        file=name,
        member=csv.member,
        sha256=sha256,
        bytes=sum(path.stat().st_size for path in csv.paths),
        as_published=None if known is None else known == sha256,
        synthetic=csv.synthetic,
        unused_columns=source.unused_columns,
    )


def _fingerprint(trace: str, table: str, sources: list[Source], checksums: Checksums) -> str:
    """Return a digest that changes when a source, the schema or the version does."""
    content = [
        version("traceana"),
        schema_version(table),
        get_trace(trace).text,
        sorted((s.csv.label, checksums[s.csv.paths], s.columns) for s in sources),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _keep_real_and_synthetic_apart(
    name: str, sources: list[Source], old: Ledger | None, folder: Path
) -> None:
    marks = {source.csv.synthetic for source in sources}
    if old:
        marks |= {file.synthetic for entry in old.entries for file in entry.files}
    if len(marks) > 1:
        raise SourceError(
            f"{folder}: {name} would mix synthetic and real rows; "
            "ingest one of them into another store (--store DIR)"
        )


def _missing(
    name: str, entries: dict[str, TableEntry]
) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    there = {
        (file.member or file.file).rsplit("/", 1)[-1].removeprefix("SYNTHETIC-")
        for entry in entries.values()
        for file in entry.files
    }
    there = {name.removesuffix(".gz").removesuffix(".xz").split(".csv")[0] for name in there}
    return tuple(
        (name, csv, content.tables)
        for content in get_trace(name).contents
        for csv in content.csvs
        if csv.removesuffix(".csv") not in there
    )


def _joined(
    ledgers: list[Ledger], found: Discovery, failures: list[tuple[str | None, str]]
) -> Ledger:
    return Ledger(
        tuple(entry for ledger in ledgers for entry in ledger.entries),
        tuple(missing for ledger in ledgers for missing in ledger.missing_csvs),
        tuple(found.not_recognised),
        tuple(found.left_out),
        tuple(failures),
    )
