"""Runs of a job: one, recurrence after recurrence, or concurrent ones on the clock; their sums."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.schema.training_tables import check_eta
from traceana.simulate.recurring.tables import LAST, References, Runs
from traceana.stats.arguments import is_number, takes
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceana.simulate.recurring.policies import Policies, PolicyMaker, Rng
    from traceana.simulate.recurring.read import BatchTrace, JobTrace


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


class Submission(NamedTuple):
    """A job of a group as its trace has it."""

    start_s: float
    end_s: float
    runtime_ratio: float


class Ended(NamedTuple):
    """A run of a group that has ended; its run is not yet scaled by runtime_ratio."""

    recurrence: int
    runtime_ratio: float
    start_s: float
    end_s: float
    concurrent: bool
    run: Run


@dataclass
class _InFlight:
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
) -> list[Ended]:
    """Return the runs of a group in the order in which they end.

    A run takes its recorded time on the trace's clock, whatever its simulated time is; its
    outcome is known to the policy when it ends. A job that starts while others run takes the
    batch size of the cheapest run so far, the default while there is none; else the policy
    chooses. A run that misses the target is repeated when it ends, for as long.
    """
    group = _Group(Runner(job, maker(job, eta, rng), eta=eta, beta=beta, rng=rng))
    in_order = sorted(submissions, key=lambda submission: submission.start_s)
    for recurrence, submission in enumerate(in_order, 1):
        group.end_until(submission.start_s)
        group.start(recurrence, submission, tries=1)
    group.end_until(math.inf)
    return group.ended


class _Group:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._in_flight: list[tuple[float, int, _InFlight]] = []
        self._started = 0
        self._least_j = math.inf
        self._cheapest = runner.job.default_batch_size
        self.ended: list[Ended] = []

    def start(self, recurrence: int, submission: Submission, *, tries: int) -> None:
        concurrent = bool(self._in_flight)
        policy = self._runner.batch_size_policy
        size = self._cheapest if concurrent else policy.predict()
        run = self._runner.run(size, self._least_j)
        begun = _InFlight(recurrence, tries, submission, concurrent, run, self._least_j)
        self._started += 1  # those that end at once do so in the order they began
        heapq.heappush(self._in_flight, (submission.end_s, self._started, begun))

    def end_until(self, now_s: float) -> None:
        while self._in_flight and self._in_flight[0][0] <= now_s:
            self._end(heapq.heappop(self._in_flight)[2])

    def _end(self, job: _InFlight) -> None:
        run = job.run
        start_s, end_s, ratio = job.submission
        cost_j = run.cost_j if run.epochs else self._runner.penalty_j(job.least_j)
        self._runner.batch_size_policy.observe(
            run.batch_size, run.power_limit_w, cost_j, run.reached
        )
        if run.epochs:
            self.ended.append(Ended(job.recurrence, ratio, start_s, end_s, job.concurrent, run))
        if run.reached:
            if run.cost_j < self._least_j:
                self._least_j, self._cheapest = run.cost_j, run.batch_size
            return
        if job.tries == MOST_TRIES:
            trace = self._runner.job
            raise DataError(
                f"recurrence {job.recurrence} of {trace.dataset} on {trace.gpu} missed target "
                f"{trace.target:g} in {MOST_TRIES} runs; a larger beta stops fewer runs early"
            )
        again = Submission(end_s, 2 * end_s - start_s, ratio)
        self.start(job.recurrence, again, tries=job.tries + 1)


_MEASURES: Final = ("energy_j", "time_s", "cost_j")


def history_frame(history: Sequence[tuple[int, Run]], /) -> pl.DataFrame:
    """Return a history as a frame, one row per run."""
    rows = [(recurrence, *run) for recurrence, run in history]
    return pl.DataFrame(rows, schema=schema_of(Runs), orient="row")


def reference_points(job: JobTrace, /, *, eta: float) -> pl.DataFrame:
    """Return the expected energy, time and cost of the default and of the oracle.

    They are null, with a note, where a run misses the target or the point was not measured.
    """
    points = {"default": (job.default_batch_size, job.max_power_w), "oracle": job.best(eta)}
    rows = []
    for policy, point in points.items():
        expected = point and job.expected(*point)
        row: dict[str, object] = {"policy": policy}
        if point:
            row |= {"batch_size": point[0], "power_limit_w": point[1]}
        if expected:
            measures = (*expected, job.cost(*expected, eta))
            row |= dict(zip(_MEASURES, measures, strict=True))
        else:
            row["note"] = _why_unknown(job, policy)
        rows.append(row)
    return pl.DataFrame(rows, schema=schema_of(References))


def _why_unknown(job: JobTrace, policy: str) -> str:
    if policy == "oracle":
        return "of every batch size a run missed the target"
    if job.max_power_w not in job.batches[job.default_batch_size].limits:
        return f"batch size {job.default_batch_size} was not profiled at {job.max_power_w:g} W"
    return f"a run of batch size {job.default_batch_size} missed the target"


def by_recurrence(history: pl.DataFrame, references: pl.DataFrame, /) -> pl.DataFrame:
    """Sum the runs of each recurrence; regret is null where there is no oracle."""
    oracle_j = references.filter(policy="oracle")["cost_j"].item()
    return (
        history.group_by("recurrence", maintain_order=True)
        .agg(
            runs=pl.len().cast(pl.Int64),
            batch_size=pl.col("batch_size").last(),
            power_limit_w=pl.col("power_limit_w").last(),
            energy_j=pl.col("energy_j").sum(),
            time_s=pl.col("time_s").sum(),
            cost_j=pl.col("cost_j").sum(),
        )
        .with_columns(
            cumulative_cost_j=pl.col("cost_j").cum_sum(),
            regret_j=pl.col("cost_j") - pl.lit(oracle_j, pl.Float64),
        )
        .with_columns(cumulative_regret_j=pl.col("regret_j").cum_sum())
    )


def replication(
    job: JobTrace, history: Sequence[tuple[int, Run]], references: pl.DataFrame, /
) -> dict[str, object]:
    """Return sums, savings of the last recurrences and regret of a history.

    energy_saved = 1 - (mean energy of the last five recurrences, all their runs) / (the default's
    expected energy), and so for time and cost; null where the default's is unknown.
    """
    runs = [run for _, run in history]
    recurrences = history[-1][0]
    last = min(LAST, recurrences)
    ended = [run for recurrence, run in history if recurrence > recurrences - last]
    default, oracle = references.rows(named=True)
    row: dict[str, object] = {
        "recurrences": recurrences,
        "runs": len(runs),
        "runs_missed": sum(not run.reached for run in runs),
        "batch_sizes_tried": len({run.batch_size for run in runs}),
        "points_missing": int(job.gaps["points_missing"].sum()),
    }
    for measure in _MEASURES:
        row[measure] = sum(getattr(run, measure) for run in runs)
        mean = sum(getattr(run, measure) for run in ended) / last
        saved = measure.rsplit("_", 1)[0] + "_saved"
        row[saved] = None if default[measure] is None else 1 - mean / default[measure]
    cost_j = sum(run.cost_j for run in runs)
    expected_j = None if oracle["cost_j"] is None else recurrences * oracle["cost_j"]
    row["regret_j"] = None if expected_j is None else cost_j - expected_j
    row["regret_fraction"] = None if not expected_j else cost_j / expected_j - 1
    return row
