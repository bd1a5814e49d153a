"""Reduce unsorted rows on a grid with one cell per job, time and worker."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.questions.stragglers.ticks_in_order import NAMES, has_missing
from traceana.stats.dispersion import row_moments
from traceana.store.frames import LARGEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CELLS_PER_ROW: Final = 4
"""Cells per row above which a grid takes too much memory."""

_SAMPLE: Final = 200_000  # rows whose labels are tried first, to avoid a pass over all
_LOOKUP: Final = 1_000_000  # range of integers up to which a lookup table is used


def moments_on_grid(
    rows: pl.LazyFrame, by: Sequence[str], time: str, worker: str, value: str, /, *, ddof: int
) -> pl.DataFrame | None:
    """Return [*by, time, n_workers, mean, std], sorted; None if the rows do not suit a grid.

    Each axis has the distinct values of its column, none of them missing. If two rows share a
    cell, fewer cells than rows are filled, and the result is None. Memory is 8 bytes per cell.
    """
    axes = (*by, time, worker)
    schema = rows.collect_schema()
    if {schema[axis] for axis in axes} - NAMES or not schema[value].is_numeric():
        return None
    n_rows = rows.select(pl.len()).collect(engine="streaming").item()
    for sample in (rows.head(_SAMPLE), rows) if n_rows > _SAMPLE else (rows,):
        labels = [
            sample.select(pl.col(axis).unique()).collect(engine="streaming").to_series().sort()
            for axis in axes
        ]
        n_cells = math.prod(map(len, labels))
        if not 0 < n_cells <= CELLS_PER_ROW * n_rows or any(map(has_missing, labels)):
            return None
        cells = _fill(rows, [_Codes(label) for label in labels], value)
        if cells is not None:
            break
    else:
        return None
    n, mean, std = row_moments(cells.reshape(-1, len(labels[-1])), ddof=ddof)
    there = np.flatnonzero(n)
    places = np.unravel_index(there, [len(label) for label in labels[:-1]])
    return pl.DataFrame(
        [label.gather(place) for label, place in zip(labels, places, strict=False)]
    ).with_columns(n_workers=n[there], mean=mean[there], std=std[there])


def _fill(rows: pl.LazyFrame, axes: Sequence[_Codes], value: str) -> NDArray[np.float64] | None:
    """Place each value; None for an unknown label, a value out of range or a duplicate."""
    cells = np.full(math.prod(axis.length for axis in axes), np.nan)
    n_values = 0
    numbered = rows.select(*(axis.expression for axis in axes), pl.col(value).cast(pl.Float64))
    for batch in numbered.collect_batches(maintain_order=False, lazy=True, engine="streaming"):
        *columns, measured = batch.get_columns()
        cell = np.zeros(batch.height, dtype=np.int64)
        for axis, column in zip(axes, columns, strict=True):
            code = axis.of(column)
            if code is None:
                return None
            cell *= axis.length
            cell += code
        x = measured.to_numpy()
        missing = np.isnan(x)
        if missing.any():
            cell, x = cell[~missing], x[~missing]
        if len(x) and not (x.min() >= 0 and x.max() <= LARGEST):
            return None
        cells[cell] = x
        n_values += len(x)
    return cells if np.count_nonzero(~np.isnan(cells)) == n_values else None


class _Codes:
    """Index of each value of a column among its sorted labels."""

    def __init__(self, labels: pl.Series) -> None:
        self.length = len(labels)
        self.expression = pl.col(labels.name)
        self._labels: NDArray[Any] | None = None
        self._table: NDArray[np.int64] | None = None
        if labels.dtype == pl.String:
            self.expression = self.expression.cast(pl.Enum(labels), strict=False).to_physical()
            return
        self._labels = labels.to_numpy()
        # Python integers do not overflow
        if (
            labels[-1] - labels[0] < _LOOKUP
            and (labels == labels.cast(pl.Int64, strict=False)).all()
        ):
            from_first = (self._labels - self._labels[0]).astype(np.int64)
            self._table = np.zeros(from_first[-1] + 1, dtype=np.int64)
            self._table[from_first] = np.arange(len(labels))

    def of(self, column: pl.Series) -> NDArray[Any] | None:
        """Return the indices, or None if a value is not a label."""
        if column.has_nulls():
            return None
        values = column.to_numpy()
        if self._labels is None:
            return values
        if self._table is None:
            places = np.searchsorted(self._labels, values)
            np.minimum(places, self.length - 1, out=places)
        else:
            with np.errstate(invalid="ignore"):  # far beyond the table
                from_first = (values - self._labels[0]).astype(np.int64)
            places = self._table.take(from_first, mode="clip")
        return places if np.array_equal(self._labels[places], values) else None
