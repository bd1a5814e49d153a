"""The tail's index: how fast the share of values above x falls, as x^-index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import chdtri

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_FEWEST: Final = 10
_CANDIDATES: Final = 200


@dataclass(frozen=True)
class Tail:
    """Hill's estimate over the k largest values; threshold is the value below them."""

    k: int
    threshold: float
    index: float
    ks_distance: float


def hill(descending: Floats, k: int, /) -> Tail:
    """Return Hill's estimate (Annals of Statistics 3, 1975): k over the sum of ln(x_i / threshold).

    The k largest values are taken relative to the next, the threshold.

    Parameters
    ----------
    descending
        Logarithms of the values, the largest first.
    k
        From 1 to n - 1.
    """
    threshold = descending[k]
    above = descending[:k] - threshold
    index = k / float(above.sum())
    # the smallest first: distances before and at each
    fitted = -np.expm1(-index * above[::-1])
    steps = np.arange(k + 1) / k
    distance = max(float((steps[1:] - fitted).max()), float((fitted - steps[:-1]).max()))
    return Tail(k, float(np.exp(threshold)), index, distance)


def choose_tail(descending: Floats, /) -> Tail | None:
    """Return the estimate at which the tail is closest to a Pareto distribution.

    Among up to 200 numbers k of largest values, evenly spaced on the scale of logarithms from 10
    to n - 1, that with the least distance of Kolmogorov and Smirnov (Clauset, Shalizi and Newman,
    SIAM Review 51, 2009). A threshold that equals the value above it is moved down to the next
    smaller. None where no k is possible.
    """
    n = len(descending)
    if n <= _FEWEST:
        return None
    ks = np.unique(np.geomspace(_FEWEST, n - 1, _CANDIDATES).round().astype(np.int64))
    # whole runs of equal values lie above the threshold, or none of them
    last_of_run = np.searchsorted(-descending, -descending, side="right")
    ks = np.unique(np.where(descending[ks] < descending[ks - 1], ks, last_of_run[ks]))
    tails = [hill(descending, int(k)) for k in ks if k < n and descending[k] < descending[0]]
    return min(tails, key=lambda tail: tail.ks_distance, default=None)


def index_interval(index: float, k: int, /, *, confidence: float) -> tuple[float, float]:
    """Return the interval that is exact above a threshold chosen beforehand in a Pareto tail.

    2 k index / estimate is chi-squared with 2 k degrees of freedom.
    """
    tail = (1 - confidence) / 2
    low, high = (index * float(chdtri(2 * k, p)) / (2 * k) for p in (1 - tail, tail))
    return low, high
