"""``traceana tables``: every table, and its number of rows in a store."""

from __future__ import annotations

from typing import Any

from traceana.cli.options import JsonOption, StoreOption


def tables(*, store: StoreOption = None, json: JsonOption = False) -> None:
    """List the tables of every trace, and their rows in the store."""
    from rich.table import Table

    from traceana.catalog import load_catalog
    from traceana.cli.output import print_json, print_table
    from traceana.cli.streams import terminal
    from traceana.store import Store, open_store, store_path

    where = store_path(store)
    there = Store(where) if store is None else open_store(where)
    stored = {(row["trace"], row["table"]): row for row in there.tables().iter_rows(named=True)}
    catalog = load_catalog()
    every = [(trace.id, table) for trace in catalog.values() for table in trace.tables]
    untried = {name for name, trace in catalog.items() if not trace.tried}
    rows: list[dict[str, Any]] = [
        {
            "trace": trace,
            "table": table,
            **{
                key: stored.get((trace, table), {}).get(key)
                for key in ("rows", "rows_rejected", "bytes", "synthetic")
            },
        }
        for trace, table in dict.fromkeys([*every, *stored])
    ]
    if json:
        print_json(rows)
        return
    shown = Table(box=None, pad_edge=False)
    shown.add_column("trace / table", no_wrap=True)
    for heading in ("rows", "rejected", "kB"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    for row in rows:
        held = row["rows"] is not None
        shown.add_row(
            f"{row['trace']}/{row['table']}",
            f"{row['rows']:,}" if held else "-",
            f"{row['rows_rejected']:,}" if held else "",
            f"{row['bytes'] / 1000:,.0f}" if held else "",
            "SYNTHETIC" if row["synthetic"] else "" if row["trace"] not in untried else "not tried",
        )
    out = terminal()
    print_table(shown)
    if untried:
        out.print("not tried: read as the publisher describes it, not tried on its files")
    out.print(
        f"store: {where}" + ("" if stored else " (nothing there yet; see `traceana ingest --help`)")
    )
