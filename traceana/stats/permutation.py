"""Permutation and bootstrap tests, of rows, group means or whole clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, permutations, product
from math import comb
from typing import Final

import numpy as np
import scipy  # scipy.stats is slow to import and loaded when used
from scipy.special import gammainc, gammaincc, kolmogi, logit, ndtr, stdtr

from traceana.stats.arrays import Booleans, Floats, Integers
from traceana.stats.correlation import SMALLEST_P, dot, weighted_ranks

EXACT: Final = 9
"""Up to so many points, all permutations are enumerated."""
_SIDE: Final = 100  # resamples are the products of 100 by 100 random permutations
_RESAMPLES: Final = _SIDE**2
_WHOLE: Final = 10_000  # rows up to which permutations do not move blocks, and are 9,999
_FEW: Final = 10  # beyond, random orders of blocks, each times _SIDE
_MANY: Final = 30  # groups from which a rank coefficient of permuted means is normal
_BLOCKS: Final = 1000
_MAX_GROUPS: Final = 20_000
_CANONICAL: Final = 100_000  # rows up to which p does not depend on their order


def row_pvalue(x: Floats, y: Floats, /, *, rng: np.random.Generator) -> float:
    """Two-sided permutation p-value of Pearson's r over rows (of Spearman's, of mean ranks).

    All permutations of up to 9 rows; else 9,999: x and y in random order, y shifted cyclically.
    Beyond 10,000 rows as in :func:`group_mean_pvalues`, or blocks are shifted.
    """
    n = len(x)
    a, b = ((part - part.mean()) / np.abs(part - part.mean()).max() for part in (x, y))
    if n <= EXACT:
        every = b[np.array(list(permutations(range(n))))] @ a
        return _twice(_tails(every, a @ b), len(every))
    if n > _WHOLE and (p := _type_three(a, np.ones(n, np.int64), b, b)) is not None:
        return p
    if n <= _CANONICAL:
        order = np.lexsort((b, a))
        a, b = a[order], b[order]
    blocks = max(n // _RESAMPLES, 1)
    length = n // blocks
    observed, tails, tried = dot(a, b), np.ones(2), 1
    while tried < _RESAMPLES:
        # one order of both would never pair a row with its own y
        x, y = (part[rng.permutation(n)] for part in (a, b))
        u, v = (np.fft.rfft(part[: blocks * length].reshape(blocks, length)) for part in (x, y))
        rest = x[blocks * length :] @ y[blocks * length :]
        sums = np.fft.irfft((u.conj() * v).sum(axis=0), length) + rest
        tails, tried = tails + _tails(sums, observed), tried + length
    return _twice(tails, tried)


def group_mean_pvalues(
    x: Floats, y: Floats, asked: Sequence[tuple[str, str]], /, *, rng: np.random.Generator
) -> dict[tuple[str, str], float]:
    """Two-sided permutation p-values of correlations of x with the mean y at each x.

    All permutations of few rows or equal groups, else 10,000. Beyond 10,000 rows Pearson's p is of
    a type III distribution with the exact moments (Mielke and Berry, Permutation Methods, 2007,
    2.3) unless skewed; rank coefficients of 30 groups or more have Student's t from 200
    permutations, others 1,000. Returns p by (level, method); empty for more than 20,000 groups.
    """
    if len(x) <= _CANONICAL:
        order = np.lexsort((y, x))
        x, y = x[order], y[order]
    values, group, size = np.unique(x, return_inverse=True, return_counts=True)
    if len(size) > _MAX_GROUPS:
        return {}
    y = _near_one(y[np.argsort(group.astype(np.uint16), kind="stable")] - y.mean())  # radix sort
    starts = np.cumsum(size) - size
    observed = np.add.reduceat(y, starts) / size
    every = _enumerated(y, starts, size, observed)
    exact = every is not None
    resamples = _drawn(y, starts, size, rng) if every is None else iter([every])
    pvalues: dict[tuple[str, str], float] = {}
    observed_values = {
        key: float(_statistic(*key, values, size, observed[None])[0]) for key in asked
    }
    if len(y) > _WHOLE and not exact:
        pvalues = _asymptotic(y, (values, size, observed), observed_values, resamples)
        observed_values = {
            key: value for key, value in observed_values.items() if key not in pvalues
        }
        if not observed_values:
            return pvalues
    tried = 0 if exact else 1
    tails = {key: np.full(2, float(tried)) for key in observed_values}
    for means in resamples:
        tried += len(means)
        for key, value in observed_values.items():
            tails[key] += _tails(_statistic(*key, values, size, means), value)
    return pvalues | {key: _twice(both, tried) for key, both in tails.items()}


def _enumerated(y: Floats, starts: Integers, size: Integers, observed: Floats) -> Floats | None:
    """Return the group means under every permutation; None if there are too many."""
    if len(size) <= EXACT and size.min() == size.max():
        return np.asarray(observed[np.array(list(permutations(range(len(size)))))])
    if len(y) <= EXACT:
        every = y[np.array(list(permutations(range(len(y)))))]
        return np.asarray(np.add.reduceat(every, starts, axis=1) / size)
    return None


def _asymptotic(
    y: Floats,
    groups: tuple[Floats, Integers, Floats],
    observed_values: dict[tuple[str, str], float],
    resamples: Iterator[Floats],
) -> dict[tuple[str, str], float]:
    """Return the p-values of many rows whose null distribution has a known form."""
    values, size, observed = groups
    pvalues, drawn = {}, None
    for key, value in observed_values.items():
        weight = size.astype(float) if key[0] == "group_mean_weighted" else np.ones(len(size))
        if key[1] == "pearson":
            away = (values - np.average(values, weights=weight)) * weight / size
            if (p := _type_three(away, size, observed, y)) is not None:
                pvalues[key] = p
        elif weight.sum() ** 2 / (weight**2).sum() >= _MANY:
            drawn = np.vstack([next(resamples) for _ in range(2)]) if drawn is None else drawn
            null = _statistic(*key, values, size, drawn)
            error = np.std(null, ddof=1) * np.sqrt(1 + 1 / len(null))
            tail = stdtr(len(null) - 1, -abs(value - null.mean()) / error)
            pvalues[key] = max(2 * float(tail), SMALLEST_P)
    return pvalues


def _type_three(d: Floats, size: Integers, means: Floats, y: Floats) -> float | None:
    """Return the p-value of the sum of d y (both of mean 0) under permutations, one d per group."""
    n = len(y)
    d, scale = d / np.abs(d).max(), np.abs(y).max()
    y = y / scale
    weighted, d_squares, y_squares = size * d, d * d, y * y
    d2, d3, d4 = dot(weighted, d), dot(weighted, d_squares), dot(weighted * d, d_squares)
    y2, y3, y4 = dot(y, y), dot(y, y_squares), dot(y_squares, y_squares)
    variance = d2 * y2 / (n - 1)
    z = dot(weighted, means) / scale / np.sqrt(variance)
    skewness = n / ((n - 1) * (n - 2)) * d3 * y3 / variance**1.5
    kurtosis = (n * d4 / d2**2 - 3) * (n * y4 / y2**2 - 3) / n
    if abs(skewness) > 1 or abs(kurtosis) > 1:
        return None
    if abs(skewness) < 1e-3:
        tail = float(ndtr(-abs(z)))
    else:
        shape, at = 4 / skewness**2, z * np.sign(skewness)
        at = max(shape + at * np.sqrt(shape), 0.0)
        tail = float(min(gammainc(shape, at), gammaincc(shape, at)))
    return min(max(2 * tail, SMALLEST_P), 1.0)


def _drawn(
    y: Floats, starts: Integers, size: Integers, rng: np.random.Generator
) -> Iterator[Floats]:
    length = 1 if len(y) <= _WHOLE else len(y) // _BLOCKS
    blocks = len(y) // length
    end = starts + size
    # products of two independent permutations are pairwise independent, and cheaper to draw
    second = rng.permuted(np.tile(np.arange(blocks), (_SIDE, 1)), axis=1)
    last = np.minimum(end // length, blocks)
    rest = end - last * length  # rows of a group's last block; those after all blocks stay
    for at in range(_SIDE if length == 1 else _FEW):
        if length == 1 or at % 5 == 0:
            y = rng.permutation(y)
        order = rng.permutation(blocks)
        if length == 1:
            yield np.add.reduceat(y[order][second], starts, axis=1) / size
            continue
        if at % 5 == 0:
            inside = np.pad(
                y[: blocks * length].reshape(blocks, length).cumsum(axis=1), ((0, 0), (1, 0))
            )
            tail = np.append(0.0, y[blocks * length :].cumsum())
        total = np.zeros((_SIDE, blocks + 1))
        np.cumsum(inside[order, -1][second], axis=1, out=total[:, 1:])
        within = np.zeros((_SIDE, len(size)))
        cut = last < blocks
        within[:, cut] = inside[order[second[:, last[cut]]], rest[cut]]
        within[:, ~cut] = tail[rest[~cut]]
        yield np.diff(total[:, last] + within, axis=1, prepend=0) / size


def _tails(resampled: Floats, observed: float) -> Floats:
    close = 1e-9 * abs(observed)
    return np.array([np.sum(resampled >= observed - close), np.sum(resampled <= observed + close)])


def _twice(tails: Floats, tried: int) -> float:
    return min(2 * float(tails.min()) / tried, 1.0)


def _near_one(values: Floats) -> Floats:
    """Return values over a power of 2, so that the squares of small ones are not 0."""
    return np.ldexp(values, -np.frexp(np.abs(values).max())[1])


def _statistic(level: str, method: str, x: Floats, size: Integers, means: Floats) -> Floats:
    """Return a statistic per row of means that orders permutations as the coefficient does."""
    weight = size.astype(float) if level == "group_mean_weighted" else np.ones(len(size))
    if method == "kendall":
        total = np.zeros(len(means))
        for at in range(len(x) - 1):  # x increases
            signs = np.sign(means[:, at + 1 :] - means[:, at, None])
            total += signs @ weight[at + 1 :] * weight[at]
        return total
    if method == "spearman":
        x = weighted_ranks(x, weight)
        if level == "group_mean_weighted":
            order = np.argsort(means, axis=1)
            sorted_weight = weight[order]
            ranks = np.cumsum(sorted_weight, axis=1) - (sorted_weight - 1) / 2
            means = np.empty_like(means)
            np.put_along_axis(means, order, ranks, axis=1)
        else:
            means = scipy.stats.rankdata(means, axis=1)
    weight = weight / weight.sum()
    a, b = _near_one(x - weight @ x), means - (means @ weight)[:, None]
    squares = (b * b) @ weight
    return b @ (weight * a) / np.sqrt(np.where(squares > 0, squares, 1) * (weight @ a**2))


_EXACT: Final = 20_000
RESAMPLES: Final = 9_999
_LOGIT: Final = 6  # rows below which the statistic is the logit's


def permuted_superiority(
    values: Floats, in_smaller: Booleans, confidence: float, /
) -> tuple[float, float]:
    """Return the permutation p-value of the probability of superiority, and the critical value.

    Neubert and Brunner (CSDA 51, 2007), or the logit below 6 rows; exact up to 20,000, else 9,999.
    """
    order = np.argsort(values, kind="stable")
    ordered, observed = values[order], np.flatnonzero(in_smaller[order])
    size, n = len(ordered), len(observed)
    chosen = _all_or_some(size, n)
    if comb(size, n) > _EXACT:
        chosen = np.vstack([observed, chosen])
    first = np.searchsorted(ordered, ordered)
    tied = np.searchsorted(ordered, ordered, side="right") - first
    statistics = _statistics(chosen, first, tied)
    t = _statistics(observed[None], first, tied)[0]
    # rounding must not part equal permutations
    pvalue = float((statistics >= t * (1 - 1e-9)).mean())
    statistics.sort()
    return pvalue, float(statistics[int(confidence * len(statistics))])


@lru_cache(maxsize=4)
def _all_or_some(size: int, n: int) -> Integers:
    """List the subsets of n of so many positions, each sorted; draw some where they are many."""
    if comb(size, n) <= _EXACT:
        return np.array(list(combinations(range(size), n)))
    return _subsets(size, n)


def _subsets(size: int, n: int) -> Integers:
    """Draw subsets of n of so many positions, each sorted."""
    rng = np.random.default_rng(1)
    if size <= 20 * n:
        drawn = rng.random((RESAMPLES, size)).argpartition(n - 1, axis=1)[:, :n]
        return np.sort(drawn, axis=1)
    drawn = np.sort(rng.integers(0, size, (RESAMPLES, n)), axis=1)
    while (repeated := (np.diff(drawn, axis=1) == 0).any(axis=1)).any():
        again = rng.integers(0, size, (int(repeated.sum()), n))
        drawn[repeated] = np.sort(again, axis=1)
    return drawn


def _statistics(chosen: Integers, first: Integers, tied: Integers) -> Floats:
    """Return the absolute statistic of each subset, from places and numbers of tied values."""
    n, others = chosen.shape[1], len(first) - chosen.shape[1]
    at, here = first[chosen], np.arange(n)
    # at is sorted: tied values are runs in it
    begins = np.diff(at, axis=1, prepend=-1) > 0
    ends = np.roll(begins, -1, axis=1)
    own_below = np.maximum.accumulate(np.where(begins, here, 0), axis=1)
    after = np.minimum.accumulate(np.where(ends, here + 1, n)[:, ::-1], axis=1)[:, ::-1]
    own_tied = after - own_below
    tied_others = tied[chosen] - own_tied
    below = at - own_below + tied_others / 2
    place = below / others
    chance = place.mean(axis=1)
    if n == 1:  # no variance
        return np.abs(chance - 0.5)
    a = place.var(axis=1, ddof=1) / n
    # sums over the other group of its placements and of their squares, pair by pair
    above = others - below
    total = above.sum(axis=1) / n
    squares = ((2 * np.arange(n) + 1) * above).sum(axis=1) - (own_tied * tied_others).sum(
        axis=1
    ) / 4
    b = np.maximum(squares / n**2 - total**2 / others, 0) / max(others * (others - 1), 1)
    error = np.sqrt(a + b)
    away = np.abs(chance - 0.5)
    inside = error > 1e-12  # groups that do not overlap have no variance
    p, se = np.where(inside, chance, 0.5), np.where(inside, error, 1.0)
    top = np.abs(logit(p)) * p * (1 - p) if n < _LOGIT else away
    return np.where(inside, top / se, np.where(away > 1e-12, np.inf, 0.0))


def permuted_kruskal_wallis(group: Integers, rank: Floats, /) -> float:
    """Return the permutation p-value of Kruskal and Wallis' statistic, exact where few."""
    n = np.bincount(group)
    if len(n) == 2 and comb(len(rank), int(n[0])) <= _EXACT:
        sums_of_first = rank[np.array(list(combinations(range(len(rank)), int(n[0]))))].sum(axis=1)
        sums = np.stack([sums_of_first, rank.sum() - sums_of_first], axis=1)
    else:
        rng = np.random.default_rng(1)
        starts = np.concatenate([[0], n.cumsum()[:-1]])
        some = np.broadcast_to(rank, (RESAMPLES // 99, len(rank)))  # few enough for the cache
        drawn = [np.add.reduceat(rng.permuted(some, axis=1), starts, axis=1) for _ in range(99)]
        sums = np.vstack([np.bincount(group, weights=rank), *drawn])
    statistics = (sums**2 / n).sum(axis=1)
    actual = (np.bincount(group, weights=rank) ** 2 / n).sum()
    return float((statistics >= actual * (1 - 1e-12)).mean())


MIN_EFFECTIVE: Final = 10
"""With fewer effective clusters a correlation and the rank ANOVA have no test and no interval.

Their tests reject a true hypothesis too often then, the rank ANOVA at 0.05 in 0.10 to 0.12. Chi-
squared tests, comparisons of pairs and the logistic model keep their level (0.02 to 0.07), since
they have the degrees of freedom of the effective clusters.
"""
_SIGNS: Final = 9999
_ENUMERATED: Final = 13
_NORMAL: Final = 2000  # effective scores at which the excess kurtosis of their sum is below .001
_SIGNS_OF_BYTE: Final = 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[None], axis=0) - 1
_AT_ONCE: Final = 2_000_000  # counts in memory


def effective_clusters(weight: Floats, clusters: Integers, /) -> float:
    """Kish's effective number of clusters, (sum of w)^2 / sum of w^2, of the clusters' weights."""
    total = np.bincount(clusters, weight)
    return float(total.sum() ** 2 / (total**2).sum())


def too_few_clusters(effective: float, /) -> str | None:
    """Return why there is no test; None from :data:`MIN_EFFECTIVE` effective clusters on."""
    if effective >= MIN_EFFECTIVE:
        return None
    # rounded down: 9.97 are fewer than 10
    alike = np.floor(10 * effective) / 10
    return f"equivalent to {alike:.1f} units of equal size; {MIN_EFFECTIVE} are needed"


def leverage(x: Floats, y: Floats, level: str, method: str, /) -> tuple[Floats, Floats] | None:
    """Return d, u with sum(d u) proportional to the coefficient; None if it is not linear in y."""
    if level == "group_mean" and method == "pearson":
        values, group, size = np.unique(x, return_inverse=True, return_counts=True)
        return ((values - values.mean()) / size)[group], y - y.mean()
    if method == "pearson":  # weighted group means have the numerator of rows
        return x - x.mean(), y - y.mean()
    return None


def sign_flip_pvalue(
    d: Floats, u: Floats, clusters: Integers, /, *, rng: np.random.Generator
) -> float:
    """Two-sided p-value of no correlation: the wild cluster bootstrap of the score |sum of d u|.

    Cameron, Gelbach and Miller (Review of Economics and Statistics 90, 2008): all sign changes of
    up to 13 clusters, else 9,999; from 2,000 effective scores on the normal limit.
    """
    scores = np.bincount(clusters, d * u)
    scores = scores[np.bincount(clusters) > 0]
    squares = float(scores @ scores)
    if squares**2 >= _NORMAL * float((scores**4).sum()) > 0:
        return max(float(2 * ndtr(-abs(scores.sum()) / np.sqrt(squares))), SMALLEST_P)
    observed, n = abs(scores.sum()) * (1 - 1e-9), len(scores)
    if n <= _ENUMERATED:
        signs = np.array(list(product((-1, 1), repeat=n)))
        return float(np.mean(np.abs(signs @ scores) >= observed))
    scores = scores[np.argsort(np.abs(scores))]
    squared = np.cumsum(scores**2)
    normal = np.flatnonzero(squared**2 >= _NORMAL * np.cumsum(scores**4))
    n_normal = int(normal[-1]) + 1 if len(normal) and squared[-1] > 0 else 0
    deviation = np.sqrt(squared[n_normal - 1]) if n_normal else 0.0
    largest = scores[n_normal:]
    # eight signs a byte: the sum of eight scores is looked up in a table of 256
    eights = np.append(largest, np.zeros(-len(largest) % 8)).reshape(-1, 8)
    sums = deviation * rng.standard_normal(_SIGNS) if n_normal else np.zeros(_SIGNS)
    for eight in eights @ _SIGNS_OF_BYTE:
        sums += eight[rng.integers(0, 256, _SIGNS, dtype=np.uint8)]
    return (int(np.sum(np.abs(sums) >= observed)) + 1) / (_SIGNS + 1)


_MOST_TIMES: Final = 500


def ks_interval(
    x: Floats, y: Floats, /, *, confidence: float, resamples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return a bootstrap interval of the Kolmogorov-Smirnov distance, at least Kolmogorov's.

    Bickel and Freedman, Annals of Statistics 9, 1981.
    """
    both = np.concatenate([x, y])
    order = np.argsort(both, kind="stable")
    steps = np.concatenate([np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))])
    is_last = np.append(np.diff(both[order]) > 0, True)
    gaps = steps[order].cumsum()[is_last]
    n, m = len(x), len(y)
    at_once = max(1, _AT_ONCE // (n + m))
    largest = []
    for done in range(0, resamples, at_once):
        size = min(at_once, resamples - done)
        change = np.concatenate(
            [
                rng.multinomial(n, np.full(n, 1 / n), size=size) / n,
                rng.multinomial(m, np.full(m, 1 / m), size=size) / -m,
            ],
            axis=1,
        )[:, order].cumsum(axis=1)[:, is_last]
        largest.append(np.abs(change - gaps).max(axis=1))
    reach = float(np.quantile(np.concatenate(largest), confidence))
    reach = max(reach, float(kolmogi(1 - confidence)) * (1 / n + 1 / m) ** 0.5)
    distance = float(np.abs(gaps).max())
    return max(0.0, distance - reach), min(1.0, distance + reach)


def clustered_ks(
    x: Floats,
    y: Floats,
    cluster: Integers,
    /,
    *,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """Return p and interval of the Kolmogorov-Smirnov distance of two samples in clusters.

    Wild bootstrap of clusters around the common function (p) or each sample's own (interval).
    """
    if too_few_clusters(effective_clusters(np.ones(len(cluster)), cluster)):
        return np.nan, np.nan, np.nan
    both, m = np.concatenate([x, y]), int(cluster.max()) + 1
    times = np.unique(both)
    if len(times) > _MOST_TIMES:
        times = np.unique(np.quantile(both, np.linspace(0, 1, _MOST_TIMES), method="nearest"))
    at = np.minimum(np.searchsorted(times, both), len(times) - 1)
    below, size = [], []
    for rows in (slice(0, len(x)), slice(len(x), None)):
        counts = np.zeros((m, len(times)))
        np.add.at(counts, (cluster[rows], at[rows]), 1)
        below.append(counts.cumsum(axis=1))
        size.append(below[-1][:, -1:])
    common = (below[0] + below[1]).sum(axis=0) / len(both)
    functions = [part.sum(axis=0) / part[:, -1].sum() for part in below]
    distance = float(np.abs(functions[0] - functions[1]).max())
    null, influence = np.zeros((m, len(times))), np.zeros((m, len(times)))
    for sign, part, n, function in zip((1, -1), below, size, functions, strict=True):
        total = n.sum()
        null += sign * (part - n * common) / total
        # a sample of one cluster deviates from the common function
        alone = bool((n == total).any())
        away = part - n * (common if alone else function)
        influence += sign * away / total / (1 if alone else 1 - n / total)
    signs = rng.integers(0, 2, (resamples, m)) * 2.0 - 1
    as_large = int((np.abs(signs @ null).max(axis=1) >= distance * (1 - 1e-9)).sum())
    reach = float(np.quantile(np.abs(signs @ influence).max(axis=1), confidence))
    pvalue = (1 + as_large) / (1 + resamples)
    low = 0.0 if pvalue >= 1 - confidence else max(0.0, distance - reach)
    return pvalue, low, min(1.0, distance + reach)
