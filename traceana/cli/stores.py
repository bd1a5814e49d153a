"""Commands on the store and the public traces: list, fetch, write a sample, export, anonymize."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from traceana.cli.options import readable_traces
from traceana.cli.output import print_cells, print_json, print_rows, terminal
from traceana.errors import DataError

if TYPE_CHECKING:
    from traceana.store import Store

_LICENSE = 18  # characters


def traces(store: Path | None = None, json: bool = False) -> None:
    """List the public traces: tables, rows, size, license."""
    from traceana.store import Store
    from traceana.store.store import store_path

    with readable_traces(Store(store_path(store))) as opened:
        _list_traces(opened, json=json)


def _list_traces(store: Store, *, json: bool) -> None:
    from rich.filesize import decimal

    from traceana.catalog import list_traces
    from traceana.catalog.model import get_trace

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
    from traceana.store import Store, open_store
    from traceana.store.store import store_path

    with readable_traces(Store(store_path()) if store is None else open_store(store)) as opened:
        _list_tables(opened, json=json)


def _list_tables(opened: Store, *, json: bool) -> None:
    from traceana.catalog import load_catalog

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
    from traceana.catalog import fetch as fetch_files

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    folder = fetch_files(trace, to=to, mirror=mirror)
    typer.echo(f"the files of {trace} are in {folder}")
    typer.echo(f"next: traceana ingest {shlex.quote(str(folder))}")


def sample(folder: Path, trace: list[str] | None = None) -> None:
    """Write the synthetic sample in the publishers' own formats.

    It contains no real data.
    """
    import json

    from traceana.samples import write_sample

    written = write_sample(folder, traces=trace)
    rows = []
    for marker in sorted(written.glob("*/SYNTHETIC.json")):
        about = json.loads(marker.read_text())
        size = sum(path.stat().st_size for path in marker.parent.iterdir())
        n = sum(about["rows"].values())
        rows.append((about["trace"], f"{about['scale']:g}", f"{n:,}", f"{size / 1e6:.1f}"))
    console = terminal()
    console.print("SYNTHETIC, no observed row in it")
    numeric = {"trace": False, "scale": True, "rows": True, "MB": True}
    print_cells(numeric.items(), rows)
    console.print(f"next: traceana ingest {shlex.quote(str(folder))}", soft_wrap=True)


def export(
    trace: str,
    *,
    out: Path,
    store: Path | None = None,
    table: list[str] | None = None,
    file_format: str = "parquet",
) -> None:
    """Export tables as Parquet, CSV or SWF.

    SWF is the Standard Workload Format; it has only jobs.
    """
    from traceana.exchange import export_tables

    paths = export_tables(trace, out=out, store=store, tables=table or (), file_format=file_format)
    sys.stdout.writelines(f"{path}\n" for path in paths)


def anonymize(
    trace: str,
    *,
    out: Path,
    store: Path | None = None,
    key: Path | None = None,
    round_s: float | None = None,
    min_group: int = 1,
    json: bool = False,
) -> None:
    """Write an anonymized copy of a trace.

    Columns and values that could still identify a row are listed. Someone who knows the exact
    times or the runtime of a job finds its row, and all rows with the same digests; --round and
    --min-group make rows alike.
    """
    from traceana.exchange import anonymize as anonymize_trace
    from traceana.exchange.tables import Disclosure

    if key is not None and key.exists() and not key.is_file():
        raise DataError(f"--key {key}: not a file")
    try:
        secret = None if key is None else key.read_bytes()
    except OSError as error:
        raise DataError(f"--key {key}: cannot be read ({error.strerror})") from error
    left = anonymize_trace(
        trace, out=out, store=store, key=secret, round_s=round_s, min_group=min_group
    )
    if json:
        print_json(left.rows(named=True))
    else:
        print_rows(left, Disclosure)
