"""What a scheduling policy decides and sees, and the engine: events of a cluster by time."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from traceana.errors import DataError
from traceana.simulate.schedule.capacity import Profile


@dataclass(frozen=True)
class ScheduledJobs:
    """Jobs of one cluster in order of submission, one list per column; a job is an index.

    Attributes
    ----------
    submit_s, runtime_s, gpus
        Submission, requested GPUs, and the seconds that the job needs on them.
    deadline_s, time_limit_s, priority
        Infinite without a deadline; the runtime without a limit; the larger the more urgent.
    user, job_name
        Empty where unknown.
    work, profiles
        Iterations and their rate by number of GPUs; without a profile the runtime, at rate 1.

    Examples
    --------
    >>> from traceana.simulate import ScheduledJobs
    >>> one = [60.0]
    >>> jobs = ScheduledJobs([0.0], one, [8], one, one, [0.0], ["anna"], one, [None])
    >>> len(jobs), jobs.rate(0, 8)
    (1, 1.0)
    """

    submit_s: Sequence[float]
    runtime_s: Sequence[float]
    gpus: Sequence[int]
    deadline_s: Sequence[float]
    time_limit_s: Sequence[float]
    priority: Sequence[float]
    user: Sequence[str]
    work: Sequence[float]
    profiles: Sequence[Profile | None]
    job_name: Sequence[str] = ()

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_s)

    def rate(self, job: int, gpus: int, /) -> float:
        """Return the work of a job that is done per second on a number of GPUs."""
        profile = self.profiles[job]
        if profile is not None:
            return profile.rate(gpus)
        if gpus != self.gpus[job]:
            raise DataError(
                f"a policy gave {gpus:g} GPUs to a job that requests {self.gpus[job]:g}, and the "
                "job has no throughput profile; pass profiles"
            )
        return 1.0


@dataclass
class ScheduleState:
    """The cluster and its jobs at one time.

    Attributes
    ----------
    jobs, now
        All jobs, also those to come; the time in seconds.
    gpus, gpus_per_node, free
        GPUs of the cluster, of each of its nodes, and those that no job has.
    waiting
        Admitted jobs without GPUs, the longest in the queue first (keys of an ordered dict).
    running, started
        GPUs, and the time of the first start, by job.
    left
        Work left by job, as of `now` for a waiting job; :meth:`remaining` is exact for all.

    Examples
    --------
    >>> from traceana.simulate import ScheduledJobs, ScheduleState
    >>> one = [60.0]
    >>> jobs = ScheduledJobs([0.0], one, [8], one, one, [0.0], ["anna"], one, [None])
    >>> state = ScheduleState(jobs, gpus=16, gpus_per_node=8, free=16, left=[60.0])
    >>> state.remaining(0)
    60.0
    """

    jobs: ScheduledJobs
    gpus: int
    gpus_per_node: int
    now: float = -math.inf
    free: int = 0
    waiting: OrderedDict[int, None] = field(default_factory=OrderedDict)
    running: dict[int, int] = field(default_factory=dict)
    left: list[float] = field(default_factory=list)
    started: dict[int, float] = field(default_factory=dict)
    clock: ContinuousClock | None = None

    def remaining(self, job: int, /) -> float:
        """Return the work that a job has left now."""
        return self.left[job] if self.clock is None else self.clock.remaining(job)


@runtime_checkable
class SchedulingPolicy(Protocol):
    """Choose the jobs that run, and their GPUs, at each event.

    At each arrival, end and wake-up the engine calls `admit`, `order`, `allocate` and `place`. A
    subclass inherits the decisions of first in, first out; another object has all four methods.
    Decisions must depend on the state alone. Jobs are numbered in order of submission, then of the
    input, so that a sort by (rank, job) breaks ties by submission.

    Attributes
    ----------
    slot_s
        Events within a slot of this length are handled together at its end; 0 for none.
    elastic
        Whether the policy chooses the number of GPUs of a job; it then needs throughput profiles.

    Examples
    --------
    >>> from traceana.simulate import SchedulingPolicy
    >>> class LargestFirst(SchedulingPolicy):
    ...     def order(self, state):
    ...         return sorted(state.waiting, key=lambda job: -state.jobs.gpus[job])
    """

    slot_s: float = 0.0
    elastic: ClassVar[bool] = False

    def admit(self, state: ScheduleState, arrived: Sequence[int], /) -> Iterable[int]:
        """Return the arrived jobs that may wait; the others are declined and never run."""
        del state
        return arrived

    def order(self, state: ScheduleState, /) -> Iterable[int]:
        """Return jobs, the most important first; read as far as `allocate` needs."""
        return iter(state.waiting)

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> Mapping[int, int]:
        """Return the GPUs of each job whose GPUs change: 0 to stop it.

        By default jobs start in order on the GPUs that they request, until one does not fit.
        """
        free, gpus, changes = state.free, state.jobs.gpus, {}
        for job in order:
            if gpus[job] > free:
                break
            changes[job] = gpus[job]
            free -= gpus[job]
        return changes

    def place(self, state: ScheduleState, changes: Mapping[int, int], /) -> Mapping[int, float]:
        """Return the seconds without progress of each job that starts, moves or is scaled."""
        del state, changes
        return {}

    def wake(self, state: ScheduleState, /) -> float:
        """Return when to decide again if no job arrives or ends before; infinite for never."""
        del state
        return math.inf


class SlottedPolicy(SchedulingPolicy):
    """A policy of ElasticFlow's experiments, which decides once per slot.

    With `slot_s`, the slots that a trace states, it follows the version of the publisher's
    simulator that made figure 8b; without, the published revision, with slots of a minute.
    """

    slot_s: float = 60.0

    def __init__(self, *, slot_s: float | None = None) -> None:
        self._as_printed = slot_s is not None
        if slot_s is not None:
            self.slot_s = slot_s


class ContinuousClock:
    """Progress at the rate of a job's GPUs from the end of its pause, and a heap of the ends."""

    def __init__(self, state: ScheduleState, /, *, whole_seconds: bool = False) -> None:
        self.state = state
        self.whole_seconds = whole_seconds
        self.end: dict[int, float] = {}
        self.since: dict[int, tuple[float, float]] = {}
        self.heap: list[tuple[float, int]] = []

    def remaining(self, job: int, /) -> float:
        """Return the work that a job has left at the state's time."""
        left = self.state.left[job]
        if job not in self.since:
            return left
        since, rate = self.since[job]
        return left - max(self.state.now - since, 0.0) * rate

    def advance(self, now: float, /) -> list[tuple[int, float]]:
        """Return the jobs that have ended by now, and when, in order."""
        ended = []
        while self.heap and self.heap[0][0] <= now:
            end, job = heapq.heappop(self.heap)
            if self.end.get(job) == end:
                del self.end[job], self.since[job]
                ended.append((job, end))
        return ended

    def apply(self, changes: Mapping[int, int], pauses: Mapping[int, float], /) -> None:
        """Start, stop and scale jobs."""
        state, now = self.state, self.state.now
        for job in {**changes, **pauses} if pauses else changes:
            if job in self.since:
                state.left[job] = self.remaining(job)
                del self.since[job], self.end[job]
            gpus = changes[job] if job in changes else state.running[job]
            if gpus:
                since, rate = now + pauses.get(job, 0.0), state.jobs.rate(job, gpus)
                end = since + state.left[job] / rate
                if self.whole_seconds:
                    end = float(math.ceil(end))
                self.since[job], self.end[job] = (since, rate), end
                heapq.heappush(self.heap, (end, job))

    def next_end(self) -> float:
        """Return when the next job ends; infinite if none runs."""
        heap = self.heap
        while heap and self.end.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def pending(self) -> int:
        """Return the number of times at which running jobs end."""
        return len(set(self.end.values()))


@dataclass
class Schedule:
    """Starts and ends by job (NaN where a job never runs), and the use of the cluster by step."""

    start_s: list[float]
    end_s: list[float]
    met: list[bool | None]
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
