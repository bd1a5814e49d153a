"""Stretches without an active unit: by hand, and against a brute force over all rotations."""

from __future__ import annotations

from itertools import product

import numpy as np

from traceana.stats.idle import active_slots, idle_stretches


def test_slots_are_active_from_the_first_to_the_last() -> None:
    found = active_slots(
        np.array([0, 0, 1]), np.array([1, 2, 0]), np.array([2, 3, 0]), units=2, slots=5
    )
    assert found.astype(int).tolist() == [[0, 1, 1, 1, 0], [1, 0, 0, 0, 0]]


def test_p_is_that_of_all_rotations_of_the_weeks() -> None:
    rng = np.random.default_rng(5)
    active = rng.random((3, 4, 6)) < 0.7
    active[:, 1, 1:5] = False  # what all lack at once
    weight = active.sum(axis=(0, 1)) / 4

    def longest(rows: np.ndarray) -> float:
        best = here = 0.0
        for busy, of_slot in zip(rows.any(axis=0).ravel(), np.tile(weight, 4), strict=True):
            here = 0.0 if busy else here + of_slot
            best = max(best, here)
        return best

    every = [
        longest(
            np.stack([np.roll(unit, by, axis=0) for unit, by in zip(active, turns, strict=True)])
        )
        for turns in product(range(4), repeat=3)
    ]
    exact = np.mean(np.array(every) >= longest(active) * (1 - 1e-12))
    (first, after, p), *_ = idle_stretches(active, resamples=4000, rng=1)
    assert {7, 8, 9, 10} <= set(range(first, after))
    assert abs(p - exact) < 4 * np.sqrt(exact * (1 - exact) / 4000) + 1e-3


def test_weeks_before_a_unit_began_are_not_those_of_a_gap() -> None:
    # a cluster that fills slowly has idle weeks, which no rotation within its active weeks removes
    active = np.zeros((6, 8, 10), dtype=bool)
    for unit in range(6):
        active[unit, unit:, :] = np.random.default_rng(unit).random((8 - unit, 10)) < 0.5
    assert min(p for *_, p in idle_stretches(active, resamples=500)) > 0.01


def test_always_busy_slots_have_no_stretch() -> None:
    assert idle_stretches(np.ones((2, 3, 4), dtype=bool)) == []
