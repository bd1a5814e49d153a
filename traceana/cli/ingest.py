"""``traceana ingest PATH...``: files become tables; ``traceana map FILE``: a proposed mapping."""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from traceana.cli.output import print_cells, print_json, terminal, write_file
from traceana.errors import DataError
from traceana.tables.formatting import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from traceana.store import Ledger, TableEntry


_MOST_NAMED = 8
_STAGES = 4  # decompress, parse, check, pack


def ingest(
    paths: list[Path],
    *,
    store: Path | None = None,
    trace: str | None = None,
    mapping: Path | None = None,
    reader: str | None = None,
    timezone: str | None = None,
    columns: str | None = None,
    replace: bool = False,
    json: bool = False,
) -> None:
    """Read files into a store and count every row kept or rejected."""
    # more threads do not help where stages work at once
    if (os.cpu_count() or 1) < _STAGES:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from traceana.ingesters import IngestError
    from traceana.ingesters import ingest as ingest_files
    from traceana.store.store import store_path

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
        tables = ("tables", "files", "rejections", "nulled", "missing")
        print_json(
            {name: getattr(ledger, name).to_dicts() for name in tables}
            | {
                "notes": [note for entry in ledger.entries for note in _notes(entry)],
                "not_recognized": ledger.not_recognized,
                "left_out": ledger.left_out,
                "failures": [{"trace": trace, "reason": line} for trace, line in ledger.failures],
            }
        )
    else:
        _show(ledger, store_path(store))
    if failure:
        raise failure


def _show(ledger: Ledger, store: Path) -> None:
    counts = ["read", "kept", "rejected"]
    if any(entry.rows_replaced for entry in ledger.entries):
        counts.insert(2, "replaced")
    rows = []
    for entry in ledger.entries:
        numbers = (f"{getattr(entry, f'rows_{name}'):,}" for name in counts)
        rows.append((f"{entry.trace}/{entry.table}", *numbers, entry.state))
    if rows:
        columns = [("trace / table", False), *((name, True) for name in counts), ("", False)]
        print_cells(columns, rows)
    out = terminal()
    for line in _remarks(ledger, store):
        out.print(line, soft_wrap=True)


def _remarks(ledger: Ledger, store: Path) -> Iterator[str]:
    from traceana.ingesters.discover import known_names
    from traceana.store import Store

    if synthetic := sorted({entry.trace for entry in ledger.entries if entry.synthetic}):
        yield f"SYNTHETIC, no observed row in it: {', '.join(synthetic)}"
    for trace in dict.fromkeys(entry.trace for entry in ledger.entries):
        manifest = Store(store).manifest(trace)
        notes = () if manifest.source == "catalog" else manifest.notes
        yield from (f"note: {trace}: {note}" for note in notes)
    for entry in ledger.entries:
        yield from _notes(entry)
    named = {
        "not there": [f"{trace}/{csv}" for trace, csv, _ in ledger.missing_csvs],
        "left out": ledger.left_out,
        "not recognized": ledger.not_recognized,
    }
    yield from (f"{heading}: {_first_of(names)}" for heading, names in named.items() if names)
    if any(name.endswith((".csv", ".csv.gz", ".csv.xz")) for name in ledger.not_recognized):
        yield f"expected: files named as published, such as {known_names()}"
    if any(entry.rows_rejected for entry in ledger.entries):
        yield f"rejected rows: {store}/<trace>/rejected/<table>.parquet"
    if {entry.state for entry in ledger.entries} == {"unchanged"}:
        yield f"nothing to do: {store} already holds these files"


def _notes(entry: TableEntry) -> Iterator[str]:
    from traceana.catalog import load_catalog

    name = f"{entry.trace}/{entry.table}"
    for rule, rows in entry.rejected.items():
        yield f"rejected: {name}: {rows:,} by {rule}"
    yield from entry.remarks
    if entry.rows_not_applicable:
        yield (
            f"note: {name}: {entry.rows_not_applicable:,} further rows are not rows of this table "
            "(steps of jobs, for example)"
        )
    for column, words in entry.unknown_words.items():
        ranked = itertools.starmap("{!r} ({:,})".format, Counter(words).most_common())
        yield f"note: {name}: unknown values in {column}: {_first_of([*ranked])}"
    if entry.replaced_files:
        gone = ", ".join(entry.replaced_files)
        yield f"note: {name}: built anew without rows that it had before, of {gone}"
    catalog = {} if entry.synthetic else load_catalog()
    published = catalog[entry.trace].rows.get(entry.table) if entry.trace in catalog else None
    if published not in (None, entry.rows_read):
        yield f"note: {name}: {entry.rows_read:,} rows read, where {published:,} are published"
    strange = [f.file for f in entry.files if f.as_published is False and not f.synthetic]
    for label in sorted(set(strange)):
        yield f"note: {name}: {label} is not the published file (its sha256 differs)"
    for file in entry.files:
        if columns := ", ".join(file.unused_columns):
            yield f"note: {name}: {file.label}: columns not used: {columns}"


def _first_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


_ROWS = 5
_CELL = 80


def map(file: Path, *, out: Path | None = None, reader: str | None = None) -> None:  # noqa: A001
    """Propose a mapping for a file and preview its rows."""
    from traceana.ingesters import IngestError, propose_mapping
    from traceana.ingesters.propose import preview_mapping

    text = propose_mapping(file, reader=reader)
    if out is None:
        sys.stdout.write(text)
    else:
        write_file(out, text.encode())
        sys.stderr.write(f"mapping: {out}\n")
    try:
        previews = preview_mapping(file, text)
    except IngestError as error:
        saved = f"correct {out}" if out else f"traceana map {file} --out M.toml, correct M.toml"
        following = f"traceana ingest {file} --mapping {out or 'M.toml'}"
        raise DataError(f"{error}; next: {saved}, then {following}") from error
    for entry, rows in previews:
        _preview(entry.table, rows)
        sys.stderr.write(
            f"{entry.table}: {entry.rows_read:,} rows read = {entry.rows_kept:,} kept + "
            f"{entry.rows_rejected:,} rejected\n"
        )
        for rule, count in [*entry.rejected.items()][:_ROWS]:
            sys.stderr.write(f"rejected: {count:,} by {rule}\n")
        for rule, count in [*entry.nulled.items()][:_ROWS]:
            sys.stderr.write(f"set to null: {count:,} cells by {rule}\n")
    if doubts := text.count("# unsure:"):
        sys.stderr.write(f"check what is marked unsure: {plural(doubts, 'line')}\n")
    following = f"report {file} --mapping {out}" if out else f"map {file} --out M.toml"
    sys.stderr.write(f"next: traceana {following}\n")


def _preview(table: str, rows: pl.DataFrame) -> None:
    from rich.table import Table

    shown = Table(title=f"{table}: first rows", box=None, pad_edge=False)
    shown.add_column("column", no_wrap=True)
    for number in range(min(_ROWS, rows.height)):
        shown.add_column(f"row {number + 1}")
    for name in rows.columns:
        if "\0" not in name and rows[name].count():
            values = rows[name].head(_ROWS)
            shown.add_row(name, *("-" if value is None else str(value)[:_CELL] for value in values))
    terminal(stderr=True).print(shown)
