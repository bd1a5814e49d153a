"""Policies of rigid jobs, which run on the GPUs that they request: queueing and backfilling."""

from __future__ import annotations

import heapq
import math
from abc import abstractmethod
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from traceana.simulate.schedule.policy import ContinuousClock, ScheduleState, SchedulingPolicy


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

    def allocate(self, state: ScheduleState, _: Iterable[int], /) -> dict[int, int]:
        """Start jobs in order of (rank, submission) until one does not fit."""
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
    """The job with the shortest prediction starts first: a mean, or the last value.

    A prediction uses the jobs of the same user and name that have ended by the submission on the
    same number of GPUs, else on any number; else those of the user on that number, else on any;
    else all jobs on that number of GPUs, else 0.
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
    """The user with the least GPU time up to now starts the next job, without backfilling.

    Jobs of one user start by submission; equal users by that of their first waiting job.
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

    def allocate(self, state: ScheduleState, _: Iterable[int], /) -> dict[int, int]:
        """Start jobs of the users with the least GPU time until one does not fit."""
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
    """Jobs with the least runtime left run where they fit; others are interrupted without loss."""

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
        count = gpus[job]
        if count <= free:
            free -= count
            if job in running:
                del changes[job]
            else:
                changes[job] = count
            if not free:
                break
    return changes


_GONE: Final = 1 << 62
"""GPUs of a job that does not wait."""


class EasyBackfilling(SchedulingPolicy):
    """First in, first out, where the first waiting job has a reservation (EASY).

    It is the earliest time at which enough running jobs have ended by the users' time limits (else
    their runtime; past it, now). A later job starts if it fits and either ends by then, by its
    limit, or needs only GPUs that the first job leaves free then.
    """

    def make_clock(self, state: ScheduleState, /) -> ContinuousClock:
        """Return a clock, and make room for the jobs."""
        self._ends: list[tuple[float, int]] = []
        self._expected: dict[int, float] = {}
        # GPUs and time limits of the waiting jobs in order of submission, up to the last arrived
        n, self._last = len(state.jobs), -1
        self._gpus, self._limits = np.full(n, _GONE), np.full(n, math.inf)
        return ContinuousClock(state)

    def admit(self, state: ScheduleState, arrived: Sequence[int], /) -> Sequence[int]:
        """Note the arrived jobs."""
        for job in arrived:
            self._gpus[job], self._limits[job] = state.jobs.gpus[job], state.jobs.time_limit_s[job]
            self._last = job
        return arrived

    def finish(self, _: ScheduleState, ended: Sequence[int], /) -> None:
        """Forget the expected ends of ended jobs."""
        for job in ended:
            del self._ends[bisect_left(self._ends, (self._expected.pop(job), job))]

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
        """Start jobs in order, then backfill behind the first that does not fit."""
        jobs, free = state.jobs, state.free
        changes: dict[int, int] = {}
        first = -1
        for job in order:
            if jobs.gpus[job] > free:
                first = job
                break
            free = self._start(state, job, free, changes)
        if first < 0 or not free:
            return changes
        shadow, extra = self._reservation(state, jobs.gpus[first], free)
        while free:
            job = self._first_fit(first, free, shadow - state.now, extra)
            if job < 0:
                break
            if state.now + jobs.time_limit_s[job] > shadow:
                extra -= jobs.gpus[job]
            free = self._start(state, job, free, changes)
        return changes

    def _start(self, state: ScheduleState, job: int, free: int, changes: dict[int, int]) -> int:
        changes[job] = state.jobs.gpus[job]
        self._expected[job] = state.now + state.jobs.time_limit_s[job]
        insort(self._ends, (self._expected[job], job))
        self._gpus[job] = _GONE
        return free - state.jobs.gpus[job]

    def _reservation(self, state: ScheduleState, gpus: int, free: int) -> tuple[float, int]:
        """Return when the first job can start at the latest, and the GPUs that it leaves."""
        shadow = state.now
        for end, job in self._ends:
            if free >= gpus and end > shadow:
                break
            free += state.jobs.gpus[job]
            shadow = max(end, state.now)
        return shadow, free - gpus

    def _first_fit(self, first: int, free: int, seconds: float, extra: int) -> int:
        """Return the first waiting job after `first` that delays no reservation, or -1."""
        jobs = slice(first + 1, self._last + 1)
        fits = (self._gpus[jobs] <= free) & (
            (self._limits[jobs] <= seconds) | (self._gpus[jobs] <= extra)
        )
        return first + 1 + int(fits.argmax()) if fits.any() else -1


class ConservativeBackfilling(SchedulingPolicy):
    """Each waiting job is reserved the earliest time at which it fits, in order of submission."""

    def __init__(self) -> None:
        self._expected: dict[int, float] = {}

    def finish(self, _: ScheduleState, ended: Sequence[int], /) -> None:
        """Forget the expected ends of ended jobs."""
        for job in ended:
            del self._expected[job]

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
        """Start the jobs whose reservation is now."""
        jobs, now = state.jobs, state.now
        changes: dict[int, int] = {}
        if not state.waiting or not state.free:
            return changes
        times, free = self._profile(state)
        for job in order:
            gpus, limit = jobs.gpus[job], jobs.time_limit_s[job]
            at = _reserve(times, free, gpus, limit)
            if at <= now:
                changes[job] = gpus
                self._expected[job] = now + limit
        return changes

    def _profile(self, state: ScheduleState) -> tuple[list[float], list[int]]:
        """Return the steps of the free GPUs from now on."""
        times, free = [state.now], [state.free]
        soon = math.nextafter(state.now, math.inf)  # a job may run beyond its time limit
        for end, job in sorted((max(end, soon), job) for job, end in self._expected.items()):
            if end == times[-1]:
                free[-1] += state.jobs.gpus[job]
            else:
                times.append(end)
                free.append(free[-1] + state.jobs.gpus[job])
        return times, free


def _reserve(times: list[float], free: list[int], gpus: int, limit: float) -> float:
    """Take GPUs for a time from the earliest step at which they stay free."""
    first = 0
    while True:
        # a job without a runtime holds its GPUs until the next event
        end = max(times[first] + limit, math.nextafter(times[first], math.inf))
        step = first
        while step < len(times) and times[step] < end and free[step] >= gpus:
            step += 1
        if step == len(times) or times[step] >= end:
            break
        first = step + 1
    begin, last = times[first], bisect_left(times, end)
    if last == len(times) or times[last] > end:
        times.insert(last, end)
        free.insert(last, free[last - 1])
    for step in range(first, last):
        free[step] -= gpus
    return begin
