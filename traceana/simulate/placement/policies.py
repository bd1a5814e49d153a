"""Placement policies: each scores the machines on which a job fits."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from traceana.simulate.placement.cluster import (
    MILLI,
    Ints,
    PlacementNodes,
    PlacementRequest,
    whole_gpus,
)

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
