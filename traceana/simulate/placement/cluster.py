"""Machines and their free resources, in whole thousandths of cores and GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana.simulate.placement.request import MILLI

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from traceana.simulate.placement.fragment import TypicalRequests
    from traceana.simulate.placement.request import Floats, Ints, PlacementRequest


@dataclass(slots=True)
class PlacementNodes:
    """Machines and their free resources; one row per machine.

    Parameters
    ----------
    gpu_type
        Index of the GPU type in ``typical.gpu_types``.
    gpus
        Number of GPUs.
    cpu_milli
        Free thousandths of CPU cores.
    gpu_milli
        Free thousandths of each GPU, one column per GPU; 0 beyond the GPUs of the machine.
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
            self.gpu_type[index],
            self.gpus[index],
            self.cpu_milli[index],
            self.gpu_milli[index],
            self.held[index],
            self.largest_cpu_milli,
            self.largest_gpu_milli,
            self.typical,
        )

    @property
    def free_gpu_milli(self) -> Ints:
        """Return the free thousandths of all GPUs of each machine."""
        total: Ints = self.gpu_milli.sum(axis=1)
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
        if request.gpus == 1:
            fits &= (self.gpu_milli[index] >= request.gpu_milli).any(axis=1)
        else:
            fits &= (self.gpu_milli[index] >= request.gpu_milli).sum(axis=1) >= request.gpus
        return fits


def whole_gpus(gpu_milli: Ints, gpus: int, /) -> NDArray[np.bool_]:
    """Return which GPUs a request for whole GPUs takes: the free ones of lowest index."""
    free = gpu_milli == MILLI
    taken: NDArray[np.bool_] = free & (free.cumsum(axis=1) <= gpus)
    return taken
