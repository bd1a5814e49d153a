"""Segments of a series whose mean differs from the rest, and gaps longer than chance explains.

Circular binary segmentation: Olshen, Venkatraman, Lucito and Wigler, Biostatistics 5, 2004. Top
order statistics: Renyi's representation, as in Hill, Annals of Statistics 3, 1975.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
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

    With w the weights and m the weighted mean, the statistic of a segment is (sum of w (x - m) in
    it)^2 / (W_in W_out / W), over the sum of squares; a segment that reaches either end is a single
    change of level. The null hypothesis is an AR(1) process of resampled innovations (sieve
    bootstrap; Buehlmann, Bernoulli 3, 1997) of the variance 1 / w. Its autocorrelation is not
    known: `resamples` series have one drawn uniformly from 0 to 0.99, and the p-value is that of
    the largest statistic among the tenth of them whose own autocorrelation, without their largest
    segment, is closest to the observed one (approximate Bayesian computation; Beaumont, Zhang and
    Balding, Genetics 162, 2002). Of 100 AR(1) series of 90 values at 0, 0.3, 0.6, 0.8 and 0.9
    without a change, 0, 0, 0, 0 and 1 have p below 0.01; of 40 values 0, 0, 1, 2 and 5.
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


def deviating_ranks(values: ArrayLike, /, *, min_length: int = 3) -> Segment:
    """Return the segment whose ranks differ most from the rest, and a bound of its p-value.

    The statistic of :func:`deviating_segment`, of normal scores: of one segment of n independent
    values it has a beta distribution with 1/2 and (n - 2) / 2 degrees of freedom. The p-value is
    that of the F statistic divided by (1 + r) / (1 - r) for an AR(1) process, times the number of
    segments (Bonferroni). r is corrected for the bias of two means, plus 0.8 standard errors. Of
    1,500 series of 90 values without a change at r = 0, 0.3, 0.5, 0.7 and 0.9, 0.1, 0.3, 0.6, 1.1
    and 3.1 % have p below 0.01, and 0, 0, 0, 0.2 and 0.4 % below 0.0002.
    """
    n = np.size(values)
    first, last = np.triu_indices(n + 1, min_length)
    kept = last - first <= n - min_length
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
    r: Floats = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    return r


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


def long_gaps(gaps: ArrayLike, /) -> list[tuple[int, float]]:
    """Return gaps that stand out from the tail of the others: position and p-value, longest first.

    If the square roots of the longest gaps r_1, r_2, ... have an exponential tail (a Weibull
    distribution of shape 0.5; conservative for lighter tails, such as that of a Poisson process),
    i (r_i - r_(i+1)) are exponential with one mean, so the first over the mean of the following 19
    has an F distribution with 2 and 38 degrees of freedom. Of the three longest, those that stand
    clear of the next one belong together; p is multiplied by three.
    """
    g = np.asarray(gaps, dtype=np.float64)
    order = np.argsort(-g, kind="stable")
    top = np.sqrt(g[order])
    top = top[top > 0]
    best: list[tuple[int, float]] = []
    smallest = 1.0
    for outliers in range(1, _MOST_OUTLIERS + 1):
        if len(top) < outliers + _TAIL:
            break
        spacings = np.arange(1, len(top)) * (top[:-1] - top[1:])
        rest = spacings[outliers : outliers + _TAIL - 1]
        mean = rest.mean()
        if not mean > 0:
            continue
        ratio = spacings[outliers - 1] / mean
        p = min(1.0, _MOST_OUTLIERS * float(fdtrc(2, 2 * len(rest), ratio)))
        if p < smallest:
            smallest = p
            best = [(int(place), p) for place in order[:outliers]]
    return best


_ROUNDING = 1e-9


def highest_rise(scores: Floats, /) -> Floats:
    """The largest sum over consecutive scores, along the last axis; 0 where none is positive."""
    sums = np.cumsum(scores, axis=-1)
    lowest = np.minimum.accumulate(np.minimum(sums, 0), axis=-1)
    rise: Floats = np.max(sums - lowest, axis=-1, initial=0)
    return rise


def rising_stretches(scores: Floats, /, *, threshold: float) -> list[tuple[int, int]]:
    """Stretches whose scores sum to a threshold, found by a cumulative sum in both directions.

    The sum of scores, held at 0 from below, reaches `threshold`: a stretch is there, and began
    where the sum last left 0. It ends at the sum's highest point before it falls by `threshold`
    below that; the search goes on after its end. Returns positions of the first and the last
    observation of each stretch, in order.
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
