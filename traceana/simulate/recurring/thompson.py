"""Zeus' choice of a batch size: two rounds of pruning, then Gaussian Thompson sampling."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import numpy as np

from traceana.errors import DataError


class PruningThompson:
    """Prune the batch sizes that miss the target, then sample among those left.

    A round of pruning tries the default, then smaller sizes downwards, then larger ones upwards;
    a direction ends at its first failure. What reached the target goes on, and the cheapest of
    the round is the next round's default. Afterwards each size left is an arm of a Gaussian
    bandit without prior: with mean m, population variance v and number n of all its costs, draw
    from Normal(m, sqrt(v / n)) and take the smallest (Zeus, NSDI'23, section 4.4).

    Without pruning (`prunes`) all sizes are arms from the beginning.

    Runs that ended out of turn, as concurrent ones do, count as costs and not for pruning.
    """

    def __init__(
        self,
        batch_sizes: Sequence[int],
        default: int,
        *,
        rng: int | np.random.Generator = 1,
        prunes: bool = True,
    ) -> None:
        self._costs = {size: _Moments() for size in batch_sizes}
        self._pruning = _prune(sorted(batch_sizes), default, rounds=2)
        self._next: int | None = next(self._pruning) if prunes else None
        self._awaited: int | None = None
        # without pruning an arm never tried costs nothing, so that each is tried first
        self._arms: list[int] = [] if prunes else sorted(batch_sizes, key=lambda x: x != default)
        self._rng = np.random.default_rng(rng)

    def predict(self) -> int:
        """Return the size in turn while pruning, then the one with the smallest sampled cost."""
        if self._next is not None:
            self._awaited = self._next
            return self._next
        if not self._arms:
            raise DataError(
                "no batch size reached the target in both rounds of pruning; a larger beta stops "
                "fewer runs early"
            )
        arms = len(self._arms)
        # the reference implementation draws an order for arms not tried twice: none is left,
        # and the draw is made for its place in the stream
        self._rng.choice(arms, arms, replace=False)
        draws = self._rng.standard_normal(arms).tolist()
        sampled = [
            self._costs[arm].mean - self._costs[arm].error * draw
            for arm, draw in zip(self._arms, draws, strict=True)
        ]
        return self._arms[sampled.index(min(sampled))]

    def observe(
        self,
        batch_size: int,
        power_limit_w: float,  # noqa: ARG002
        cost_j: float,
        reached: bool,
    ) -> None:
        """Take a cost in, and go on pruning if it is the one waited for."""
        self._costs[batch_size].add(cost_j)
        if batch_size != self._awaited:
            return
        self._awaited = None
        try:
            self._next = self._pruning.send((cost_j, reached))
        except StopIteration as end:
            self._next, self._arms = None, end.value


def _prune(
    sizes: list[int], default: int, *, rounds: int
) -> Generator[int, tuple[float, bool], list[int]]:
    for _ in range(rounds):
        survivors: dict[int, float] = {}
        start = sizes.index(default)
        for direction in (sizes[start::-1], sizes[start + 1 :]):
            for size in direction:
                cost_j, reached = yield size
                if not reached:
                    break
                survivors[size] = cost_j
        if not survivors:
            return []
        default = min(survivors, key=survivors.__getitem__)
        sizes = sorted(survivors)
    return sizes


class _Moments:
    """Mean and its standard error, one value after the other (Welford)."""

    __slots__ = ("_n", "_squares", "error", "mean")

    def __init__(self) -> None:
        self._n = 0
        self._squares = 0.0
        self.mean = 0.0
        self.error = 0.0

    def add(self, value: float) -> None:
        self._n += 1
        step = value - self.mean
        self.mean += step / self._n
        self._squares += step * (value - self.mean)
        self.error = math.sqrt(self._squares) / self._n
