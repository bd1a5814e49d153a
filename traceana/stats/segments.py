"""Segments of a series whose mean differs from the rest, and gaps longer than chance explains.

Circular binary segmentation: Olshen, Venkatraman, Lucito and Wigler, Biostatistics 5, 2004. Top
order statistics: Renyi's representation, as in Hill, Annals of Statistics 3, 1975.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from traceana.stats.arguments import as_generator, check_count
from traceana.stats.arrays import Floats, Integers

_MOST_CELLS: Final = 4_000_000
_MOST_OUTLIERS: Final = 3
_TAIL: Final = 20


def deviating_segment(
    values: ArrayLike,
    weights: ArrayLike,
    /,
    *,
    min_length: int = 3,
    block: int = 1,
    resamples: int = 999,
    rng: int | np.random.Generator = 1,
) -> tuple[int, int, float]:
    """Return the segment whose mean differs most from the rest, and its p-value.

    With w the weights and m the weighted mean, the statistic of a segment is (sum of w (x - m) in
    it)^2 / (W_in W_out / W); a segment that reaches either end is a single change of level. The
    p-value is that of the largest statistic among permutations of blocks of observations: under no
    change, blocks are exchangeable.
    """
    check_count("resamples", resamples, most=1_000_000)
    x, w = (np.asarray(one, dtype=np.float64) for one in (values, weights))
    n = len(x)
    if n < 2 * min_length or not w.sum() > 0:
        return 0, n, 1.0
    first, last = np.triu_indices(n + 1, min_length)
    kept = last - first <= n - min_length
    first, last = first[kept], last[kept]
    found, place = _largest(w * (x - np.average(x, weights=w)), w, first, last)
    generator = as_generator(rng)
    blocks = [np.arange(at, min(at + block, n)) for at in range(0, n, block)]
    exceed = 0
    chunk = max(1, _MOST_CELLS // len(first))
    for done in range(0, resamples, chunk):
        orders = np.array(
            [
                np.concatenate([blocks[one] for one in generator.permutation(len(blocks))])
                for _ in range(min(chunk, resamples - done))
            ]
        )
        mixed, shuffled = x[orders], w[orders]
        centred = shuffled * (mixed - np.average(x, weights=w))
        exceed += int(np.sum(_largest(centred, shuffled, first, last)[0] >= found * (1 - 1e-12)))
    p = (exceed + 1) / (resamples + 1)
    if first[place] == 0:  # the same change, stated as the later part
        return int(last[place]), n, p
    return int(first[place]), int(last[place]), p


def dependent_block(values: ArrayLike, weights: ArrayLike, /) -> int:
    """Return how many consecutive observations depend on each other: 1, or up to a twelfth.

    Autocorrelations are those of what the most deviating segment leaves. One of the first three
    above its 95 % bound under independence makes blocks of three, two of them of seven.
    """
    x, w = (np.asarray(one, dtype=np.float64) for one in (values, weights))
    first, last, _ = deviating_segment(x, w, resamples=1)
    inside = np.zeros(len(x), dtype=bool)
    inside[first:last] = True
    rest = x.copy()
    for side in (inside, ~inside):
        if side.any() and w[side].sum() > 0:
            rest[side] -= np.average(x[side], weights=w[side])
    scaled = rest * np.sqrt(w)
    total = float(scaled @ scaled)
    if not total > 0:
        return 1
    bound = 1.645 / np.sqrt(len(x))
    lags = range(1, min(4, len(x)))
    above = sum(float(scaled[lag:] @ scaled[:-lag]) / total > bound for lag in lags)
    return max(1, min((1, 3, 7, 7)[above], len(x) // 12))


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
        p = min(1.0, _MOST_OUTLIERS * float(stats.f.sf(ratio, 2, 2 * len(rest))))
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
    found = []
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
        found.append((start + first, start + last))
        start += last + 1
    return found
