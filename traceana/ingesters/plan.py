"""Ingest of one trace: tables written whole, the ledger and the manifest beside them."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tomllib
from collections.abc import Iterable
from collections.abc import Mapping as Facts
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Final

import filelock
import polars as pl

from traceana.catalog.model import CatalogEntry, get_trace
from traceana.errors import DataError, SourceError, StoreError, did_you_mean
from traceana.ingesters import build
from traceana.ingesters.compiled import CompiledMapping, Source, compile_mapping
from traceana.ingesters.files import plain, sha256_of
from traceana.ingesters.mapping import Mapping, check_type
from traceana.ingesters.reshape import RESHAPES
from traceana.schema import get_key, get_table, schema_version
from traceana.store.ledger import FileEntry, Ledger, TableEntry
from traceana.store.manifest import MANIFEST, Capacity, Manifest, TableManifest, manifest_json
from traceana.store.store import LEDGER, Store, is_whole, read_ledger
from traceana.store.writer import TableWriter, stored_columns, stored_range, write_whole

_OF_THE_FILES: Final = ("reader", "keep", "rows")
_NOT_STATED: Final = frozenset(
    {"trace", "source", "synthetic", "window", "mapping", "facts", "tables", "rows", "columns"}
)
"""Members of a manifest that follow from its tables."""
_LONGEST_TITLE: Final = 1_000
_CLOCK: Final = ("submit_s", "start_s", "end_s")
UNIX_S: Final = 631_152_000  # 1990
"""No trace's own clock is that far from its start."""
_NEVER_S: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_OF_WHAT_LASTED: Final = ("sacct", "kubectl")
_DAY_S: Final = 86_400
_FEW: Final = 0.02
_RARE: Final = 0.2
_MANY: Final = 10
"""Readers of exports that list what had not ended when they begin; submissions before the first
end, of all since and of those of as long a time, below which the window begins with that end; and
those that would have ended by then, as later ones, from which it does so too."""
_SCRATCH: Final = ".update"
"""Folder for the rows of new files until they are merged."""


@dataclass(frozen=True)
class Plan:
    """What is to be ingested of one trace."""

    trace: str
    mapping: Mapping
    sources: list[Source]
    kind: str
    """Where the mapping is from: catalog, mapping or api."""
    checksums: dict[tuple[Path, ...], str] = field(default_factory=dict)
    """sha256 of sources that are no files, by their paths: none."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts of the manifest that are not in the mapping."""
    replace: bool = False
    """Whether tables of a mapping are replaced, rather than updated by newer records."""

    @property
    def known(self) -> CatalogEntry | None:
        """The catalog's entry, where the mapping is from there."""
        return get_trace(self.trace) if self.kind == "catalog" else None


def ingest_plan(plan: Plan, store: Path, progress: build.Progress | None = None) -> Ledger:
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


def _ingest_locked(plan: Plan, folder: Path, progress: build.Progress | None) -> Ledger:
    for left in folder.rglob(".*.tmp"):  # of an ingest that was killed
        left.unlink()
    shutil.rmtree(folder / _SCRATCH, ignore_errors=True)
    old = read_ledger(folder)
    # raises where it cannot be read
    manifest = Store(folder.parent).manifest(plan.trace) if old else None
    _keep_real_and_synthetic_apart(plan, old, folder)
    _check_keep(plan)
    check_facts(plan.mapping, manifest)
    entries = {entry.table: entry for entry in old.entries} if old else {}
    files = {source.paths for source in plan.sources if source.file}
    before = {path: _state(path) for path in chain.from_iterable(files)}
    checksums = plan.checksums | {paths: sha256_of(paths) for paths in files}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder / _SCRATCH, ignore_errors=True)
        writers = []
        for table in plan.mapping.tables:
            step = _TableStep(plan, table, folder, checksums, entries.get(table), progress)
            if not step.sources:
                continue
            if step.is_unchanged():
                entries[table] = replace(entries[table], state="unchanged")
                continue
            entries[table], writer = step.build(stack)
            writers.append(writer)
        for path, state in before.items():
            if _state(path) != state:
                raise SourceError(f"{path}: changed while it was read; ingest a copy of it")
        for writer in writers:
            writer.publish()
    order = dict.fromkeys((*plan.mapping.tables, *entries))
    in_order = tuple(entries[table] for table in order if table in entries)
    ledger = Ledger(in_order, _missing(plan, entries))
    if writers:
        manifest = describe_trace(ledger, folder, plan.mapping, kind=plan.kind, facts=plan.facts)
        described = {MANIFEST: manifest_json(manifest), LEDGER: ledger.json}
        write_whole({folder / name: text.encode() for name, text in described.items()})
    return ledger


@dataclass(frozen=True)
class _TableStep:
    plan: Plan
    table: str
    folder: Path
    checksums: dict[tuple[Path, ...], str]
    before: TableEntry | None
    progress: build.Progress | None

    @property
    def sources(self) -> list[Source]:
        """Sources with rows for the table."""
        return [source for source in self.plan.sources if self.table in source.tables]

    @property
    def _beside(self) -> list[Source]:
        """Sources that seem to have rows for the table, and have none."""
        return [source for source in self.plan.sources if self.table in source.not_applicable]

    @property
    def _updates(self) -> bool:
        return self.plan.kind == "mapping" and not self.plan.replace and bool(get_key(self.table))

    def is_unchanged(self) -> bool:
        """Return whether the stored table has the rows of these files, read in the same way."""
        before = self.before
        if before is None or not is_whole(self.folder, before):
            return False
        stored = {file.fingerprint for file in before.files}
        return before.fingerprint == self._fingerprint_of(*self.sources, *self._beside) or (
            self._updates and stored.issuperset(map(self._fingerprint_of, self.sources))
        )

    def build(self, stack: ExitStack) -> tuple[TableEntry, TableWriter]:
        """Write the table under a temporary name, and return its counts and the writer."""
        plan, sources = self.plan, self.sources
        described = [*map(self._describe, sources)]
        earlier = self._find_earlier({file.sha256 for file in described})
        keep = _kept_columns(plan.mapping, self.table, sources, self.folder if earlier else None)
        several = len(sources) > 1 or earlier is not None
        compiled = [self._compile(source, keep, several) for source in sources]
        writer = stack.enter_context(TableWriter(self.folder, self.table, keep))
        is_update = plan.kind == "mapping" and bool(get_key(self.table)) and several
        target = writer
        if is_update:
            scratch = self.folder / _SCRATCH
            target = stack.enter_context(TableWriter(scratch, self.table, keep | build.UPDATE))
        builder = build.TableBuilder(plan.trace, self.table, target, self.progress, is_update)
        fingerprint = self._fingerprint_of(*sources, *self._beside)
        entry = builder.build([*zip(sources, compiled, described, strict=True)], fingerprint)
        if entry.rows_read and not entry.rows_kept:
            raise SourceError(_none_kept(entry, builder.first_rejected))
        if is_update:
            target.finish("")
            target.publish()
            entry = self._merge(entry, earlier, writer, keep)
        counted = tuple(map(self._count, self._beside))
        gone = {file.label for file in self.before.files} if self.before and not earlier else set()
        gone -= {file.label for file in entry.files + counted}
        entry = replace(entry, files=entry.files + counted, replaced_files=tuple(sorted(gone)))
        return replace(entry, crc32=writer.finish(entry.fingerprint)), writer

    def _find_earlier(self, digests: set[str]) -> TableEntry | None:
        """Return the stored table if newer records are to be added; None builds it anew."""
        before = self.before
        if before is None or not self._updates or {f.sha256 for f in before.files} <= digests:
            return None
        is_current = before.schema_version == schema_version(before.table)
        if not (is_current and is_whole(self.folder, before)):
            raise StoreError(
                f"{self.folder}: {before.table} was interrupted, changed, or made by another "
                "version, and cannot be updated; ingest all of its files in one command with "
                "--replace"
            )
        return before

    def _compile(
        self, source: Source, keep: dict[str, pl.DataType], several: bool
    ) -> CompiledMapping:
        """Compile the mapping; of several sources, the file is part of a row's number."""
        plan, table = self.plan, self.table
        reshape = None
        if plan.kind == "catalog" and (plan.trace, table) in RESHAPES:
            columns, reshape = RESHAPES[plan.trace, table]
            source = replace(source, rows=replace(source.rows, columns=columns))
        row_ids = f"{source.label}:" if several else ""
        compiled = compile_mapping(source, plan.mapping, table, keep, row_ids)
        return replace(compiled, reshape=reshape)

    def _merge(
        self,
        entry: TableEntry,
        earlier: TableEntry | None,
        writer: TableWriter,
        keep: dict[str, pl.DataType],
    ) -> TableEntry:
        places = [*([self.folder] if earlier else []), self.folder / _SCRATCH]
        replaced = build.merge_newest(places, writer, self.table, keep)
        if earlier is None:
            return replace(entry, rows_replaced=replaced)
        both = hashlib.sha256(f"{earlier.fingerprint} {entry.fingerprint}".encode())
        return replace(
            entry,
            files=earlier.files + entry.files,
            rows_replaced=earlier.rows_replaced + replaced,
            fingerprint=both.hexdigest(),
            state="updated",
        )

    def _count(self, source: Source) -> FileEntry:
        rows = sum(block.lines for block in source.rows.blocks({}))
        return replace(self._describe(source), rows_not_applicable=rows)

    def _describe(self, source: Source) -> FileEntry:
        plan, file = self.plan, source.file
        sha256 = self.checksums[source.paths]
        if file is None:
            return FileEntry(source.label, None, sha256, 0, None, synthetic=False)
        member = plain(file.member) if file.member else None
        published = {each.name: each.sha256 for each in plan.known.files} if plan.known else {}
        name = source.label.removesuffix(f":{member}")
        entry = published.get(name.split(".part")[0])
        return FileEntry(
            file=name,
            member=member,
            sha256=sha256,
            bytes=sum(path.stat().st_size for path in file.paths),
            as_published=None if entry is None else entry == sha256,
            synthetic=source.synthetic,
            unused_columns=source.unused_columns,
            fingerprint=self._fingerprint_of(source),
        )

    def _fingerprint_of(self, *sources: Source) -> str:
        """Return a digest that changes when a source, the mapping, the schema or version does."""
        plan = self.plan
        content = [
            version("traceana"),
            schema_version(self.table),
            [plan.kind, plan.mapping.text, plan.facts],
            sorted(
                (each.label, self.checksums[each.paths], [*each.columns], [each.reader])
                for each in sources
            ),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _kept_columns(
    mapping: Mapping, table: str, sources: list[Source], stored: Path | None
) -> dict[str, pl.DataType]:
    kept: dict[str, pl.DataType] = {}
    columns_of_table = set(get_table(table).column_names())
    for name, published in mapping.keep.items():
        if name in columns_of_table:
            continue
        having = [source for source in sources if published in source.columns]
        declared = mapping.tables[table].source.get(published)
        if declared and declared.type:
            numeric = declared.type == "number"
        else:
            types = (source.types.get(published) for source in having)
            numeric = all(dtype is not None and dtype.is_numeric() for dtype in types)
        if having:
            kept[name] = pl.Float64() if numeric else pl.String()
    before: dict[str, pl.DataType] = {}
    if stored:
        schema = pl.scan_parquet(stored / f"{table}.parquet", glob=False).collect_schema()
        before = {name: dtype for name, dtype in schema.items() if name not in columns_of_table}
    clash = {name for name in before.keys() & kept if before[name] != kept[name]}
    return {**before, **kept, **dict.fromkeys(clash, pl.String())}


def _check_keep(plan: Plan) -> None:
    columns = dict.fromkeys(name for source in plan.sources for name in source.columns)
    for name in plan.mapping.keep.values():
        if name not in columns:
            hint = did_you_mean(name, columns, shown=repr)
            raise DataError(f"{plan.mapping.where}: keep names {name!r}, which no source has{hint}")


def _none_kept(entry: TableEntry, first: str) -> str:
    rules = ", ".join(f"{rows:,} by {rule}" for rule, rows in list(entry.rejected.items())[:3])
    remedy = ""
    if "|not_a_time" in rules:
        remedy = '; without `format`, a time is ISO 8601; a number needs `unit`, such as "s"'
    return (
        f"{entry.trace}/{entry.table}: none of {entry.rows_read:,} rows could be kept: {rules}; "
        f"the first is {first}{remedy}"
    )


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
    present = {
        name.removeprefix("SYNTHETIC-")
        for entry in entries.values()
        for file in entry.files
        for path in [(file.member or file.file).split("/")]
        for name in (file.file, "/".join(path[-2:]), path[-1])
    }
    present = {name.removesuffix(".gz").removesuffix(".xz").split(".csv")[0] for name in present}
    return tuple(
        (plan.trace, csv, content.tables)
        for content in (plan.known.contents if plan.known else ())
        for csv in content.csvs
        if csv.removesuffix(".csv") not in present
    )


def _are_dates(times: list[float]) -> bool:
    return bool(times) and min(times) >= UNIX_S and max(times) < _NEVER_S


def describe_trace(
    ledger: Ledger, folder: Path, mapping: Mapping, /, *, kind: str, facts: Facts[str, Any]
) -> Manifest:
    """Return the manifest of a trace whose tables are in their place."""
    name = ledger.entries[0].trace
    content, stated = _stated(mapping)
    store = Store(folder.parent)
    old = store.manifest(name) if (folder / LEDGER).is_file() else None
    if old and kind != "catalog":  # tables of other mappings stay
        stated = old.facts | stated
    # what the user states of the machines goes before what a file's header does
    of_user = {name: stated[name] for name in ("capacity",) if name in stated}
    stated |= {**facts, **of_user}
    times = [
        second
        for entry in ledger.entries
        for second in stored_range(folder / f"{entry.table}.parquet", _CLOCK)
    ]
    derived: dict[str, Any] = {
        "title": name,
        "window_start_s": max(min(times) + 0.0, _first_listed(mapping, folder)) if times else None,
        "window_end_s": max(times) if times else None,
        "absolute_times": _are_dates(times),
    }
    ends = {"window_start_s", "window_end_s"}
    return Manifest(
        **derived | checked_facts(stated, Manifest, f"{mapping.where}: [trace]"),
        trace=name,
        source=kind,
        synthetic=ledger.synthetic,
        window="stated" if ends <= stated.keys() else "derived",
        mapping=mapping.text,
        facts=stated,
        tables={
            entry.table: _describe_table(entry, folder, mapping, content[entry.table])
            if entry.table in mapping.tables or old is None
            else old.tables[entry.table]
            for entry in ledger.entries
        },
    )


def _first_listed(mapping: Mapping, folder: Path) -> float:
    """Return the first end of an export's jobs if it lists only what lasted; else -infinity."""
    if mapping.reader not in _OF_WHAT_LASTED or "jobs" not in mapping.tables:
        return -math.inf
    jobs = pl.scan_parquet(folder / "jobs.parquet").select("submit_s", "end_s").collect()
    submit = jobs["submit_s"].drop_nulls().sort()
    end = jobs["end_s"].drop_nulls().min()
    if not submit.len() or not isinstance(end, float):
        return -math.inf
    n_early = int(submit.search_sorted(end))
    n_late, early = submit.len() - n_early, end - submit.head(n_early)
    few = n_early <= _FEW * n_late and end - submit[0] >= _DAY_S
    rare = n_early * (submit[-1] - end) < _RARE * n_late * (end - submit[0])
    lasted = jobs.filter(pl.col("submit_s") >= end).select(pl.col("end_s") - pl.col("submit_s"))
    ended = lasted.to_series().drop_nulls().sort().search_sorted(early, side="right")
    would_have_ended = ended.sum() / max(n_late, 1)  # by the first end, if all were listed
    # the first end is within it
    return end - 1.0 if (few and rare) or would_have_ended >= _MANY else -math.inf


def check_facts(mapping: Mapping, old: Manifest | None, /) -> None:
    """Refuse facts that no manifest can have, before tables are replaced."""
    content, stated = _stated(mapping)
    unit = checked_facts(stated, Manifest, f"{mapping.where}: [trace]").get("independent_unit")
    every = {column for table in old.tables.values() for column in table.columns} if old else set()
    for table, mapped in mapping.tables.items():
        where = f"{mapping.where}: [{table}.about]"
        about = checked_facts(content[table].get("about", {}), TableManifest, where)
        columns = {*mapped.columns, *mapping.keep}
        every |= columns
        _check_columns(about.get("groups", ()), columns, f"{where}: groups")
    _check_columns(
        [] if unit is None else [unit], every, f"{mapping.where}: [trace]: independent_unit"
    )


def _check_columns(names: Iterable[str], columns: set[str], where: str) -> None:
    for name in names:
        if name not in columns:
            columns_of_table = ", ".join(sorted(columns))
            raise DataError(f"{where}: no column is called {name!r}; use one of {columns_of_table}")


def _stated(mapping: Mapping) -> tuple[dict[str, Any], dict[str, Any]]:
    content = tomllib.loads(mapping.text)
    facts = content.get("trace", {}).items()
    return content, {name: value for name, value in facts if name not in _OF_THE_FILES}


def _describe_table(
    entry: TableEntry, folder: Path, mapping: Mapping, content: Facts[str, Any]
) -> TableManifest:
    units = {
        column: spec["unit"]
        for column, spec in mapping.tables[entry.table].columns.items()
        if "column" in spec and "unit" in spec
    }
    facts = {"unit_noun": entry.table.replace("_", " "), "units": units} | content.get("about", {})
    return TableManifest(
        **checked_facts(facts, TableManifest, f"{mapping.where}: [{entry.table}.about]"),
        rows=entry.rows_kept,
        columns=stored_columns(folder / f"{entry.table}.parquet"),
        mapping=mapping.text,
    )


def checked_facts(
    facts: Facts[str, Any], kind: type[Manifest | TableManifest], where: str, /
) -> dict[str, Any]:
    """Return facts with lists as tuples, and capacities as such."""
    _check_fields(facts, kind, where)
    checked: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()
    }
    if "capacity" in checked:
        checked["capacity"] = {
            group: _capacity(stated, f"{where}: capacity of {group!r}")
            for group, stated in checked["capacity"].items()
        }
    return checked


def _check_fields(stated: Facts[str, Any], kind: type, where: str, use: str = "") -> None:
    types = {each.name: str(each.type) for each in fields(kind) if each.name not in _NOT_STATED}
    for name, value in stated.items():
        if name not in types:
            hint = did_you_mean(name, types)
            listed = use or f"use {', '.join(types)}"
            raise DataError(f"{where}: no fact is called {name!r}{hint}; {listed}")
        if value is not None or "None" not in types[name]:
            check_type(value, types[name].removesuffix(" | None"), f"{where}: {name}")
        if name in ("title", "short_title") and len(value) > _LONGEST_TITLE:
            raise DataError(
                f"{where}: {name} has {len(value):,} characters; at most {_LONGEST_TITLE:,}"
            )


def _capacity(stated: Facts[str, Any], where: str) -> Capacity:
    names = ", ".join(field.name for field in fields(Capacity))
    expected = f"state {names}, such as {{ nodes = 16, gpus_per_node = 8 }}"
    _check_fields(stated, Capacity, where, expected)
    for name, value in stated.items():
        if isinstance(value, int) and value < 0:
            raise DataError(f"{where}: {name} is {value}, below 0")
    try:
        return Capacity(**stated)
    except TypeError:
        raise DataError(f"{where}: {expected}") from None


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
