"""Ingest of one trace: tables written whole, the ledger and the manifest beside them."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import filelock
import polars as pl

from traceana.catalog import get_trace
from traceana.errors import DataError, SourceError, StoreError
from traceana.ingesters.build import Progress, TableBuilder
from traceana.ingesters.checksums import Checksums
from traceana.ingesters.describe import describe_trace
from traceana.ingesters.reshape import RESHAPES
from traceana.ingesters.unwrap import plain
from traceana.schema import schema_version
from traceana.store.ledger import FileEntry, Ledger, TableEntry, ledger_json
from traceana.store.manifest import MANIFEST, manifest_json
from traceana.store.store import LEDGER, is_whole, read_ledger
from traceana.store.writer import TableWriter, sources_json, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from traceana.catalog import Trace
    from traceana.ingesters.mapping import Mapping
    from traceana.ingesters.recipe import Recipe
    from traceana.ingesters.source import Source


@dataclass(frozen=True)
class Plan:
    """What is to be ingested of one trace.

    Attributes
    ----------
    trace
        Id of the trace.
    mapping
        From its sources to its tables.
    sources
        The sources.
    kind
        Where the mapping is from: catalog, mapping or api.
    checksums
        sha256 of sources that are no files, by label.
    facts
        Facts of the manifest that are not in the mapping.
    """

    trace: str
    mapping: Mapping
    sources: list[Source]
    kind: str
    checksums: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> Trace | None:
        """The catalog's entry, where the mapping is from there."""
        return get_trace(self.trace) if self.kind == "catalog" else None


def ingest_plan(plan: Plan, store: Path, progress: Progress | None = None) -> Ledger:
    """Ingest one trace into a store, and return the row counts of all of its tables."""
    folder = store / plan.trace
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock", timeout=0):
            return _ingest_locked(plan, folder, progress)
    except filelock.Timeout:
        raise StoreError(
            f"{folder}: another process is ingesting {plan.trace} into this store; "
            "run again when it has finished"
        ) from None
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _ingest_locked(plan: Plan, folder: Path, progress: Progress | None) -> Ledger:
    for left in folder.rglob(".*.tmp"):  # of an ingest that was killed
        left.unlink()
    old = read_ledger(folder)
    _keep_real_and_synthetic_apart(plan, old, folder)
    entries = {entry.table: entry for entry in old.entries} if old else {}
    _check_keep(plan)
    with ExitStack() as stack:
        files = dict.fromkeys(source.file.paths for source in plan.sources if source.file)
        checksums = stack.enter_context(Checksums(files))
        describe = partial(_file_entry, plan, checksums)
        writers = []
        for table in plan.mapping.tables:
            mine = [source for source in plan.sources if table in source.tables]
            if not mine:
                continue
            beside = [source for source in plan.sources if table in source.not_applicable]
            fingerprint = partial(_fingerprint, plan, table, [*mine, *beside], checksums)
            before = entries.get(table)
            if before and before.fingerprint == fingerprint() and is_whole(folder, before):
                entries[table] = replace(before, state="unchanged")
                continue
            keep = _kept_columns(plan.mapping, table, mine)
            recipes = [(source, _compile(plan, table, source, keep)) for source in mine]
            writer = stack.enter_context(TableWriter(folder, table, keep))
            builder = TableBuilder(plan.trace, table, writer, progress)
            entry = builder.build(recipes, describe=describe, fingerprint=fingerprint)
            if entry.rows_read and not entry.rows_kept:
                raise SourceError(_none_kept(entry, builder.first_rejected))
            counted = tuple(
                replace(
                    describe(one), rows_not_applicable=sum(b.lines for b in one.rows.blocks({}))
                )
                for one in beside
            )
            gone = {file.label for file in before.files} if before else set()
            gone -= {file.label for file in entry.files + counted}
            entries[table] = replace(
                entry, files=entry.files + counted, replaced_files=tuple(sorted(gone))
            )
            metadata = {
                "trace": plan.trace,
                "table": table,
                "version": version("traceana"),
                "schema_version": entry.schema_version,
                "fingerprint": entry.fingerprint,
                "synthetic": json.dumps(any(source.synthetic for source in mine)),
                "sources": sources_json([(f.label, f.sha256) for f in entry.files]),
            }
            writer.finish(metadata)
            writers.append(writer)
        for writer in writers:
            writer.publish()
    order = [
        *plan.mapping.tables,
        *(table for table in entries if table not in plan.mapping.tables),
    ]
    ledger = Ledger(
        tuple(entries[table] for table in order if table in entries), _missing(plan, entries)
    )
    if writers or not (folder / MANIFEST).is_file():
        manifest = describe_trace(ledger, folder, plan.mapping, kind=plan.kind, facts=plan.facts)
        write_whole(folder / MANIFEST, manifest_json(manifest))
        write_whole(folder / LEDGER, ledger_json(ledger))
    return ledger


def _compile(plan: Plan, table: str, source: Source, keep: dict[str, pl.DataType]) -> Recipe:
    reshape = RESHAPES.get((plan.trace, table)) if plan.kind == "catalog" else None
    if reshape is None:
        return source.recipe(plan.mapping, table, keep)
    reshaped = replace(source, rows=replace(source.rows, columns=reshape.columns))
    return replace(reshaped.recipe(plan.mapping, table, keep), reshape=reshape.apply)


def _kept_columns(mapping: Mapping, table: str, sources: list[Source]) -> dict[str, pl.DataType]:
    """Return the columns that a table carries along, with their types."""
    kept: dict[str, pl.DataType] = {}
    for name in mapping.keep:
        there = [source for source in sources if name in source.columns]
        declared = mapping.tables[table].source.get(name)
        if declared and declared.type:
            numeric = declared.type == "number"
        else:
            numeric = all((dtype := s.types.get(name)) and dtype.is_numeric() for s in there)
        if there:
            kept[name] = pl.Float64() if numeric else pl.String()
    return kept


def _check_keep(plan: Plan) -> None:
    """Refuse a column to keep that no source has."""
    for name in plan.mapping.keep:
        if not any(name in source.columns for source in plan.sources):
            raise DataError(f"{plan.mapping.where}: keep names {name!r}, which no source has")


def _none_kept(entry: TableEntry, first: str) -> str:
    rules = ", ".join(f"{rows:,} by {rule}" for rule, rows in list(entry.rejected.items())[:3])
    return (
        f"{entry.trace}/{entry.table}: none of {entry.rows_read:,} rows could be kept: {rules}; "
        f"the first is {first}"
    )


def _file_entry(plan: Plan, checksums: Checksums, source: Source) -> FileEntry:
    if source.file is None:
        return FileEntry(source.label, None, plan.checksums[source.label], 0, None, synthetic=False)
    member = plain(source.file.member) if source.file.member else None
    sha256 = checksums[source.file.paths]
    published = {file.name: file.sha256 for file in plan.known.files} if plan.known else {}
    name = source.label.removesuffix(f":{member}")
    known = published.get(name.split(".part")[0])
    return FileEntry(
        file=name,
        member=member,
        sha256=sha256,
        bytes=sum(path.stat().st_size for path in source.file.paths),
        as_published=None if known is None else known == sha256,
        synthetic=source.synthetic,
        unused_columns=source.unused_columns,
    )


def _fingerprint(plan: Plan, table: str, sources: list[Source], checksums: Checksums) -> str:
    """Return a digest that changes when a source, the mapping, the schema or the version does."""
    content = [
        version("traceana"),
        schema_version(table),
        [plan.kind, plan.mapping.text, plan.facts],
        sorted(
            (
                source.label,
                checksums[source.file.paths] if source.file else plan.checksums[source.label],
                [*source.columns],
                [source.reader],
            )
            for source in sources
        ),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _keep_real_and_synthetic_apart(plan: Plan, old: Ledger | None, folder: Path) -> None:
    marks = {source.synthetic for source in plan.sources}
    if old:
        marks |= {file.synthetic for entry in old.entries for file in entry.files}
    if len(marks) > 1:
        raise SourceError(
            f"{folder}: {plan.trace} would mix synthetic and real rows; "
            "ingest one of them into another store (--store DIR)"
        )


def _missing(
    plan: Plan, entries: dict[str, TableEntry]
) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    there = {
        name.removeprefix("SYNTHETIC-")
        for entry in entries.values()
        for file in entry.files
        for name in (file.file, (file.member or file.file).rsplit("/", 1)[-1])
    }
    there = {name.removesuffix(".gz").removesuffix(".xz").split(".csv")[0] for name in there}
    return tuple(
        (plan.trace, csv, content.tables)
        for content in (plan.known.contents if plan.known else ())
        for csv in content.csvs
        if csv.removesuffix(".csv") not in there
    )
