"""Machines in whole thousandths of cores and GPUs, and policies that score those a job fits on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

MILLI: Final = 1000
"""Thousandths of a core or of a GPU."""


@dataclass(frozen=True)
class PlacementRequest:
    """What one job requests.

    Parameters
    ----------
    cpu_milli
        Thousandths of a CPU core.
    gpus, gpu_milli
        Number of GPUs, and thousandths of each; 1 and below 1000 for a job that shares a GPU.
    gpu_types
        GPU types that the job accepts; empty where any will do.

    Examples
    --------
    >>> import traceana
    >>> request = traceana.PlacementRequest(cpu_milli=6000, gpus=1, gpu_milli=460)
    >>> request.shares, request.total_gpu_milli
    (True, 460)
    """

    cpu_milli: int
    gpus: int
    gpu_milli: int
    gpu_types: tuple[str, ...] = ()

    @property
    def shares(self) -> bool:
        """Return whether the job shares a GPU."""
        return self.gpus == 1 and self.gpu_milli < MILLI

    @property
    def total_gpu_milli(self) -> int:
        """Return the thousandths of all GPUs."""
        return self.gpus * self.gpu_milli


_COVERED: Final = 0.95
"""Fraction of the jobs that the typical requests cover."""


class TypicalRequests:
    """The most frequent requests, of equal ones the largest, which cover 95 % of the jobs."""

    def __init__(self, requests: Sequence[PlacementRequest], gpu_types: Sequence[str]) -> None:
        self.gpu_types = tuple(gpu_types)
        ranked = sorted(
            Counter(requests).items(),
            key=lambda item: (
                item[1],
                item[0].cpu_milli,
                item[0].gpu_milli,
                item[0].gpus,
                "|".join(item[0].gpu_types),
            ),
            reverse=True,
        )
        covered = np.cumsum([n for _, n in ranked])
        kept = int(np.searchsorted(covered, _COVERED * len(requests) - 1e-9)) + 1
        self.requests = [request for request, _ in ranked[:kept]]
        self.weights: Floats = np.array([n for _, n in ranked[:kept]]) / covered[kept - 1]

    def accepts(self, request: PlacementRequest, /) -> NDArray[np.bool_]:
        """Return whether a request accepts each of the GPU types."""
        if not request.gpu_types:
            return np.ones(len(self.gpu_types), dtype=bool)
        return np.array([name in request.gpu_types for name in self.gpu_types], dtype=bool)

    @cached_property
    def _with_gpus(self) -> tuple[Ints, Ints, Ints, Ints, NDArray[np.bool_], Floats]:
        """Return what free GPUs offer each requested share, and columns of the requests.

        An offer is 1 and, 32 bits lower, the free thousandths if they suffice.
        """
        pairs = [pair for pair in zip(self.requests, self.weights, strict=True) if pair[0].gpus]
        shares, index = np.unique([request.gpu_milli for request, _ in pairs], return_inverse=True)
        free = np.arange(MILLI + 1)[:, None]
        return (
            np.where(free >= shares, (1 << 32) + free, 0),
            np.array([request.cpu_milli for request, _ in pairs], dtype=np.int64),
            np.array([request.gpus for request, _ in pairs], dtype=np.int64),
            index.astype(np.int64),
            np.array([self.accepts(request) for request, _ in pairs]).reshape(len(pairs), -1).T,
            np.array([weight for _, weight in pairs], dtype=float),
        )

    def fragment(self, gpu_type: Ints, cpu_milli: Ints, gpu_milli: Ints, /) -> Floats:
        """Return the mean free GPU (thousandths) of machines that a typical request cannot use."""
        offered, cpus, gpus, index, accepted, weights = self._with_gpus
        total: Floats = gpu_milli.sum(axis=1).astype(float)
        if not weights.size:
            return total
        summed = np.add.reduce(offered.take(gpu_milli.T, axis=0), axis=0)
        fitting, usable = summed >> 32, summed & (1 << 32) - 1
        runs = fitting.take(index, axis=1) >= gpus
        runs &= (cpu_milli[:, None] >= cpus) & accepted.take(gpu_type, axis=0)
        usable = usable.take(index, axis=1).astype(float)
        fragment: Floats = total - np.einsum("ij,ij,j->i", runs, usable, weights)
        return fragment


@dataclass(slots=True, eq=False)
class PlacementNodes:
    """Machines and their free resources; one row per machine.

    Parameters
    ----------
    gpu_type, gpus
        Index of the GPU type in ``typical.gpu_types``, and number of GPUs.
    cpu_milli, gpu_milli
        Free thousandths of CPU cores, and of each GPU in a column; 0 beyond those of the machine.
    held
        Number of jobs by kind: column 0 those that share a GPU, column n those with n GPUs.
    largest_cpu_milli, largest_gpu_milli
        Capacity of the largest machine of the cluster.
    typical
        Typical requests of the workload; ``typical.fragment(gpu_type, cpu_milli, gpu_milli)`` is
        the fragment of machines in another state.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> class WorstFit:
    ...     def score(self, request, nodes):
    ...         return nodes.free_gpu_milli
    >>> jobs, machines = pl.DataFrame({"gpus": [0.5, 1]}), pl.DataFrame({"gpus": [2, 2]})
    >>> placed = traceana.simulate_placement(jobs, machines, policy=WorstFit())
    >>> placed["allocated"].max()
    100.0
    """

    gpu_type: Ints
    gpus: Ints
    cpu_milli: Ints
    gpu_milli: Ints
    held: Ints
    largest_cpu_milli: int
    largest_gpu_milli: int
    typical: TypicalRequests

    def rows(self, index: Ints, /) -> PlacementNodes:
        """Return some of the machines."""
        return PlacementNodes(
            self.gpu_type.take(index),
            self.gpus.take(index),
            self.cpu_milli.take(index),
            self.gpu_milli.take(index, axis=0),
            self.held.take(index, axis=0),
            self.largest_cpu_milli,
            self.largest_gpu_milli,
            self.typical,
        )

    @property
    def free_gpu_milli(self) -> Ints:
        """Return the free thousandths of all GPUs of each machine."""
        total: Ints = np.add.reduce(self.gpu_milli, axis=1)
        return total

    def fragment(self) -> Floats:
        """Return the fragment of each machine in thousandths of a GPU."""
        return self.typical.fragment(self.gpu_type, self.cpu_milli, self.gpu_milli)

    def fits(
        self, request: PlacementRequest, index: Ints | slice = slice(None), /
    ) -> NDArray[np.bool_]:
        """Return whether CPU, GPU type and GPUs suffice on each machine, or on some of them."""
        fits: NDArray[np.bool_] = self.cpu_milli[index] >= request.cpu_milli
        if request.gpus == 0:
            return fits
        if request.gpu_types:
            fits &= self.typical.accepts(request)[self.gpu_type[index]]
        enough = self.gpu_milli[index] >= request.gpu_milli
        fits &= np.add.reduce(enough, axis=1) >= request.gpus  # less overhead than sum and any
        return fits


def whole_gpus(gpu_milli: Ints, gpus: int, /) -> NDArray[np.bool_]:
    """Return which GPUs a request for whole GPUs takes: the free ones of lowest index."""
    free = gpu_milli == MILLI
    taken: NDArray[np.bool_] = free & (free.cumsum(axis=1) <= gpus)
    return taken


_BEST: Final = 100


class PlacementPolicy(Protocol):
    """Scores the machines for a job.

    A score may depend on the request and on the row of the machine only: it is computed again
    when the machine changes, and kept otherwise. A policy with a second method
    ``score_gpus(request, nodes)``, one score per machine and GPU, also chooses the GPU of a job
    that shares one.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> class FewestCores:
    ...     def score(self, request, nodes):
    ...         return -nodes.cpu_milli  # the highest score wins: fewest free cores
    >>> jobs = pl.DataFrame({"gpus": [0.5, 1.0], "cpus": [4, 8]})
    >>> machines = pl.DataFrame({"gpus": [2, 2], "cpus": [16, 96]})
    >>> placed = traceana.simulate_placement(jobs, machines, policy=FewestCores())
    >>> placed["allocated"].max()
    100.0
    """

    def score(self, request: PlacementRequest, nodes: PlacementNodes, /) -> ArrayLike:
        """Return one score per machine of `nodes`, all of which fit; the highest wins."""
        ...


class Random:
    """A random machine among those that fit; the simulation also draws the GPU of a shared one."""

    def score(self, request: PlacementRequest, nodes: PlacementNodes, /) -> Ints:  # noqa: ARG002
        """Return equal scores; the simulation breaks these ties at random."""
        return np.zeros(len(nodes.gpus), dtype=np.int64)


class DotProduct:
    """The smallest dot product of free and requested CPU and GPU (Tetris)."""

    def score(self, request: PlacementRequest, nodes: PlacementNodes, /) -> Ints:
        """Return 100 (1 - dot product / 2), rounded down."""
        cpu, gpu = nodes.largest_cpu_milli, nodes.largest_gpu_milli
        # a machine without a stated limit counts as the largest one
        product = np.minimum(nodes.cpu_milli / cpu, 1) * (request.cpu_milli / cpu)
        product += (nodes.free_gpu_milli / gpu) * (request.total_gpu_milli / gpu)
        score: Ints = (_BEST * (1 - product / 2)).astype(np.int64)
        return score


class BestFit:
    """The least CPU and GPU left, at equal weight."""

    def score(self, request: PlacementRequest, nodes: PlacementNodes, /) -> Ints:
        """Return 100 (1 - mean fraction left of the largest machine), rounded down."""
        left = (nodes.cpu_milli - request.cpu_milli) / nodes.largest_cpu_milli * 0.5
        left += (nodes.free_gpu_milli - request.total_gpu_milli) / nodes.largest_gpu_milli * 0.5
        score: Ints = ((1 - left) * _BEST).astype(np.int64)
        return score


class GpuPacking:
    """Shared GPUs in use first, then free GPUs of machines in use, then free machines."""

    def score(self, request: PlacementRequest, nodes: PlacementNodes, /) -> Ints:
        """Return 50 to 100 on GPUs in use, 33 to 50 on free ones of a used machine, else less."""
        if request.gpus == 0:
            return np.zeros(len(nodes.gpus), dtype=np.int64)
        free = (nodes.gpu_milli == MILLI).sum(axis=1)
        partly = (nodes.gpu_milli < MILLI) & (nodes.gpu_milli >= request.gpu_milli)
        taken = np.sort(np.where(partly, nodes.gpu_milli, MILLI), axis=1)[:, : request.gpus]
        from_free = request.gpus - np.minimum(partly.sum(axis=1), request.gpus)
        shared = np.maximum(_BEST - (taken * 100 // MILLI).sum(axis=1) // 10, _BEST // 2)
        on_free_gpus = np.maximum(_BEST // 2 - from_free, _BEST // 3)
        on_free_node = np.maximum(_BEST // 3 - free, free)
        used = np.where(from_free > 0, on_free_gpus, shared)
        score: Ints = np.where(free == nodes.gpus, on_free_node, used)
        return score


class GpuClustering:
    """Machines that hold jobs of the same kind first: sharing, or the number of GPUs."""

    def score(self, request: PlacementRequest, nodes: PlacementNodes, /) -> Ints:
        """Return 75, 50, 25 or 0 plus up to 25 for GPUs in use, rounded down."""
        if request.gpus == 0:
            return np.zeros(len(nodes.gpus), dtype=np.int64)
        kind = 0 if request.shares else request.gpus
        same = nodes.held[:, kind] > 0
        kinds = (nodes.held > 0).sum(axis=1)
        base = np.where(same, np.where(kinds == 1, 75, 50), np.where(kinds == 0, 25, 0))
        in_use = nodes.largest_gpu_milli - nodes.free_gpu_milli
        score: Ints = base + _BEST // 4 * in_use // nodes.largest_gpu_milli
        return score


class FragmentationGradientDescent:
    """The smallest growth of the fragment (FGD, ATC'23)."""

    def score(self, request: PlacementRequest, nodes: PlacementNodes, /) -> Ints:
        """Return 100 sigmoid(decrease of the fragment in GPUs), rounded down; the best GPU's."""
        if not request.shares:
            left = nodes.gpu_milli
            if request.gpus:
                left = np.where(whole_gpus(left, request.gpus), 0, left)
            return _decrease(request, nodes, np.arange(len(left)), left)
        score: Ints = self.score_gpus(request, nodes).max(axis=1)
        return score

    @lru_cache(maxsize=1)  # noqa: B019  the score of a machine is that of its best GPU
    def score_gpus(self, request: PlacementRequest, nodes: PlacementNodes, /) -> Ints:
        """Return the same score of each GPU, -1 where the request does not fit."""
        free = nodes.gpu_milli
        first = (free[:, :, None] == free[:, None, :]).argmax(axis=2)  # equal GPUs score equally
        distinct = first == np.arange(free.shape[1])
        row, gpu = np.nonzero(distinct & (free >= request.gpu_milli))
        left = free[row]
        left[np.arange(len(row)), gpu] -= request.gpu_milli
        scores = np.full(free.shape, -1, dtype=np.int64)
        scores[row, gpu] = _decrease(request, nodes, row, left)
        of_gpus: Ints = scores[np.arange(len(free))[:, None], first]
        return of_gpus


def _decrease(request: PlacementRequest, nodes: PlacementNodes, row: Ints, left: Ints) -> Ints:
    """Return the score of machines (`row`) with these free GPUs after the placement."""
    fragment = nodes.typical.fragment(
        np.concatenate([nodes.gpu_type, nodes.gpu_type[row]]),
        np.concatenate([nodes.cpu_milli, nodes.cpu_milli[row] - request.cpu_milli]),
        np.concatenate([nodes.gpu_milli, left]),
    )
    decrease = fragment[row] - fragment[len(nodes.gpus) :]
    # without the rounding, noise of the sums would put an unchanged fragment below 50
    gpus = decrease.round(6) / MILLI
    score: Ints = (_BEST / (1 + np.exp(-gpus))).astype(np.int64)
    return score


POLICIES: Final[dict[str, type[PlacementPolicy]]] = {
    "random": Random,
    "dotprod": DotProduct,
    "clustering": GpuClustering,
    "packing": GpuPacking,
    "bestfit": BestFit,
    "fgd": FragmentationGradientDescent,
}
"""The policies by name."""
