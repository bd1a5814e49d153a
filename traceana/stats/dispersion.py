"""Mean and standard deviation of the rows of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ROWS_AT_ONCE = 10_000  # what is worked on stays in the processor's cache


def row_moments(values: Floats, /, *, ddof: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Count, mean and standard deviation of each row, NaN standing for what is missing.

    Each row is taken relative to its first value, so that the sum of squares about the mean
    loses no more than log10(n) digits however large the mean is, and equal values have a
    deviation of exactly 0.

    Parameters
    ----------
    values
        Matrix of shape (rows, values), without infinities.
    ddof
        The deviation's divisor is n - ddof.

    Returns
    -------
    (n, mean, std)
        One entry a row: mean is NaN where n is 0, std where n is not above `ddof`.
    """
    rows, width = values.shape
    n = np.full(rows, width, dtype=np.int64)
    mean, std = np.empty(rows), np.empty(rows)
    ones = np.ones(width)
    for start in range(0, rows, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        x = values[part]
        origin = x[:, 0]
        away = x - origin[:, None]
        total = away @ ones
        count: NDArray[np.float64] | float = float(width)
        if np.isnan(total).any():
            present = ~np.isnan(x)
            n[part] = np.count_nonzero(present, axis=1)
            count = np.where(n[part] > 0, n[part], np.nan)
            origin = np.take_along_axis(x, present.argmax(axis=1)[:, None], axis=1)[:, 0]
            away = np.where(present, x - origin[:, None], 0)
            total = away @ ones
        shift = total / count
        squares = np.einsum("ij,ij->i", away, away) - total * shift
        mean[part] = origin + shift
        free = np.where(n[part] > ddof, count - ddof, np.nan)
        std[part] = np.sqrt(np.maximum(squares, 0) / free)
    return n, mean, std
