"""Simulate one recurring job on the trace (Zeus, NSDI'23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from traceana.results.base import Result
from traceana.simulate.recurring.accounts import (
    LAST,
    by_recurrence,
    history_frame,
    reference_points,
    replication,
)
from traceana.simulate.recurring.policies import PolicyMaker, policy_maker
from traceana.simulate.recurring.read import read_job, read_tables
from traceana.simulate.recurring.recurrences import (
    check_knobs,
    check_recurrences,
    count_recurrences,
    recur,
)

if TYPE_CHECKING:
    from traceana.simulate.recurring.job import JobTrace


@dataclass(frozen=True, repr=False)
class RecurringResult(Result):
    """A recurring job, as :func:`traceana.simulate.simulate_recurring` plays it out.

    Attributes
    ----------
    job
        What the trace knows of the job; its `gaps` list what it does not.
    policy, eta, beta, seed
        The settings.
    history
        [recurrence, batch_size, power_limit_w, energy_j, time_s, cost_j, reached, epochs,
        profiled], one row a run in order, runs that missed the target included. profiled: the
        first epoch went over all power limits.
    recurrences
        [recurrence, runs, batch_size, power_limit_w, energy_j, time_s, cost_j,
        cumulative_cost_j, regret_j, cumulative_regret_j], one row a recurrence. regret_j: its
        cost less the oracle's expected cost, null where there is no oracle.
    references
        [policy, batch_size, power_limit_w, energy_j, time_s, cost_j, note]: what a recurrence is
        expected to take with the default and with the oracle.
    totals
        One row: [recurrences, runs, runs_missed, batch_sizes_tried, points_missing, energy_j,
        energy_saved, time_s, time_saved, cost_j, cost_saved, regret_j, regret_share]. The savings
        are those of the last five recurrences against the default.
    """

    job: JobTrace
    policy: str
    eta: float
    beta: float
    seed: int
    history: pl.DataFrame
    recurrences: pl.DataFrame
    references: pl.DataFrame
    totals: pl.DataFrame

    def summary(self) -> str:
        """Return a short text on the result."""
        row, job = self.totals.row(0, named=True), self.job
        lines = [
            (
                f"{job.dataset} on {job.gpu} to {job.target:g}, policy {self.policy}, "
                f"eta {self.eta:g}, beta {self.beta:g}, seed {self.seed}"
            ),
            (
                f"runs:    {row['runs']:,} in {row['recurrences']:,} recurrences, "
                f"{row['runs_missed']:,} missed the target"
            ),
            f"took:    {row['energy_j']:,.0f} J, {row['time_s']:,.0f} s",
        ]
        saved = [(name, row[f"{name}_saved"]) for name in ("energy", "time", "cost")]
        if row["energy_saved"] is not None:
            told = ", ".join(f"{100 * value:.1f} % of {name}" for name, value in saved)
            last = min(LAST, row["recurrences"])
            lines.append(f"saved:   {told} (last {last} recurrences, against the default)")
        if row["regret_j"] is not None:
            lines.append(
                f"regret:  {row['regret_j']:,.0f} J over the oracle, "
                f"{100 * row['regret_share']:.1f} % of its cost"
            )
        lines += [
            f"note:    no {name}: {note}"
            for name, note in self.references.select("policy", "note").drop_nulls().rows()
        ]
        if row["points_missing"]:
            lines.append(
                f"missing: {row['points_missing']:,} points (batch size, power limit) that the "
                f"trace cannot answer, of {job.gaps.height} batch sizes"
            )
        return "\n".join(lines)


def simulate_recurring(
    training_runs: pl.DataFrame | pl.LazyFrame,
    power_profiles: pl.DataFrame | pl.LazyFrame,
    /,
    *,
    gpu: str,
    dataset: str,
    target: float | None = None,
    eta: float = 0.5,
    beta: float = 2.0,
    recurrences: int | None = None,
    seed: int = 1,
    policy: str | PolicyMaker = "zeus",
) -> RecurringResult:
    """Let a job recur on the trace, its batch size and power limit chosen anew each time.

    A run draws one of the batch size's training paths. It is stopped after E = min(floor(beta *
    Cmin / c), max_epochs) epochs, with c the cost of an epoch at its power limit and Cmin the
    least cost of a recurrence so far, and reaches the target if the path does within E. A batch
    size whose first epoch is already too dear does not run; its policy is told 100 * beta * Cmin.
    A recurrence repeats runs until one reaches the target. cost = eta * energy + (1 - eta) *
    max_power * time. Where the policy knows no limit for a batch size, the run's first epoch is
    cut into equal shares, one a limit. Draws are made in the order of the publisher's own
    simulator, so that a seed gives its history, run for run.

    Parameters
    ----------
    training_runs, power_profiles
        The tables of those names, as Polars frames; the order of the runs counts.
    gpu, dataset, target
        Which job; target None is the data set's default. Default batch size and largest number of
        epochs are the data set's (:data:`traceana.schema.TRAINING_DEFAULTS`).
    eta
        Weight of energy against time in the cost, in [0, 1].
    beta
        A run may cost so many times the least cost so far; above 0, infinite for no early stop.
    recurrences
        None for twice the number of batch sizes times that of power limits.
    seed
        Of the paths drawn, and of the policy's own generator.
    policy
        "zeus", "default", "grid", "oracle"
        (:data:`traceana.simulate.recurring.policies.POLICIES`), or a function of (job, eta, seed)
        that returns a :class:`~traceana.simulate.recurring.policies.BatchSizePolicy` and a
        :class:`~traceana.simulate.recurring.policies.PowerLimitPolicy`.

    Raises
    ------
    DataError
        If a table is not as declared; the GPU, data set, target or policy is not there (those
        that are, are listed); no run reached the target; a setting is out of range; the first run
        misses the target; or a recurrence does in 20 runs.

    Examples
    --------
    >>> result = simulate_recurring(runs, power, gpu="v100", dataset="cifar100")  # doctest: +SKIP
    >>> print(result)  # doctest: +SKIP
    """
    check_knobs(eta=eta, beta=beta, seeds=[seed])
    check_recurrences(recurrences)
    name, maker = policy_maker(policy)
    tables = read_tables(training_runs, power_profiles)
    job = read_job(tables, gpu=gpu, dataset=dataset, target=target)
    number = count_recurrences(job, recurrences)
    runs = recur(job, maker, eta=eta, beta=beta, recurrences=number, seed=seed)
    history, references = history_frame(runs), reference_points(job, eta=eta)
    return RecurringResult(
        job=job,
        policy=name,
        eta=eta,
        beta=beta,
        seed=seed,
        history=history,
        recurrences=by_recurrence(history, references),
        references=references,
        totals=pl.DataFrame([replication(job, runs, references)]),
    )
