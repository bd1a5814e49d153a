"""Place arriving jobs one by one, and record what is allocated and what is a fragment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.errors import DataError
from traceana.simulate.placement.cluster import whole_gpus
from traceana.simulate.placement.policies import GpuPolicy, Random

if TYPE_CHECKING:
    from traceana.simulate.placement.cluster import PlacementNodes
    from traceana.simulate.placement.policies import PlacementPolicy
    from traceana.simulate.placement.request import Floats, Ints, PlacementRequest

_SCORES: Final = "the policy's score must return one number for each machine"


class Cluster:
    """Machines that fill up; scores are kept per request and renewed where a machine changed."""

    def __init__(
        self,
        nodes: PlacementNodes,
        memory_mib: Ints,
        policy: PlacementPolicy,
        *,
        random_ties: bool,
        rng: np.random.Generator,
    ) -> None:
        self.nodes, self._memory, self._policy, self._rng = nodes, memory_mib, policy, rng
        self._random_ties = random_ties or isinstance(policy, Random)
        self._gpus = policy if isinstance(policy, GpuPolicy) else None
        self._changed: list[int] = []
        self._scores: dict[PlacementRequest, tuple[Floats, int]] = {}
        self._fragment: tuple[Floats, int] | None = None

    def place(self, request: PlacementRequest, memory_mib: int) -> bool:
        """Place a job, and return whether it fits on a machine."""
        scores = self._scores_of(request)
        if memory_mib:
            scores = np.where(self._memory >= memory_mib, scores, -np.inf)
        node = int(scores.argmax())
        if scores[node] == -np.inf:
            return False
        if scores[node] != scores[node]:
            raise DataError(f"{_SCORES}; it returned NaN")
        if self._random_ties:
            node = self._best(scores, random=True)
        self._take(node, request, memory_mib)
        return True

    def fragment(self) -> float:
        """Return the fragment of all machines in thousandths of a GPU."""
        if self._fragment is None:
            values = self.nodes.fragment()
        else:
            values, seen = self._fragment
            if rows := set(self._changed[seen:]):
                index = np.fromiter(rows, dtype=np.int64)
                values[index] = self.nodes.rows(index).fragment()
        self._fragment = values, len(self._changed)
        return float(values.sum())

    def _scores_of(self, request: PlacementRequest) -> Floats:
        scores, seen = self._scores.get(request, (None, 0))
        if scores is None:
            scores = np.empty(len(self.nodes.gpus))
            index = np.arange(len(scores))
        elif rows := set(self._changed[seen:]):
            index = np.fromiter(rows, dtype=np.int64)
        else:
            return scores
        scores[index] = -np.inf
        fits = index[self.nodes.fits(request, index)]
        if fits.size:
            found = self._policy.score(request, self.nodes.rows(fits))
            if np.shape(found) != fits.shape:
                raise DataError(f"{_SCORES}, here {fits.size}; it returned {found!r}")
            scores[fits] = found
        self._scores[request] = scores, len(self._changed)
        return scores

    def _take(self, node: int, request: PlacementRequest, memory_mib: int) -> None:
        nodes = self.nodes
        if request.shares:
            nodes.gpu_milli[node, self._gpu_of(node, request)] -= request.gpu_milli
            nodes.held[node, 0] += 1
        elif request.gpus:
            nodes.gpu_milli[node, whole_gpus(nodes.gpu_milli[node][None], request.gpus)[0]] = 0
            nodes.held[node, request.gpus] += 1
        nodes.cpu_milli[node] -= request.cpu_milli
        self._memory[node] -= memory_mib
        self._changed.append(node)

    def _gpu_of(self, node: int, request: PlacementRequest) -> int:
        """Return the GPU of the highest score, or the one with the least free that fits."""
        free = self.nodes.gpu_milli[node]
        fits = free >= request.gpu_milli
        if self._gpus is None:
            return int(np.where(fits, free, np.inf).argmin())
        of_node = self.nodes.rows(np.array([node]))
        scores = np.asarray(self._gpus.score_gpus(request, of_node), dtype=float)[0]
        return self._best(np.where(fits, scores, -np.inf), random=isinstance(self._gpus, Random))

    def _best(self, scores: Floats, *, random: bool) -> int:
        if not random:
            return int(scores.argmax())
        ties = np.flatnonzero(scores == scores.max())
        return int(ties[self._rng.integers(len(ties))])
