"""The one gate for frames of any engine: checked lazy columns in, small sorted Polars frames out.

Aggregations are written once over narwhals' lazy frames, which Polars, DuckDB and Spark run
themselves. pandas and pyarrow have no lazy engine, so their columns become a Polars frame.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.exceptions import DuplicateError
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError, did_you_mean

Names: TypeAlias = str | Sequence[str]
Measures: TypeAlias = Sequence[str] | Mapping[str, str]
"""Columns of numbers; a mapping names the parameter that sets each."""

ENGINES: Final = {
    nw.Implementation.POLARS: "Polars",
    nw.Implementation.PANDAS: "pandas",
    nw.Implementation.PYARROW: "pyarrow",
    nw.Implementation.DUCKDB: "DuckDB",
    nw.Implementation.PYSPARK: "PySpark",
    nw.Implementation.IBIS: "Ibis",
}
"""Engines whose results are tested to be equal; any other is refused."""

_RUN_BY: Final = ("narwhals", "polars", "duckdb", "_duckdb", "pyarrow", "pyspark", "py4j", "ibis")
_UNFIT: Final = re.compile(r"""^$|^\*$|^\^.*\$$|^\.|["]""")
MOST_ROWS_HERE: Final = 10_000_000
"""Rows that are read into memory where a database cannot aggregate them."""
_TABLES_OF: Final = {
    "traceana Trace": '; pass a table of it, such as trace["jobs"]',
    "traceana Store": '; pass a table of a trace, such as store.trace(id)["jobs"]',
}
_LONGEST: Final = 300  # characters of an engine's message
LARGEST: Final = 1e150
"""Largest value of a measure: its square is finite, so that no variance overflows."""


def as_names(names: Names, /) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise DataError(f"expected a column's name or a list of names, got {type(names).__name__}")
    return tuple(names)


def as_keys(by: Names, /, *columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of `by`; refuse one with the name of a column of the result."""
    keys = as_names(by)
    refuse_clash(keys, set().union(*columns))
    return keys


def open_frame(
    frame: IntoFrame,
    /,
    *,
    keys: Sequence[str],
    measures: Measures = (),
    roles: Mapping[str, str] | None = None,
) -> nw.LazyFrame[Any]:
    """Return the needed columns as a lazy frame, with measures checked for their range.

    Measures become Float64, times and durations as seconds, NaN null. `roles` has the keys that a
    parameter sets. DataError if a column is missing, named twice, or no measure.
    """
    of_measures = measures if isinstance(measures, Mapping) else {}
    names = tuple(of_measures.values()) or tuple(measures)
    every = {**(roles or {}), **of_measures}
    lazy = clean_columns(admit_columns(frame, (*keys, *names), roles=every), names)
    if names:
        check_range(lazy, names)
    return lazy


def admit_columns(
    frame: IntoFrame, columns: Sequence[str], /, *, roles: Mapping[str, str] | None = None
) -> nw.LazyFrame[Any]:
    """Return the needed columns as a lazy frame, as they are."""
    _refuse_nameless(columns)
    unfit = [name for name in columns if _UNFIT.search(name)]
    if unfit:
        raise DataError(
            f"column {unfit[0]!r} needs another name: one that is empty, * or ^...$, begins with a "
            'dot or has a " in it means something else to an engine'
        )
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise DataError(f"column {', '.join(repeated)} is named for more than one part")
    admitted = _admit(frame)
    dotted = [name for name in columns if re.search(r"[.`]", name)]
    if dotted and admitted.implementation is nw.Implementation.PYSPARK:
        raise DataError(f"column {dotted[0]!r} needs another name: Spark takes . and ` as its own")
    names = _names(admitted)
    if missing := [name for name in columns if name not in names]:
        raise DataError(_missing(missing, columns, names, roles or {}))
    chosen = admitted.select(*columns)
    try:
        lazy = chosen if isinstance(chosen, nw.LazyFrame) else chosen.lazy(backend="polars")
    except (TypeError, ValueError) as error:  # a column of mixed Python objects
        raise DataError(f"a column has mixed types: {str(error).splitlines()[0]}") from None
    for name, dtype in lazy.collect_schema().items():
        if dtype.is_nested() or dtype in (nw.Object, nw.Binary):
            raise DataError(f"column {name} holds {dtype}; text, numbers or times are needed")
    return lazy


def column_names(frame: IntoFrame, /) -> list[str]:
    """Return the names of a frame's columns."""
    return _names(_admit(frame))


def clean_columns(lazy: nw.LazyFrame[Any], measures: Sequence[str], /) -> nw.LazyFrame[Any]:
    """Make measures Float64 (times in seconds), and NaN null in all columns."""
    schema, has_nan = lazy.collect_schema(), _has_nan(lazy)
    cleaned = []
    for name in schema.names():
        column = nw.col(name)
        if name in measures and schema[name].is_temporal() and schema[name] != nw.Time:
            column = as_seconds(column, schema[name], lazy.implementation)
        elif name in measures and not schema[name].is_numeric():
            # the type of a column without any value is a guess
            if collect(lazy.select(column.count())).item():
                raise DataError(f"column {name} holds {schema[name]}; numbers are needed")
            column = nw.lit(None, nw.Float64).alias(name)
        elif name in measures:
            column = column.cast(nw.Float64)
            column = column.fill_nan(None) if has_nan else column
        elif schema[name].is_float() and has_nan:
            column = column.fill_nan(None)
        cleaned.append(column)
    return lazy.select(*cleaned)


def _has_nan(lazy: nw.LazyFrame[Any], /) -> bool:
    """Return whether an engine distinguishes NaN from null; SQLite does not."""
    if lazy.implementation is not nw.Implementation.IBIS:
        return True
    from ibis.expr.operations import IsNan  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415  there if the frame is

    return lazy.to_native().get_backend().has_operation(IsNan)


def as_seconds(time: nw.Expr, dtype: nw.dtypes.DType, engine: nw.Implementation) -> nw.Expr:
    """Return a datetime or date as Unix seconds, a duration as seconds."""
    if dtype == nw.Date:
        time, dtype = time.cast(nw.Datetime("us")), nw.Datetime("us")
    if engine is nw.Implementation.PYSPARK:
        return time.cast(nw.Float64)
    if isinstance(dtype, nw.Datetime):
        epoch = nw.lit(datetime(1970, 1, 1, tzinfo=UTC if dtype.time_zone else None))
        time = time - epoch.cast(nw.Datetime("us", dtype.time_zone))
    return time.dt.total_microseconds().cast(nw.Float64) / 1e6


def check_range(frame: nw.LazyFrame[Any], measures: Sequence[str], /) -> None:
    """Refuse measures that are negative or above :data:`LARGEST`."""
    ends = collect(
        frame.select(
            *(nw.col(name).min().alias(f"{name} low") for name in measures),
            *(nw.col(name).max().alias(f"{name} high") for name in measures),
        )
    ).row(0, named=True)
    for name in measures:
        low, high = ends[f"{name} low"], ends[f"{name} high"]
        if low is not None and (low < 0 or high > LARGEST):
            raise DataError(
                f"column {name} holds {low if low < 0 else high}; its values must lie from 0 to "
                f"{LARGEST:g} (a missing value is null or NaN)"
            )


def reduce_frame(
    frame: nw.LazyFrame[Any] | pl.LazyFrame | pl.DataFrame,
    keys: Sequence[str],
    ordered: bool = True,
    /,
    **aggregates: nw.Expr | pl.Expr,
) -> pl.DataFrame:
    """Return [*keys, *aggregates]: one row per group, sorted, nulls last; one row without keys.

    Groups that are not `ordered` are in any order, and their sums of floats are streamed.
    """
    refuse_clash(keys, aggregates)
    rows: Any = frame.lazy()
    named = [expression.alias(name) for name, expression in aggregates.items()]
    groups = rows.group_by(*keys).agg(*named) if keys else rows.select(*named)
    streamed = ordered and keys and _on_polars(rows)  # a third of the time of sorting afterwards
    try:
        result = collect(groups.sort(*keys, nulls_last=True) if streamed else groups)
    except DataError as error:
        in_memory = nw.from_native(_read_here(rows, error).lazy())
        return reduce_frame(in_memory, keys, ordered, **aggregates)
    if ordered and keys and not streamed:
        result = result.sort(keys, nulls_last=True)
    # engines count in integers of their own, and DuckDB's sums of them are decimals
    integers = pl.selectors.integer() | pl.selectors.by_dtype(pl.Decimal(38, 0))
    counts = integers & pl.selectors.by_name(*aggregates)
    return result.select(*keys, *aggregates).with_columns(counts.cast(pl.Int64))


def _read_here(rows: Any, error: DataError) -> pl.DataFrame:  # noqa: ANN401  as below
    """Return the rows in memory where a database behind Ibis cannot compute an aggregate."""
    cause = error.__cause__
    if type(cause).__name__ not in ("OperationNotDefinedError", "UnsupportedOperationError"):
        raise error
    n, name = collect(rows.select(nw.len())).item(), rows.to_native().get_backend().name
    said = f"{name} through Ibis lacks an aggregate ({str(cause)[:_LONGEST]})"
    if n > MOST_ROWS_HERE:
        raise DataError(
            f"{said}; its {n:,} rows are more than the {MOST_ROWS_HERE:,} that are read into "
            "memory instead: select or sample rows first, or use another engine"
        ) from error
    warnings.warn(f"{said}; {n:,} rows are read into memory instead", stacklevel=3)
    return collect(rows)


def sort_stably(rows: pl.DataFrame, columns: Sequence[str], /) -> pl.DataFrame:
    """Sort by columns, nulls last, one at a time: several are encoded first, which takes longer."""
    for column in reversed(columns):
        rows = rows.sort(column, nulls_last=True, maintain_order=True)
    return rows


def with_totals(
    frame: nw.LazyFrame[Any], keys: Sequence[str], /, **totals: nw.Expr
) -> nw.LazyFrame[Any]:
    """Add aggregates over its group to each row, over all rows without keys."""
    if keys:
        return frame.with_columns(**{name: total.over(*keys) for name, total in totals.items()})
    totals_row = reduce_frame(frame, (), **totals).row(0, named=True)
    return frame.with_columns(
        **{name: nw.lit(whole, nw.Float64) for name, whole in totals_row.items()}
    )


def beside(table: pl.DataFrame, groups: pl.DataFrame, keys: Sequence[str], /) -> pl.DataFrame:
    """Add the columns of each group to its rows; null where it has none."""
    if not keys:
        return table.join(groups, how="cross")
    return table.join(groups, on=list(keys), how="left", nulls_equal=True, maintain_order="left")


def refuse_clash(keys: Iterable[str], columns: Iterable[str], /) -> None:
    """Refuse keys that have the name of a column of the result."""
    named = tuple(keys)
    _refuse_nameless(named)
    clash = sorted(name for name in columns if name in named)
    if clash:
        raise DataError(f"by cannot name {', '.join(clash)}: the result has a column of that name")


def collect(frame: nw.LazyFrame[Any] | pl.LazyFrame, /, *, streaming: bool = True) -> pl.DataFrame:
    """Run a lazy frame and return a Polars frame."""
    lazy: Any = nw.from_native(frame)
    options = {"engine": "streaming" if streaming else "in-memory"} if _on_polars(lazy) else {}
    with reading():
        result: pl.DataFrame = lazy.collect(backend="polars", **options).to_native()
    return result


def read_once(frame: nw.LazyFrame[Any], columns: Iterable[str], /) -> nw.LazyFrame[Any]:
    """Return these columns for several aggregates; of Polars they are read into memory."""
    rows = frame.select(*columns)
    return nw.from_native(collect(rows).lazy()) if _on_polars(rows) else rows


def _on_polars(rows: nw.LazyFrame[Any] | pl.LazyFrame) -> bool:
    return isinstance(rows, pl.LazyFrame) or rows.implementation is nw.Implementation.POLARS


@contextmanager
def reading() -> Iterator[None]:
    """Raise a DataError with the first line of the engine's error if a user's query fails."""
    try:
        yield
    except BaseException as error:  # a panic of Polars is no Exception
        kind = type(error)
        of_engine = kind.__module__.partition(".")[0] in _RUN_BY or isinstance(error, OSError)
        if not of_engine and kind.__name__ != "PanicException":
            raise
        said = (str(error).splitlines() or [kind.__name__])[0]
        raise DataError(f"the frame cannot be read: {said[:_LONGEST]}") from error


def not_a_frame(value: object, /) -> str:
    """Return the message on an object that is not a frame of a supported engine."""
    *names, last = ENGINES.values()
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    name = kind.__name__ if module == "builtins" else f"{module} {kind.__name__}"
    is_path = isinstance(value, str | os.PathLike | list | tuple)
    hint = " (a path? use traceana.read)" if is_path else _TABLES_OF.get(name, "")
    return f"expected a {', '.join(names)} or {last} frame, got {name}{hint}"


def _admit(frame: IntoFrame) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    try:
        admitted = nw.from_native(frame)
    except DuplicateError:
        raise DataError("two columns of the frame have the same name; rename one") from None
    except TypeError:
        admitted = None
    if admitted is None or admitted.implementation not in ENGINES:
        raise DataError(not_a_frame(frame))
    return admitted


def _refuse_nameless(columns: Iterable[object]) -> None:
    nameless = [name for name in columns if not isinstance(name, str)]
    if nameless:
        raise DataError(f"column names are text; found {nameless[0]!r}")


def _names(frame: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> list[str]:
    with reading():
        return list(map(str, frame.collect_schema().names()))


def _missing(
    missing: Sequence[str], columns: Sequence[str], names: Sequence[str], roles: Mapping[str, str]
) -> str:
    text = f"column {', '.join(missing)} is missing; found {', '.join(names) or 'no column'}"
    text += "".join(did_you_mean(name, names) for name in missing if name not in roles.values())
    free = [name for name in names if name not in columns]
    hints = [
        f"{role}={(get_close_matches(name, free, n=1, cutoff=0.3) or free)[0]!r}"
        for role, name in roles.items()
        if name in missing and free
    ]
    return f"{text}; pass {', '.join(hints)}" if hints else text


def check_clock(frame: nw.LazyFrame[Any], time: str, /) -> None:
    """Refuse a time column that has values and is neither a number nor a time."""
    kind = frame.collect_schema()[time]
    if kind.is_numeric() or kind.is_temporal():
        return
    # a column without a value has an arbitrary type
    if collect(frame.select(nw.col(time).count())).item():
        raise DataError(f"column {time} has type {kind}; time= needs numbers or datetimes")


def with_seconds(frame: nw.LazyFrame[Any], time: str, /) -> nw.LazyFrame[Any]:
    """Return a frame with a datetime column as Unix seconds; numbers remain."""
    check_clock(frame, time)
    kind = frame.collect_schema()[time]
    if not kind.is_temporal():
        return frame
    return frame.with_columns(as_seconds(nw.col(time), kind, frame.implementation).alias(time))
