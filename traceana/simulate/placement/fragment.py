"""Typical requests of a workload, and the GPUs that they cannot use on a machine."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceana.simulate.placement.request import Floats, Ints, PlacementRequest

_COVERED: Final = 0.95
"""Fraction of the jobs that the typical requests cover."""


class TypicalRequests:
    """The most frequent requests, which cover 95 % of the jobs of a workload.

    Equal frequencies: the request with more CPU is first, then with a larger fraction of a GPU,
    then with more GPUs.
    """

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
        """Return shares, and of the requests for GPUs: CPU, GPUs, share's index, types, weight."""
        pairs = [pair for pair in zip(self.requests, self.weights, strict=True) if pair[0].gpus]
        shares, index = np.unique([request.gpu_milli for request, _ in pairs], return_inverse=True)
        return (
            shares.astype(np.int64),
            np.array([request.cpu_milli for request, _ in pairs], dtype=np.int64),
            np.array([request.gpus for request, _ in pairs], dtype=np.int64),
            index.astype(np.int64),
            np.array([self.accepts(request) for request, _ in pairs]).reshape(len(pairs), -1).T,
            np.array([weight for _, weight in pairs], dtype=float),
        )

    def fragment(self, gpu_type: Ints, cpu_milli: Ints, gpu_milli: Ints, /) -> Floats:
        """Return the fragment of machines in such a state, in thousandths of a GPU.

        The fragment is the mean over the typical requests of the free GPU that a request cannot
        use: all of it if the request does not fit or needs no GPU, else what is free of the GPUs
        with less than it requests of each.
        """
        shares, cpus, gpus, index, accepted, weights = self._with_gpus
        total: Floats = gpu_milli.sum(axis=1).astype(float)
        if not weights.size:
            return total
        summed = np.zeros((len(total), gpu_milli.shape[1] + 1))
        ordered = gpu_milli.copy()
        ordered.sort(axis=1)
        ordered[:, ::-1].cumsum(axis=1, out=summed[:, 1:])
        # number of GPUs with at least each share free, which are the largest
        fitting = (gpu_milli[:, :, None] >= shares).sum(axis=1)
        usable = summed[np.arange(len(total))[:, None], fitting]
        runs = (fitting[:, index] >= gpus) & (cpu_milli[:, None] >= cpus) & accepted[gpu_type]
        used = np.einsum("ij,ij,j->i", runs, usable[:, index], weights)
        fragment: Floats = total - used
        return fragment
