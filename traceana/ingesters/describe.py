"""The manifest of a trace, from its mapping's text and the tables that were written."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from traceana.errors import DataError
from traceana.store.manifest import Manifest, TableManifest
from traceana.store.writer import stored_columns, stored_range

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from traceana.store.ledger import Ledger, TableEntry

_OF_THE_FILES: Final = ("reader", "keep")
_CLOCK: Final = ("submit_s", "start_s", "end_s")
_UNIX_S: Final = 631_152_000  # 1990: no trace's own clock is that far from its start


def describe_trace(ledger: Ledger, folder: Path, mapping: str, /, *, source: str) -> Manifest:
    """Return the manifest of a trace whose tables are in their place.

    Parameters
    ----------
    ledger
        The trace's ledger.
    folder
        Folder of its tables.
    mapping
        Text of its mapping; ``[trace]`` describes it, ``[<table>.about]`` a table.
    source
        Where the mapping is from: catalog, mapping or api.

    Raises
    ------
    DataError
        If a fact in the mapping has a name that a manifest does not have.
    """
    content = tomllib.loads(mapping)
    name = ledger.entries[0].trace
    facts = {k: v for k, v in content.get("trace", {}).items() if k not in _OF_THE_FILES}
    times = [
        second
        for entry in ledger.entries
        for second in stored_range(folder / f"{entry.table}.parquet", _CLOCK)
    ]
    stated = {"window_start_s", "window_end_s"} <= facts.keys()
    derived: dict[str, Any] = {
        "title": name,
        "window_start_s": min(times) + 0.0 if times else None,
        "window_end_s": max(times) if times else None,
        "absolute_times": bool(times) and min(times) >= _UNIX_S,
    }
    return Manifest(
        **derived | checked_facts(facts, Manifest, f"[trace] of {name}"),
        trace=name,
        source=source,
        synthetic=ledger.synthetic,
        window="stated" if stated else "derived",
        mapping=mapping,
        tables={
            entry.table: _describe_table(entry, folder, content.get(entry.table, {}))
            for entry in ledger.entries
        },
    )


def _describe_table(entry: TableEntry, folder: Path, content: Mapping[str, Any]) -> TableManifest:
    facts = {"unit_noun": entry.table.replace("_", " ")} | content.get("about", {})
    return TableManifest(
        **checked_facts(facts, TableManifest, f"[{entry.table}.about]"),
        rows=entry.rows_kept,
        columns=stored_columns(folder / f"{entry.table}.parquet"),
    )


def checked_facts(
    facts: Mapping[str, Any], kind: type[Manifest | TableManifest], where: str, /
) -> dict[str, Any]:
    """Return facts with lists as tuples.

    Raises
    ------
    DataError
        If there is no such fact; the message names the closest one.
    """
    found_by_us = {"trace", "source", "synthetic", "window", "mapping", "tables", "rows", "columns"}
    known = [field.name for field in fields(kind) if field.name not in found_by_us]
    for name in facts:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise DataError(f"{where}: no fact is called {name!r}{hint}; use {', '.join(known)}")
    return {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
