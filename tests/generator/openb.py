"""Sample of an inference-heavy cluster's pods and nodes: `alibaba-openb-2023`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tests.generator.draw import (
    DAY_S,
    OPENB_KEY,
    apportion,
    arrivals,
    generator,
    heavy_tail,
    pick,
)
from tests.generator.files import write_tables

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

PODS: Final = 8152
_FEWEST: Final = 60

QOS_AND_PHASE: Final = {
    ("LS", "Running"): 3837,
    ("BE", "Failed"): 1627,
    ("BE", "Running"): 1330,
    ("LS", "Pending"): 454,
    ("BE", "Pending"): 441,
    ("LS", "Failed"): 203,
    ("LS", "Succeeded"): 153,
    ("Burstable", "Failed"): 40,
    ("Burstable", "Succeeded"): 39,
    ("Burstable", "Running"): 19,
    ("Guaranteed", "Running"): 7,
    ("Burstable", "Pending"): 2,
}
"""Pods by class and phase in the real trace."""

_MEAN_RUNTIME_S: Final = {"LS": 3_000, "BE": 2_500, "Burstable": 60_000, "Guaranteed": 200_000}
_GPUS: Final = {1: 6989, 0: 1088, 8: 44, 2: 16, 4: 15}
_GPU_MILLI: Final = {1000: 39, 800: 11, 500: 8, 300: 5, 650: 3, 250: 2, 450: 1, 150: 1, 100: 1}
_SHARE_QUEUED: Final = 0.4
_CPU_MILLI: Final = (2000, 3000, 4000, 6000, 8000, 10000, 12000, 16000, 20000, 32000)
_MIB_A_CORE: Final = (2048, 3072, 4096)

NODES: Final = (
    # model, GPUs, cpu_milli, memory_mib, nodes in the real trace (rare builds joined to a like one)
    ("G2", 8, 96_000, 393_216, 549),
    ("T4", 2, 104_000, 524_288, 387),
    ("T4", 4, 96_000, 393_216, 17),
    ("P100", 2, 16_000, 122_880, 112),
    ("P100", 2, 64_000, 262_144, 22),
    ("V100M16", 4, 32_000, 131_072, 28),
    ("V100M16", 1, 8_000, 32_768, 19),
    ("V100M16", 8, 64_000, 262_144, 8),
    ("G3", 8, 128_000, 786_432, 39),
    ("V100M32", 8, 96_000, 786_432, 21),
    ("V100M32", 4, 48_000, 376_832, 9),
    ("A10", 1, 128_000, 1_048_576, 2),
    (None, 0, 32_000, 262_144, 162),
    (None, 0, 96_000, 524_288, 114),
    (None, 0, 64_000, 524_288, 34),
)

_FIRST_S: Final = 115 * DAY_S
_DAYS: Final = 34
_END_S: Final = _FIRST_S + _DAYS * DAY_S


def write_openb(folder: Path, *, scale: float, seed: int) -> dict[str, int]:
    """Write the pod and node lists and return the rows by file."""
    rng = generator(seed, OPENB_KEY)
    tables = {
        "openb_pod_list_default.csv": _draw_pods(rng, max(round(PODS * scale), _FEWEST)),
        "openb_node_list_all_node.csv": _draw_nodes(rng, scale),
    }
    return write_tables(folder, tables)


def _draw_pods(rng: np.random.Generator, n: int) -> pl.DataFrame:
    kind = pick(rng, list(QOS_AND_PHASE.values()), n)
    qos = [list(QOS_AND_PHASE)[i][0] for i in kind]
    phase = np.array([phase for _, phase in QOS_AND_PHASE])[kind]
    gpus = np.array(list(_GPUS))[pick(rng, list(_GPUS.values()), n)]
    share = np.array(list(_GPU_MILLI))[pick(rng, list(_GPU_MILLI.values()), n)]
    cores = rng.choice(_CPU_MILLI, n)
    created = np.sort(arrivals(rng, n, first_s=_FIRST_S, days=_DAYS))
    # most pods are placed at once, others wait for minutes, the Pending ones for ever
    queued = rng.random(n) < _SHARE_QUEUED
    scheduled = created + np.where(queued, _seconds(rng, 120, n), rng.integers(0, 4, n))
    runtime = _seconds(rng, np.array([_MEAN_RUNTIME_S[name] for name in qos], dtype=float), n)
    pending = phase == "Pending"
    start = np.where(pending, created, scheduled)
    deleted = start + np.where(pending, _seconds(rng, 200, n), runtime)
    return pl.DataFrame(
        {
            "name": _names("synthetic-pod", n),
            "cpu_milli": cores,
            "memory_mib": cores // 1000 * rng.choice(_MIB_A_CORE, n),
            "num_gpu": gpus,
            "gpu_milli": np.where(gpus == 1, share, np.where(gpus == 0, 0, 1000)),
            "gpu_spec": pl.repeat(None, n, dtype=pl.String, eager=True),
            "qos": qos,
            "pod_phase": phase,
            "creation_time": created,
            # what runs at the end of the trace is cut there
            "deletion_time": np.maximum(np.minimum(deleted, _END_S), start),
            "scheduled_time": pl.Series(scheduled).set(pl.Series(pending), None),
        }
    )


def _draw_nodes(rng: np.random.Generator, scale: float) -> pl.DataFrame:
    counts = [count for *_, count in NODES]
    parts = apportion(round(sum(counts) * scale), counts)
    kind = rng.permutation(np.repeat(np.arange(len(NODES)), parts))
    model, gpus, cpu, memory, _ = zip(*NODES, strict=True)
    return pl.DataFrame(
        {
            "sn": _names("synthetic-node", len(kind)),
            "cpu_milli": pl.Series(cpu).gather(kind),
            "memory_mib": pl.Series(memory).gather(kind),
            "gpu": pl.Series(gpus).gather(kind),
            "model": pl.Series(model).gather(kind),
        }
    )


def _seconds(
    rng: np.random.Generator, mean_s: float | NDArray[np.float64], n: int
) -> NDArray[np.int64]:
    return heavy_tail(rng, mean_s, n, sigma=1.5).astype(np.int64)


def _names(kind: str, n: int) -> list[str]:
    return [f"{kind}-{i:04d}" for i in range(n)]
