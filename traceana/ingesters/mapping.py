"""Mappings: TOML that states each column of a table in terms of a source's columns."""

from __future__ import annotations

import math
import tomllib
import zoneinfo
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, cast

from traceana.errors import DataError, did_you_mean
from traceana.ingesters.parsing import BYTES, SECONDS
from traceana.ingesters.readers.reader import readers
from traceana.schema import STATUSES, TABLES, describe_table

_OF_A_CATALOG: Final = {"tables", "revision", "base_url", "rows", "files", "contents", "tried"}
_SPECIAL: Final = ("about", "source")
_FORMS: Final = {
    "time": ("format", "timezone", "unit"),
    "duration": ("unit",),
    "size": ("unit", "base"),
    "column": ("values", "unit", "minimum", "maximum"),
}
_OPTIONS: Final = {"base": "int", "values": "dict[str, cell]"} | dict.fromkeys(
    ("minimum", "maximum"), "float"
)
_KINDS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "str": ((str,), "text in quotes"),
    "float": ((int, float), "a finite number"),
    "int": ((int,), "a whole number"),
    "bool": ((bool,), "true or false"),
    "list": ((list,), "a list"),
    "dict": ((dict,), "a table"),
    "tuple[str, ...]": ((list, tuple), "a list of texts"),
    "cell": ((str, int, float), "text or a number"),
    "dict[str, cell]": ((dict,), "a table, { old = 'new' }"),
    "dict[str, str]": ((dict,), "a table of texts"),
    "dict[str, float]": ((dict,), "a table of numbers"),
    "dict[str, Capacity]": ((dict,), "a table of groups"),
    "Capacity": ((dict,), "a table, { nodes = 2, gpus_per_node = 8 }"),
}
_IN_UNITS: Final = {
    "time": (("s",), "seconds"),
    "duration": (("s",), "seconds"),
    "size": (("GiB", "bytes"), "GiB or bytes"),
}
"""Units of the columns that a form is for, and their names."""


@dataclass(frozen=True)
class SourceColumn:
    """How a column of the source is read, where its target does not decide that."""

    type: str | None = None
    """``text`` or ``number``; None where the target decides."""
    null: tuple[str, ...] = ()
    """Words that mean missing, beside the empty cell."""


@dataclass(frozen=True)
class TableMapping:
    """How rows of a source become rows of one table."""

    table: str
    columns: dict[str, dict[str, Any]]
    """By column of the table, its form (``column``, ``time``, ``duration`` or ``size``, with the
    expression) and its options."""
    source: dict[str, SourceColumn] = field(default_factory=dict)
    """Exceptions by column of the source."""


@dataclass(frozen=True)
class Mapping:
    """A whole mapping."""

    text: str
    where: str
    """Its file's name, for messages."""
    reader: str | None
    """Format of the files; None where it is detected."""
    timezone: str
    """Time zone of times without an offset."""
    keep: dict[str, str]
    """Further columns to carry along: by name in the table, the name in the source."""
    tables: dict[str, TableMapping]
    """The tables by name, in the order of the text."""
    rows: str | None = None
    """Path of the list in a JSON file whose elements are the rows; None where there is one."""


def parse_mapping(text: str, /, *, where: str) -> Mapping:
    """Read a mapping; a catalog entry is one too."""
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"{where}: not TOML: {error}") from error
    facts = content.get("trace", {})
    check_type(facts, "dict", f"{where}: [trace]")
    check_type(facts.get("rows", ""), "str", f"{where}: [trace] rows")
    names = [name for name in content if name != "trace" and name not in _OF_A_CATALOG]
    for name in names:
        _check_name(name, TABLES, f"{where}: no table is called {name!r}")
        if not isinstance(content[name], dict):
            raise DataError(f"{where}: {name} is a table: write [{name}] and its columns below")
    mapping = Mapping(
        text,
        where,
        facts.get("reader"),
        facts.get("timezone", "UTC"),
        _read_keep(facts.get("keep", []), f"{where}: [trace] keep"),
        {
            name: _read_table(name, content[name], where)
            for name in names
            if content[name].keys() - set(_SPECIAL)
        },
        facts.get("rows"),
    )
    if not mapping.tables:
        raise DataError(f"{where}: no table in it; state its columns below [jobs], for example")
    if mapping.reader is not None:
        _check_name(mapping.reader, readers(), f"{where}: no reader is called {mapping.reader!r}")
    check_zone(mapping.timezone, where)
    for name in mapping.keep:
        if all(name in describe_table(table)["column"] for table in mapping.tables):
            table = ", ".join(mapping.tables)
            raise DataError(f"{where}: keep names {name!r}, which is a column of {table}")
    return mapping


def _read_keep(stated: object, at: str) -> dict[str, str]:
    if isinstance(stated, dict):
        check_type(stated, "dict[str, str]", at)
        return dict(stated)
    check_type(stated, "tuple[str, ...]", at)
    return {name: name for name in cast("list[str]", stated)}


def _read_table(table: str, content: dict[str, Any], where: str) -> TableMapping:
    units = dict(describe_table(table).select("column", "unit").iter_rows())
    columns = {}
    for column, stated in content.items():
        at = f"{where}: [{table}] {column}"
        if column in _SPECIAL:
            check_type(stated, "dict", at)
            continue
        _check_name(column, [*units, *_SPECIAL], f"{where}: {table} has no column {column!r}")
        if not isinstance(stated, str | dict):
            raise DataError(f"{at}: {stated!r} is no text; write an expression in quotes")
        columns[column] = _read_column(
            {"column": stated} if isinstance(stated, str) else stated, column, units[column], at
        )
    source = {
        name: _read_source(stated, f"{where}: [{table}.source] {name}")
        for name, stated in content.get("source", {}).items()
    }
    return TableMapping(table, columns, source)


def _read_column(spec: dict[str, Any], column: str, unit: str, at: str) -> dict[str, Any]:
    form = next((form for form in _FORMS if form in spec), None)
    if form is None:
        raise DataError(f"{at}: state one of {', '.join(_FORMS)}")
    for option, value in spec.items():
        _check_name(option, [form, *_FORMS[form]], f"{at}: no option is called {option!r}")
        check_type(value, _OPTIONS.get(option, "str"), f"{at}: {option}")
    units, expected = _IN_UNITS.get(form, ((unit,), ""))
    refused = {
        f"a {form} is in {expected}, and this column is in {unit}": unit not in units,
        "the unit of a column is 'relative', or left out": (
            form == "column" and spec.get("unit", "relative") != "relative"
        ),
        "%Z is ambiguous; write the zone's name under timezone": "%Z" in spec.get("format", ""),
        "base is 1024 or 1000": spec.get("base", 1024) not in (1000, 1024),
    }
    for reason, is_refused in refused.items():
        if is_refused:
            raise DataError(f"{at}: {reason}")
    if form != "column" and "unit" in spec:
        written = BYTES if form == "size" else SECONDS
        _check_name(spec["unit"], written, f"{at}: no unit is called {spec['unit']!r}")
    if "timezone" in spec:
        check_zone(spec["timezone"], at)
    if column == "status":
        for value in spec.get("values", {}).values():
            _check_name(value, STATUSES, f"{at}: no status is called {value!r}")
    return spec


def _read_source(stated: dict[str, Any], at: str) -> SourceColumn:
    check_type(stated, "dict", at)
    for option in stated:
        _check_name(option, ("type", "null"), f"{at}: no option is called {option!r}")
    kind = stated.get("type")
    if kind is not None:
        _check_name(kind, ("text", "number"), f"{at}: no type is called {kind!r}")
    check_type(stated.get("null", []), "list", f"{at}: null")
    return SourceColumn(kind, tuple(map(str, stated.get("null", ()))))


def check_type(value: object, kind: str, at: str, /) -> None:
    """Refuse a value of TOML that is not of an annotated type."""
    types, expected = _KINDS[kind]
    fits = isinstance(value, types) and not (isinstance(value, bool) and bool not in types)
    if isinstance(value, float):
        fits = fits and math.isfinite(value)
    if not fits:
        raise DataError(f"{at}: {str(value)[:80]!r} is not {expected}")
    inner = kind.partition("[")[2].strip("], .").rpartition(" ")[2]
    if inner:
        for item in value.values() if isinstance(value, dict) else cast("Iterable[object]", value):
            check_type(item, inner, at)


def check_zone(name: str, at: str, /) -> None:
    """Refuse what is no IANA time zone."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        places = sorted(zone for zone in zoneinfo.available_timezones() if "/" in zone)
        _check_name(name, places, f"{at}: no time zone {name!r}; write one such as Europe/Berlin")


def _check_name(name: object, allowed: Iterable[str], message: str) -> None:
    names = list(allowed)
    if name not in names:
        hint = did_you_mean(str(name), names)
        listed = f"; use {', '.join(names)}" if len(names) <= 40 else ""
        raise DataError(f"{message}{hint}{listed}")
