"""Backfilling: later jobs start early where they delay no reservation."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceana.simulate.schedule.compiled import Compiled
from traceana.simulate.schedule.policy import SchedulingPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from traceana.simulate.schedule.policy import ScheduleState

_BLOCK: Final = 256
_GONE: Final = 1 << 62
"""GPUs of a job that does not wait."""


class EasyBackfilling(SchedulingPolicy):
    """First in, first out, where the first waiting job has a reservation (EASY).

    The reservation is the earliest time at which enough running jobs have ended by the user's time
    limits (without one, by their runtime). A later job starts if it fits now and either ends by
    then, by its limit, or needs only GPUs that the first job leaves free then. A running job past
    its limit is expected to end now.
    """

    def __init__(self) -> None:
        self._ends: list[tuple[float, int]] = []
        self._expected: dict[int, float] = {}
        self._window: _Window | None = None

    def admit(self, state: ScheduleState, arrived: Sequence[int], /) -> Sequence[int]:
        """Note the arrived jobs."""
        if self._window is None:
            self._window = _Window(state)
        self._window.extend(arrived)
        return arrived

    def finish(self, state: ScheduleState, ended: Sequence[int], /) -> None:
        """Forget the expected ends of ended jobs."""
        del state
        for job in ended:
            del self._ends[bisect_left(self._ends, (self._expected.pop(job), job))]

    def allocate(self, state: ScheduleState, order: Iterable[int], /) -> dict[int, int]:
        """Start jobs in order, then backfill behind the first that does not fit."""
        jobs, window, free = state.jobs, self._window, state.free
        changes: dict[int, int] = {}
        first = -1
        for job in order:
            if jobs.gpus[job] > free:
                first = job
                break
            free = self._start(state, job, free, changes)
        if first < 0 or not free or window is None or window.smallest() > free:
            return changes
        shadow, extra = self._reservation(state, jobs.gpus[first], free)
        while free:
            job = window.first_fit(first, free, shadow - state.now, extra)
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
        if self._window is not None:
            self._window.remove(job)
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


class _Arrays(NamedTuple):
    """GPUs and limits of the waiting jobs, and their smallest by block."""

    gpus: NDArray[np.int64]
    limits: NDArray[np.float64]
    block_gpus: NDArray[np.int64]
    block_limits: NDArray[np.float64]


class _Window:
    """Waiting jobs in order of submission, searched by blocks of their smallest values."""

    def __init__(self, state: ScheduleState) -> None:
        n = len(state.jobs)
        self._gpus, self._limits = state.jobs.gpus, state.jobs.time_limit_s
        blocks = n // _BLOCK + 1
        self._arrays = _Arrays(
            np.full(n, _GONE),
            np.full(n, math.inf),
            np.full(blocks, _GONE),
            np.full(blocks, math.inf),
        )
        self._waiting: dict[int, int] = {}

    def extend(self, arrived: Sequence[int]) -> None:
        for job in arrived:
            gpus = self._gpus[job]
            _put(self._arrays, job, gpus, float(self._limits[job]))
            self._waiting[gpus] = self._waiting.get(gpus, 0) + 1

    def remove(self, job: int) -> None:
        gpus = self._gpus[job]
        self._waiting[gpus] -= 1
        if not self._waiting[gpus]:
            del self._waiting[gpus]
        _put(self._arrays, job, _GONE, math.inf)

    def smallest(self) -> int:
        """Return the fewest GPUs of a waiting job."""
        return min(self._waiting, default=_GONE)

    def first_fit(self, first: int, free: int, seconds: float, extra: int) -> int:
        """Return the first waiting job after `first` that delays no reservation, or -1."""
        return int(_first_fit(self._arrays, first + 1, free, seconds, extra))


@Compiled
def _put(arrays: _Arrays, job: int, gpus: int, limit: float) -> None:
    """Set the GPUs and limit of a job, and the smallest of its block."""
    arrays.gpus[job], arrays.limits[job] = gpus, limit
    block = job // _BLOCK
    begin = block * _BLOCK
    arrays.block_gpus[block] = arrays.gpus[begin : begin + _BLOCK].min()
    arrays.block_limits[block] = arrays.limits[begin : begin + _BLOCK].min()


@Compiled
def _first_fit(arrays: _Arrays, start: int, free: int, seconds: float, extra: int) -> int:
    first = start // _BLOCK
    fewest, shortest = arrays.block_gpus[first:], arrays.block_limits[first:]
    may_fit = (fewest <= free) & ((shortest <= seconds) | (fewest <= extra))
    for block in np.flatnonzero(may_fit):
        begin = max(start, int(first + block) * _BLOCK)
        end = (int(first + block) + 1) * _BLOCK
        gpus, limits = arrays.gpus[begin:end], arrays.limits[begin:end]
        fits = (gpus <= free) & ((limits <= seconds) | (gpus <= extra))
        nth = fits.argmax()
        if fits[nth]:
            return int(begin + nth)
    return -1


class ConservativeBackfilling(SchedulingPolicy):
    """Every waiting job has a reservation, and no job starts that would delay one.

    At each arrival and end, the waiting jobs in order of submission are given the earliest time at
    which they fit by the users' time limits (without one, by their runtime).
    """

    def __init__(self) -> None:
        self._expected: dict[int, float] = {}

    def finish(self, state: ScheduleState, ended: Sequence[int], /) -> None:
        """Forget the expected ends of ended jobs."""
        del state
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
        now = state.now
        times, free = [now], [state.free]
        for end, job in sorted((end, job) for job, end in self._expected.items()):
            if end <= times[-1]:
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
