"""Tail index of a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tail:
    """Hill's estimate from the k values above a threshold, with its interval."""

    k: int
    threshold: float
    index: float
    low: float
    high: float


def hill(descending: Floats, k: int, /, *, confidence: float) -> Tail | None:
    """Return Hill's estimate: k over the sum of ln(x / threshold) of the k largest values.

    The threshold is the next value; values equal to it are not counted. In a Pareto tail
    2 k index / estimate is chi-squared with 2 k degrees of freedom, so that the interval is exact
    (Hill, Annals of Statistics 3, 1975).

    Parameters
    ----------
    descending
        Positive values in descending order.
    k
        From 1 to n - 1.
    confidence
        Coverage, in (0, 1).

    Returns
    -------
    Tail or None
        None if no value is above the threshold.
    """
    threshold = descending[k]
    above = descending[:k][descending[:k] > threshold]
    if not len(above):
        return None
    n = len(above)
    index = n / float(np.log(above / threshold).sum())
    tail = (1 - confidence) / 2
    low, high = (index * float(chdtri(2 * n, p)) / (2 * n) for p in (1 - tail, tail))
    return Tail(n, float(threshold), index, low, high)
