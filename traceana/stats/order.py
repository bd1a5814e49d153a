"""Order statistics along an axis of arrays in which NaN marks what is missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from traceana.stats.arrays import Floats


def median_present(values: Floats, /) -> Floats:
    """Median of the present values along the last axis; NaN where there is none.

    The mean of the middle two of an even number, as numpy has it, and many times faster than
    numpy's own for arrays with NaN.
    """
    ordered = np.sort(values, axis=-1)  # NaN comes last
    return middle_of(ordered, np.count_nonzero(~np.isnan(ordered), axis=-1))


def middle_of(ordered: Floats, n: NDArray[np.intp], /) -> Floats:
    """Median of the first n of values that are in order along the last axis; NaN for none."""
    if not ordered.shape[-1]:
        return np.full(ordered.shape[:-1], np.nan)
    # halves are summed, for the sum of two large values may not be a number
    return 0.5 * pick(ordered, (n - 1) // 2) + 0.5 * pick(ordered, n // 2)


def pick(ordered: Floats, rank: NDArray[np.intp], /) -> Floats:
    """Value at a rank (0 the first) along the last axis."""
    return np.take_along_axis(ordered, rank[..., None], axis=-1)[..., 0]


def peers_at_rank(values: Floats, ordered: Floats, rank: NDArray[np.intp], /) -> Floats:
    """For each value along the last axis, the value at a rank among all the others.

    Returns an array of the shape of `values`.
    """
    at = pick(ordered, rank)[..., None]
    after = pick(ordered, np.minimum(rank + 1, ordered.shape[-1] - 1))[..., None]
    # without a value that is not above the one at the rank, the next takes its place
    return np.where(values > at, at, after)


def peers_median(values: Floats, /) -> Floats:
    """For each value along the last axis, the median of the others; NaN without another.

    An absent value (NaN) has peers too: all that are present.
    """
    ordered = np.sort(values, axis=-1)
    n = np.count_nonzero(~np.isnan(ordered), axis=-1)
    others = np.maximum(n - 1, 1)
    low = peers_at_rank(values, ordered, (others - 1) // 2)
    high = peers_at_rank(values, ordered, others // 2)
    present = ~np.isnan(values)
    among_others = np.where((n >= 2)[..., None], 0.5 * low + 0.5 * high, np.nan)
    return np.where(present, among_others, middle_of(ordered, n)[..., None])
