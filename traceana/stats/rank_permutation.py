"""Permutation distributions of rank statistics of groups with few rows."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import logit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_EXACT: Final = 20_000
RESAMPLES: Final = 9_999
_LOGIT: Final = 6  # rows below which the statistic is the logit's


def permuted_superiority(
    values: Floats, in_smaller: NDArray[np.bool_], confidence: float, /
) -> tuple[float, float]:
    """Return the permutation p-value of the probability of superiority, and the critical value.

    The studentized permutation test of Neubert and Brunner (Computational Statistics & Data
    Analysis 51, 2007): the statistic is Brunner and Munzel's, or that of the logit for fewer than 6
    rows. Exact up to 20,000 permutations, else with 9,999 at random. Returns (pvalue, critical):
    the critical value is infinite where too few permutations are less extreme.
    """
    order = np.argsort(values, kind="stable")
    ordered, observed = values[order], np.flatnonzero(in_smaller[order])
    size, n = len(ordered), len(observed)
    chosen = _all_or_some(size, n)
    if comb(size, n) > _EXACT:
        chosen = np.vstack([observed, chosen])
    first = np.searchsorted(ordered, ordered)
    tied = np.searchsorted(ordered, ordered, side="right") - first
    found = _statistics(chosen, first, tied)
    t = _statistics(observed[None], first, tied)[0]
    # rounding must not part equal permutations
    pvalue = float((found >= t * (1 - 1e-9)).mean())
    found.sort()
    return pvalue, float(found[int(confidence * len(found))])


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
        found: Floats = np.abs(chance - 0.5)
        return found
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
    """Return the permutation p-value of Kruskal and Wallis' statistic.

    Exact for two groups up to 20,000 permutations, else with 9,999 at random.
    """
    n = np.bincount(group)
    if len(n) == 2 and comb(len(rank), int(n[0])) <= _EXACT:
        one = rank[np.array(list(combinations(range(len(rank)), int(n[0]))))].sum(axis=1)
        sums = np.stack([one, rank.sum() - one], axis=1)
    else:
        rng = np.random.default_rng(1)
        starts = np.concatenate([[0], n.cumsum()[:-1]])
        some = np.broadcast_to(rank, (RESAMPLES // 99, len(rank)))  # few enough for the cache
        drawn = [np.add.reduceat(rng.permuted(some, axis=1), starts, axis=1) for _ in range(99)]
        sums = np.vstack([np.bincount(group, weights=rank), *drawn])
    found = (sums**2 / n).sum(axis=1)
    actual = (np.bincount(group, weights=rank) ** 2 / n).sum()
    return float((found >= actual * (1 - 1e-12)).mean())
