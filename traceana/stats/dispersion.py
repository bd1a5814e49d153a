"""Mean and standard deviation of the rows of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ROWS_AT_ONCE = 20_000  # what is worked on stays in the processor's cache


def row_moments(values: Floats, /, *, ddof: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Count, mean and standard deviation of each row, NaN standing for what is missing.

    Each row is taken relative to its first value, so that the sum of squares about the mean loses
    no more than log10(n) digits however large the mean is, and equal values have a deviation of
    exactly 0. Returns (n, mean, std), one entry a row: mean is NaN where n is 0, std where n is not
    above `ddof`.

    Parameters
    ----------
    values
        Matrix of shape (rows, values), without infinities.
    ddof
        The deviation's divisor is n - ddof.
    """
    rows, width = values.shape
    n = np.full(rows, width, dtype=np.int64)
    mean, std = np.empty(rows), np.empty(rows)
    for start in range(0, rows, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        x = values[part]
        count: NDArray[np.int64] | int = width
        origin = x[:, 0]
        away = x - origin[:, None]
        shift = np.einsum("ij->i", away)
        if np.isnan(shift.sum()):
            present = ~np.isnan(x)
            count = n[part] = np.count_nonzero(present, axis=1)
            origin = np.take_along_axis(x, present.argmax(axis=1)[:, None], axis=1)[:, 0]
            away = np.where(present, x - origin[:, None], 0)
            shift = np.einsum("ij->i", away)
        with np.errstate(invalid="ignore", divide="ignore"):  # rows without values enough
            shift /= count
            np.add(origin, shift, out=mean[part])
            shift *= shift
            squares = np.einsum("ij,ij->i", away, away)
            squares -= count * shift
            squares /= np.maximum(count - ddof, 0)
            np.sqrt(np.maximum(squares, 0, out=squares), out=std[part])
    return n, mean, std
