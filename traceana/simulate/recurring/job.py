"""A recurring job as recorded: runs by batch size, epochs by power limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl


class Epoch(NamedTuple):
    """One epoch at a batch size and power limit, as measured."""

    time_s: float
    mean_power_w: float
    energy_j: float


@dataclass(frozen=True)
class BatchTrace:
    """What is known of one batch size."""

    epochs: tuple[int | None, ...]
    """Epochs to the target of each run, in the trace's order; None: it never reached it."""
    limits: Mapping[float, Epoch]
    """An epoch by power limit in W, from the highest to the lowest."""
    profiling: Epoch
    """The first epoch of a run that profiles the limits: each limit has an equal part of it."""


@dataclass(frozen=True)
class JobTrace:
    """A data set trained to a target on a GPU: all that a policy and a simulation may know."""

    gpu: str
    dataset: str
    target: float
    """Which job it is."""
    default_batch_size: int
    """b0, cut to the largest batch size profiled on the GPU."""
    max_epochs: int
    """Epochs after which a run is given up."""
    max_power_w: float
    """The GPU's largest power limit: the power that time is weighed with."""
    batches: Mapping[int, BatchTrace]
    """By batch size, ascending: those both trained and profiled."""
    gaps: pl.DataFrame
    """[batch_size, runs, power_limits, points_missing, note]: batch sizes of which the trace
    answers nothing or not every power limit; points_missing counts (batch size, limit)."""

    @property
    def power_limits_w(self) -> list[float]:
        """Every power limit of any batch size, from the highest to the lowest."""
        return sorted({limit for batch in self.batches.values() for limit in batch.limits})[::-1]

    def expected(self, batch_size: int, power_limit_w: float, /) -> tuple[float, float] | None:
        """Return mean energy (J) and time (s) to the target over the runs of a batch size.

        None where the point is not in the trace, or a run does not reach it in max_epochs.
        """
        batch = self.batches.get(batch_size)
        if batch is None or power_limit_w not in batch.limits:
            return None
        reached = [e for e in batch.epochs if e is not None and e <= self.max_epochs]
        if len(reached) < len(batch.epochs):
            return None
        mean, epoch = sum(reached) / len(reached), batch.limits[power_limit_w]
        return mean * epoch.energy_j, mean * epoch.time_s

    def cost(self, energy_j: float, time_s: float, eta: float, /) -> float:
        """Return eta * energy + (1 - eta) * max_power * time, in J."""
        return eta * energy_j + (1 - eta) * self.max_power_w * time_s

    def best(self, eta: float, /) -> tuple[int, float] | None:
        """Return the feasible (batch size, power limit) of least expected cost."""
        costs = {
            (size, limit): self.cost(*expected, eta)
            for size, batch in self.batches.items()
            for limit in batch.limits
            if (expected := self.expected(size, limit)) is not None
        }
        return min(costs, key=costs.__getitem__) if costs else None
