"""Policies that share the GPUs in time among rigid jobs: Tiresias, Gandiva and Themis."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from traceana.simulate.schedule.elastic import is_restart, scaling_overhead_s
from traceana.simulate.schedule.policy import ContinuousClock, ScheduleState, SlottedPolicy
from traceana.simulate.schedule.queueing import fit_in_order
from traceana.stats.arrays import Floats


class Tiresias(SlottedPolicy):
    """Two-dimensional least attained service with discrete queues (Tiresias, NSDI'19).

    A job starts in the first of three queues and is demoted when its attained GPU time reaches
    3,250 and 7,200 GPU-seconds. Queues run in order, each first in, first out, and every job that
    fits runs; running jobs precede the waiting ones of a queue. A job that is interrupted keeps
    its progress and its attained service, and pays the scaling overhead when it starts again. As in
    the publisher's simulator, the overhead delays a job from its next event on. Jobs that end
    within a slot end together; where the trace states the slots, only the first to end does.
    """

    limits: ClassVar[tuple[float, ...]] = (3250.0, 7200.0)
    _clock: _EventClock

    def __init__(self, *, slot_s: float | None = None) -> None:
        super().__init__(slot_s=slot_s)
        self._queues = [_Queue() for _ in range(len(self.limits) + 1)]
        self._queue: dict[int, int] = {}
        self._decisions = 0

    def make_clock(self, state: ScheduleState, /) -> _EventClock:
        """Return the clock that charges overheads at events."""
        self._clock = _EventClock(state, self.slot_s, alone=self._as_printed)
        return self._clock

    def finish(self, state: ScheduleState, ended: Sequence[int], /) -> None:
        """Take ended jobs out of their queues."""
        for job in ended:
            self._queues[self._queue.pop(job)].remove(job, state.jobs.gpus[job])

    def admit(self, _: ScheduleState, arrived: Sequence[int], /) -> Sequence[int]:
        """Append the arrived jobs to the first queue."""
        for job in arrived:
            self._queue[job] = 0
            self._queues[0].waiting[job] = None
        return arrived

    def order(self, state: ScheduleState, /) -> Iterator[int]:
        """Demote running jobs, then return the queues one after the other."""
        now, begin, gpus = state.now, self._clock.begin, state.jobs.gpus
        demoted = [
            job
            for queue, limit in zip(self._queues, self.limits, strict=False)
            for job in queue.running
            if (now - begin[job]) * gpus[job] >= limit
        ]
        for job in sorted(demoted, key=lambda job: (-gpus[job], job)):
            queue = self._queue[job]
            self._queues[queue].remove(job, gpus[job])
            self._queue[job] = queue + 1
            self._queues[queue + 1].demoted.append(job)
        return chain.from_iterable(
            chain(queue.running, queue.waiting, queue.demoted) for queue in self._queues
        )

    def allocate(self, state: ScheduleState, _: Iterable[int], /) -> dict[int, int]:
        """Give each job in order its GPUs where they fit."""
        free, changes = state.gpus, dict[int, int]()
        for queue in self._queues:
            free = queue.fit(free, state.jobs.gpus, changes)
        return changes

    def place(self, state: ScheduleState, changes: Mapping[int, int], /) -> dict[int, float]:
        """Charge jobs that start, and at a restart all that run."""
        restart = is_restart(self._decisions, self.slot_s)
        self._decisions += 1
        self._clock.restart = restart
        paid = state.running if restart else [job for job, gpus in changes.items() if gpus]
        return {
            job: scaling_overhead_s(state.running[job], state.gpus, cached=False, restart=restart)
            for job in paid
        }

    def wake(self, state: ScheduleState, /) -> float:
        """Return the next demotion, as the publisher's simulator estimates it."""
        now, begin, gpus = state.now, self._clock.begin, state.jobs.gpus
        jumps = [
            (limit - (now - begin[job])) / gpus[job]
            for queue, limit in zip(self._queues, self.limits, strict=False)
            for job in queue.running
        ]
        return state.now + max(math.ceil(min(jumps)), self.slot_s) if jumps else math.inf


class _Queue:
    """Jobs in order: those that run, those that wait, and running ones that were just demoted."""

    def __init__(self) -> None:
        self.running: dict[int, None] = {}
        self.waiting: dict[int, None] = {}
        self.demoted: list[int] = []
        self._used = 0

    def remove(self, job: int, gpus: int) -> None:
        del self.running[job]
        self._used -= gpus

    def fit(self, free: int, gpus: Sequence[int], changes: dict[int, int]) -> int:
        """Run the jobs in order where they fit free GPUs; return the GPUs that are left."""
        left, stopped = free - self._used, list[int]()
        if left >= 0 and not (self.demoted or (left and self.waiting)):
            return left  # nothing changes
        if left < 0:
            kept, left = _fitting(self.running, gpus, free)
            running = dict.fromkeys(kept)
            stopped = [job for job in self.running if job not in running]
            self.running = running
        started, left = _fitting(self.waiting, gpus, left)
        for job in started:
            del self.waiting[job]
        demoted, left = _fitting(self.demoted, gpus, left)
        late = [job for job in self.demoted if job not in demoted]
        if started or demoted:
            self.running |= dict.fromkeys(started + demoted)
        if stopped or late:
            self.waiting = dict.fromkeys([*stopped, *self.waiting, *late])
            changes |= dict.fromkeys(stopped + late, 0)
        changes |= {job: gpus[job] for job in started}
        self.demoted, self._used = [], free - left
        return left


def _fitting(jobs: Iterable[int], gpus: Sequence[int], free: int) -> tuple[list[int], int]:
    """Return the jobs in order that fit free GPUs, and the GPUs that they leave."""
    fitting = []
    for job in jobs if free else ():
        if gpus[job] <= free:
            free -= gpus[job]
            fitting.append(job)
            if not free:
                break
    return fitting, free


class _EventClock(ContinuousClock):
    """Progress is counted at events, where a job loses its pause; a job has run since `begin`."""

    def __init__(self, state: ScheduleState, slot: float, *, alone: bool) -> None:
        super().__init__(state)
        self.slot = slot
        self.alone = alone
        self.restart = False
        self.begin: dict[int, float] = {}
        self._executed: dict[int, float] = {}
        self._pause: Mapping[int, float] = {}
        self._next = self._last = math.inf

    def remaining(self, job: int, /) -> float:
        begin, now = self.begin.get(job), self.state.now
        executed = self._executed.get(job, 0.0) if begin is None else now - begin
        return self.state.jobs.work[job] - executed

    def advance(self, now: float, /) -> list[tuple[int, float]]:
        ended = []
        while now >= self._next and super().next_end() <= self._last:
            at, job = heapq.heappop(self.heap)
            del self.begin[job], self.end[job]
            ended.append((job, at))
        for job, pause in self._pause.items():
            if job in self.begin:
                self._begin(job, self.begin[job] + min(pause, now - self.state.now))
        self._pause = {}
        return ended

    def apply(self, changes: Mapping[int, int], pauses: Mapping[int, float], /) -> None:
        now = self.state.now
        for job, gpus in changes.items():
            if gpus:
                self._begin(job, now - self._executed.pop(job, 0.0))
            else:
                self._executed[job] = now - self.begin.pop(job)
                del self.end[job]
        self._pause = pauses
        for job in pauses if self.restart else ():
            self._end(job, self.end[job] + pauses[job])
        first = super().next_end()
        self._next = max(now + self.slot, first)
        self._last = first if self.alone else self._next

    def _begin(self, job: int, at: float) -> None:
        self.begin[job] = at
        self._end(job, at + self.state.jobs.work[job])

    def _end(self, job: int, at: float) -> None:
        self.end[job] = at
        heapq.heappush(self.heap, (at, job))

    def next_end(self) -> float:
        return self._next

    def pending(self) -> int:
        return 0


class _InTurns(SlottedPolicy):
    """A policy whose jobs run in turns of a slot while not all of them fit."""

    _crowded = False

    def place(self, state: ScheduleState, changes: Mapping[int, int], /) -> dict[int, float]:
        """Charge the jobs that start."""
        return {
            job: scaling_overhead_s(gpus, state.gpus, cached=False, restart=False)
            for job, gpus in changes.items()
            if gpus
        }

    def wake(self, state: ScheduleState, /) -> float:
        """Return the end of the turn."""
        return state.now + self.slot_s if self._crowded else math.inf


class Gandiva(_InTurns):
    """Time slicing among jobs of equal size (Gandiva, OSDI'18).

    While all jobs fit, all run. Else each size (requested GPUs) gets a part of the cluster in
    proportion to its demand, at least one job where it fits, and its jobs take turns every minute,
    in order of submission; jobs that still fit fill the rest, the largest size first. A job pays
    the scaling overhead when its turn begins. Deadlines play no part.
    """

    def __init__(self, *, slot_s: float | None = None) -> None:
        super().__init__(slot_s=slot_s)
        self._turns: dict[int, list[int]] = {}

    def admit(self, state: ScheduleState, arrived: Sequence[int], /) -> Sequence[int]:
        """Append the arrived jobs to the turns of their size."""
        for job in arrived:
            self._turns.setdefault(state.jobs.gpus[job], []).append(job)
        return arrived

    def finish(self, state: ScheduleState, ended: Sequence[int], /) -> None:
        """Take ended jobs out of the turns of their size."""
        for job in ended:
            turns = self._turns[state.jobs.gpus[job]]
            turns.remove(job)
            if not turns:
                del self._turns[state.jobs.gpus[job]]

    def order(self, state: ScheduleState, /) -> list[int]:
        """Return the jobs whose turn it is, then the others."""
        demand = sum(gpus * len(turns) for gpus, turns in self._turns.items())
        self._crowded = demand > state.gpus
        now, later = [], []
        for gpus in sorted(self._turns, reverse=True):
            turns = self._turns[gpus]
            share = len(turns)
            if self._crowded:
                share = min(max(state.gpus * share // demand, 1), share)
            now += turns[:share]
            later += turns[share:]
        return now + later

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
        """Run the jobs in order where they fit, and pass the turn on."""
        changes = fit_in_order(state, order)
        if self._crowded:
            ran = {*state.running, *changes}
            ran -= {job for job, gpus in changes.items() if not gpus}
            for turns in self._turns.values():
                turns.sort(key=lambda job: job in ran)
        return changes


class Themis(_InTurns):
    """Finish-time fairness (Themis, NSDI'20), in rounds of a minute.

    While all jobs fit, all run. Else fractions x of time in [0, 1], with the sum of GPUs times x
    at most the cluster, minimize the largest ratio of

    (time since submission + time left / x) to (isolated time so far + time left / isolated share),

    where the isolated share is the cluster over the number of jobs, over the requested GPUs, at
    most 1. Jobs run in order of x over the rounds that they have received (first those without
    one), where they fit; equal ones by submission. A job pays the scaling overhead when it starts.
    Deadlines play no part.
    """

    def make_clock(self, state: ScheduleState, /) -> ContinuousClock:
        """Return a clock, and note the jobs."""
        n = len(state.jobs)
        self._gpus = np.array(state.jobs.gpus, dtype=float)
        self._submit_s = np.array(state.jobs.submit_s)
        # time left, and the isolated share since then
        self._left_s, self._share = np.array(state.left), np.ones(n)
        self._isolated_s, self._rounds = np.zeros(n), np.zeros(n)
        return ContinuousClock(state)

    def order(self, state: ScheduleState, /) -> list[int]:
        """Return all jobs by fraction of time over rounds received."""
        active: Any = np.sort(np.array([*state.running, *state.waiting], dtype=np.int64))
        gpus, before = self._gpus[active], self._left_s[active]
        self._crowded = bool(gpus.sum() > state.gpus)
        for job in state.running:  # that of a waiting job stays
            self._left_s[job] = state.remaining(job)
        left = self._left_s[active]
        self._isolated_s[active] += (before - left) / self._share[active]
        share = np.minimum(state.gpus / max(len(active), 1) / gpus, 1.0)
        self._share[active] = share
        if not self._crowded:
            return active.tolist()
        age = state.now - self._submit_s[active]
        alone = self._isolated_s[active] + left / share
        alone = np.maximum(alone, 1e-9)  # a job without a runtime
        fractions = _fair_fractions(gpus, left, age, alone, float(state.gpus))
        rank = -fractions / np.maximum(self._rounds[active], 1e-9)
        return active[np.round(rank, 12).argsort(kind="stable")].tolist()

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
        """Give each job in order its GPUs where they fit."""
        changes = fit_in_order(state, order)
        if self._crowded:
            runs = {**state.running, **changes}
            self._rounds[[job for job, gpus in runs.items() if gpus]] += 1
        return changes


def _fair_fractions(
    gpus: Floats, left: Floats, age: Floats, alone: Floats, capacity: float
) -> Floats:
    """Return the least fractions at the smallest largest ratio, by Newton's method.

    From the ratio at which no fraction is above 1 on, their sum is convex and falls.
    """
    ratio = max(0.0, float(np.max((age + left) / alone)))
    while True:
        room = np.maximum(ratio * alone - age, 1e-9)
        fractions: Floats = np.minimum(left / room, 1.0)
        excess = float(gpus @ fractions) - capacity
        if excess <= 1e-12 * capacity:
            return fractions
        step = excess / float(gpus @ (fractions * alone / room))
        ratio = max(ratio + step, math.nextafter(ratio, math.inf))
