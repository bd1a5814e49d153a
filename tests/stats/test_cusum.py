"""Stretches found by cumulative sums, against a loop over the observations."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceana.stats.segments import highest_rise, rising_stretches


def by_loop(scores: list[int], threshold: int) -> list[tuple[int, int]]:
    """One observation at a time: outside, then inside a stretch."""
    found = []
    place = 0
    while place < len(scores):
        total, first = 0, place
        while place < len(scores) and total < threshold:
            if total <= 0:
                total, first = 0, place
            total += scores[place]
            place += 1
        if total < threshold:
            break
        highest, last = total, place - 1
        while place < len(scores) and highest - total < threshold:
            total += scores[place]
            if total > highest:
                highest, last = total, place
            place += 1
        found.append((first, last))
        place = last + 1
    return found


@given(scores=st.lists(st.integers(-3, 3), max_size=40), threshold=st.integers(1, 6))
def test_stretches_are_those_of_a_loop(scores: list[int], threshold: int) -> None:
    values = np.array(scores, dtype=float)
    assert rising_stretches(values, threshold=threshold) == by_loop(scores, threshold)
    rises = [sum(scores[a:b]) for a in range(len(scores)) for b in range(a + 1, len(scores) + 1)]
    assert highest_rise(values[None]).tolist() == [max([0, *rises])]


def test_a_gap_is_bridged_where_it_says_less_than_the_threshold() -> None:
    scores = np.array([-1, 1, 1, 1, -1, -1, 1, 1, 1, -1, -1, -1, 1], dtype=float)
    assert rising_stretches(scores, threshold=3) == [(1, 8)]
    assert rising_stretches(scores, threshold=2) == [(1, 3), (6, 8)]


def test_thirds_sum_to_one() -> None:
    assert rising_stretches(np.full(3, 1 / 3), threshold=1) == [(0, 2)]
    assert rising_stretches(np.full(2, 1 / 3), threshold=1) == []
