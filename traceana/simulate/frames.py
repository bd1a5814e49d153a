"""Read the columns that a simulator needs, and summarize its runs over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.stats.arguments import is_number
from traceana.stats.intervals import mean_interval
from traceana.store.frames import admit_columns, clean_columns, collect, reading
from traceana.tables.declare import ResultTable, schema_of

LARGEST: Final = 1e15
"""Largest number in a frame: whole numbers up to it are exact."""
_MOST_SEEDS: Final = 100_000


def read_seeds(seeds: Iterable[int], /) -> list[int]:
    """Return the seeds of a sweep; refuse other values, none and too many."""
    if not isinstance(seeds, Iterable):
        raise DataError(f"seeds must be several whole numbers, such as range(10); it is {seeds!r}")
    numbers = list(islice(seeds, _MOST_SEEDS + 1))
    whole = all(is_number(seed, whole=True) and seed >= 0 for seed in numbers)
    if not (whole and 0 < len(numbers) <= _MOST_SEEDS):
        raise DataError(
            f"seeds must be 1 to {_MOST_SEEDS:,} whole numbers from 0 on; found {numbers[:5]}"
        )
    return numbers


def read_clean(
    frame: IntoFrame,
    columns: Sequence[str],
    what: str,
    /,
    *,
    numbers: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """Return the columns of a frame of any engine; the message of an error names the table."""
    try:
        return collect(clean_columns(admit_columns(frame, columns, roles=roles), numbers))
    except DataError as error:
        raise DataError(f"{what}: {error}") from None


def read_columns(
    frame: IntoFrame,
    kinds: Mapping[str, type[pl.DataType]],
    what: str,
    /,
    *,
    roles: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """Return the columns of a frame of any engine as these types: times in seconds, NaN as null.

    `roles` has columns by the parameter that sets them; the message of an error names the table.
    """
    numbers = [name for name, kind in kinds.items() if kind.is_numeric()]
    table = read_clean(frame, list(kinds), what, numbers=numbers, roles=roles)
    for name in numbers:
        if (table[name].is_infinite() | (table[name].abs() > LARGEST)).any():
            raise DataError(f"{what}: column {name} must be finite, {LARGEST:g} at most")
        if kinds[name].is_integer() and (table[name] % 1 != 0).any():
            raise DataError(f"{what}: column {name} must hold whole numbers")
    with reading():  # no engine writes a duration as text
        return table.cast({pl.selectors.by_name(name): kind for name, kind in kinds.items()})


def read_result(
    frame: IntoFrame, table: type[ResultTable], columns: Sequence[str], what: str, /
) -> pl.DataFrame:
    """Return columns of a result that may have passed through another engine, as declared."""
    dtypes = schema_of(table)
    try:
        rows = collect(clean_columns(admit_columns(frame, columns), ()))
        with reading():
            return rows.cast({pl.selectors.by_name(name): dtypes[name] for name in columns})
    except DataError as error:
        raise DataError(f"{what}: {error}") from None


def over_seeds(names: Sequence[str], /) -> list[pl.Expr]:
    """Return the mean, standard deviation and number of values of each column."""
    of_seeds = pl.col(names)
    return [
        of_seeds.mean(),
        of_seeds.std(ddof=1).name.suffix("_std"),
        of_seeds.count().name.suffix("_n"),
    ]


def with_intervals(
    means: pl.DataFrame, names: Sequence[str], /, *, confidence: float
) -> pl.DataFrame:
    """Add Student's t intervals to what :func:`over_seeds` returns; none if all seeds agree."""
    bounds = {}
    for name in names:
        of_name = (means[name + end].cast(pl.Float64) for end in ("", "_std", "_n"))
        mean, std, n = (column.fill_null(float("nan")).to_numpy() for column in of_name)
        varies = std > 1e-12 * np.abs(mean)
        low, high = mean_interval(mean, np.where(varies, std, np.nan), n, confidence=confidence)
        bounds[f"{name}_ci_low"] = pl.Series(low, nan_to_null=True)
        bounds[f"{name}_ci_high"] = pl.Series(high, nan_to_null=True)
    return means.with_columns(**bounds)
