"""Validation of the values of a distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.store.frames import LARGEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values: TypeAlias = NDArray[np.float64] | pl.Series | Sequence[float | None]
    Flags: TypeAlias = NDArray[np.bool_] | pl.Series | Sequence[bool]


def read_values(
    values: Values, observed: Flags | None = None, entry: Values | None = None, /
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64] | None, int]:
    """Return values that are not missing, whether each is censored, entries, and number missing.

    Raises a DataError if a value is not a number, not positive or infinite, or there is not one
    Boolean and one entry from 0 to the value per value.
    """
    series = _series(values, "values")
    if not (series.dtype.is_numeric() or series.null_count() == len(series)):
        raise DataError(f"values are {series.dtype}; numbers are needed")
    series = series.cast(pl.Float64).fill_nan(None)
    present = series.is_not_null()
    x = series.drop_nulls().to_numpy()
    wrong = x[~((x >= 1 / LARGEST) & (x <= LARGEST))]
    if len(wrong):
        raise DataError(
            f"{len(wrong)} of {len(x)} values are not above 0 and finite, such as {wrong[0]:g} (at "
            f"least {1 / LARGEST:g}, at most {LARGEST:g}); drop them first"
        )
    cut, entered = np.zeros(len(x), dtype=bool), None
    if observed is not None:
        flags = _series(observed, "observed")
        if len(flags) != len(series) or flags.null_count() or flags.dtype != pl.Boolean:
            raise DataError(
                f"observed must be one True or False per value: {len(series)} values, "
                f"{len(flags)} flags of type {flags.dtype}, {flags.null_count()} of them null"
            )
        cut = ~flags.filter(present).to_numpy()
    if entry is not None:
        starts = _series(entry, "entry")
        if len(starts) != len(series) or not starts.dtype.is_numeric():
            raise DataError(
                f"entry must be one number per value: {len(series)} values, {len(starts)} entries "
                f"of type {starts.dtype}"
            )
        entered = starts.filter(present).cast(pl.Float64).fill_null(np.nan).to_numpy()
        if not ((entered >= 0) & (entered <= x)).all():
            raise DataError("entry must lie from 0 to its value, where there is a value")
    return x, cut, entered if entered is not None and entered.any() else None, len(series) - len(x)


def read_clusters(cluster: Values | Sequence[str], values: Values, /) -> NDArray[np.int64]:
    """Return codes from 0 of the clusters of values that are not missing.

    Raises a DataError if there is not one cluster per value, one is null, or all are the same.
    """
    units, series = _series(cluster, "cluster"), _series(values, "values")
    if len(units) != len(series):
        raise DataError(f"cluster has {len(units)} entries for {len(series)} values")
    kept = units.filter(series.cast(pl.Float64).fill_nan(None).is_not_null())
    if kept.null_count():
        raise DataError(
            f"cluster is null for {kept.null_count()} value(s); fill it or drop these values"
        )
    if kept.n_unique() < 2:
        raise DataError("there is one cluster; at least two are needed")
    return (kept.rank("dense") - 1).cast(pl.Int64).to_numpy()


def _series(values: object, name: str) -> pl.Series:
    if hasattr(values, "columns"):
        raise DataError(f'{name} must be one column, such as jobs["runtime_s"]; found a frame')
    try:
        return pl.Series(values, strict=False)  # type: ignore[arg-type]
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise DataError(
            f"{name} must be an array, a Series or a list; found {type(values).__name__}"
        ) from None
