"""A job that recurs, one recurrence after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.schema.training_tables import check_eta
from traceana.simulate.recurring.run import MOST_TRIES, Run, Runner
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.simulate.recurring.job import JobTrace
    from traceana.simulate.recurring.policies import PolicyMaker, Rng


_MOST: Final = 1_000_000
"""Recurrences of a job, of which each run is kept."""


def recur(
    job: JobTrace, maker: PolicyMaker, /, *, eta: float, beta: float, recurrences: int, rng: Rng
) -> list[tuple[int, Run]]:
    """Return every run with the number of its recurrence, from 1."""
    runner = Runner(job, maker(job, eta, rng), eta=eta, beta=beta, rng=rng)
    policy = runner.batch_size_policy
    least_j = math.inf
    history = []
    for recurrence in range(1, recurrences + 1):
        spent_j = 0.0
        for _ in range(MOST_TRIES):
            run = runner.run(policy.predict(), least_j)
            cost_j = run.cost_j if run.epochs else runner.penalty_j(least_j)
            policy.observe(run.batch_size, run.power_limit_w, cost_j, run.reached)
            if not run.epochs:
                continue
            spent_j += run.cost_j
            history.append((recurrence, run))
            if run.reached:
                least_j = min(least_j, spent_j)
                break
            if recurrence == 1:
                raise DataError(_no_first(job, run))
        else:
            raise DataError(
                f"recurrence {recurrence} of {job.dataset} on {job.gpu} missed target "
                f"{job.target:g} in {MOST_TRIES} runs; a larger beta stops fewer runs early"
            )
    return history


def check_knobs(
    *, eta: float, beta: float, seeds: Sequence[int], recurrences: int | None = None
) -> None:
    """Refuse what cannot be weighed, bound or drawn."""
    check_eta(eta)
    if not (is_number(beta) and beta > 0):
        raise DataError(f"beta must be above 0 (infinite: no run is stopped early); it is {beta!r}")
    for seed in seeds:
        if not (is_number(seed, whole=True) and seed >= 0):
            raise DataError(
                f"rng must be a whole number from 0 on or a numpy Generator; it is {seed!r}"
            )
    if recurrences is not None and not (
        is_number(recurrences, whole=True) and 1 <= recurrences <= _MOST
    ):
        raise DataError(
            f"recurrences must be a whole number from 1 to {_MOST:,} or None; found {recurrences!r}"
        )


def count_recurrences(job: JobTrace, recurrences: int | None, /) -> int:
    """Return the given number, or twice the points of the grid."""
    return 2 * len(job.batches) * len(job.power_limits_w) if recurrences is None else recurrences


def _no_first(job: JobTrace, run: Run) -> str:
    sure = [
        str(size)
        for size, batch in job.batches.items()
        if all(epoch is not None and epoch <= job.max_epochs for epoch in batch.epochs)
    ]
    return (
        f"the first run of {job.dataset} on {job.gpu} must reach target {job.target:g}, and one of "
        f"batch size {run.batch_size} did not in {run.epochs} epochs; every run of these sizes "
        f"does: {', '.join(sure) or 'none'}"
    )
