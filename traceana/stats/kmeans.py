"""Exact k-means clustering of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from traceana.stats.arrays import Floats, Integers


def kmeans_1d(values: ArrayLike, /, *, k: int) -> Integers:
    """Partition numbers into the k clusters with the smallest within-cluster sum of squares.

    Dynamic programming over the sorted numbers (Wang and Song, The R Journal 3(2), 2011; Groenlund
    et al., arXiv:1701.07204). Returns the cluster of each number from 0; of several optima, the one
    whose last cluster begins first. ValueError if a number is not finite, or k is out of range.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("k-means needs finite numbers")
    points, where, weight = np.unique(numbers, return_inverse=True, return_counts=True)
    n = len(points)
    if not 1 <= k <= n:
        raise ValueError(f"k must lie from 1 to {n}, the number of distinct values; it is {k}")
    # centered and scaled, so that the sums of squares keep their digits
    scale = max(float(np.ptp(points)), np.finfo(np.float64).tiny)
    points = (points - points[n // 2]) / scale
    sums = _Sums(points, weight.astype(np.float64))
    least = sums.within(np.zeros(n, np.int64), np.arange(n))
    firsts = np.zeros((k, n), np.int64)
    for layer in range(1, k):
        least, firsts[layer] = _add_cluster(least, sums, layer)
    cluster = np.empty(n, np.int64)
    last = n
    for layer in reversed(range(k)):
        first = firsts[layer, last - 1]
        cluster[first:last] = layer
        last = first
    return cluster[where]


class _Sums:
    """Sum of squares about the mean of consecutive weighted points, from cumulative sums."""

    def __init__(self, points: Floats, weight: Floats) -> None:
        parts = (weight, weight * points, weight * points**2)
        self._running = [np.concatenate([[0.0], np.cumsum(part)]) for part in parts]

    def within(self, first: Integers, last: Integers) -> Floats:
        weight, total, squares = (sums[last + 1] - sums[first] for sums in self._running)
        result: Floats = np.maximum(squares - total**2 / weight, 0)
        return result


def _add_cluster(before: Floats, sums: _Sums, layer: int) -> tuple[Floats, Integers]:
    """Return the smallest sum of squares up to each point with one more cluster, and its first."""
    n = len(before)
    least, firsts = np.full(n, np.inf), np.zeros(n, np.int64)
    # ranges of points, and of their best first members: one level of the recursion at a time
    low, high = np.array([layer]), np.array([n - 1])
    first_low, first_high = low, high
    while len(low):
        middle = (low + high) // 2
        size = np.minimum(middle, first_high) - first_low + 1
        begin = np.cumsum(size) - size
        candidate = np.arange(size.sum()) + np.repeat(first_low - begin, size)
        cost = before[candidate - 1] + sums.within(candidate, np.repeat(middle, size))
        least[middle] = np.minimum.reduceat(cost, begin)
        at_least = np.flatnonzero(cost == np.repeat(least[middle], size))
        best = candidate[at_least[np.searchsorted(at_least, begin)]]
        firsts[middle] = best
        low, high = np.append(low, middle + 1), np.append(middle - 1, high)
        first_low, first_high = np.append(first_low, best), np.append(best, first_high)
        left = low <= high
        low, high, first_low, first_high = (
            ends[left] for ends in (low, high, first_low, first_high)
        )
    return least, firsts
