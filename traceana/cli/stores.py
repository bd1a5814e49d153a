"""Commands on the store and the public traces: list, fetch, write a sample."""

from __future__ import annotations

import logging
import shlex
import sys
from json import loads
from pathlib import Path
from typing import Any

import typer
from rich.filesize import decimal

from traceana.catalog import fetch as fetch_files
from traceana.catalog import list_traces, load_catalog
from traceana.catalog.model import get_trace
from traceana.cli.options import readable_traces
from traceana.cli.output import print_cells, print_json, terminal
from traceana.samples import write_sample
from traceana.store import Store, open_store
from traceana.store.store import store_path

_LICENSE = 18  # characters


def traces(store: Path | None = None, json: bool = False) -> None:
    """List the public traces: tables, rows, size, license."""
    with readable_traces(Store(store_path(store))) as opened:
        _list_traces(opened, json=json)


def _list_traces(store: Store, *, json: bool) -> None:
    listed, there = list_traces(), store.traces()
    stored = {
        trace: [table for table in tables if trace in there and store.has(trace, table)]
        for trace, tables in listed.select("trace", "tables").iter_rows()
    }
    if json:
        print_json([row | {"in_store": stored[row["trace"]]} for row in listed.to_dicts()])
        return
    shown = []
    for trace, _, tables, rows, size, terms, _ in listed.iter_rows():
        published, present = get_trace(trace), len(stored[trace])
        more_rows = " +" if len(published.rows) < len(tables) else ""
        more_bytes = " +" if any(file.bytes is None for file in published.files) else ""
        shown.append(
            (
                trace,
                "unknown" if rows is None else f"{rows:,}{more_rows}",
                "unknown" if size is None else f"{decimal(size)}{more_bytes}",
                terms.partition(";")[0][:_LICENSE],
                f"{present} of {len(tables)}",
            )
        )
    numeric = {"trace": False, "rows": True, "size": True, "license": False, "in store": True}
    print_cells(numeric.items(), shown)
    terminal().print("+: and what is not stated. All there is to know: traceana traces --json")


def tables(*, store: Path | None = None, json: bool = False) -> None:
    """List the tables of every trace, and in the store their rows and columns with values."""
    with readable_traces(Store(store_path()) if store is None else open_store(store)) as opened:
        _list_tables(opened, json=json)


def _list_tables(opened: Store, *, json: bool) -> None:
    stored = {(row["trace"], row["table"]): row for row in opened.tables().iter_rows(named=True)}
    catalog = load_catalog()
    every = [(trace.id, table) for trace in catalog.values() for table in trace.tables]
    untried = {name for name, trace in catalog.items() if not trace.tried}
    columns = {key: opened.columns(*key) for key in stored}
    rows: list[dict[str, Any]] = []
    for trace, table in dict.fromkeys([*every, *stored]):
        entry = stored.get((trace, table), {})
        sizes = {key: entry.get(key) for key in ("rows", "rows_rejected", "bytes", "synthetic")}
        of_table = columns[trace, table].to_dicts() if entry else None
        rows.append({"trace": trace, "table": table, **sizes, "columns": of_table})
    if json:
        print_json(rows)
        return

    def cells(row: dict[str, Any]) -> tuple[str, ...]:
        named, state = f"{row['trace']}/{row['table']}", "not tried" * (row["trace"] in untried)
        if row["rows"] is None:
            return (named, "-", "", "", state)
        sizes = (row["rows"], row["rows_rejected"], row["bytes"] / 1000)
        state = "SYNTHETIC" if row["synthetic"] else state
        return (named, *(f"{size:,.0f}" for size in sizes), state)

    numeric = {"trace / table": False, "rows": True, "rejected": True, "kB": True, "": False}
    print_cells(numeric.items(), map(cells, rows))
    for (trace, table), described in columns.items():
        sys.stdout.write(f"\n{trace}/{table}\n")
        print_cells((("column", False), ("unit", False)), described.iter_rows())
    out = terminal()
    if untried:
        out.print("not tried: read as the publisher describes it, not tried on its files")
    none = "" if stored else " (nothing there yet; see `traceana ingest --help`)"
    out.print(f"store: {opened.path}{none}")


def fetch(trace: str, to: Path | None = None, mirror: str | None = None) -> None:
    """Download the files of a public trace and check them."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder = fetch_files(trace, to=to, mirror=mirror)
    typer.echo(f"the files of {trace} are in {folder}")
    typer.echo(f"next: traceana ingest {shlex.quote(str(folder))}")


def sample(folder: Path, trace: list[str] | None = None) -> None:
    """Write the synthetic sample in the publishers' own formats."""
    written = write_sample(folder, traces=trace)
    rows = []
    for marker in sorted(written.glob("*/SYNTHETIC.json")):
        about = loads(marker.read_text())
        size = sum(path.stat().st_size for path in marker.parent.iterdir())
        n = sum(about["rows"].values())
        rows.append((about["trace"], f"{about['scale']:g}", f"{n:,}", f"{size / 1e6:.1f}"))
    console = terminal()
    console.print("SYNTHETIC, no observed row in it")
    numeric = {"trace": False, "scale": True, "rows": True, "MB": True}
    print_cells(numeric.items(), rows)
    console.print(f"next: traceana ingest {shlex.quote(str(folder))}", soft_wrap=True)
