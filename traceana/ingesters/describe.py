"""The manifest of a trace, from its mapping and the tables that were written."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from traceana.errors import DataError, did_you_mean
from traceana.ingesters.mapping import Mapping, check_type
from traceana.store.manifest import Capacity, Manifest, TableManifest
from traceana.store.store import Store
from traceana.store.writer import stored_columns, stored_range

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Mapping as Facts
    from pathlib import Path

    from traceana.store.ledger import Ledger, TableEntry

_OF_THE_FILES: Final = ("reader", "keep", "rows")
_NOT_STATED: Final = frozenset(
    {"trace", "source", "synthetic", "window", "mapping", "facts", "tables", "rows", "columns"}
)
"""Members of a manifest that follow from its tables."""
_CLOCK: Final = ("submit_s", "start_s", "end_s")
UNIX_S: Final = 631_152_000  # 1990
"""No trace's own clock is that far from its start."""


def describe_trace(
    ledger: Ledger, folder: Path, mapping: Mapping, /, *, kind: str, facts: Facts[str, Any]
) -> Manifest:
    """Return the manifest of a trace whose tables are in their place."""
    name = ledger.entries[0].trace
    content, stated = _stated(mapping)
    store = Store(folder.parent)
    old = store.manifest(name) if name in store.traces() else None
    if old and kind != "catalog":  # tables of other mappings stay
        stated = old.facts | stated
    stated |= facts
    times = [
        second
        for entry in ledger.entries
        for second in stored_range(folder / f"{entry.table}.parquet", _CLOCK)
    ]
    derived: dict[str, Any] = {
        "title": name,
        "window_start_s": min(times) + 0.0 if times else None,
        "window_end_s": max(times) if times else None,
        "absolute_times": bool(times) and min(times) >= UNIX_S,
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
    """Return a mapping's TOML, and the facts of the trace in it."""
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
    """Refuse what is no field of a class, or not of its type."""
    types = {one.name: str(one.type) for one in fields(kind) if one.name not in _NOT_STATED}
    for name, value in stated.items():
        if name not in types:
            hint = did_you_mean(name, types)
            listed = use or f"use {', '.join(types)}"
            raise DataError(f"{where}: no fact is called {name!r}{hint}; {listed}")
        if value is not None or "None" not in types[name]:
            check_type(value, types[name].removesuffix(" | None"), f"{where}: {name}")


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
