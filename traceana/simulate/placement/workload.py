"""Read jobs and machines for the simulation of placement, and draw the order of arrival."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.frames import read_columns
from traceana.simulate.placement.cluster import PlacementNodes
from traceana.simulate.placement.fragment import TypicalRequests
from traceana.simulate.placement.request import MILLI, PlacementRequest
from traceana.store.frames import column_names

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.simulate.placement.request import Floats, Ints

_MIB: Final = 1024
_MOST_ARRIVALS: Final = 10_000_000
_MOST_GPUS: Final = 10_000
"""Most GPUs of one machine."""
_NO_LIMIT: Final = 1e12
_OPTIONAL: Final = {"cpus": pl.Float64, "memory_gib": pl.Float64, "gpu_type": pl.String}


class Workload:
    """Requests of the jobs with a known number of GPUs, and the machines with GPUs."""

    def __init__(self, jobs: IntoFrame, machines: IntoFrame) -> None:
        table = _read(jobs, "jobs").drop_nulls("gpus")
        nodes = _read(machines, "machines", key="machine_id")
        # whole GPUs of machines that have some, in the order of their names
        nodes = nodes.with_columns(pl.col("gpus").floor()).filter(pl.col("gpus") > 0)
        nodes = nodes.sort("machine_id", maintain_order=True)
        if not (table["gpus"] > 0).any():
            raise DataError("jobs: no job requests a GPU; column gpus needs a value above 0")
        if nodes.is_empty():
            raise DataError(
                "machines: no machine has a GPU; column gpus needs a value of 1 or more"
            )
        if nodes["gpus"].max() > _MOST_GPUS:  # type: ignore[operator]
            raise DataError(f"machines: column gpus must be {_MOST_GPUS:,} at most")
        self.requests = [
            _request(*row) for row in table.select("cpus", "gpus", "gpu_type").iter_rows()
        ]
        self.gpu_milli: Floats = np.array([r.total_gpu_milli for r in self.requests], dtype=float)
        self.memory_mib = _whole(table["memory_gib"].fill_null(0) * _MIB)
        self._machines = nodes
        types = nodes["gpu_type"].fill_null("").unique().sort().to_list()
        self.typical = TypicalRequests(self.requests, types)
        self.total_gpu_milli = int(nodes["gpus"].sum()) * MILLI

    def nodes(self, rng: np.random.Generator, /) -> tuple[PlacementNodes, Ints]:
        """Return the empty machines in random order, and their memory in MiB."""
        table = self._machines[rng.permutation(self._machines.height)]
        cpus = _whole(table["cpus"].fill_null(_NO_LIMIT) * MILLI)
        gpus = table["gpus"].cast(pl.Int64).to_numpy()
        largest = int(gpus.max())
        types = self.typical.gpu_types
        nodes = PlacementNodes(
            gpu_type=np.array([types.index(name or "") for name in table["gpu_type"]]),
            gpus=gpus,
            cpu_milli=cpus,
            gpu_milli=np.where(np.arange(largest) < gpus[:, None], MILLI, 0),
            held=np.zeros((table.height, largest + 1), dtype=np.int64),
            largest_cpu_milli=round((table["cpus"].max() or _NO_LIMIT) * MILLI),  # type: ignore[operator, arg-type]
            largest_gpu_milli=largest * MILLI,
            typical=self.typical,
        )
        return nodes, _whole(table["memory_gib"].fill_null(_NO_LIMIT) * _MIB)

    def count_unplaceable(self) -> int:
        """Return how many jobs fit on no machine, even where all of them are empty."""
        nodes, memory = self.nodes(np.random.default_rng(1))
        columns = [nodes.gpus, nodes.cpu_milli, memory, nodes.gpu_type]
        machines = np.unique(np.column_stack(columns), axis=0)[::-1]  # those with most GPUs first
        sizes = [(request.gpus, request.cpu_milli) for request in self.requests]
        jobs = np.column_stack([sizes, self.memory_mib])
        accepting = {r.gpu_types: self.typical.accepts(r) for r in self.requests}
        accepts = np.array([accepting[request.gpu_types] for request in self.requests])
        left = np.arange(len(jobs))
        for *size, gpu_type in machines.tolist():
            left = left[~(accepts[left, gpu_type] & (jobs[left] <= size).all(axis=1))]
        return len(left)

    def arrivals(self, fill: float, rng: np.random.Generator) -> Ints:
        """Return indices of jobs: each once in random order, then drawn with replacement.

        The list ends before the request that would exceed `fill` times the GPUs of the cluster.
        """
        target = fill * self.total_gpu_milli
        mean = self.gpu_milli.mean()
        if target / mean > _MOST_ARRIVALS:
            raise DataError(
                f"fill={fill:g} needs about {target / mean:,.0f} arrivals, {_MOST_ARRIVALS:,} at "
                "most; use a smaller fill or fewer machines"
            )
        order = rng.permutation(len(self.requests))
        while self.gpu_milli[order].sum() <= target:
            missing = target - self.gpu_milli[order].sum()
            draws = int(missing / mean * 1.1) + 100
            order = np.concatenate([order, rng.integers(len(self.requests), size=draws)])
        arrived = self.gpu_milli[order].cumsum()
        return order[: np.searchsorted(arrived, target, side="right")]


def _read(frame: IntoFrame, what: str, *, key: str | None = None) -> pl.DataFrame:
    """Return the needed columns; optional ones that a frame does not have are null."""
    names = set(column_names(frame))
    kinds: dict[str, type[pl.DataType]] = {"gpus": pl.Float64}
    if key in names:
        kinds[key] = pl.String
    kinds |= {name: kind for name, kind in _OPTIONAL.items() if name in names}
    table = read_columns(frame, kinds, what)
    for name in ("gpus", "cpus", "memory_gib"):
        if name in kinds and (table[name] < 0).any():
            raise DataError(f"{what}: column {name} must not be negative")
    absent = {name: kind for name, kind in _OPTIONAL.items() if name not in names}
    table = table.with_columns(pl.lit(None, kind).alias(name) for name, kind in absent.items())
    return table if key is None or key in kinds else table.with_row_index(key)


def _request(cpus: float | None, gpus: float, gpu_type: str | None) -> PlacementRequest:
    """Return a request; a number of GPUs above 1 is rounded up to whole GPUs."""
    milli = max(ceil(round(gpus * MILLI, 3)), int(gpus > 0))
    whole = -(-milli // MILLI)
    types = tuple(name for name in (gpu_type or "").split("|") if name.strip())
    share = milli if whole == 1 else MILLI * (whole > 0)
    return PlacementRequest(round((cpus or 0) * MILLI), whole, share, types if whole else ())


def _whole(values: pl.Series) -> Ints:
    whole: Ints = values.clip(upper_bound=2**53).round().cast(pl.Int64).to_numpy().copy()
    return whole
