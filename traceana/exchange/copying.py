"""Copy a trace to another store, its rows changed on the way and checked again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from traceana.errors import DataError
from traceana.ingesters import ingest
from traceana.ingesters.unwrap import SYNTHETIC_PREFIX
from traceana.schema import get_table
from traceana.store import Manifest, Store, TableManifest


def copy_trace(
    source: Store,
    manifest: Manifest,
    target: Path,
    /,
    *,
    name: str,
    facts: dict[str, Any],
    about: tuple[str, ...],
    write: Callable[[str, Path], list[str]],
) -> None:
    """Copy the tables of a trace."""
    if target.resolve() == source.path.resolve():
        raise DataError(f"{target}: this is the store itself; pass another folder (--out)")
    mark = SYNTHETIC_PREFIX if manifest.synthetic else ""
    with TemporaryDirectory(prefix="traceana-") as scratch:
        for table, described in manifest.tables.items():
            path = Path(scratch) / f"{mark}{table}.parquet"
            columns = write(table, path)
            mapping = _mapping(facts, table, described, columns, about)
            ingest(path, trace=name, mapping=mapping, store=target, replace=True)


def _mapping(
    facts: dict[str, Any],
    table: str,
    described: TableManifest,
    columns: list[str],
    about: tuple[str, ...],
) -> str:
    """Return the mapping of a table whose columns have their names."""
    columns_of_table = [name for name in columns if name in get_table(table).columns()]
    if facts.get("independent_unit") not in columns:
        facts = {name: value for name, value in facts.items() if name != "independent_unit"}
    units = {name: f", unit = {_toml(unit)}" for name, unit in described.units.items()}
    return "\n".join(
        [
            "[trace]",
            'reader = "parquet"',
            *_lines(facts | {"keep": [name for name in columns if name not in columns_of_table]}),
            f"[{table}]",
            *(
                f"{name} = {{ column = {_toml(name)}{units.get(name, '')} }}"
                for name in columns_of_table
            ),
            f"[{table}.about]",
            *_lines({name: getattr(described, name) for name in about}),
            "",
        ]
    )


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    return (
        f"{name} = {_toml(value)}" for name, value in facts.items() if value not in (None, (), [])
    )


def _toml(value: object) -> str:
    if isinstance(value, dict):
        members = (f"{_toml(k)} = {_toml(v)}" for k, v in value.items() if v is not None)
        return f"{{ {', '.join(members)} }}"
    return json.dumps(value, ensure_ascii=False)  # the same in TOML
