"""The event engine: arrivals, ends and wake-ups of one cluster, in order of time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from traceana.errors import DataError
from traceana.simulate.schedule.policy import (
    ContinuousClock,
    ScheduledJobs,
    ScheduleState,
    SchedulingPolicy,
)


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


def run_schedule(
    jobs: ScheduledJobs, policy: SchedulingPolicy, /, *, gpus: int, gpus_per_node: int
) -> Schedule:
    """Run the jobs of a cluster: at one time jobs end, then arrive, then the policy decides."""
    n = len(jobs)
    state = ScheduleState(jobs, gpus, gpus_per_node, free=gpus, left=list(jobs.work))
    make_clock = getattr(policy, "make_clock", ContinuousClock)
    clock = state.clock = make_clock(state)
    slot, wake = getattr(policy, "slot_s", 0.0), getattr(policy, "wake", None)
    schedule = Schedule([math.nan] * n, [math.nan] * n, [False] * n)
    arriving = deque(job for job in range(n) if jobs.gpus[job] <= gpus)
    now = coming = _coming(jobs, arriving)
    while now < math.inf:
        ended = clock.advance(now)
        state.now = now
        if ended:
            _end(policy, state, schedule, ended)
        if coming <= now:
            _admit(policy, state, schedule, arriving)
            coming = _coming(jobs, arriving)
        changes = policy.allocate(state, policy.order(state))
        _apply(state, changes, schedule.start_s)
        clock.apply(changes, policy.place(state, changes))
        schedule.record(state)
        woken = math.inf if wake is None else wake(state)
        if woken <= now:
            raise DataError(f"the policy's wake must be after {now:g} s; it is {woken:g}")
        following = min(clock.next_end(), coming, woken)
        if slot and following - now <= slot:
            several = bool(arriving) and jobs.submit_s[arriving[-1]] > coming
            if several or bool(arriving) + clock.pending() > 1:  # the last is not postponed
                following = now + slot
        now = following
    return schedule


def _end(
    policy: SchedulingPolicy,
    state: ScheduleState,
    schedule: Schedule,
    ended: list[tuple[int, float]],
) -> None:
    """Note the end of jobs, which then have no GPUs."""
    finish, is_met = getattr(policy, "finish", None), getattr(policy, "is_met", None)
    for job, at in ended:
        on_time = at <= state.jobs.deadline_s[job]
        schedule.end_s[job], schedule.met[job] = at, is_met(job, at) if is_met else on_time
        state.free += state.running.pop(job)
    if finish is not None:
        finish(state, [job for job, _ in ended])


def _coming(jobs: ScheduledJobs, arriving: deque[int]) -> float:
    return jobs.submit_s[arriving[0]] if arriving else math.inf


def _admit(
    policy: SchedulingPolicy, state: ScheduleState, schedule: Schedule, arriving: deque[int]
) -> None:
    """Let the policy accept or decline the jobs that have arrived by now."""
    new: list[int] = []
    while _coming(state.jobs, arriving) <= state.now:
        new.append(arriving.popleft())
    accepted = list(policy.admit(state, new))
    if accepted != new and not set(accepted) <= set(new):
        raise DataError("the policy's admit must return jobs that have just arrived")
    state.waiting.update(dict.fromkeys(accepted))
    if len(accepted) < len(new):
        schedule.declined += sorted(set(new) - set(accepted))


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
