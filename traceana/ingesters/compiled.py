"""A source of rows, and a table's mapping compiled to expressions over its columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from collections.abc import Mapping as ByName
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast

import polars as pl
from polars.exceptions import PolarsError

from traceana.errors import DataError
from traceana.ingesters import parsing
from traceana.ingesters.expressions import Columns, Kind, bare_column, compile_expression, view_name
from traceana.ingesters.files import CsvFile
from traceana.ingesters.mapping import Mapping, TableMapping
from traceana.ingesters.readers.reader import Rows, open_reader
from traceana.ingesters.readers.sacct import expand_lists
from traceana.schema import STATUSES, decisive_columns, get_rules, get_table

_LARGEST_WHOLE: Final = 2.0**63
ROW: Final = "\0row"
"""Column of the rows' numbers as text, where they are ids."""
_TEMPORAL: Final = (pl.Date, pl.Datetime, pl.Time, pl.Duration)


@dataclass(frozen=True)
class Derived:
    """A column derived from a column of the source."""

    value: pl.Expr
    """The expression; null if the cell cannot be read."""
    of: pl.Expr
    """Its source; null if the cell is empty."""
    label: str
    """Name in messages and rules."""
    rule: str
    """Rule that such a row breaks; empty for a status, which becomes ``unknown``."""


@dataclass(frozen=True)
class CompiledMapping:
    """Expressions that convert each row of a source; none of them can lose a row."""

    schema: dict[str, pl.DataType]
    kinds: dict[str, Kind]
    """How each column of the source that is used is read."""
    nulls: dict[str, tuple[str, ...]]
    """By internal name, values that mean missing."""
    derived: dict[str, Derived]
    """Columns derived before the table's own, each in terms of the source's and earlier ones."""
    stated: dict[str, pl.Expr]
    """The table's columns; those that are not stated are null."""
    rules: dict[str, pl.Expr]
    """Rules of the table and of the mapping, each false where a row breaks it."""
    rests_on: dict[str, set[str]]
    """By column of the table, the internal columns that it rests on."""
    decisive: frozenset[str]
    """Stated columns without which a row is rejected; a cell of others that is not read is null."""
    row_ids: bool = False
    """Whether rows are identified by their numbers."""
    reshape: Callable[[pl.DataFrame], pl.DataFrame] | None = None
    """Turns a frame of text cells (with a column of line numbers that it must carry along) into one
    with another number of rows, before anything else."""


@dataclass
class _Compiler:
    mapping: TableMapping
    timezone: str
    columns: Columns
    dtypes: ByName[str, pl.DataType]
    where: str
    derived: dict[str, Derived] = field(default_factory=dict)
    limits: dict[str, pl.Expr] = field(default_factory=dict)

    def column(self, target: str, dtype: pl.DataType) -> pl.Expr:
        """Return a column that can be computed; one over no columns of the source is a literal."""
        value = self._value(target, dtype)
        self.dtype_of(value, target)
        if value.meta.root_names():
            return value
        constant = pl.select(value).to_series()
        return pl.lit(constant.item(), constant.dtype)

    def _value(self, target: str, dtype: pl.DataType) -> pl.Expr:
        spec = self.mapping.columns[target]
        form = next(form for form in ("time", "duration", "size", "column") if form in spec)
        text = spec[form]
        label = bare_column(text, self.columns) or target
        if form == "size":
            return self._size(target, label)
        if form != "column":
            return self._time(form, target, label)
        for end, holds in (("min", pl.Expr.ge), ("max", pl.Expr.le)):
            if f"{end}imum" in spec:
                limit = pl.lit(float(spec[f"{end}imum"]))
                self.limits[f"{target}|{end}"] = holds(pl.col(target), limit)
        if "values" in spec or target == "status":
            return self._mapped(target, label, dtype)
        value = self._expression(text, "text" if dtype == pl.String else "number", target)
        if dtype != pl.String:
            value = self._number(value, target, label)
        if dtype == pl.Int64:
            whole = pl.when(value == value.floor(), value.abs() < _LARGEST_WHOLE).then(value)
            return self._derive(f"{target}\0whole", whole, value, label, "whole_number")
        return value

    def _at(self, target: str) -> str:
        return f"{self.where}: [{self.mapping.table}] {target}"

    def _expression(self, text: str, want: Kind, target: str) -> pl.Expr:
        """Return an expression; a row for which a cast in it fails breaks a rule."""
        value = compile_expression(text, want, self.columns, where=self._at(target))
        rule = f"{target}|not_computable"
        for place, (cast_value, of) in enumerate(self.columns.casts):
            self._add(f"\0{target}\0{place}", Derived(cast_value, of, target, rule))
        self.columns.casts.clear()
        if want == "text" and self.dtype_of(value, target) != pl.String:
            value = value.cast(pl.String)
            self.dtype_of(value, target)  # a list has no text
        return value

    def _number(self, value: pl.Expr, target: str, label: str) -> pl.Expr:
        kind = self.dtype_of(value, target)
        if kind in _TEMPORAL:
            raise DataError(
                f"{self._at(target)}: {label!r} holds {kind}; write {{ time = ... }} for a time"
            )
        if kind != pl.String:
            return value
        return self._derive(target, value.cast(pl.Float64, strict=False), value, label, "number")

    def _derive(self, name: str, value: pl.Expr, of: pl.Expr, label: str, what: str) -> pl.Expr:
        return self._add(f"\0{name}", Derived(value, of, label, f"{label}|not_a_{what}"))

    def _add(self, name: str, column: Derived) -> pl.Expr:
        self.derived[name] = column
        self.columns.named.add(name)
        return pl.col(name)

    def _size(self, target: str, label: str) -> pl.Expr:
        spec = self.mapping.columns[target]
        of = self._expression(spec["size"], "text", target)
        size = parsing.read_size(of, unit=spec.get("unit", "B"), base=spec.get("base", 1024))
        return self._derive(
            target, size / parsing.BYTES["GiB"] if "_gib" in target else size, of, label, "size"
        )

    def _time(self, form: str, target: str, label: str) -> pl.Expr:
        spec = self.mapping.columns[target]
        text, unit = spec[form], spec.get("unit")
        dtype = self.dtypes.get(text, pl.String())
        if unit is not None or dtype.is_numeric():
            number = self._number(self._expression(text, "number", target), target, label)
            return number * parsing.SECONDS[unit or "s"]
        is_temporal = dtype in _TEMPORAL
        if is_temporal and (dtype == pl.Duration) != (form == "duration"):
            other = "duration" if form == "time" else "time"
            raise DataError(
                f"{self._at(target)}: {label!r} holds {dtype}; write {{ {other} = ... }}"
            )
        of = self._expression(text, "time" if is_temporal else "text", target)
        zone = spec.get("timezone", self.timezone)
        if form == "duration":
            value = of.dt.total_microseconds() / 1e6 if is_temporal else parsing.read_duration(of)
        elif is_temporal:
            value = parsing.read_datetime(of, dtype, timezone=zone)
        else:
            value = parsing.read_time(of, layout=spec.get("format"), timezone=zone)
        return self._derive(target, value, of, label, form)

    def _mapped(self, target: str, label: str, dtype: pl.DataType) -> pl.Expr:
        spec = self.mapping.columns[target]
        of = self._expression(spec["column"], "text", target)
        values: dict[str, Any] = spec.get("values") or dict(zip(STATUSES, STATUSES, strict=True))
        given = of if "values" in spec else of.str.to_lowercase()
        exact = {key: value for key, value in values.items() if not key.endswith("*")}
        default = pl.lit(None, dtype=dtype)
        for key in sorted((key for key in values if key.endswith("*")), key=len):
            value = pl.lit(values[key], dtype=dtype)
            default = pl.when(given.str.starts_with(key[:-1])).then(value).otherwise(default)
        chosen = pl.Series([*exact.values()], dtype=dtype, strict=False)
        mapped = given.replace_strict([*exact], chosen, default=default)
        if dtype == pl.String and target != "status":
            return pl.coalesce(mapped, of)
        rule = "" if target == "status" else f"{label}|not_a_number"
        return self._add(f"\0{target}", Derived(mapped, of, label, rule))

    def dtype_of(self, value: pl.Expr, target: str) -> pl.DataType:
        """Return the type of an expression, tried on no rows."""
        of_kind = {"text": pl.String(), "number": pl.Float64()}
        dtypes: dict[str, pl.DataType] = {
            view_name(name, kind): of_kind.get(kind, self.dtypes.get(name, pl.String()))
            for name, kinds in self.columns.used.items()
            for kind in kinds
        }
        dtypes |= {
            name: pl.Float64() if column.rule else pl.String()
            for name, column in self.derived.items()
        }
        roots = set(value.meta.root_names())
        frame = pl.DataFrame(schema={name: dtypes[name] for name in dtypes if name in roots})
        try:
            return frame.select(value.alias("\0")).schema["\0"]
        except PolarsError as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"{self._at(target)}: cannot be computed ({reason}); "
                f"[{self.mapping.table}.source] states the type of a column: "
                "{ type = 'number' } or { type = 'text' }"
            ) from error


_FOLLOWING_TIMES: Final = tuple(
    follows
    for duration in ("runtime_s", "downtime_s")
    for follows in (
        ("end_s", {"start_s": 1, duration: 1}),
        (duration, {"end_s": 1, "start_s": -1}),
        ("start_s", {"end_s": 1, duration: -1}),
    )
)
"""Of start, end and runtime, the one that a mapping does not state follows from the others."""
_ROUNDING_S: Final = 1e-6
_RANGES: Final = r"\[\d[\d,-]*[,-]\d[\d,-]*\]"
"""Several machines as Slurm abbreviates them: n[1-3,7]."""


_HOSTS: Final = ("node", "host", "NodeList")


def _separate(hosts: pl.Expr) -> pl.Expr:
    """Separate hosts by commas alone, also those of a list as JSON writes it: ["n1","n2"]."""
    listed = hosts.str.strip_chars().str.replace(r"^\[(.*)\]$", "$1")
    return listed.str.replace_all(r"[;,|+\s'\"]+", ",").str.strip_chars(",").replace("", None)


def _hosts(machine: pl.Expr) -> pl.Expr:
    hosts = machine.map_batches(expand_lists, return_dtype=pl.String)
    return pl.when(machine.str.contains(_RANGES)).then(hosts).otherwise(machine)


def compile_mapping(
    source: Source,
    whole: Mapping,
    table: str,
    keep: ByName[str, pl.DataType] = {},
    row_ids: str = "",
) -> CompiledMapping:
    """Compile a table's mapping for the columns of a source."""
    mapping, where = whole.tables[table], whole.where
    declared = {
        name: cast("Kind", column.type) for name, column in mapping.source.items() if column.type
    }
    columns = Columns(source.columns, declared, source.literals, source.types)
    compiler = _Compiler(mapping, whole.timezone, columns, source.types, where)
    declaration = get_table(table).columns()
    stated: dict[str, pl.Expr] = {}
    has_row_ids = table == "jobs" and "job_id" not in mapping.columns
    if has_row_ids:
        stated["job_id"] = pl.concat_str(pl.lit(row_ids), pl.col(ROW))
    given = stated.keys() | mapping.columns.keys()
    for name, column in declaration.items():
        if not column.nullable and name not in given:
            raise DataError(f"{where}: [{table}] states no {name}, which every row needs")
    rests_on: dict[str, set[str]] = {}
    for name, column in declaration.items():
        if name in mapping.columns:
            columns.named = rests_on[name] = set()
            stated[name] = compiler.column(name, column.dtype)
    for name, dtype in keep.items():
        published = whole.keep.get(name, name)
        if published in source.columns:
            kind: Kind = "text" if dtype == pl.String else "number"
            columns.named = rests_on[name] = set()
            stated[name] = pl.col(columns.use(published, kind, where))
            if name in _HOSTS and dtype == pl.String:
                stated[name] = _hosts(_separate(stated[name]))
    _add_following_times(stated, rests_on, declaration)
    if table == "faults":
        stated["machine_id"] = _hosts(stated["machine_id"])
    kinds, nulls, numbers = _views(mapping, columns)
    return CompiledMapping(
        {name: column.dtype for name, column in declaration.items()} | {**keep},
        kinds,
        nulls,
        numbers | compiler.derived,
        stated,
        _rules(table, stated.keys()) | compiler.limits,
        rests_on,
        decisive_columns(table) & mapping.columns.keys(),
        has_row_ids,
    )


def _add_following_times(
    stated: dict[str, pl.Expr], rests_on: dict[str, set[str]], names: Collection[str]
) -> None:
    for name, follows in _FOLLOWING_TIMES:
        if name in names and name not in stated and follows.keys() <= stated.keys():
            rests_on[name] = set().union(*(rests_on[other] for other in follows))
            stated[name] = pl.sum_horizontal(
                *(sign * stated[other] for other, sign in follows.items()), ignore_nulls=False
            )
            if name == "start_s" and "submit_s" in stated:  # not before it by a rounding error
                submit = stated["submit_s"]
                close = (submit - stated[name]).is_between(0, _ROUNDING_S)
                stated[name] = pl.when(close).then(submit).otherwise(stated[name])


def _views(
    mapping: TableMapping, columns: Columns
) -> tuple[dict[str, Kind], dict[str, tuple[str, ...]], dict[str, Derived]]:
    read: dict[str, Kind] = {}
    nulls: dict[str, tuple[str, ...]] = {}
    numbers: dict[str, Derived] = {}
    for name, kinds in columns.used.items():
        null = mapping.source[name].null if name in mapping.source else ()
        if "number" in kinds and not all(map(_is_number, null)):
            kinds.add("text")
        read[name] = min(kinds, key=("text", "time", "number").index)
        view = source_name(name, read[name])
        if null and read[name] != "number":
            nulls[view] = null
        if "number" in kinds:
            cell = pl.col(view)
            for marker in filter(_is_number, null):  # in any notation
                differs = read_number(pl.col(view)) != float(marker)
                cell = pl.when(differs.fill_null(value=True)).then(cell)
            rule = f"{name}|not_a_number"
            numbers[view_name(name, "number")] = Derived(read_number(cell), cell, name, rule)
    return read, nulls, numbers


def source_name(name: str, kind: Kind, /) -> str:
    """Return the internal name of a column as it is read: of a number, before it is checked."""
    return view_name(name, "cell" if kind == "number" else kind)


def _rules(table: str, stated: Collection[str]) -> dict[str, pl.Expr]:
    """Return a table's rules on columns that are stated; null breaks none of the others."""
    return {
        name: rule
        for name, rule in get_rules(table).items()
        if name != "primary_key" and not set(rule.meta.root_names()).isdisjoint(stated)
    }


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def read_number(text: pl.Expr, /) -> pl.Expr:
    """Read a finite number from text; what is none is null."""
    number = text.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


@dataclass(frozen=True)
class Source:
    """A source of rows for one or more tables."""

    file: CsvFile | None
    """The file; None for a frame."""
    rows: Rows = field(repr=False)
    """Its columns and rows, as a reader opened it."""
    tables: tuple[str, ...] = ()
    """Tables that its rows go to."""
    not_applicable: tuple[str, ...] = ()
    """Tables that its rows are not for, although its name and columns suggest it."""
    reader: str = "csv"
    """How it is read."""
    unused_columns: tuple[str, ...] = ()
    """Columns beyond the published ones."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns in their order."""
        return self.rows.columns

    @property
    def types(self) -> ByName[str, pl.DataType]:
        """Types of its columns, where it has types."""
        return self.rows.types

    @property
    def paths(self) -> tuple[Path, ...]:
        """The file, or its split parts in order; none of a frame."""
        return self.file.paths if self.file else ()

    @property
    def label(self) -> str:
        """How the ledger calls it."""
        return self.file.label if self.file else "frame"

    @property
    def synthetic(self) -> bool:
        """Whether its name marks it as synthetic."""
        return self.file is not None and self.file.synthetic

    @property
    def literals(self) -> dict[str, str]:
        """Values of the pseudo-columns ``file_name`` and ``file_folder``."""
        if self.file is None:
            return {}
        inner = PurePosixPath(self.file.member or "").parent.name
        folder = inner or Path(self.file.folder).resolve().name
        return {"file_name": re.sub(r"(?<=.)\.[^.]+$", "", self.file.name), "file_folder": folder}


def open_source(file: CsvFile, /, *, reader: str | None, timezone: str = "UTC") -> Source:
    """Find out how a user's file is read, and its columns."""
    chosen = open_reader(file, reader)
    return Source(file, chosen.rows(file, timezone), reader=chosen.name)
