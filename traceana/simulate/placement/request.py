"""Requests of jobs in whole thousandths of cores and GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
    gpus
        Number of GPUs; 1 for a job that shares a GPU, 0 for a job without GPUs.
    gpu_milli
        Thousandths of each of these GPUs; below 1000 for a job that shares a GPU.
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
