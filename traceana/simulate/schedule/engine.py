"""The event engine: arrivals, ends and wake-ups of one cluster, in order of time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana.errors import DataError
from traceana.simulate.schedule.clocks import ContinuousClock
from traceana.simulate.schedule.policy import ScheduledJobs, ScheduleState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceana.simulate.schedule.policy import SchedulingPolicy


@dataclass(frozen=True)
class Schedule:
    """Starts and ends by job (NaN where a job never runs), and jobs that met their deadline."""

    start_s: list[float]
    end_s: list[float]
    met: list[bool]
    declined: list[int]


def run_schedule(
    jobs: ScheduledJobs, policy: SchedulingPolicy, /, *, gpus: int, gpus_per_node: int
) -> Schedule:
    """Run the jobs of one cluster under a policy.

    At one time jobs end first, then jobs arrive, then the policy decides. Jobs larger than the
    cluster never run.
    """
    n = len(jobs)
    state = ScheduleState(jobs, gpus, gpus_per_node, free=gpus, left=list(jobs.work))
    make_clock = getattr(policy, "make_clock", None)
    clock = state.clock = ContinuousClock(state) if make_clock is None else make_clock(state)
    slot = getattr(policy, "slot_s", 0.0)
    wake = getattr(policy, "wake", None)
    finish = getattr(policy, "finish", None)
    is_met = getattr(policy, "is_met", None)
    start, end = [math.nan] * n, [math.nan] * n
    met, declined = [False] * n, []
    fits = [job for job in range(n) if jobs.gpus[job] <= gpus]
    submit, n_fits, arrived = jobs.submit_s, len(fits), 0
    now = submit[fits[0]] if fits else math.inf
    while now < math.inf:
        ended = clock.advance(now)
        state.now = now
        for job, at in ended:
            end[job] = at
            met[job] = at <= jobs.deadline_s[job] if is_met is None else is_met(job, at)
            state.free += state.running.pop(job)
        if ended and finish is not None:
            finish(state, [job for job, _ in ended])
        if arrived < n_fits and submit[fits[arrived]] <= now:
            first = arrived
            while arrived < n_fits and submit[fits[arrived]] <= now:
                arrived += 1
            new = fits[first:arrived]
            accepted = list(policy.admit(state, new))
            state.waiting.update(dict.fromkeys(accepted))
            if len(accepted) < len(new):
                declined += sorted(set(new) - set(accepted))
        changes = policy.allocate(state, policy.order(state))
        _apply(state, changes, start)
        clock.apply(changes, policy.place(state, changes))
        woken = math.inf if wake is None else wake(state)
        if woken <= now:
            raise DataError(f"the policy's wake must be after {now:g} s; it is {woken:g}")
        coming = submit[fits[arrived]] if arrived < n_fits else math.inf
        following = min(clock.next_end(), coming, woken)
        if slot and following - now <= slot:
            later = arrived < n_fits and submit[fits[-1]] > coming
            if later or (coming < math.inf) + clock.pending() > 1:
                following = now + slot
        now = following
    return Schedule(start, end, met, declined)


def _apply(state: ScheduleState, changes: Mapping[int, int], start: list[float]) -> None:
    for job, count in changes.items():
        if job in state.running:
            state.free += state.running.pop(job)
            if not count:
                state.waiting[job] = None
        else:
            state.waiting.pop(job, None)
        if count:
            state.running[job] = count
            state.free -= count
            if math.isnan(start[job]):
                start[job] = state.started[job] = state.now
    if state.free < 0:
        raise DataError(
            f"the policy gave away {-state.free:g} GPUs more than the {state.gpus:g} of the cluster"
        )
