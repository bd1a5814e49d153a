"""Read the columns that a simulator needs, and summarize its runs over seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError
from traceana.stats.intervals import mean_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def read_columns(
    frame: pl.DataFrame | pl.LazyFrame,
    kinds: Mapping[str, type[pl.DataType]],
    what: str,
    /,
) -> pl.DataFrame:
    """Return the columns of a frame as these types; an error names the table and the column."""
    lazy = open_columns(frame, kinds, what)
    try:
        return lazy.select(pl.col(name).cast(kind) for name, kind in kinds.items()).collect()
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{what}: {str(error).splitlines()[0]}") from None


def open_columns(
    frame: pl.DataFrame | pl.LazyFrame, columns: Iterable[str], what: str, /
) -> pl.LazyFrame:
    """Return a frame lazily once it is a Polars frame and has the columns."""
    if not isinstance(frame, pl.DataFrame | pl.LazyFrame):
        raise DataError(f"{what}: a Polars frame is needed; found {type(frame).__name__}")
    there = frame.collect_schema().names()
    missing = [name for name in columns if name not in there]
    if missing:
        raise DataError(
            f"{what}: column {', '.join(missing)} is missing; found {', '.join(there) or 'none'}"
        )
    return frame.lazy()


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
    """Add Student's t intervals to what :func:`over_seeds` returns."""
    bounds = {}
    for name in names:
        of_name = (means[name + end].cast(pl.Float64) for end in ("", "_std", "_n"))
        mean, std, n = (column.fill_null(float("nan")).to_numpy() for column in of_name)
        low, high = mean_interval(mean, std, n, confidence=confidence)
        bounds[f"{name}_ci_low"] = pl.Series(low, nan_to_null=True)
        bounds[f"{name}_ci_high"] = pl.Series(high, nan_to_null=True)
    return means.with_columns(**bounds)
