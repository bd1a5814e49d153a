"""Declarations of result tables: one class per table, one line per column."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from textwrap import indent
from typing import Any, TypeVar

import dataframely as dy
import numpy as np
import polars as pl

from traceana.tables.formatting import UNITS

Function = TypeVar("Function", bound="Callable[..., Any]")


class ResultTable(dy.Schema):
    """Base of the declarations; an optional column is absent from some results."""


def _described(
    heading: str, description: str, display: str, *, unit: str = "", optional: bool = False
) -> dict[str, Any]:
    metadata = {"heading": heading, "display": display, "unit": unit, "optional": optional}
    return {"nullable": True, "description": description, "metadata": metadata}


def text(heading: str, description: str = "", *, optional: bool = False) -> dy.String:
    """Declare a column of text."""
    return dy.String(**_described(heading, description, "text", optional=optional))


def count(
    heading: str, description: str = "", *, unit: str = "count", optional: bool = False
) -> dy.Int64:
    """Declare a column of whole numbers."""
    return dy.Int64(**_described(heading, description, "count", unit=unit, optional=optional))


def number(
    heading: str,
    description: str = "",
    *,
    display: str = "three_digits",
    unit: str = "",
    optional: bool = False,
) -> dy.Float64:
    """Declare a column of numbers; `display` names a function of traceana.tables.formatting."""
    return dy.Float64(**_described(heading, description, display, unit=unit, optional=optional))


seconds = partial(number, display="duration", unit="s")
"""Declare a column of durations in seconds, displayed in the largest unit, such as 10.2 min."""
joules = partial(number, display="energy", unit="J")
"""Declare a column of energy, or of a cost in its unit, displayed such as 5.45 MJ."""
clock = partial(number, display="clock", unit="s")
"""Declare a column of times in seconds since 1970 (dates) or since the start of the trace."""
fraction = partial(number, display="percent")
"""Declare a column of fractions from 0 to 1, displayed as percentages."""
ratio = partial(number, display="ratio")
"""Declare a column of ratios, displayed to three decimals."""
p_value = partial(number, display="pvalue")
"""Declare a column of p-values."""
hours = partial(number, display="hours", unit="h")
"""Declare a column of hours."""


def interval(
    heading: str = "95 % interval",
    description: str = "interval",
    *,
    display: str = "three_digits",
    unit: str = "",
) -> tuple[dy.Float64, dy.Float64]:
    """Declare the ends of a confidence interval, which are displayed as one column."""
    low, high = (number(heading, description, display=display, unit=unit) for _ in range(2))
    return low, high


def ci(
    description: str = "confidence interval", *, display: str = "three_digits", unit: str = ""
) -> tuple[dy.Float64, dy.Float64]:
    """Declare the ends of a 95 % confidence interval, with the unit unless each value has one."""
    named = unit and display != "duration"
    heading = f"95 % CI ({unit})" if named else "95 % CI"
    return interval(heading, description, display=display, unit=unit)


def quantiles(
    description: str, *percents: int, display: str = "three_digits"
) -> tuple[dy.Float64, ...]:
    """Declare columns of quantiles; the heading of each is its percentage, of 50 % "Median"."""
    headings = ("Median" if percent == 50 else f"{percent} %" for percent in percents)
    return tuple(number(heading, description, display=display) for heading in headings)


def flag(heading: str, description: str = "", *, optional: bool = False) -> dy.Bool:
    """Declare a Boolean column."""
    return dy.Bool(**_described(heading, description, "yes_or_no", optional=optional))


def any_key(heading: str, description: str = "") -> dy.Any:
    """Declare a column whose type is that of the input, such as a time or an identifier."""
    options = _described(heading, description, "as_text")
    return dy.Any(description=options["description"], metadata=options["metadata"])


def declared(
    frame: pl.DataFrame, table: type[ResultTable], /, by: Sequence[str] = ()
) -> pl.DataFrame:
    """Return the columns of `by` and the declared ones, in order, with the declared types."""
    columns = table.columns()
    schema = frame.schema
    present = [
        name
        for name, column in columns.items()
        if name in schema or not (column.metadata or {})["optional"]
    ]
    wrong = [
        f"{name} is {schema.get(name, 'missing')}, declared as {columns[name].dtype}"
        for name in present
        if name not in schema
        or not (isinstance(columns[name], dy.Any) or schema[name] in (columns[name].dtype, pl.Null))
    ]
    if wrong:
        raise TypeError(f"{table.__name__}: {'; '.join(wrong)}")
    empty = [name for name in present if schema[name] == pl.Null]
    if untyped := [name for name in empty if not isinstance(columns[name], dy.Any)]:
        frame = frame.with_columns(pl.col(name).cast(columns[name].dtype) for name in untyped)
    return frame[[*by, *present]]  # select would copy columns of different chunks


def interval_columns(ends: Iterable[np.ndarray], /) -> dict[str, pl.Series]:
    """Return the ends of intervals as columns ci_low and ci_high, NaN as null."""
    low, high = (pl.Series(end).fill_nan(None) for end in ends)
    return {"ci_low": low, "ci_high": high}


def schema_of(table: type[ResultTable], /) -> dict[str, pl.DataType]:
    """Return the Polars types of the columns of a table; Null for a column of any type."""
    return {name: column.dtype for name, column in table.columns().items()}


def with_columns(table: type[ResultTable], like: Mapping[str, str], /) -> type[ResultTable]:
    """Return a declaration with further columns, such as pivoted ones, each like a declared one."""
    columns = table.columns()
    extra = {name: copy(columns[declared]) for name, declared in like.items()}
    return type(f"{table.__name__}Wide", (table,), extra)


def returns(table: type[ResultTable], /) -> Callable[[Function], Function]:
    """Replace the line ``{columns}`` of a docstring with a list of the columns of a table."""

    def fill(function: Function) -> Function:
        before, line, after = inspect.cleandoc(function.__doc__ or "").partition("    {columns}")
        columns = indent(describe_columns(table), "    ")
        function.__doc__ = f"{before.rstrip()}\n\n{columns}{after}" if line else before
        return function

    return fill


def describe_columns(table: type[ResultTable], /) -> str:
    """Return the columns of a table as a list for a docstring."""
    lines = []
    for name, column in table.columns().items():
        metadata = column.metadata or {}
        unit = f" ({metadata['unit']})" if metadata["unit"] not in ("", "count") else ""
        heading = metadata["heading"].removesuffix(unit)
        text = column.description or heading
        if text.startswith(("of ", "over ", "null ", "quantile")):
            joined = f"{heading}{';' if text.startswith('null') else ''} {text}"
            text = joined.replace("Median quantile", "Median")
        same = text.lower().replace(" ", "") in name.replace("_", "")
        lines.append(f"- `{name}`{unit}" if same else f"- `{name}`{unit}: {text}")
    return "\n".join(lines)


def headings(table: type[ResultTable] | None, names: Iterable[str], /) -> list[str]:
    """Return CSV headings, ``name [unit]``; a column that is not declared has its suffix's unit."""
    columns = table.columns() if table else {}
    titles = []
    for name in names:
        unit = UNITS.get(name.rpartition("_")[2], "") if "_" in name else ""
        if name in columns:
            unit = (columns[name].metadata or {})["unit"]
        titles.append(f"{name} [{unit}]" if unit not in ("", "count") else name)
    return titles
