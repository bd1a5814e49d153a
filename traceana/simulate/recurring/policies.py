"""Who chooses the batch size and the power limit: two small protocols, and the policies by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from traceana.errors import DataError
from traceana.simulate.recurring.read import JobTrace
from traceana.stats.arguments import takes


class PruningThompson:
    """Prune the batch sizes that miss the target, then sample among those left (Zeus, section 4.4).

    A round of pruning tries the default, then smaller sizes downwards, then larger ones upwards,
    each until a failure; the cheapest is the default of the second round. Then each size left is an
    arm of a Gaussian bandit without prior: the smallest draw of Normal(m, sqrt(v / n)) of its costs
    is taken. Without pruning all sizes are arms. Runs that ended out of turn count as costs, not
    for pruning.
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
        self._pruning = _prune(sorted(batch_sizes), default)
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
        # and as many numbers as choice(arms, arms, replace=False) takes from the stream are drawn
        self._rng.bit_generator.random_raw(arms - 1, output=False)
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


def _prune(sizes: list[int], default: int) -> Generator[int, tuple[float, bool], list[int]]:
    for _ in range(2):
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


class BatchSizeOptimizer(Protocol):
    """Protocol of an optimizer that chooses the batch size of each run.

    Examples
    --------
    >>> from traceana.simulate import BatchSizeOptimizer
    >>> class Always:
    ...     def predict(self):
    ...         return 128
    ...     def observe(self, batch_size, power_limit_w, cost_j, reached):
    ...         pass
    ...
    >>> optimizer: BatchSizeOptimizer = Always()
    >>> optimizer.predict()
    128
    """

    def predict(self) -> int:
        """Return the batch size of the next run."""

    def observe(self, batch_size: int, power_limit_w: float, cost_j: float, reached: bool) -> None:
        """Observe a run that has ended, or did not start because of its cost."""


class PowerLimitOptimizer(Protocol):
    """Protocol of an optimizer that chooses the power limit of a batch size.

    Examples
    --------
    >>> from traceana.simulate import PowerLimitOptimizer
    >>> class Always:
    ...     def predict(self, batch_size):
    ...         return 150.0
    ...     def observe(self, batch_size, power_limit_w, epoch_cost_j):
    ...         pass
    ...
    >>> optimizer: PowerLimitOptimizer = Always()
    >>> optimizer.predict(128)
    150.0
    """

    def predict(self, batch_size: int) -> float | None:
        """Return the limit in W; None: profile the limits, then predict again."""

    def observe(self, batch_size: int, power_limit_w: float, epoch_cost_j: float) -> None:
        """Take note of what an epoch costs, for one limit after the other from the highest."""


Policies: TypeAlias = tuple[BatchSizeOptimizer, PowerLimitOptimizer]
Rng: TypeAlias = int | np.random.Generator
PolicyMaker: TypeAlias = Callable[[JobTrace, float, Rng], Policies]
"""Makes both policies from (job, eta, rng)."""


class JustInTime:
    """Profile the limits in a batch size's first epoch, then use the cheapest (Zeus)."""

    def __init__(self) -> None:
        self._best: dict[int, tuple[float, float]] = {}

    def predict(self, batch_size: int) -> float | None:
        """Return the cheapest limit, None while the batch size is not profiled."""
        best = self._best.get(batch_size)
        return best and best[1]

    def observe(self, batch_size: int, power_limit_w: float, epoch_cost_j: float) -> None:
        """Keep the limit if it is cheaper than all before it."""
        best = self._best.get(batch_size)
        if best is None or epoch_cost_j < best[0]:
            self._best[batch_size] = (epoch_cost_j, power_limit_w)


class Unlearned:
    """Choose by a function of what is asked, without learning."""

    def __init__(self, predict: Callable[..., Any]) -> None:
        self.predict = predict

    def observe(self, *_: float) -> None:
        """Learn nothing."""


class RunByRun:
    """Try each limit of a batch size in a run of its own, then use the cheapest (no profiling)."""

    def __init__(self, job: JobTrace, sizes: BatchSizeOptimizer) -> None:
        self.predict, self._sizes = sizes.predict, sizes
        self._limits = {size: batch.limits.keys() for size, batch in job.batches.items()}
        self._costs: dict[int, dict[float, float]] = {size: {} for size in job.batches}

    def observe(self, batch_size: int, power_limit_w: float, cost_j: float, reached: bool) -> None:
        """Keep the cost of the limit, and hand the run on."""
        self._sizes.observe(batch_size, power_limit_w, cost_j, reached)
        self._costs[batch_size].setdefault(power_limit_w, cost_j)

    def limit(self, batch_size: int) -> float:
        """Return the highest limit not tried, else the cheapest."""
        costs = self._costs[batch_size]
        untried = self._limits[batch_size] - costs.keys()
        return max(untried) if untried else min(costs, key=costs.__getitem__)


class GridSearch:
    """Try every (batch size, power limit) once, then keep to the cheapest that got there."""

    def __init__(self, job: JobTrace) -> None:
        sizes = sorted(job.batches, key=lambda size: size != job.default_batch_size)
        self._untried = (
            (size, limit)
            for limit in job.power_limits_w
            for size in sizes
            if limit in job.batches[size].limits
        )
        self._at = next(self._untried)
        self._costs: dict[tuple[int, float], float] = {}

    def predict(self) -> int:
        """Return the batch size of the point in turn."""
        return self._at[0]

    def observe(self, batch_size: int, power_limit_w: float, cost_j: float, reached: bool) -> None:
        """Go on to the next point; after the last to the cheapest."""
        point = (batch_size, power_limit_w)
        if reached:
            self._costs.setdefault(point, cost_j)
        if point == self._at:
            cheapest = min(self._costs, key=self._costs.__getitem__, default=point)
            self._at = next(self._untried, cheapest)

    def limit(self, _: int) -> float:
        """Return the power limit of the point in turn."""
        return self._at[1]


def _zeus(job: JobTrace, eta: float, rng: Rng, *, prunes: bool = True) -> Policies:  # noqa: ARG001
    sizes = list(job.batches)
    return PruningThompson(sizes, job.default_batch_size, rng=rng, prunes=prunes), JustInTime()


def _no_profiling(job: JobTrace, eta: float, rng: Rng) -> Policies:
    search = RunByRun(job, _zeus(job, eta, rng)[0])
    return search, Unlearned(search.limit)


def _fixed(batch_size: int, power_limit_w: float) -> Policies:
    return Unlearned(lambda: batch_size), Unlearned(lambda _: power_limit_w)


def _default(job: JobTrace, *_: object) -> Policies:
    return _fixed(job.default_batch_size, job.max_power_w)


def _grid(job: JobTrace, *_: object) -> Policies:
    search = GridSearch(job)
    return search, Unlearned(search.limit)


def _oracle(job: JobTrace, eta: float, _: Rng) -> Policies:
    best = job.best(eta)
    if best is None:
        raise DataError(
            f"{job.dataset} on {job.gpu} has no oracle: of every batch size a run missed the target"
        )
    return _fixed(*best)


POLICIES: Final[dict[str, PolicyMaker]] = {
    "zeus": _zeus,
    "zeus-no-pruning": partial(_zeus, prunes=False),
    "zeus-no-profiling": _no_profiling,
    "default": _default,
    "grid": _grid,
    "oracle": _oracle,
}
"""zeus: pruning, Gaussian Thompson sampling and just-in-time profiling. default: b0 at the largest
power limit. grid: each point once, then the best. oracle: the feasible point of least expected
cost, known from the start."""


def policy_maker(policy: str | PolicyMaker, /) -> tuple[str, PolicyMaker]:
    """Return a policy's name and its maker."""
    if isinstance(policy, str) and policy in POLICIES:
        return policy, POLICIES[policy]
    if isinstance(policy, str) or not takes(policy, 3):
        raise DataError(
            f"no policy is called {policy!r}; there are {', '.join(POLICIES)}, or a function of "
            "(job, eta, rng), on the command line as package.module:name"
        )
    return getattr(policy, "__name__", type(policy).__name__), policy
