"""How running jobs progress, and when they end."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceana.simulate.schedule.policy import ScheduleState


class Clock(Protocol):
    """Progress of the running jobs between two events."""

    def remaining(self, job: int, /) -> float:
        """Return the work that a job has left at the state's time."""

    def advance(self, now: float, /) -> list[tuple[int, float]]:
        """Return the jobs that have ended by now, and when; the state still has its last time."""

    def apply(self, changes: Mapping[int, int], pauses: Mapping[int, float], /) -> None:
        """Note new numbers of GPUs, and seconds without progress."""

    def next_end(self) -> float:
        """Return when the next job ends; infinite if none runs."""

    def pending(self) -> int:
        """Return the number of times at which running jobs end."""


class ContinuousClock:
    """A job progresses at the rate of its GPUs from the end of its pause until it ends.

    Ends are kept in a heap; an entry that a change of GPUs made invalid is skipped.
    """

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
