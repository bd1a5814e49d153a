"""Runs of a recurring job: one, recurrence after recurrence, or concurrent ones on the clock."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.schema.training_tables import check_eta
from traceana.simulate.recurring.policies import PolicyMaker, Rng
from traceana.simulate.recurring.read import JobTrace
from traceana.simulate.recurring.tables import LAST, References
from traceana.stats.arguments import is_number, takes
from traceana.tables.declare import schema_of

MOST_TRIES: Final = 20
"""Runs after which a recurrence that has not reached its target is given up."""
_MOST: Final = 1_000_000
"""Recurrences of a job, of which each run is kept."""
MEASURES: Final = ("energy_j", "time_s", "cost_j")


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
    """Runs a job at the batch sizes and power limits that its policies choose."""

    def __init__(
        self, job: JobTrace, maker: PolicyMaker, *, eta: float, beta: float, rng: Rng
    ) -> None:
        policies = maker(job, eta, rng)
        if not (isinstance(policies, tuple) and len(policies) == 2):
            raise DataError(
                "a policy's function must return a pair (batch size policy, power limit policy); "
                f"it returned {policies!r}"
            )
        self.job = job
        self.batch_sizes, self._limits = policies
        needed = (("batch size", 0, 4), ("power limit", 1, 3))
        for policy, (what, asked, observed) in zip(policies, needed, strict=True):
            methods = (getattr(policy, name, None) for name in ("predict", "observe"))
            if not all(map(takes, methods, (asked, observed))):
                raise DataError(
                    f"the {what} policy {type(policy).__name__} must have predict, which takes "
                    f"{asked} arguments, and observe, which takes {observed}"
                )
        self._eta, self._beta = eta, beta
        self._time_weight_w = (1 - eta) * job.max_power_w
        self._rng = np.random.default_rng(rng)

    def run(self, batch_size: int, least_cost_j: float, /) -> Run:
        """Run the job once, given the least cost of a recurrence so far (infinite: none)."""
        batch = self.job.batches.get(batch_size)
        if batch is None:
            choices = ", ".join(map(str, self.job.batches))
            raise DataError(f"the policy chose batch size {batch_size!r}; found {choices}")
        limit = self._limits.predict(batch_size)
        if profiling := limit is None:
            for profiled, epoch in batch.limits.items():
                weight_w = self._eta * epoch.mean_power_w + self._time_weight_w
                self._limits.observe(batch_size, profiled, weight_w * epoch.time_s)
            limit = self._limits.predict(batch_size)
        if limit is None or limit not in batch.limits:
            choices = ", ".join(f"{each:g}" for each in batch.limits)
            raise DataError(
                f"the policy chose power limit {limit!r} W at batch size {batch_size}; "
                f"found {choices}"
            )
        # the same draw as choice(n, size=1, replace=False), at a fifth of its time
        path = batch.epochs[self._rng.integers(len(batch.epochs))]
        epoch, most = batch.limits[limit], self.job.max_epochs
        bound_j = self._beta * least_cost_j
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

    def observe(self, run: Run, least_cost_j: float, /) -> None:
        """Let the policy observe a run, at a high cost if its first epoch exceeds the bound."""
        cost_j = run.cost_j if run.epochs else 100 * self._beta * least_cost_j
        self.batch_sizes.observe(run.batch_size, run.power_limit_w, cost_j, run.reached)

    def give_up(self, recurrence: int, /) -> DataError:
        """Return the error of a recurrence that misses its target again and again."""
        return DataError(
            f"recurrence {recurrence} of {self.job.dataset} on {self.job.gpu} missed target "
            f"{self.job.target:g} in {MOST_TRIES} runs; a larger beta stops fewer runs early"
        )


def check_knobs(*, eta: float, beta: float, recurrences: int | None = None) -> None:
    """Refuse what cannot be weighed, bound or counted."""
    check_eta(eta)
    if not (is_number(beta) and beta > 0):
        raise DataError(f"beta must be above 0 (infinite: no run is stopped early); it is {beta!r}")
    if recurrences is not None and not (
        is_number(recurrences, whole=True) and 1 <= recurrences <= _MOST
    ):
        raise DataError(
            f"recurrences must be a whole number from 1 to {_MOST:,} or None; found {recurrences!r}"
        )


def recur(
    job: JobTrace,
    maker: PolicyMaker,
    /,
    *,
    eta: float,
    beta: float,
    recurrences: int | None,
    rng: Rng,
) -> list[tuple[int, Run]]:
    """Return every run with the number of its recurrence, by default twice the grid's points."""
    number = recurrences or 2 * len(job.batches) * len(job.power_limits_w)
    runner = Runner(job, maker, eta=eta, beta=beta, rng=rng)
    least_j = math.inf
    history = []
    for recurrence in range(1, number + 1):
        spent_j = 0.0
        for _ in range(MOST_TRIES):
            run = runner.run(runner.batch_sizes.predict(), least_j)
            runner.observe(run, least_j)
            if not run.epochs:
                continue
            spent_j += run.cost_j
            history.append((recurrence, run))
            if run.reached:
                least_j = min(least_j, spent_j)
                break
            if recurrence == 1:
                sure = ", ".join(str(size) for size in job.batches if job.epochs(size))
                raise DataError(
                    f"the first run of {job.dataset} on {job.gpu} must reach target "
                    f"{job.target:g}, and one of batch size {run.batch_size} did not in "
                    f"{run.epochs} epochs; every run of these sizes does: {sure or 'none'}"
                )
        else:
            raise runner.give_up(recurrence)
    return history


class Submission(NamedTuple):
    """A job of a group as its trace has it."""

    start_s: float
    end_s: float
    runtime_ratio: float


class Flight(NamedTuple):
    """A run of a group on the clock of the trace, not yet scaled by runtime_ratio."""

    recurrence: int
    tries: int
    submission: Submission
    concurrent: bool
    run: Run
    least_j: float


def recur_concurrently(
    job: JobTrace,
    maker: PolicyMaker,
    submissions: Iterable[Submission],
    /,
    *,
    eta: float,
    beta: float,
    rng: int,
) -> list[Flight]:
    """Return the runs of a group in the order in which they end.

    A run takes its recorded time, and is repeated if it misses the target; its policy observes it
    at its end. A job that starts while others run takes the cheapest batch size so far.
    """
    runner = Runner(job, maker, eta=eta, beta=beta, rng=rng)
    in_flight: list[tuple[float, int, Flight]] = []
    ended: list[Flight] = []
    started = count()  # those that end at once do so in the order they began
    least_j, cheapest = math.inf, job.default_batch_size

    def start(recurrence: int, submission: Submission, tries: int) -> None:
        concurrent = bool(in_flight)
        run = runner.run(cheapest if concurrent else runner.batch_sizes.predict(), least_j)
        flight = Flight(recurrence, tries, submission, concurrent, run, least_j)
        heapq.heappush(in_flight, (submission.end_s, next(started), flight))

    in_order = sorted(submissions, key=lambda submission: submission.start_s)
    for recurrence, submission in enumerate([*in_order, None], 1):
        now_s = submission.start_s if submission else math.inf
        while in_flight and in_flight[0][0] <= now_s:
            flight = heapq.heappop(in_flight)[2]
            run, (start_s, end_s, ratio) = flight.run, flight.submission
            runner.observe(run, flight.least_j)
            if run.epochs:
                ended.append(flight)
            if not run.reached:
                if flight.tries == MOST_TRIES:
                    raise runner.give_up(flight.recurrence)
                again = Submission(end_s, 2 * end_s - start_s, ratio)
                start(flight.recurrence, again, flight.tries + 1)
            elif run.cost_j < least_j:
                least_j, cheapest = run.cost_j, run.batch_size
        if submission:
            start(recurrence, submission, 1)
    return ended


def reference_points(job: JobTrace, /, *, eta: float) -> pl.DataFrame:
    """Return the expected energy, time and cost of the default and of the oracle, or why not."""
    points = {"default": (job.default_batch_size, job.max_power_w), "oracle": job.best(eta)}
    rows = []
    for policy, point in points.items():
        expected = point and job.expected(*point)
        spent = (*expected, job.cost(*expected, eta)) if expected else (None,) * 3
        why = f"no {policy}: a run missed the target, or the power limit was not profiled"
        rows.append((policy, *(point or (None, None)), *spent, None if expected else why))
    return pl.DataFrame(rows, schema=schema_of(References), orient="row")


def by_recurrence(history: pl.DataFrame, references: pl.DataFrame, /) -> pl.DataFrame:
    """Sum the runs of each recurrence; regret is null where there is no oracle."""
    oracle_j = references.filter(policy="oracle")["cost_j"].item()
    return (
        history.group_by("recurrence", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("runs"),
            pl.col("batch_size", "power_limit_w").last(),
            pl.col(MEASURES).sum(),
        )
        .with_columns(regret_j=pl.col("cost_j") - pl.lit(oracle_j, pl.Float64))
        .with_columns(cumulative_regret_j=pl.col("regret_j").cum_sum())
    )


def replication(
    job: JobTrace, history: Sequence[tuple[int, Run]], references: pl.DataFrame, /
) -> dict[str, object]:
    """Return sums, savings of the last recurrences (1 - mean / expected default) and regret."""
    runs = [run for _, run in history]
    recurrences = history[-1][0]
    last = min(LAST, recurrences)
    ended = [run for recurrence, run in history if recurrence > recurrences - last]
    default, oracle = references.rows(named=True)
    row: dict[str, object] = {
        "recurrences": recurrences,
        "runs": len(runs),
        "runs_missed": sum(not run.reached for run in runs),
        "points_missing": job.points_missing,
    }
    for measure in MEASURES:
        row[measure] = sum(getattr(run, measure) for run in runs)
        mean = sum(getattr(run, measure) for run in ended) / last
        saved = measure.rsplit("_", 1)[0] + "_saved"
        row[saved] = None if default[measure] is None else 1 - mean / default[measure]
    cost_j = sum(run.cost_j for run in runs)
    expected_j = None if oracle["cost_j"] is None else recurrences * oracle["cost_j"]
    row["regret_j"] = None if expected_j is None else cost_j - expected_j
    row["regret_fraction"] = None if not expected_j else cost_j / expected_j - 1
    return row
