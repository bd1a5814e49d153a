"""One run of a job: a random training path, stopped above a cost threshold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceana.errors import DataError
from traceana.stats.arguments import takes

if TYPE_CHECKING:
    from traceana.simulate.recurring.job import BatchTrace, JobTrace
    from traceana.simulate.recurring.policies import Policies, Rng

MOST_TRIES = 20
"""Runs after which a recurrence that has not reached its target is given up."""


class Run(NamedTuple):
    """Result of a run; without an epoch if its first epoch exceeds the cost threshold."""

    batch_size: int
    power_limit_w: float
    energy_j: float
    time_s: float
    cost_j: float
    reached: bool
    epochs: int
    profiled: bool


class Runner:
    """Runs a job at given batch sizes and at the power limits that its policy chooses."""

    def __init__(
        self, job: JobTrace, policies: Policies, *, eta: float, beta: float, rng: Rng
    ) -> None:
        self.job = job
        if not (isinstance(policies, tuple) and len(policies) == 2):
            raise DataError(
                "a policy's function must return a pair (batch size policy, power limit policy); "
                f"it returned {policies!r}"
            )
        self.batch_size_policy, self._limits = policies
        for policy, what, asked, observed in (
            (policies[0], "batch size", 0, 4),
            (policies[1], "power limit", 1, 3),
        ):
            if not all(
                takes(getattr(policy, name, None), count)
                for name, count in (("predict", asked), ("observe", observed))
            ):
                raise DataError(
                    f"the {what} policy {type(policy).__name__} must have predict, which takes "
                    f"{asked} arguments, and observe, which takes {observed}"
                )
        self._eta = eta
        self._time_weight_w = (1 - eta) * job.max_power_w
        self._beta = beta
        self._rng = np.random.default_rng(rng)

    def run(self, batch_size: int, least_cost_j: float, /) -> Run:
        """Run the job once, given the least cost of a recurrence so far (infinite: none)."""
        batch = self.job.batches.get(batch_size)
        if batch is None:
            choices = ", ".join(map(str, self.job.batches))
            raise DataError(f"the policy chose batch size {batch_size!r}; there is {choices}")
        limit = self._limits.predict(batch_size)
        profiling = limit is None
        if limit is None:
            for profiled, epoch in batch.limits.items():
                weight_w = self._eta * epoch.mean_power_w + self._time_weight_w
                self._limits.observe(batch_size, profiled, weight_w * epoch.time_s)
            limit = self._limits.predict(batch_size)
        if limit is None or limit not in batch.limits:
            choices = ", ".join(f"{each:g}" for each in batch.limits)
            raise DataError(
                f"the policy chose power limit {limit!r} W at batch size {batch_size}; "
                f"there is {choices}"
            )
        return self._run(batch, batch_size, limit, self._beta * least_cost_j, profiling=profiling)

    def _run(
        self, batch: BatchTrace, batch_size: int, limit: float, bound_j: float, *, profiling: bool
    ) -> Run:
        # the same draw as choice(n, size=1, replace=False), at a fifth of its time
        path = batch.epochs[self._rng.integers(len(batch.epochs))]
        epoch = batch.limits[limit]
        most = self.job.max_epochs
        if bound_j < math.inf:
            cost_j = self._eta * epoch.energy_j + self._time_weight_w * epoch.time_s
            # floor division is exact where the quotient of two floats is rounded up first
            most = int(min(bound_j // cost_j, most))
        reached = path is not None and path <= most
        epochs = path if path is not None and reached else most
        if profiling:
            energy_j = batch.profiling.energy_j + epoch.energy_j * (epochs - 1)
            time_s = batch.profiling.time_s + epoch.time_s * (epochs - 1)
        else:
            energy_j, time_s = epoch.energy_j * epochs, epoch.time_s * epochs
        cost_j = self._eta * energy_j + self._time_weight_w * time_s
        return Run(batch_size, limit, energy_j, time_s, cost_j, reached, epochs, profiling)

    def penalty_j(self, least_cost_j: float, /) -> float:
        """Return the cost observed by a batch size whose first epoch exceeds the threshold."""
        return 100 * self._beta * least_cost_j
