"""Stretches of a series in which evidence of a change builds up (Page, Biometrika 41, 1954)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

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
