"""Simulate one recurring job on the trace (Zeus, NSDI'23)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.simulate.recurring.energy_tables import read_tables
from traceana.simulate.recurring.policies import PolicyMaker, policy_maker
from traceana.simulate.recurring.read import read_job
from traceana.simulate.recurring.recurrences import (
    check_knobs,
    count_recurrences,
    recur,
)
from traceana.simulate.recurring.replications import (
    by_recurrence,
    history_frame,
    reference_points,
    replication,
)
from traceana.simulate.recurring.tables import RecurringResult as RecurringResult  # noqa: PLC0414  public in the stub

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.schema import TrainingDefaults


def simulate_recurring(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu: str,
    dataset: str,
    target: float | None = None,
    eta: float = 0.5,
    beta: float = 2.0,
    recurrences: int | None = None,
    rng: int | np.random.Generator = 1,
    defaults: TrainingDefaults | None = None,
    policy: str | PolicyMaker = "zeus",
) -> RecurringResult:
    """Simulate a recurring job that learns batch size and power limit.

    A run draws one training path of the batch size. It is stopped after E = min(floor(beta *
    Cmin / c), max_epochs) epochs, with c the cost of an epoch at its power limit and Cmin the
    least cost of a recurrence so far, and reaches the target if the path does within E. A batch
    size whose first epoch exceeds the bound does not run; its policy observes 100 * beta * Cmin.
    A recurrence repeats runs until one reaches the target. cost = eta * energy + (1 - eta) *
    max_power * time. If the policy has no limit for a batch size yet, the first epoch is
    divided equally among the limits. Draws are in the order of the
    published simulator, so a seed reproduces its history run by run.

    Parameters
    ----------
    training_runs, power_profiles
        The tables of those names, of any supported engine; the order of the runs matters.
    gpu, dataset, target
        As in :func:`energy_to_accuracy`.
    eta
        Weight of energy against time in the cost, in [0, 1].
    beta
        A run is stopped when it costs this many times the least cost so far; above 0, infinite for
        no early stop.
    recurrences
        Number of recurrences; None: twice the number of batch sizes times that of power limits.
    rng
        Seed or generator of the drawn paths and of the policy.
    defaults
        Default target, batch size and largest number of epochs by data set, such as those of
        :func:`traceana.training_defaults`; None: those of the Zeus traces.
    policy
        "zeus", "default", "grid" or "oracle", or a function of (job, eta, rng), `rng` being what is
        given here, that returns a :class:`BatchSizeOptimizer` and a :class:`PowerLimitOptimizer`
        (:doc:`/how-to/own-policies`).

    Raises
    ------
    DataError
        If no run reached the target, the first run misses it, or a recurrence does in 20 runs.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> result = traceana.simulate_recurring(runs, power, gpu="v100", dataset="cifar100")
    >>> result.history.select("recurrence", "batch_size", "power_limit_w").tail(2).rows()
    [(139, 128, 200.0), (140, 128, 200.0)]
    """
    seeds = [] if isinstance(rng, np.random.Generator) else [rng]
    check_knobs(eta=eta, beta=beta, seeds=seeds, recurrences=recurrences)
    name, maker = policy_maker(policy)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    job = read_job(tables, gpu=gpu, dataset=dataset, target=target)
    number = count_recurrences(job, recurrences)
    runs = recur(job, maker, eta=eta, beta=beta, recurrences=number, rng=rng)
    history, references = history_frame(runs), reference_points(job, eta=eta)
    return RecurringResult(
        gpu=gpu,
        dataset=dataset,
        target=job.target,
        policy=name,
        eta=eta,
        beta=beta,
        rng=rng,
        history=history,
        recurrences=by_recurrence(history, references),
        references=references,
        totals=pl.DataFrame([replication(job, runs, references)]),
        gaps=job.gaps,
        job=job,
    )
