"""Placement of jobs on whole nodes and parts of nodes, without fragments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SWITCHES: Final = {64: 2}
"""Switches by number of nodes in the publisher's files of clusters, where there are several."""


class BuddyNodes:
    """Nodes that jobs are placed on anew at each decision, the largest job first.

    A job takes whole nodes, or a part of a node that smaller jobs fill up: powers of two leave no
    fragments. The free node with the smallest number within its switch is taken first; of equal
    numbers that which has been free longest. A job's position is its first GPU, counted over
    the nodes of all switches.
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
            emptied = []
            for node in self._nodes.pop(job, ()):
                self._jobs_on[node] -= 1
                if not self._jobs_on[node]:
                    emptied.append(node)
            if emptied:
                self._free += emptied
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
            for one in taken:
                self._jobs_on[one] = self._jobs_on.get(one, 0) + 1
            places[job] = (min(taken) * self._per_node + offset, count)
        return places

    def _take(self) -> int:
        if self._free:
            return self._free.pop(0)
        self._count += 1  # sizes that are no powers of two leave fragments
        return self._count - 1

    def _sort(self) -> None:
        self._free.sort(key=lambda node: node % max(self._per_switch, 1))
