"""A group of recurring jobs on the clock: some start before earlier ones have ended."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from traceana.errors import DataError
from traceana.simulate.recurring.run import MOST_TRIES, Run, Runner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceana.simulate.recurring.job import JobTrace
    from traceana.simulate.recurring.policies import PolicyMaker


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
