"""Machines of the PAI sample, and groups of recurring jobs of one user with equal requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tests.generator.draw import apportion, heavy_tail, hex_ids
from tests.generator.pai_shares import GPU_TYPES, PLAN_GPU

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORKLOADS: Final = ("ctr", "graphlearn", "bert", "nmt", "resnet", "rl", "speech", "xlnet")
_JOBS_A_GROUP: Final = 12
_JOBS_A_USER: Final = 800
_FEWEST_USERS: Final = 20
_SIGMA: Final = 0.6


@dataclass(frozen=True)
class Groups:
    """Groups, those of each kind of request (GPU type and plan_gpu) in one run of rows."""

    table: pl.DataFrame  # group, user, workload
    runtime: NDArray[np.float64]  # of the group's jobs, over that of all such requests
    first: NDArray[np.int64]
    count: NDArray[np.int64]

    def draw(
        self, rng: np.random.Generator, gpu_type: NDArray[np.int64], plan: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Draw a group (a row) for each request; a kind's first groups recur most."""
        kind = gpu_type * (len(PLAN_GPU) + 1) + plan
        rank = (rng.random(len(kind)) ** 2 * self.count[kind]).astype(np.int64)
        row: NDArray[np.int64] = self.first[kind] + rank
        return row


def draw_groups(rng: np.random.Generator, jobs: int) -> Groups:
    """Draw the groups that so many jobs recur in."""
    types, plans = (
        # the last index of each is no GPU, requested by some 5 % of first tasks
        np.append(np.array(list(counts.values())) / sum(counts.values()), 0.05)
        for counts in (GPU_TYPES, PLAN_GPU)
    )
    count = np.maximum(np.outer(types, plans).ravel() * jobs / _JOBS_A_GROUP, 2).astype(np.int64)
    first = np.cumsum(count) - count
    n = int(count.sum())
    runtime = heavy_tail(rng, 1.0, n, sigma=_SIGMA)
    for begin, size in zip(first, count, strict=True):
        # weighted by how often each recurs they average 1, so that the types keep their means
        edges = np.sqrt(np.arange(size + 1) / size)
        runtime[begin : begin + size] /= np.diff(edges) @ runtime[begin : begin + size]
    users = max(jobs // _JOBS_A_USER, _FEWEST_USERS)
    user = (rng.random(n) ** 2 * users).astype(np.int64)
    table = pl.DataFrame(
        {
            "group": hex_ids(rng, n, digits=32),
            "user": hex_ids(rng, users, digits=12).gather(user),
            "workload": pl.Series(_WORKLOADS).gather(rng.integers(0, len(_WORKLOADS), n)),
        }
    )
    return Groups(table, runtime, first, count)


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
_FEWEST_MACHINES: Final = 95
"""In a small sample too, the GPUs of the machines exceed those that one large task holds."""


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
    parts = apportion(max(round(sum(counts) * scale), _FEWEST_MACHINES), counts)
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
