"""Policies that choose the GPUs of a job, the nodes it is placed on, and what scaling costs."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from traceana.errors import DataError
from traceana.simulate.schedule.capacity import Profile
from traceana.simulate.schedule.elastic_plan import NEVER, Problem, Room, align, plan_jobs
from traceana.simulate.schedule.policy import ContinuousClock, ScheduleState, SlottedPolicy


def _profile(state: ScheduleState, job: int) -> Profile:
    profile = state.jobs.profiles[job]
    if profile is None:
        raise DataError(
            "an elastic policy needs the throughput of each job by number of GPUs; pass profiles, "
            "and jobs with model, batch_size and iterations"
        )
    return profile.below(state.gpus)


class EarliestDeadlineFirst(SlottedPolicy):
    """Earliest deadline first, each job on as many GPUs as its profile has, or as are free.

    At each event all jobs are scheduled anew. Scaling costs nothing, as in the publisher's
    simulator, and no job is declined.
    """

    elastic: ClassVar[bool] = True

    def __init__(self, *, slot_s: float | None = None) -> None:
        super().__init__(slot_s=slot_s)
        self._levels: dict[int, tuple[int, ...]] = {}
        self._queue: list[tuple[float, int]] = []

    def make_clock(self, state: ScheduleState, /) -> ContinuousClock:
        """Return a clock whose ends are whole seconds."""
        return ContinuousClock(state, whole_seconds=True)

    def admit(self, state: ScheduleState, arrived: Sequence[int], /) -> Sequence[int]:
        """Queue the arrived jobs by deadline."""
        for job in arrived:
            self._levels[job] = _profile(state, job).gpus[::-1]
            insort(self._queue, (state.jobs.deadline_s[job], job))
        return arrived

    def finish(self, state: ScheduleState, ended: Sequence[int], /) -> None:
        """Forget ended jobs."""
        for job in ended:
            del self._queue[bisect_left(self._queue, (state.jobs.deadline_s[job], job))]

    def order(self, _: ScheduleState, /) -> Iterator[int]:
        """Return all jobs by deadline."""
        return (job for _, job in self._queue)

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
        """Give each job in order the most GPUs of its profile that are free."""
        free, running = state.gpus, state.running
        changes = dict.fromkeys(running, 0)
        for job in order:
            for given in self._levels[job]:
                if given <= free:
                    free -= given
                    if running.get(job) == given:
                        del changes[job]
                    else:
                        changes[job] = given
                    break
            if not free:
                break
        return changes


class ElasticFlow(SlottedPolicy):
    """ElasticFlow (ASPLOS'23): minimum satisfactory shares, then the largest marginal return.

    Jobs are planned in order of deadline, each at the smallest level (profiled number of GPUs, up
    to the first that is no faster) that meets its deadline beside those before, or one less at
    first if that suffices. With `admission`, jobs that arrive in a slot are declined if one of
    them, or an earlier job, would miss its deadline. Free GPUs are given away one level at a time,
    to a job without GPUs first, else to the one whose GPU time grows most by GPU, as in the
    publisher's code (in the paper: falls most). Jobs are placed from the largest to the smallest on
    consecutive GPUs; each scheduling costs the published overhead. Ends are those of slots; a
    deadline is met if the last plan before the end meets it, or its end where the trace states the
    slots. Without `least` every job is planned on as many GPUs as possible.
    """

    elastic: ClassVar[bool] = True
    _clock: _PlannedClock

    def __init__(
        self, *, admission: bool = True, least: bool = True, slot_s: float | None = None
    ) -> None:
        super().__init__(slot_s=slot_s)
        self._admission = admission
        self.least, self.room = least, Room()
        self._queue: list[int] = []
        self.profiles: dict[int, Profile] = {}
        self._used: set[tuple[int, int]] = set()
        self._ended: list[int] = []
        self._placed: list[int] = []
        self._decisions = 0
        self._change = math.inf

    def make_clock(self, state: ScheduleState, /) -> _PlannedClock:
        """Return the clock that follows the plans."""
        self._clock = _PlannedClock(state)
        self._nodes = BuddyNodes(state.gpus, state.gpus_per_node)
        return self._clock

    def is_met(self, job: int, end_s: float, /) -> bool:
        """Return whether the last plan of a job, or its end, met its deadline."""
        end = end_s if self._as_printed else self._clock.planned[job]
        return end <= self._clock.state.jobs.deadline_s[job]

    def finish(self, _: ScheduleState, ended: Sequence[int], /) -> None:
        """Forget ended jobs."""
        gone = set(ended)
        self._ended = list(ended)
        self._placed = [job for job in self._placed if job not in gone]
        self._queue = [job for job in self._queue if job not in gone]

    def admit(self, state: ScheduleState, arrived: Sequence[int], /) -> Sequence[int]:
        """Accept the arrived jobs if all jobs then meet their deadlines."""
        for job in arrived:
            profile = _profile(state, job)
            self.profiles[job] = profile.rising() if self.least else profile
        if not self._admission:
            self._queue += arrived
            return arrived
        if self.least:
            if not _Plans(self, state, [*self._queue, *arrived], stop=True).all_met:
                arrived = [job for job in arrived if state.jobs.deadline_s[job] == math.inf]
            self._queue += arrived
            return arrived
        accepted = []
        for job in arrived:  # the publisher's simulator admits them one by one
            if _Plans(self, state, [*self._queue, job], stop=True).all_met:
                self._queue.append(job)
                accepted.append(job)
        return accepted

    def order(self, state: ScheduleState, /) -> list[int]:
        """Return all jobs by deadline; equal deadlines keep the order of the last decision."""
        deadline = state.jobs.deadline_s
        self._queue.sort(key=deadline.__getitem__)
        return self._queue

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
        """Plan all jobs and give free GPUs away."""
        plans = _Plans(self, state, list(order))
        self._queue = plans.by_return()
        self._change = plans.next_change
        self._clock.follow(plans)
        given, held = plans.gpus(), state.running
        self._queue.sort(key=lambda job: -given[job])
        return {job: gpus for job, gpus in given.items() if held.get(job, 0) != gpus}

    def place(self, state: ScheduleState, _: Mapping[int, int], /) -> dict[int, float]:
        """Place all jobs on consecutive GPUs, the largest first, and charge each."""
        deadline = state.jobs.deadline_s
        self._nodes.release([*self._ended, *sorted(self._placed, key=deadline.__getitem__)])
        self._ended = []
        self._placed = [job for job in self._queue if state.running.get(job)]
        places = self._nodes.place({job: state.running[job] for job in self._placed})
        cached = {job: place in self._used for job, place in places.items()}
        self._used.update(places.values())
        restart = is_restart(self._decisions, self.slot_s)
        self._decisions += 1
        if restart:
            self._used.clear()
        return {
            job: scaling_overhead_s(state.running[job], state.gpus, cached=levels, restart=restart)
            for job, levels in cached.items()
        }

    def wake(self, _: ScheduleState, /) -> float:
        """Return the next change of a plan, if no job ends or arrives before."""
        return self._change


class _Plans:
    """Plans of jobs in order of deadline."""

    def __init__(
        self, policy: ElasticFlow, state: ScheduleState, jobs: list[int], *, stop: bool = False
    ) -> None:
        deadline = state.jobs.deadline_s
        self.jobs = sorted(jobs, key=deadline.__getitem__)
        profiles = [policy.profiles[job] for job in self.jobs]
        n, width = len(profiles), max((len(profile.gpus) for profile in profiles), default=0) + 1
        arrays = plan_jobs.takes_arrays
        listed: Callable[..., Any] = np.array if arrays else list
        rates: Any = [(0.0, *profile.rates) for profile in profiles]
        sizes: Any = [(0, *profile.gpus) for profile in profiles]
        ends = [float(min(deadline[job], NEVER)) for job in self.jobs]
        top = [len(profile.gpus) for profile in profiles]
        if arrays:
            rates, sizes = (
                np.array([row + (0,) * (width - len(row)) for row in rows])
                for rows in (rates, sizes)
            )
        self._sizes = sizes
        problem = Problem(
            now=float(state.now),
            slot=policy.slot_s,
            gpus=state.gpus,
            least=policy.least,
            stop=stop,
            deadline=listed(ends),
            aligned=listed([align(float(state.now), end, policy.slot_s) for end in ends]),
            rates=rates,
            sizes=sizes,
            top=listed(top),
        )
        left = [float(state.left[job]) for job in self.jobs]
        self._plans = policy.room.plans(left, width, arrays=arrays)
        steps, out = (policy.room.steps(n, arrays=arrays) for _ in range(2))
        change = plan_jobs(problem, steps, self._plans, out) if n else NEVER
        self.next_change = change if change < NEVER else math.inf
        self.all_met = all(self._plans.met[:n])

    def gpus(self) -> dict[int, int]:
        """Return the GPUs by job."""
        levels = self._plans.levels
        return {job: int(self._sizes[row][levels[row][0]]) for row, job in enumerate(self.jobs)}

    def ends(self) -> tuple[dict[int, float], dict[int, float]]:
        """Return the ends of the slots, and those to the second before free GPUs were given."""
        slots, exact = (
            np.asarray(ends, dtype=float).tolist() for ends in (self._plans.end, self._plans.exact)
        )
        return dict(zip(self.jobs, slots, strict=False)), dict(zip(self.jobs, exact, strict=False))

    def by_return(self) -> list[int]:
        """Return the jobs in order of their marginal return."""
        return [self.jobs[row] for row in self._plans.order]


class _PlannedClock(ContinuousClock):
    """Jobs end when their plans end, after the overhead of each scheduling."""

    def __init__(self, state: ScheduleState) -> None:
        super().__init__(state)
        self.planned: dict[int, float] = {}
        self._pause: Mapping[int, float] = {}

    def follow(self, plans: _Plans) -> None:
        """Note the ends of new plans."""
        self.end, planned = plans.ends()
        self.planned.update(planned)

    def remaining(self, job: int, /) -> float:
        return self.state.left[job]

    def advance(self, now: float, /) -> list[tuple[int, float]]:
        state, ended = self.state, []
        elapsed = now - state.now
        for job, gpus in state.running.items():
            rate = state.jobs.rate(job, gpus)
            ran = elapsed - max(now - self.planned[job], 0.0)
            done = max(ran - self._pause.get(job, 0.0), 0.0) * rate
            if state.left[job] <= done and self.end[job] > now:
                ended.append((job, state.now + math.ceil(state.left[job] / rate)))
            elif self.end[job] <= now:
                ended.append((job, self.end[job]))
            state.left[job] -= done
        return ended

    def apply(self, _: Mapping[int, int], pauses: Mapping[int, float], /) -> None:
        self._pause = pauses
        for job, seconds in pauses.items():
            self.end[job] += seconds

    def next_end(self) -> float:
        return min(self.end.values(), default=math.inf)


_SWITCHES: Final = {64: 2}
"""Switches by number of nodes in the publisher's files of clusters, where there are several."""


class BuddyNodes:
    """Nodes that jobs are placed on anew at each decision, the largest job first.

    A job takes whole nodes, or a part of a node that smaller jobs fill up. The free node with the
    smallest number within its switch is first, of equal numbers that which has been free longest. A
    position is the first GPU.
    """

    def __init__(self, gpus: int, gpus_per_node: int, /) -> None:
        self._per_node = max(gpus_per_node, 1)
        self._free = list(range(math.ceil(gpus / self._per_node)))
        self._count = len(self._free)
        self._per_switch = self._count // _SWITCHES.get(self._count, 1)
        self._sort()
        self._nodes: dict[int, list[int]] = {}
        self._jobs_on: dict[int, int] = {}

    def release(self, jobs: Iterable[int], /) -> None:
        """Release the nodes of jobs, in this order."""
        for job in jobs:
            for node in self._nodes.pop(job, ()):
                self._jobs_on[node] -= 1
                if not self._jobs_on[node]:
                    self._free.append(node)
        self._sort()

    def place(self, gpus: Mapping[int, int], /) -> dict[int, tuple[int, int]]:
        """Place jobs, sorted from the largest; return the first GPU and their number by job."""
        places, node, used = {}, -1, self._per_node
        for job, count in gpus.items():
            if count >= self._per_node:
                taken = [self._take() for _ in range(math.ceil(count / self._per_node))]
                offset = 0
            else:
                if used + count > self._per_node:
                    node, used = self._take(), 0
                taken, offset = [node], used
                used += count
            self._nodes[job] = taken
            for taken_node in taken:
                self._jobs_on[taken_node] = self._jobs_on.get(taken_node, 0) + 1
            places[job] = (min(taken) * self._per_node + offset, count)
        return places

    def _take(self) -> int:
        if self._free:
            return self._free.pop(0)
        self._count += 1  # sizes that are no powers of two leave fragments
        return self._count - 1

    def _sort(self) -> None:
        self._free.sort(key=lambda node: node % max(self._per_switch, 1))


_LARGE: Final = 256


def is_restart(decisions: int, slot_s: float, /) -> bool:
    """Return whether all workers restart: as often as a slot has seconds, as published."""
    return decisions > 0 and slot_s > 0 and decisions % slot_s == 0


def scaling_overhead_s(gpus: int, cluster_gpus: int, /, *, cached: bool, restart: bool) -> float:
    """Return the published overhead of a job on a number of GPUs.

    2 s (7 s from 256 GPUs on) where its place was used since the last restart; else 2 (log2 g + 1)
    s more, and at a restart 27 s (47 s) more.
    """
    large = cluster_gpus >= _LARGE
    seconds = 7.0 if large else 2.0
    if cached:
        return seconds
    if restart:
        seconds += 47.0 if large else 27.0
    return seconds + 2 * (math.log2(gpus) + 1)
