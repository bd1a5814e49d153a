"""`traceana traces`: the public traces, and which of them are in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.cli.options import JsonOption, StoreOption

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl


def traces(store: StoreOption = None, json: JsonOption = False) -> None:
    """List the public traces: tables, rows, size, license."""
    from traceana.catalog import list_traces
    from traceana.cli.output import print_json

    listed = list_traces()
    stored = _find_stored(listed, store)
    if json:
        records = [row | {"in_store": stored[row["trace"]]} for row in listed.to_dicts()]
        print_json(records)
    else:
        _print_table(listed, stored)


def _find_stored(listed: pl.DataFrame, path: Path | None) -> dict[str, list[str]]:
    """Return the stored tables of each trace; empty without a store."""
    from traceana.errors import StoreError
    from traceana.store import open_store

    try:
        store = open_store(path)
    except StoreError:
        return {trace: [] for trace in listed["trace"]}
    return {
        trace: [table for table in tables if store.has(trace, table)]
        for trace, tables in listed.select("trace", "tables").iter_rows()
    }


def _print_table(listed: pl.DataFrame, stored: dict[str, list[str]]) -> None:
    from rich.filesize import decimal
    from rich.table import Table

    from traceana.catalog import get_trace
    from traceana.cli.output import print_table
    from traceana.cli.streams import terminal

    shown = Table(box=None, pad_edge=False)
    shown.add_column("trace", no_wrap=True)
    for heading in ("rows", "size"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("license", no_wrap=True, max_width=18)
    shown.add_column("in store", no_wrap=True, justify="right")
    for trace, _, tables, rows, size, terms, _ in listed.iter_rows():
        published, present = get_trace(trace), len(stored[trace])
        more_rows = " +" if len(published.rows) < len(tables) else ""
        more_bytes = " +" if any(file.bytes is None for file in published.files) else ""
        shown.add_row(
            trace,
            "unknown" if rows is None else f"{rows:,}{more_rows}",
            "unknown" if size is None else f"{decimal(size)}{more_bytes}",
            terms.partition(";")[0],
            f"{present} of {len(tables)}",
        )
    print_table(shown)
    terminal().print("+: and what is not stated. All there is to know: traceana traces --json")
