"""Machines of the PAI sample, and which of them an instance runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.samples.draw import apportion, hex_ids
from traceana.samples.pai_shares import GPU_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

BUILDS: Final = (
    # GPU type, cores, GB of memory, GPUs, machines in the real trace
    ("MISC", 96, 512, 8, 280),
    ("T4", 96, 512, 2, 497),
    ("P100", 64, 512, 2, 798),
    ("V100", 96, 512, 8, 59),
    ("V100", 96, 384, 8, 45),
    ("V100M32", 96, 384, 8, 135),
    ("CPU", 96, 512, 0, 83),
)


@dataclass(frozen=True)
class Machines:
    """The machines as published (`table`), with those of each GPU type in one run of rows."""

    table: pl.DataFrame
    first: NDArray[np.int64]
    count: NDArray[np.int64]

    def draw(self, rng: np.random.Generator, gpu_type: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw a machine (a row) with GPUs of the type (an index; the last means any machine)."""
        row = self.first[gpu_type] + rng.random(len(gpu_type)) * self.count[gpu_type]
        return row.astype(np.int64)


def draw_machines(rng: np.random.Generator, scale: float) -> Machines:
    """Draw the machines, at least one of each build."""
    counts = [count for *_, count in BUILDS]
    parts = apportion(round(sum(counts) * scale), counts)
    build = np.repeat(np.arange(len(BUILDS)), parts)
    gpu_type, cores, memory, gpus, _ = zip(*BUILDS, strict=True)
    table = pl.DataFrame(
        {
            "machine": hex_ids(rng, len(build), digits=24),
            "gpu_type": pl.Series(gpu_type).gather(build),
            "cap_cpu": pl.Series(cores).gather(build),
            "cap_mem": pl.Series(memory).gather(build),
            "cap_gpu": pl.Series(gpus).gather(build),
        }
    )
    of_type = [np.flatnonzero(table["gpu_type"].to_numpy() == name) for name in GPU_TYPES]
    of_type.append(np.arange(table.height))
    return Machines(
        table,
        first=np.array([rows[0] for rows in of_type]),
        count=np.array([len(rows) for rows in of_type]),
    )
