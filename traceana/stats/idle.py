"""Times in which no unit is active, compared with units whose weeks are shifted."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from traceana.stats.arguments import as_generator, check_count
from traceana.stats.arrays import Floats, Integers

_FIRST: Final = 40
"""Resamples after which a stretch that is clearly no exception is given up."""
_CLEARLY: Final = 0.1


def active_slots(
    unit: Integers, first: Integers, last: Integers, /, *, units: int, slots: int
) -> NDArray[np.bool_]:
    """Return whether each unit is active in each slot; first and last slots of its intervals."""
    change = np.zeros((units, slots + 1), dtype=np.int32)
    np.add.at(change, (unit, first), 1)
    np.add.at(change, (unit, last + 1), -1)
    active: NDArray[np.bool_] = np.cumsum(change[:, :-1], axis=1) > 0
    return active


def idle_stretches(
    active: NDArray[np.bool_], /, *, resamples: int = 999, rng: int | np.random.Generator = 1
) -> list[tuple[int, int, float]]:
    """Return the stretches without an active unit, [first, after) and p, the longest first.

    `active` is by unit, week and slot of the week. A stretch is as long as the sum of the mean
    numbers of units that are active in its slots of the week. The null hypothesis is that units are
    independent, each with a weekly rhythm, bursts and a first and a last active week: the weeks of
    each unit, within these, are rotated by a random number. p is that of the longest stretch, as a
    familywise p of all (Monte Carlo, with 1 added to both counts).
    """
    check_count("resamples", resamples, most=1_000_000)
    units, weeks, slots = active.shape
    weight = active.sum(axis=(0, 1)) / weeks
    lengths, firsts, afters = _stretches(active.any(axis=0).ravel(), weight, weeks)
    if not len(lengths):
        return []
    order = np.argsort(-lengths, kind="stable")
    generator = as_generator(rng)
    of_week: NDArray[np.bool_] = np.any(active, axis=2)
    begin = of_week.argmax(axis=1)
    span = np.where(of_week.any(axis=1), weeks - of_week[:, ::-1].argmax(axis=1) - begin, 1)
    week, rows = np.arange(weeks)[None, :], np.arange(units)[:, None]
    packed = np.packbits(active, axis=2)
    longest: list[float] = []
    for drawn in range(1, resamples + 1):
        shift = generator.integers(0, span)[:, None]
        since = week - begin[:, None]
        inside = (since >= 0) & (since < span[:, None])
        moved = np.where(inside, begin[:, None] + (since - shift) % span[:, None], week)
        some = np.bitwise_or.reduce(packed[rows, moved], axis=0)
        busy = np.unpackbits(some, axis=1, count=slots).astype(bool)
        longest.append(float(_stretches(busy.ravel(), weight, weeks)[0].max(initial=0.0)))
        if drawn == _FIRST and np.mean(np.array(longest) >= lengths.max()) > _CLEARLY:
            break
    null = np.sort(longest)
    above = len(null) - np.searchsorted(null, lengths * (1 - 1e-12))
    pvalues = (above + 1) / (len(null) + 1)
    return [(int(firsts[i]), int(afters[i]), float(pvalues[i])) for i in order]


def _stretches(
    busy: NDArray[np.bool_], weight: Floats, weeks: int
) -> tuple[Floats, Integers, Integers]:
    """Return the weighted lengths of the stretches that are not busy, and their ends."""
    edges = np.diff(np.concatenate([[1], busy.view(np.int8), [1]]))
    first, after = np.flatnonzero(edges == -1), np.flatnonzero(edges == 1)
    clock = np.concatenate([[0.0], np.cumsum(np.tile(weight, weeks))])
    return clock[after] - clock[first], first, after
