"""Pruning by its definition, and the generator's draws one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from traceana.errors import DataError
from traceana.simulate.recurring.policies import PruningThompson

SIZES = [8, 16, 32, 64, 128]


def play(policy: PruningThompson, costs: dict[int, float | None], runs: int) -> list[int]:
    """Run so many times; a size without a cost misses the target."""
    chosen = []
    for _ in range(runs):
        size = policy.predict()
        chosen.append(size)
        cost = costs[size]
        policy.observe(size, 100.0, 99.0 if cost is None else cost, cost is not None)
    return chosen


def test_two_rounds_of_pruning() -> None:
    policy = PruningThompson(SIZES, 32, rng=1)
    costs: dict[int, float | None] = {8: None, 16: 3.0, 32: 2.0, 64: 1.0, 128: None}
    # down from the default to the first failure, then up; 64 is the next default
    assert play(policy, costs, 5) == [32, 16, 8, 64, 128]
    assert play(policy, costs, 3) == [64, 32, 16]
    # equal costs have no spread: the cheapest from now on
    assert play(policy, costs, 3) == [64] * 3


def test_the_first_of_equally_cheap_sizes_is_the_next_default() -> None:
    policy = PruningThompson(SIZES, 32, rng=1)
    assert play(policy, dict.fromkeys(SIZES, 5.0), 6) == [32, 16, 8, 64, 128, 32]


def test_nothing_left_is_an_error_when_the_next_size_is_wanted() -> None:
    policy = PruningThompson([8, 16], 8, rng=1)
    play(policy, {8: 1.0, 16: None}, 2)
    policy.observe(policy.predict(), 100.0, 1.0, False)
    with pytest.raises(DataError, match="both rounds of pruning"):
        policy.predict()


def test_a_run_that_ended_out_of_turn_does_not_prune() -> None:
    policy = PruningThompson(SIZES, 32, rng=1)
    assert policy.predict() == 32
    policy.observe(64, 100.0, 1.0, False)
    policy.observe(32, 100.0, 1.0, True)
    policy.observe(16, 100.0, 1.0, False)  # before it was asked for
    assert policy.predict() == 16


def test_each_choice_is_drawn_as_defined() -> None:
    seed, noise = 11, np.random.default_rng(0)
    policy = PruningThompson([1, 2, 3], 1, rng=seed)
    told: dict[int, list[float]] = {1: [], 2: [], 3: []}

    def run(size: int) -> None:
        cost = float(noise.normal(100, 10))
        told[size].append(cost)
        policy.observe(size, 100.0, cost, True)

    for _ in range(6):
        run(policy.predict())
    expected = np.random.default_rng(seed)
    for _ in range(200):
        expected.choice([1, 2, 3], 3, replace=False)
        sampled = {
            arm: expected.normal(-np.mean(costs), np.sqrt(np.var(costs) / len(costs)))
            for arm, costs in told.items()
        }
        size = policy.predict()
        assert size == max(sampled, key=lambda arm: sampled[arm])
        run(size)
    assert min(map(len, told.values())) >= 2


@pytest.mark.parametrize("n", range(1, 14))
def test_a_path_is_drawn_as_by_choice(n: int) -> None:
    # the simulation takes integers(n) for choice(n, size=1, replace=False), which is slower
    one, other = np.random.default_rng(n), np.random.default_rng(n)
    draw: Callable[[], int] = lambda: int(other.choice(n, size=1, replace=False)[0])  # noqa: E731
    assert [int(one.integers(n)) for _ in range(50)] == [draw() for _ in range(50)]
    assert one.bit_generator.state == other.bit_generator.state
