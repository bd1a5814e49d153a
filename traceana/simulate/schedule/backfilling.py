"""Backfilling: later jobs start early where they delay no reservation."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.simulate.schedule.compiled import compiled
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
            job = window.first_fit(free, shadow - state.now, extra, first)
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


class _Window:
    """Waiting jobs in order of submission, searched by blocks of their smallest values."""

    def __init__(self, state: ScheduleState) -> None:
        n = len(state.jobs)
        self._gpus = np.full(n, _GONE)
        self._all_gpus = np.array(state.jobs.gpus, dtype=np.int64)
        self._limits = np.array(state.jobs.time_limit_s, dtype=np.float64)
        blocks = n // _BLOCK + 1
        self._block_gpus = np.full(blocks, _GONE)
        self._block_limits = np.full(blocks, math.inf)
        self._waiting: dict[int, int] = {}

    def extend(self, arrived: Sequence[int]) -> None:
        for job in arrived:
            gpus, block = self._all_gpus[job], job // _BLOCK
            self._gpus[job] = gpus
            self._block_gpus[block] = min(self._block_gpus[block], gpus)
            self._block_limits[block] = min(self._block_limits[block], self._limits[job])
            size = int(gpus)
            self._waiting[size] = self._waiting.get(size, 0) + 1

    def remove(self, job: int) -> None:
        size = int(self._gpus[job])
        self._waiting[size] -= 1
        if not self._waiting[size]:
            del self._waiting[size]
        _remove(self._gpus, self._limits, self._block_gpus, self._block_limits, job)

    def smallest(self) -> int:
        return min(self._waiting, default=_GONE)

    def first_fit(self, free: int, seconds: float, extra: int, first: int) -> int:
        """Return the first waiting job after `first` that delays no reservation, or -1."""
        return int(
            _first_fit(
                self._gpus, self._limits, self._block_gpus, self._block_limits,
                free, seconds, extra, first + 1,
            )
        )  # fmt: skip


@compiled
def _remove(
    gpus: NDArray[np.int64],
    limits: NDArray[np.float64],
    block_gpus: NDArray[np.int64],
    block_limits: NDArray[np.float64],
    job: int,
) -> None:
    gpus[job] = _GONE
    block = job // _BLOCK
    fewest, shortest = _GONE, np.inf
    for other in range(block * _BLOCK, min((block + 1) * _BLOCK, len(gpus))):
        if gpus[other] < _GONE:
            fewest, shortest = min(fewest, gpus[other]), min(shortest, limits[other])
    block_gpus[block], block_limits[block] = fewest, shortest


@compiled
def _first_fit(
    gpus: NDArray[np.int64],
    limits: NDArray[np.float64],
    block_gpus: NDArray[np.int64],
    block_limits: NDArray[np.float64],
    free: int,
    seconds: float,
    extra: int,
    start: int,
) -> int:
    for block in range(start // _BLOCK, len(block_gpus)):
        fewest = block_gpus[block]
        if fewest > free or (block_limits[block] > seconds and fewest > extra):
            continue
        for job in range(max(start, block * _BLOCK), min((block + 1) * _BLOCK, len(gpus))):
            if gpus[job] <= free and (limits[job] <= seconds or gpus[job] <= extra):
                return job
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
        end = times[first] + limit
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
