"""``traceana ingest PATH...``: files become tables."""

from __future__ import annotations

import json as json_text
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from traceana.cli.options import (
    JsonOption,
    MappingOption,
    ReaderOption,
    StoreOption,
    TimezoneOption,
    argument,
    option,
)
from traceana.cli.output import print_cells
from traceana.cli.streams import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceana.store import Ledger, TableEntry

_MOST_NAMED = 8
_STAGES = 4  # decompress, check, look for repeated rows, pack


def ingest(
    paths: Annotated[
        list[Path], argument("Folders or files: public traces or your own.", "PATH...")
    ],
    *,
    store: StoreOption = None,
    trace: Annotated[
        str | None,
        option("Id of the trace.  [default: found from the files, or the mapping's name]", "ID"),
    ] = None,
    mapping: MappingOption = None,
    reader: ReaderOption = None,
    timezone: TimezoneOption = None,
    columns: Annotated[
        str | None, option("Columns of files without a header: JobID,User,State,...", "LIST")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the trace's tables instead of updating them.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Read files into a store and count every row kept or rejected."""
    _suit_polars()
    from traceana.ingesters import IngestError
    from traceana.ingesters import ingest as ingest_files
    from traceana.store import store_path

    console = terminal(stderr=True)
    failure = None
    try:
        with console.status("reading") as status:

            def show(trace: str, table: str, rows: int) -> None:
                status.update(f"{trace} {table}: {rows:,} rows")

            ledger = ingest_files(
                paths,
                trace=trace,
                mapping=mapping,
                reader=reader,
                timezone=timezone,
                columns=[name.strip() for name in columns.split(",")] if columns else None,
                store=store,
                replace=replace,
                progress=show if console.is_terminal else None,
            )
    except IngestError as error:
        failure, ledger = error, error.ledger
    if json:
        sys.stdout.write(_as_json(ledger))
    else:
        _show(ledger, store_path(store))
    if failure:
        raise failure


def _suit_polars() -> None:
    """Set, before it is loaded, what makes Polars fast in a process that only ingests.

    Freed memory is reused at once, so it is kept longer than half a second; and where cores are no
    more than the stages that work at once, more threads in one of them do not help.
    """
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:10000")
    if (os.cpu_count() or 1) < _STAGES:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")


def _show(ledger: Ledger, store: Path) -> None:
    counts = ["read", "kept", "rejected"]
    if any(entry.rows_replaced for entry in ledger.entries):
        counts.insert(2, "replaced")
    if ledger.entries:
        columns = [("trace / table", False), *((name, True) for name in counts), ("", False)]
        rows = (
            (
                f"{entry.trace}/{entry.table}",
                *(f"{getattr(entry, f'rows_{name}'):,}" for name in counts),
                entry.state,
            )
            for entry in ledger.entries
        )
        print_cells(columns, rows)
    out = terminal()
    for line in _remarks(ledger, store):
        out.print(line, soft_wrap=True)


def _remarks(ledger: Ledger, store: Path) -> Iterator[str]:
    """Return the lines below the table of an ingest."""
    synthetic = sorted({entry.trace for entry in ledger.entries if entry.synthetic})
    if synthetic:
        yield f"SYNTHETIC, no observed row in it: {', '.join(synthetic)}"
    for trace in dict.fromkeys(entry.trace for entry in ledger.entries):
        yield from _trace_notes(trace, store)
    for entry in ledger.entries:
        yield from _notes(entry)
    named = {
        "not there": [f"{trace}/{csv}" for trace, csv, _ in ledger.missing_csvs],
        "left out": ledger.left_out,
        "not recognized": ledger.not_recognised,
    }
    yield from (f"{heading}: {_first_of(names)}" for heading, names in named.items() if names)
    yield from _expected(ledger.not_recognised)
    if any(entry.rows_rejected for entry in ledger.entries):
        yield f"rejected rows: {store}/<trace>/rejected/<table>.parquet"
    if {entry.state for entry in ledger.entries} == {"unchanged"}:
        yield f"nothing to do: {store} already holds these files"


def _trace_notes(trace: str, store: Path) -> Iterator[str]:
    """Return the notes on a trace that is not public."""
    from traceana.store import Store

    manifest = Store(store).manifest(trace)
    if manifest.source != "catalog":
        yield from (f"note: {trace}: {note}" for note in manifest.notes)


def _expected(not_recognised: Sequence[str]) -> Iterator[str]:
    """Return the names that CSVs of public traces have, where others are among the files."""
    if any(name.endswith((".csv", ".csv.gz", ".csv.xz")) for name in not_recognised):
        from traceana.ingesters.discover import known_names

        yield f"expected: files named as published, such as {known_names()}"


def _notes(entry: TableEntry) -> Iterator[str]:
    """Return notes on the rows of a table."""
    name = f"{entry.trace}/{entry.table}"
    for rule, rows in entry.rejected.items():
        yield f"rejected: {name}: {rows:,} by {rule}"
    yield from entry.remarks
    if entry.rows_not_applicable:
        yield (
            f"note: {name}: {entry.rows_not_applicable:,} further rows are not rows of this table "
            "(steps of jobs, for example)"
        )
    if entry.duplicate_rows:
        yield (
            f"note: {name}: {entry.duplicate_rows:,} rows repeat another in every column "
            "(kept: the table has no key)"
        )
    for column, words in entry.unknown_words.items():
        ranked = [f"{word!r} ({count:,})" for word, count in Counter(words).most_common()]
        yield f"note: {name}: unknown values in {column}: {_first_of(ranked)}"
    if entry.replaced_files:
        gone = ", ".join(entry.replaced_files)
        yield f"note: {name}: built anew without rows that it had before, of {gone}"
    published = _published_rows(entry)
    if published is not None and entry.rows_read != published:
        yield f"note: {name}: {entry.rows_read:,} rows read, where {published:,} are published"
    strange = {
        file.file for file in entry.files if file.as_published is False and not file.synthetic
    }
    for label in sorted(strange):
        yield f"note: {name}: {label} is not the published file (its sha256 differs)"
    for file in entry.files:
        if file.unused_columns:
            columns = ", ".join(file.unused_columns)
            yield f"note: {name}: {file.label}: columns not used: {columns}"


def _published_rows(entry: TableEntry) -> int | None:
    """Return the number of rows in the publisher's files, if these are the complete files."""
    from traceana.catalog import load_catalog

    published = None if entry.synthetic else load_catalog().get(entry.trace)
    return published.rows.get(entry.table) if published else None


def _first_of(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


def _as_json(ledger: Ledger) -> str:
    content = {
        "tables": ledger.tables.to_dicts(),
        "files": ledger.files.to_dicts(),
        "rejections": ledger.rejections.to_dicts(),
        "nulled": ledger.nulled.to_dicts(),
        "notes": [note for entry in ledger.entries for note in _notes(entry)],
        "missing": ledger.missing.to_dicts(),
        "not_recognised": ledger.not_recognised,
        "left_out": ledger.left_out,
        "failures": [{"trace": trace, "reason": line} for trace, line in ledger.failures],
    }
    return json_text.dumps(content, indent=2) + "\n"
