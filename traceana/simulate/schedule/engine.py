"""The event engine: arrivals, ends and wake-ups of one cluster, in order of time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceana.errors import DataError
from traceana.simulate.schedule.clocks import ContinuousClock
from traceana.simulate.schedule.policy import ScheduledJobs, ScheduleState

if TYPE_CHECKING:
    from traceana.simulate.schedule.policy import SchedulingPolicy


@dataclass
class Schedule:
    """Starts and ends by job (NaN where a job never runs), and the use of the cluster by step."""

    start_s: list[float]
    end_s: list[float]
    met: list[bool]
    declined: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)

    def record(self, state: ScheduleState, /) -> None:
        """Note the use of the cluster from now on."""
        if self.times and self.times[-1] == state.now:
            for steps in (self.times, self.used, self.running, self.waiting):
                steps.pop()
        self.times.append(state.now)
        self.used.append(state.gpus - state.free)
        self.running.append(len(state.running))
        self.waiting.append(len(state.waiting))


class Arrivals:
    """Jobs that fit the cluster, in order of submission."""

    def __init__(self, jobs: ScheduledJobs, gpus: int, /) -> None:
        self._jobs = [job for job in range(len(jobs)) if jobs.gpus[job] <= gpus]
        self._submit = jobs.submit_s
        self._next = 0
        self._last = self._submit[self._jobs[-1]] if self._jobs else -math.inf

    def next(self) -> float:
        """Return the time of the next arrival; infinite after the last."""
        return self._submit[self._jobs[self._next]] if self._next < len(self._jobs) else math.inf

    def several(self) -> bool:
        """Return whether jobs are to arrive at more than one time."""
        return self._last > self.next()

    def take(self, now: float, /) -> list[int]:
        """Return the jobs that have arrived by now."""
        first = self._next
        last = len(self._jobs)
        while self._next < last and self._submit[self._jobs[self._next]] <= now:
            self._next += 1
        return self._jobs[first : self._next]


def run_schedule(
    jobs: ScheduledJobs, policy: SchedulingPolicy, /, *, gpus: int, gpus_per_node: int
) -> Schedule:
    """Run the jobs of one cluster under a policy.

    At one time jobs end first, then jobs arrive, then the policy decides. Jobs larger than the
    cluster never run.
    """
    n = len(jobs)
    state = ScheduleState(jobs, gpus, gpus_per_node, free=gpus, left=list(jobs.work))
    make_clock = getattr(policy, "make_clock", ContinuousClock)
    clock = state.clock = make_clock(state)
    slot, wake = getattr(policy, "slot_s", 0.0), getattr(policy, "wake", None)
    finish, is_met = getattr(policy, "finish", None), getattr(policy, "is_met", None)
    schedule = Schedule([math.nan] * n, [math.nan] * n, [False] * n)
    arrivals = Arrivals(jobs, gpus)
    now = coming = arrivals.next()
    while now < math.inf:
        ended = clock.advance(now)
        state.now = now
        for job, at in ended:
            schedule.end_s[job] = at
            schedule.met[job] = at <= jobs.deadline_s[job] if is_met is None else is_met(job, at)
            state.free += state.running.pop(job)
        if ended and finish is not None:
            finish(state, [job for job, _ in ended])
        if coming <= now:
            new = arrivals.take(now)
            coming = arrivals.next()
            accepted = list(policy.admit(state, new))
            if accepted != new and not set(accepted) <= set(new):
                raise DataError("the policy's admit must return jobs that have just arrived")
            state.waiting.update(dict.fromkeys(accepted))
            if len(accepted) < len(new):
                schedule.declined += sorted(set(new) - set(accepted))
        changes = policy.allocate(state, policy.order(state))
        _apply(state, changes, schedule.start_s)
        clock.apply(changes, policy.place(state, changes))
        schedule.record(state)
        woken = math.inf if wake is None else wake(state)
        if woken <= now:
            raise DataError(f"the policy's wake must be after {now:g} s; it is {woken:g}")
        following = min(clock.next_end(), coming, woken)
        if slot and following - now <= slot:
            events = (coming < math.inf) + clock.pending() + arrivals.several()
            if events > 1:  # the last of all is not postponed
                following = now + slot
        now = following
    return schedule


def _apply(state: ScheduleState, changes: Mapping[int, int], start: list[float]) -> None:
    if type(changes) is not dict and not isinstance(changes, Mapping):
        raise DataError(
            f"the policy's allocate must return a mapping of GPUs by job; it returned {changes!r}"
        )
    running, waiting = state.running, state.waiting
    for job, count in changes.items():
        if job in running:
            state.free += running.pop(job)
        elif job not in waiting:
            raise DataError(f"the policy gave GPUs to job {job}, which neither waits nor runs")
        if not count:
            waiting.setdefault(job)
            continue
        waiting.pop(job, None)
        running[job] = count
        state.free -= count
        if math.isnan(start[job]):
            start[job] = state.started[job] = state.now
    if state.free < 0:
        raise DataError(
            f"the policy gave away {-state.free:g} GPUs more than the {state.gpus:g} of the cluster"
        )
