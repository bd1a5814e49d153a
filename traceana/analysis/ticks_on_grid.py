"""Rows in any order, laid out on a grid with a cell for each job, tick and worker."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.analysis.frames import LARGEST
from traceana.analysis.ticks_in_order import NAMES, has_missing
from traceana.stats.dispersion import row_moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CELLS_PER_ROW: Final = 4
"""A grid with more cells than this for each row is too thin to be worth its memory."""

_LOOKUP: Final = 1_000_000  # whole numbers over a range up to this are looked up in a table


def moments_on_grid(
    rows: pl.LazyFrame, by: Sequence[str], at: str, over: str, value: str, /, *, ddof: int
) -> pl.DataFrame | None:
    """Return [*by, at, n_workers, mean, std], sorted; None if the rows do not suit a grid.

    Each axis has the distinct values of its column, none of them missing. Two rows of one cell
    leave a cell too few filled: a worker that would count twice cannot go unseen. Memory is
    8 bytes a cell.
    """
    axes = (*by, at, over)
    schema = rows.collect_schema()
    if {schema[axis] for axis in axes} - NAMES or not schema[value].is_numeric():
        return None
    n_rows = rows.select(pl.len()).collect(engine="streaming").item()
    labels = [
        rows.select(pl.col(axis).unique()).collect(engine="streaming").to_series().sort()
        for axis in axes
    ]
    shape = [len(label) for label in labels]
    dense = 0 < math.prod(shape) <= CELLS_PER_ROW * n_rows
    if not dense or any(map(has_missing, labels)):
        return None
    codes = [_Codes(label) for label in labels]
    cells = np.full(math.prod(shape), np.nan)
    n_values = 0
    numbered = rows.select(*(code.expression for code in codes), pl.col(value).cast(pl.Float64))
    for batch in numbered.collect_batches(maintain_order=False, lazy=True, engine="streaming"):
        columns = batch.get_columns()
        cell = np.zeros(batch.height, dtype=np.int64)
        for code, column, length in zip(codes, columns, shape, strict=False):
            cell *= length
            cell += code.of(column.to_numpy())
        x = columns[-1].to_numpy()
        missing = np.isnan(x)
        if missing.any():
            cell, x = cell[~missing], x[~missing]
        if len(x) and not (x.min() >= 0 and x.max() <= LARGEST):
            return None
        cells[cell] = x
        n_values += len(x)
    n, mean, std = row_moments(cells.reshape(-1, shape[-1]), ddof=ddof)
    if n.sum() < n_values:
        return None
    there = np.flatnonzero(n)
    places = np.unravel_index(there, shape[:-1])
    return pl.DataFrame(
        [label.gather(place) for label, place in zip(labels, places, strict=False)]
    ).with_columns(n_workers=n[there], mean=mean[there], std=std[there])


class _Codes:
    """The place of each value of a column among its sorted labels."""

    def __init__(self, labels: pl.Series) -> None:
        self._labels = labels.to_numpy() if labels.dtype != pl.String else None
        self._table: NDArray[np.int64] | None = None
        self.expression = pl.col(labels.name)
        if self._labels is None:
            self.expression = self.expression.cast(pl.Enum(labels)).to_physical()
        elif labels[-1] - labels[0] < _LOOKUP:  # numbers of Python's, which do not overflow
            from_first = self._labels - self._labels[0]
            if (from_first == np.floor(from_first)).all():
                self._table = np.zeros(int(from_first[-1]) + 1, dtype=np.int64)
                self._table[from_first.astype(np.int64)] = np.arange(len(labels))

    def of(self, values: NDArray[np.generic]) -> NDArray[np.int64]:
        if self._labels is None:
            return values.astype(np.int64)
        if self._table is None:
            return np.searchsorted(self._labels, values).astype(np.int64)
        from_first: NDArray[np.int64] = (values - self._labels[0]).astype(np.int64)
        return np.take(self._table, from_first)
