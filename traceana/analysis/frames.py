"""The engine gate: whatever frame the user has in, a small sorted Polars frame out.

A reduction is written once over narwhals' lazy frames. Polars, DuckDB and Spark run it
themselves; pandas and pyarrow tables have no lazy engine, so the columns of need become a Polars
frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.exceptions import DuplicateError

from traceana.errors import DataError

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

Names: TypeAlias = str | Sequence[str]
"""One column's name, or several."""

ENGINES: Final = {
    nw.Implementation.POLARS: "Polars (DataFrame or LazyFrame)",
    nw.Implementation.DUCKDB: "DuckDB (relation)",
    nw.Implementation.PANDAS: "pandas (DataFrame)",
    nw.Implementation.PYARROW: "pyarrow (Table)",
    nw.Implementation.PYSPARK: "PySpark (DataFrame, not of Spark Connect)",
}
"""What the parity tests hold to the same values; any other is refused."""

_SYNONYMS: Final = {
    "time": ("step", "iteration", "timestamp", "ts"),
    "worker": ("rank", "host", "node"),
    "value": ("seconds", "duration", "batch_time", "iteration_s"),
    "runtime": ("duration", "duration_s", "elapsed", "elapsed_s"),
    "status": ("state", "outcome"),
    "gpus": ("gpu", "num_gpus", "gpu_num", "gpu_count"),
}
"""Column names that suggest the parameter that a missing column belongs to."""
_RUN_BY: Final = ("narwhals", "polars", "duckdb", "_duckdb", "pyarrow", "pyspark", "py4j")
_UNFIT: Final = re.compile(r"""^$|^\*$|^\^.*\$$|^\.|["]""")
LARGEST: Final = 1e150
"""No measure is above it: its square is still a number, so that no variance overflows."""


def as_names(names: Names, /) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise DataError(f"a name or a sequence of names is needed; found {names!r}")
    return tuple(names)


def open_frame(
    frame: IntoFrame,
    /,
    *,
    keys: Sequence[str],
    measures: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
) -> nw.LazyFrame[Any]:
    """Return the columns of need as a lazy frame, its measures in range.

    Measures become Float64. NaN is null, in measures and in keys. `roles` is that of
    :func:`admit_columns`.

    Raises
    ------
    DataError
        If the engine is not listed, a column is missing or named twice, or a measure is not
        numeric, is negative or is above :data:`LARGEST` (infinite).
    """
    lazy = clean_columns(admit_columns(frame, (*keys, *measures), roles=roles), measures)
    if measures:
        check_range(lazy, measures)
    return lazy


def admit_columns(
    frame: IntoFrame, columns: Sequence[str], /, *, roles: Mapping[str, str] | None = None
) -> nw.LazyFrame[Any]:
    """Return the columns of need as a lazy frame, as they are.

    Parameters
    ----------
    frame
        The frame.
    columns
        Names of the columns.
    roles
        Column by the parameter that names it, for the message on a missing column.

    Raises
    ------
    DataError
        If the engine is not listed; a column is missing, named twice, has a name that engines
        take for something else, or is of a type that cannot be put in order; or the query behind
        a lazy frame fails.
    """
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
    return _project(admitted, columns, roles or {})


def column_names(frame: IntoFrame, /) -> list[str]:
    """Return the names of a frame's columns.

    Raises
    ------
    DataError
        If the engine is not listed.
    """
    admitted = _admit(frame)
    with reading():
        return list(admitted.collect_schema().names())


def clean_columns(lazy: nw.LazyFrame[Any], measures: Sequence[str], /) -> nw.LazyFrame[Any]:
    """Make measures Float64, and NaN null in all columns.

    Raises
    ------
    DataError
        If a measure is not numeric.
    """
    schema = lazy.collect_schema()
    cleaned = []
    for name in schema.names():
        column = nw.col(name)
        if name in measures and not schema[name].is_numeric():
            # a column without any value has whatever type its maker guessed
            if collect(lazy.select(column.count())).item():
                raise DataError(f"column {name} holds {schema[name]}; numbers are needed")
            column = nw.lit(None, nw.Float64).alias(name)
        elif name in measures:
            column = column.cast(nw.Float64).fill_nan(None)
        elif schema[name].is_float():
            column = column.fill_nan(None)
        cleaned.append(column)
    return lazy.select(*cleaned)


def check_range(frame: nw.LazyFrame[Any], measures: Sequence[str], /) -> None:
    """Refuse measures that are negative or above :data:`LARGEST`.

    Raises
    ------
    DataError
        If there is one.
    """
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
    frame: nw.LazyFrame[Any], keys: Sequence[str], /, **aggregates: nw.Expr
) -> pl.DataFrame:
    """Return [*keys, *aggregates]: one row a group, sorted, nulls last; one row without keys.

    Raises
    ------
    DataError
        If a key has the name of an aggregate.
    """
    refuse_clash(keys, aggregates)
    named = [expression.alias(name) for name, expression in aggregates.items()]
    if keys:
        result = collect(frame.group_by(*keys).agg(*named)).sort(keys, nulls_last=True)
    else:
        result = collect(frame.select(*named))
    # engines count in integers of their own
    counts = pl.selectors.integer() & pl.selectors.by_name(*aggregates)
    return result.with_columns(counts.cast(pl.Int64))


def with_totals(
    frame: nw.LazyFrame[Any], keys: Sequence[str], /, **totals: nw.Expr
) -> nw.LazyFrame[Any]:
    """Add to each row what is reduced over its group, over all rows without keys."""
    if keys:
        return frame.with_columns(**{name: total.over(*keys) for name, total in totals.items()})
    found = reduce_frame(frame, (), **totals).row(0, named=True)
    return frame.with_columns(**{name: nw.lit(one, nw.Float64) for name, one in found.items()})


def refuse_clash(keys: Iterable[str], columns: Iterable[str], /) -> None:
    """Refuse keys that have the name of a column of the result.

    Raises
    ------
    DataError
        If there is one.
    """
    named = tuple(keys)
    _refuse_nameless(named)
    clash = sorted(name for name in columns if name in named)
    if clash:
        raise DataError(f"by cannot name {', '.join(clash)}: the result has a column of that name")


def collect(frame: nw.LazyFrame[Any], /) -> pl.DataFrame:
    """Run a lazy frame and return what it gives as a Polars frame."""
    on_polars = frame.implementation is nw.Implementation.POLARS
    options = {"engine": "streaming"} if on_polars else {}
    with reading():
        result: pl.DataFrame = frame.collect(backend="polars", **options).to_native()
    return result


@contextmanager
def reading() -> Iterator[None]:
    """Say in one line what an engine says of a user's query that fails when it is run."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _RUN_BY:
            raise
        said = str(error).splitlines()[0]
        raise DataError(f"the frame cannot be read, its engine says: {said}") from error


def _admit(frame: IntoFrame) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    try:
        admitted = nw.from_native(frame)
    except DuplicateError:
        raise DataError("two columns of the frame have the same name; rename one") from None
    except TypeError:
        admitted = None
    if admitted is None or admitted.implementation not in ENGINES:
        kind = type(frame)
        raise DataError(
            f"a {kind.__module__.split('.')[0]} {kind.__name__} is no frame of an engine that is "
            f"read; these are {', '.join(ENGINES.values())}"
        )
    return admitted


def _refuse_nameless(columns: Iterable[object]) -> None:
    nameless = [name for name in columns if not isinstance(name, str)]
    if nameless:
        raise DataError(f"a column is told by its name; found {nameless[0]!r}")


def _project(
    frame: nw.DataFrame[Any] | nw.LazyFrame[Any], columns: Sequence[str], roles: Mapping[str, str]
) -> nw.LazyFrame[Any]:
    with reading():
        there = frame.collect_schema().names()
    missing = [name for name in columns if name not in there]
    if missing:
        parameters = _name_parameters(missing, there, roles)
        raise DataError(
            f"column {', '.join(missing)} is missing; "
            f"found {', '.join(map(str, there)) or 'no column'}{parameters}"
        )
    lazy = _as_lazy(frame.select(*columns))
    for name, dtype in lazy.collect_schema().items():
        if dtype.is_nested() or dtype == nw.Object:
            raise DataError(f"column {name} holds {dtype}; text, numbers or times are needed")
    return lazy


def _name_parameters(missing: Sequence[str], found: Sequence[str], roles: Mapping[str, str]) -> str:
    """Return which parameters to set, with the column that each of them may mean."""
    free = [name for name in found if name not in roles.values()]
    parts = []
    for role in (role for role, column in roles.items() if column in missing):
        known = (role, f"{role}_s", *_SYNONYMS.get(role, ()))
        guess = next((name for name in free if str(name).lower() in known), None)
        parts.append(f"{role}={guess!r}" if guess else f"{role}=COLUMN")
    return f"; pass {', '.join(parts)}" if parts else ""


def _as_lazy(frame: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    if isinstance(frame, nw.LazyFrame):
        return frame
    try:
        return frame.lazy(backend="polars")
    except (TypeError, ValueError) as error:  # a column of mixed Python objects
        raise DataError(f"a column has no one type: {str(error).splitlines()[0]}") from None
