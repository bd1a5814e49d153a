"""Queueing policies of rigid jobs: each runs on the GPUs that it requests."""

from __future__ import annotations

import heapq
import math
from abc import abstractmethod
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from traceana.simulate.schedule.policy import SchedulingPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceana.simulate.schedule.policy import ScheduleState


class FirstInFirstOut(SchedulingPolicy):
    """Jobs start in order of submission; later jobs wait behind the first that does not fit."""


class Ranked(SchedulingPolicy):
    """Jobs start in order of a rank that is fixed at submission, without backfilling."""

    def __init__(self) -> None:
        self._queue: list[tuple[float, int]] = []

    @abstractmethod
    def rank(self, state: ScheduleState, job: int, /) -> float:
        """Return the rank of an arriving job; the smallest starts first."""

    def admit(self, state: ScheduleState, arrived: Sequence[int], /) -> Sequence[int]:
        """Rank the arrived jobs."""
        for job in arrived:
            heapq.heappush(self._queue, (self.rank(state, job), job))
        return arrived

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
        """Start jobs in order of (rank, submission) until one does not fit."""
        del order
        queue, free, gpus, changes = self._queue, state.free, state.jobs.gpus, {}
        while queue and gpus[queue[0][1]] <= free:
            job = heapq.heappop(queue)[1]
            changes[job] = gpus[job]
            free -= gpus[job]
        return changes


class ShortestJobFirst(Ranked):
    """The waiting job with the shortest runtime starts first; runtimes are known."""

    def rank(self, state: ScheduleState, job: int, /) -> float:
        """Return the runtime."""
        return state.jobs.runtime_s[job]


class Priority(Ranked):
    """The waiting job with the highest priority starts first; equal ones by submission."""

    def rank(self, state: ScheduleState, job: int, /) -> float:
        """Return the negative priority."""
        return -state.jobs.priority[job]


class PredictedShortestJobFirst(Ranked):
    """The job with the shortest prediction starts first.

    A prediction uses the jobs of the same user and name that have ended by the submission on the
    same number of GPUs, else on any number; else those of the user on that number, else on any;
    else all jobs on that number of GPUs, else 0.

    Parameters
    ----------
    last
        Predict the runtime of the last ended job rather than their mean.
    """

    def __init__(self, *, last: bool = False) -> None:
        super().__init__()
        self._last = last
        self._seen: dict[object, tuple[float, int]] = {}

    def rank(self, state: ScheduleState, job: int, /) -> float:
        """Return the predicted runtime."""
        for key in self._keys(state, job):
            if key in self._seen:
                total, n = self._seen[key]
                return total / n
        return 0.0

    def finish(self, state: ScheduleState, ended: Sequence[int], /) -> None:
        """Learn from ended jobs."""
        for job in ended:
            runtime = state.jobs.runtime_s[job]
            for key in self._keys(state, job):
                total, n = (0.0, 0) if self._last else self._seen.get(key, (0.0, 0))
                self._seen[key] = (total + runtime, n + 1)

    @staticmethod
    def _keys(state: ScheduleState, job: int) -> tuple[object, ...]:
        user, gpus = state.jobs.user[job], state.jobs.gpus[job]
        name = state.jobs.job_name[job] if state.jobs.job_name else ""
        named = ((user, name, gpus), (user, name)) if name else ()
        return (*named, (user, gpus), user, gpus)


class FairShare(SchedulingPolicy):
    """The user with the least GPU time so far starts the next job, without backfilling.

    GPU time counts up to now, of running jobs too. Jobs of one user start by submission; users with
    equal GPU time by the submission of their first waiting job.
    """

    def __init__(self) -> None:
        self._queues: dict[str, deque[int]] = {}
        self._used: dict[str, float] = defaultdict(float)
        self._gpus: dict[str, int] = defaultdict(int)
        self._since = -math.inf

    def admit(self, state: ScheduleState, arrived: Sequence[int], /) -> Sequence[int]:
        """Queue the arrived jobs by user."""
        for job in arrived:
            self._queues.setdefault(state.jobs.user[job], deque()).append(job)
        return arrived

    def finish(self, state: ScheduleState, ended: Sequence[int], /) -> None:
        """Charge running jobs up to now, and release the ended ones."""
        self._charge(state.now)
        for job in ended:
            self._gpus[state.jobs.user[job]] -= state.jobs.gpus[job]

    def _charge(self, now: float) -> None:
        if self._since > -math.inf:
            for user, gpus in self._gpus.items():
                self._used[user] += gpus * (now - self._since)
        self._since = now

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
        """Start jobs of the users with the least GPU time until one does not fit."""
        del order
        self._charge(state.now)
        free, gpus, changes = state.free, state.jobs.gpus, {}
        ranked = [(self._used[user], queue[0], user) for user, queue in self._queues.items()]
        heapq.heapify(ranked)
        while ranked:
            used, job, user = ranked[0]
            if gpus[job] > free:
                break
            changes[job] = gpus[job]
            free -= gpus[job]
            self._gpus[user] += gpus[job]
            queue = self._queues[user]
            queue.popleft()
            if queue:
                heapq.heapreplace(ranked, (used, queue[0], user))
            else:
                heapq.heappop(ranked)
                del self._queues[user]
        return changes


class ShortestRemainingTimeFirst(SchedulingPolicy):
    """Jobs with the least runtime left run; longer ones are interrupted without a loss.

    At each arrival and end, jobs in order of (runtime left, submission) get their GPUs where they
    fit; smaller jobs may fill what a larger one leaves.
    """

    def order(self, state: ScheduleState, /) -> list[int]:
        """Return all jobs by runtime left."""
        active = [*state.running, *state.waiting]
        return sorted(active, key=lambda job: (state.remaining(job), job))

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> Mapping[int, int]:
        """Give each job in order its GPUs where they fit."""
        return fit_in_order(state, order)


def fit_in_order(state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
    """Return the changes that let all jobs in order run where they fit, interrupting others."""
    free, gpus, running = state.gpus, state.jobs.gpus, state.running
    if not state.waiting:
        return {}
    changes = dict.fromkeys(running, 0)
    for job in order:
        if gpus[job] <= free:
            free -= gpus[job]
            if job in running:
                del changes[job]
            else:
                changes[job] = gpus[job]
            if not free:
                break
    return changes
