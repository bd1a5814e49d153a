"""Series of numbers: segments that differ from the rest, long gaps, alignment and clusters.

Circular binary segmentation: Olshen, Venkatraman, Lucito and Wigler, Biostatistics 5, 2004. Top
order statistics: Renyi's representation, as in Hill, Annals of Statistics 3, 1975.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft
from scipy.special import fdtrc, ndtri

from traceana.stats.arguments import as_generator, check_count
from traceana.stats.arrays import Floats, Integers
from traceana.stats.correlation import weighted_ranks

_MOST_CELLS: Final = 4_000_000
_MOST_OUTLIERS: Final = 3
_TAIL: Final = 20
_ONE_IN: Final = 10
_LARGEST_R: Final = 0.99
_FEWEST: Final = 12
_BIAS: Final = 2.0
_CAUTION: Final = 0.8


class Segment(NamedTuple):
    """The segment [first, after) whose mean differs most from the rest."""

    first: int
    after: int
    pvalue: float
    autocorrelation: float
    """Of consecutive observations, without the segment's deviation."""


def deviating_segment(
    values: ArrayLike,
    weights: ArrayLike,
    /,
    *,
    min_length: int = 3,
    resamples: int = 2000,
    rng: int | np.random.Generator = 1,
) -> Segment:
    """Return the segment whose mean differs most from the rest, and its p-value.

    The statistic is the fraction of squares between segment and rest; a segment at either end is a
    change of level. The null hypothesis is an AR(1) process of resampled innovations (sieve
    bootstrap; Buehlmann, Bernoulli 3, 1997), its autocorrelation uniform from 0 to 0.99: p is that
    of the tenth of the `resamples` closest to the observed one (Beaumont, Zhang and Balding,
    Genetics 162, 2002).
    """
    check_count("resamples", resamples, most=1_000_000)
    x, w = (np.asarray(vector, dtype=np.float64) for vector in (values, weights))
    n = len(x)
    if n < 2 * min_length or not w.sum() > 0:
        return Segment(0, n, 1.0, 0.0)
    first, last = np.triu_indices(n + 1, min_length)
    kept = last - first <= n - min_length
    first, last = first[kept], last[kept]
    root = np.sqrt(np.where(w > 0, w, 1.0))

    def examine(series: Floats) -> tuple[Floats, Integers, Floats]:
        """Return the largest statistics, their segments, and what these leave."""
        middle = series - np.average(series, weights=w, axis=-1)[..., None]
        statistic, place = _largest(w * middle, np.broadcast_to(w, series.shape), first, last)
        squares = (w * middle**2).sum(axis=-1)
        statistic = np.divide(statistic, squares, out=np.zeros_like(squares), where=squares > 0)
        position = np.arange(n)
        inside = (position >= first[place][:, None]) & (position < last[place][:, None])
        for side in (inside * w, ~inside * w):
            mass = side.sum(axis=-1)
            mean = (side * middle).sum(axis=-1) / np.where(mass > 0, mass, 1.0)
            middle = middle - np.where(side > 0, mean[:, None], 0.0)
        return statistic, place, middle * root

    generator = as_generator(rng)
    (segment,), (place,), (rest,) = examine(x[None])
    (raw,) = _lag_one(rest[None])
    r = float(np.clip(raw, 0, _LARGEST_R))
    noise = rest[1:] - r * rest[:-1]
    noise -= noise.mean()
    drawn = generator.uniform(0, _LARGEST_R, resamples)
    statistics, correlations = np.empty(resamples), np.empty(resamples)
    chunk = max(1, _MOST_CELLS // len(first))
    for begin in range(0, resamples, chunk):
        part = slice(begin, min(begin + chunk, resamples))
        series = generator.choice(noise, (part.stop - begin, n))
        series[:, 0] /= np.sqrt(1 - drawn[part] ** 2)
        for place_of in range(1, n):
            series[:, place_of] += drawn[part] * series[:, place_of - 1]
        statistics[part], _, left = examine(series / root)
        correlations[part] = _lag_one(left)
    nearest = np.argsort(np.abs(correlations - raw), kind="stable")[: max(resamples // _ONE_IN, 1)]
    exceed = int(np.sum(statistics[nearest] >= segment * (1 - 1e-12)))
    p, r = (exceed + 1) / (len(nearest) + 1), float(np.median(drawn[nearest]))
    if first[place] == 0:  # the same change, stated as the later part
        return Segment(int(last[place]), n, p, r)
    return Segment(int(first[place]), int(last[place]), p, r)


def deviating_ranks(
    values: ArrayLike, /, *, min_length: int = 3, segment: tuple[int, int] | None = None
) -> Segment:
    """Return the segment whose ranks differ most from the rest, and a bound of its p-value.

    The statistic of :func:`deviating_segment` of normal scores; its F is divided by (1 + r) / (1 -
    r) for an AR(1) process, r plus 0.8 standard errors, and p multiplied by the segments
    (Bonferroni). A stated `segment` is the only one.
    """
    n = np.size(values)
    first, last = np.triu_indices(n + 1, min_length)
    kept = last - first <= n - min_length
    if segment is not None:
        kept &= (first == segment[0]) & (last == segment[1])
    if n < _FEWEST or not kept.any() or not np.ptp(values) > 0:
        return Segment(0, n, 1.0, 0.0)
    x = ndtri((weighted_ranks(np.asarray(values, dtype=np.float64)) - 0.5) / n)
    x -= x.mean()
    first, last = first[kept], last[kept]
    largest, place = _largest(x, np.ones(n), first, last)
    low, high = int(first[place]), int(last[place])
    inside = (np.arange(n) >= low) & (np.arange(n) < high)
    rest = x - np.where(inside, x[inside].mean(), x[~inside].mean())
    r = (n * float(_lag_one(rest[None])[0]) + _BIAS) / (n - 2 * _BIAS)
    r = float(np.clip(r + _CAUTION * np.sqrt(max(1 - r * r, 0.0) / n), 0, _LARGEST_R))
    explained = float(largest) / float(x @ x)
    f = (n - 2) * explained / max(1 - explained, 1e-12) * (1 - r) / (1 + r)
    p = min(1.0, len(first) * float(fdtrc(1, n - 2, f)))
    return Segment(high, n, p, r) if low == 0 else Segment(low, high, p, r)


def _lag_one(values: Floats) -> Floats:
    """Return the autocorrelation of each row at lag 1; 0 of a constant row."""
    middle = values - values.mean(axis=-1, keepdims=True)
    squares = (middle**2).sum(axis=-1)
    products = (middle[:, 1:] * middle[:, :-1]).sum(axis=-1)
    return np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)


def _largest(centred: Floats, weights: Floats, first: Integers, last: Integers) -> tuple[Any, Any]:
    zero = np.zeros((*centred.shape[:-1], 1))
    sums = np.concatenate([zero, np.cumsum(centred, axis=-1)], axis=-1)
    mass = np.concatenate([zero, np.cumsum(weights, axis=-1)], axis=-1)
    inside = mass[..., last] - mass[..., first]
    total = mass[..., -1:]
    spread = inside * (total - inside)
    risen = (sums[..., last] - sums[..., first]) ** 2 * total
    statistic = np.divide(risen, spread, out=np.zeros_like(risen), where=spread > 1e-12)
    place = np.argmax(statistic, axis=-1)
    return np.max(statistic, axis=-1), place


_ROUNDING: Final = 1e-9


def long_gaps(gaps: ArrayLike, /, *, shape: float = 0.5) -> list[tuple[int, float]]:
    """Return gaps that stand out from the tail of the others: position and p-value, longest first.

    With an exponential tail of r = gap^shape the spacings i (r_i - r_(i+1)) have one mean: the
    first over the mean of the next 19 has an F distribution. p is that of the three longest, times
    three.
    """
    g = np.asarray(gaps, dtype=np.float64)
    order = np.argsort(-g, kind="stable")
    top = np.maximum(g[order], 0) ** shape
    top = top[top > 0]
    best: list[tuple[int, float]] = []
    smallest = 1.0
    for outliers in range(1, _MOST_OUTLIERS + 1):
        if len(top) < outliers + _TAIL:
            break
        spacings = np.arange(1, len(top)) * (top[:-1] - top[1:])
        rest = spacings[outliers : outliers + _TAIL - 1]
        mean = rest.mean()
        if not mean > _ROUNDING * top[outliers]:
            mean = top[outliers] / np.log(len(top))
        ratio = spacings[outliers - 1] / mean
        p = min(1.0, _MOST_OUTLIERS * float(fdtrc(2, 2 * len(rest), ratio)))
        if p < smallest:
            smallest = p
            best = [(int(place), p) for place in order[:outliers]]
    return best


def highest_rise(scores: Floats, /) -> Floats:
    """The largest sum over consecutive scores, along the last axis; 0 where none is positive."""
    sums = np.cumsum(scores, axis=-1)
    lowest = np.minimum.accumulate(np.minimum(sums, 0), axis=-1)
    return np.max(sums - lowest, axis=-1, initial=0)


def rising_stretches(scores: Floats, /, *, threshold: float) -> list[tuple[int, int]]:
    """Stretches whose scores sum to a threshold, found by a cumulative sum in both directions.

    A stretch begins where the sum last left 0, and ends at its highest point before it falls by as
    much as the threshold. Returns first and last positions.
    """
    enough = threshold * (1 - _ROUNDING)
    stretches = []
    start = 0
    while start < len(scores):
        sums = np.concatenate(([0.0], np.cumsum(scores[start:])))
        reached = np.flatnonzero(sums - np.minimum.accumulate(sums) >= enough)
        if not len(reached):
            break
        before = sums[: reached[0]]
        first = reached[0] - 1 - int(np.argmin(before[::-1]))  # the last of equals
        rise = sums[reached[0] :]
        fallen = np.flatnonzero(np.maximum.accumulate(rise) - rise >= enough)
        until = fallen[0] if len(fallen) else len(rise)
        last = reached[0] + int(np.argmax(rise[:until])) - 1
        stretches.append((start + first, start + last))
        start += last + 1
    return stretches


def kmeans_1d(values: ArrayLike, /, *, k: int) -> Integers:
    """Partition numbers into the k clusters of the least sum of squares, numbered from 0.

    Dynamic programming (Wang and Song, The R Journal 3(2), 2011; Groenlund et al.,
    arXiv:1701.07204).
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
        return np.maximum(squares - total**2 / weight, 0)


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


@dataclass(frozen=True)
class Alignment:
    """The best shift of a series along another."""

    shift: int
    """Index of the longer run at which the other's index 0 lies; negative where it begins
    earlier."""
    overlap: int
    """Entries that both have at this shift."""
    mean_square: float
    """Mean square of their differences."""


def best_alignment(a: Floats, b: Floats, /, *, min_overlap: int) -> Alignment | None:
    """Shift `a` along `b` to the least mean square of differences; None without overlap enough."""
    known_a, known_b = np.isfinite(a), np.isfinite(b)
    # about the common mean, so that the sums of squares do not cancel
    center = np.mean(np.concatenate([a[known_a], b[known_b]])) if known_a.any() else 0.0
    x = np.where(known_a, a - center, 0.0)
    y = np.where(known_b, b - center, 0.0)
    overlap = np.rint(_over_shifts((known_b, known_a))).astype(int)
    squares = _over_shifts((known_b, x**2), (y**2, known_a), (-2 * y, x))
    enough = overlap >= max(1, min_overlap)
    if not enough.any():
        return None
    mean_square = np.full(overlap.shape, np.inf)
    mean_square[enough] = np.maximum(squares[enough], 0) / overlap[enough]
    best = int(np.argmin(mean_square))
    return Alignment(best - (len(a) - 1), int(overlap[best]), float(mean_square[best]))


def _over_shifts(*pairs: tuple[NDArray[Any], NDArray[Any]]) -> Floats:
    """Sum long[i + k] * short[i] over all pairs, for k from 1 - len(short), by FFT."""
    n = len(pairs[0][0]) + len(pairs[0][1]) - 1
    size = fft.next_fast_len(n, real=True)
    spectrum = sum(
        fft.rfft(long.astype(float), size) * fft.rfft(short[::-1].astype(float), size)
        for long, short in pairs
    )
    return fft.irfft(spectrum, size)[:n]
