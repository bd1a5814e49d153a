"""Simulate the placement of jobs that share GPUs as a cluster fills up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from math import ceil
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.simulate.frames import over_seeds, read_columns
from traceana.simulate.placement.cluster import (
    MILLI,
    POLICIES,
    Floats,
    Ints,
    PlacementNodes,
    PlacementPolicy,
    PlacementRequest,
    Random,
    TypicalRequests,
)
from traceana.simulate.placement.tables import Placement, PlacementRuns, PlacementSummary
from traceana.stats.arguments import as_generator, check_choice, is_number, takes
from traceana.store.frames import column_names
from traceana.tables.declare import declared, returns, schema_of

_STEP: Final = 10
_LEAST_FILL: Final = 0.1
_LARGEST_FILL: Final = 10


@returns(Placement)
def simulate_placement(
    jobs: IntoFrame,
    machines: IntoFrame,
    /,
    *,
    policy: str | PlacementPolicy,
    rng: int | np.random.Generator = 1,
    ties: Literal["name", "random"] = "name",
    fill: float = 1.3,
) -> pl.DataFrame:
    """Simulate the placement of jobs as a cluster fills up.

    Jobs, which may share a GPU, arrive in random order; then jobs drawn with replacement arrive,
    until they request `fill` times the GPUs of the machines. A job never leaves, and is lost if it
    fits on no machine. One that shares a GPU takes the one with the least free that fits, unless
    the policy chooses another; one with several takes free GPUs of lowest index. The fragment is
    the mean of the free GPUs that a typical request (the most frequent, of 95 % of the jobs)
    cannot use (Weng et al., Beware of Fragmentation, USENIX ATC 2023).

    Parameters
    ----------
    jobs
        One row per job, of any supported engine: gpus (a fraction below 1 shares a GPU, above 1 is
        rounded up), and optionally cpus (cores), memory_gib and gpu_type (types that the job
        accepts, separated by ``|``). A null number of GPUs excludes the job; any other null, or a
        column that is absent, is no request.
    machines
        One row per machine: gpus, and optionally machine_id, cpus, memory_gib and gpu_type. A null
        CPU or memory is no limit; rows with a null or no GPUs are excluded.
    policy
        "random", "dotprod", "clustering", "packing", "bestfit", "fgd", or an object with
        `score(request, nodes)`: see :class:`PlacementPolicy`.
    rng
        Seed or generator. A seed gives all policies the same arrivals and names of machines.
    ties
        Machine that wins among equal scores. "name": that of the smallest name, drawn at random
        for each run, as in the publisher's simulator; "random": a random one for each job.
    fill
        GPUs that the jobs request in the end, as a fraction of all GPUs; 0.1 to 10.

    Returns
    -------
    DataFrame
        One row per 10 % of the GPUs that are requested, 10 to 130 with the default `fill`: the mean
        over the arrivals that round to this percentage; if there is none, the state before.
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [0.5, 0.5, 1.0], "cpus": [4, 4, 8]})
    >>> machines = pl.DataFrame({"machine_id": ["a", "b"], "gpus": [4, 4], "cpus": [64, 64]})
    >>> placed = traceana.simulate_placement(jobs, machines, policy="fgd")
    >>> placed.filter(arrived=100)["allocated"].item()
    100.0
    """
    check_choice("ties", ties, ("name", "random"))
    if not (is_number(fill) and _LEAST_FILL <= fill <= _LARGEST_FILL):
        raise DataError(f"fill must be from {_LEAST_FILL} to {_LARGEST_FILL}; it is {fill!r}")
    chosen, generator = find_policy(policy), as_generator(rng)
    return place_all(Workload(jobs, machines), chosen, generator, ties=ties, fill=fill)


def place_all(
    workload: Workload,
    policy: PlacementPolicy,
    rng: np.random.Generator,
    /,
    *,
    ties: str,
    fill: float = 1.3,
) -> pl.DataFrame:
    """Return what :func:`simulate_placement` does for a workload."""
    nodes, memory = workload.nodes(rng)
    arrivals = workload.arrivals(fill, rng)
    cluster = Cluster(nodes, memory, policy, random_ties=ties == "random", rng=rng)
    return declared(_fill_up(workload, cluster, arrivals, fill), Placement)


def _fill_up(workload: Workload, cluster: Cluster, arrivals: Ints, fill: float) -> pl.DataFrame:
    """Place the arriving jobs, and average over the arrivals near each percentage."""
    percent = 100 / workload.total_gpu_milli
    arrived = workload.gpu_milli[arrivals].cumsum() * percent
    grid = range(_STEP, int(fill * 100 + 1e-9) + 1, _STEP)
    # position 0 is the state before the first arrival
    positions = {at: np.flatnonzero(np.round(arrived) == at) + 1 for at in grid}
    for at, score in positions.items():
        if not score.size:
            positions[at] = np.searchsorted(arrived, [at], side="right")
    recorded = np.zeros(len(arrivals) + 1, dtype=bool)
    recorded[np.concatenate(list(positions.values()))] = True
    of_machines = cluster.nodes.fragment()
    allocated, fragment = np.zeros(len(recorded)), np.full(len(recorded), of_machines.sum())
    for begin in range(0, len(arrivals), _BLOCK):
        jobs = arrivals[begin : begin + _BLOCK].tolist()
        placed = [cluster.place(workload.requests[job], workload.memory_mib[job]) for job in jobs]
        states = [state for state in placed if state is not None]
        renewed = iter(cluster.fragments(states) if states else ())
        for step, job, state in zip(range(begin + 1, len(recorded)), jobs, placed, strict=False):
            if state is not None:
                allocated[step] = workload.gpu_milli[job]
                of_machines[state.node] = next(renewed)
            if recorded[step]:
                fragment[step] = of_machines.sum()
    allocated = allocated.cumsum()
    rows = [
        (at, allocated[here].mean() * percent, fragment[here].mean() * percent)
        for at, here in positions.items()
    ]
    return pl.DataFrame(rows, schema=schema_of(Placement), orient="row")


def find_policy(policy: str | PlacementPolicy, /) -> PlacementPolicy:
    """Return the policy of a name, or the given policy."""
    if isinstance(policy, str):
        check_choice("policy", policy, tuple(POLICIES))
        return POLICIES[policy]()
    if not takes(getattr(policy, "score", None), 2):
        raise DataError(
            f"policy must be one of {', '.join(POLICIES)}, or have a method score(request, nodes)"
        )
    return policy


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
        requests: dict[PlacementRequest, PlacementRequest] = {}  # equal ones are one object
        rows = table.select("cpus", "gpus", "gpu_type").iter_rows()
        self.requests = [requests.setdefault(each, each) for each in starmap(_request, rows)]
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
        """Return indices of jobs, each once at random, then redrawn until `fill` of the GPUs."""
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


_SCORES: Final = "the policy's score must return one number for each machine"
_BLOCK: Final = 4096
"""Arrivals whose fragments are computed together."""


class State(NamedTuple):
    """A machine after a placement: its row, free thousandths of cores and of each GPU."""

    node: int
    cpu_milli: int
    gpu_milli: Ints


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
        self._is_random = isinstance(policy, Random)
        self._random_ties = random_ties or self._is_random
        self._score_gpus: Any = getattr(policy, "score_gpus", None)
        self._best_gpu: dict[PlacementRequest, Ints] = {}  # by machine, if the policy chooses it
        self._placed = 0
        self._changed = np.zeros(len(nodes.gpus), dtype=np.int64)  # last placement by machine
        self._scores: dict[PlacementRequest, tuple[Floats, int]] = {}
        self._lost: dict[PlacementRequest, int] = {}  # least memory of a job that fits nowhere

    def place(self, request: PlacementRequest, memory_mib: int) -> State | None:
        """Place a job; return its machine as it is then, or None if the job fits on none."""
        lost = self._lost.get(request)
        if lost is not None and memory_mib >= lost:  # jobs never leave
            return None
        scores = self._scores_of(request)
        node = int(scores.argmax())
        if self._memory[node] < memory_mib:
            scores = np.where(self._memory >= memory_mib, scores, -np.inf)
            node = int(scores.argmax())
        if scores[node] == -np.inf:
            if not (self.nodes.fits(request) & (self._memory >= memory_mib)).any():
                self._lost[request] = memory_mib
            return None
        if scores[node] != scores[node]:
            raise DataError(f"{_SCORES}; it returned NaN")
        if self._random_ties:
            node = self._draw((scores == scores[node]) & (self._memory >= memory_mib))
        return self._take(node, request, memory_mib)

    def fragments(self, states: Sequence[State]) -> Floats:
        """Return the fragments of machines in thousandths of a GPU."""
        nodes, cpu_milli, gpu_milli = map(np.array, zip(*states, strict=True))
        return self.nodes.typical.fragment(self.nodes.gpu_type[nodes], cpu_milli, gpu_milli)

    def _scores_of(self, request: PlacementRequest) -> Floats:
        kept = self._scores.get(request)
        if kept is None:
            scores = np.empty(len(self.nodes.gpus))
            index = np.arange(len(scores))
        else:
            scores, seen = kept
            index = (self._changed > seen).nonzero()[0]
        if index.size:
            scores[index] = -np.inf
            fits = index[self.nodes.fits(request, index)]
            if fits.size:
                rows = self.nodes.rows(fits)
                score = self._policy.score(request, rows)
                if np.shape(score) != fits.shape:
                    raise DataError(f"{_SCORES}, here {fits.size}; it returned {score!r}")
                scores[fits] = score
                if request.shares and self._score_gpus is not None:
                    of_gpus = np.asarray(self._score_gpus(request, rows), dtype=float)
                    of_gpus = np.where(rows.gpu_milli >= request.gpu_milli, of_gpus, -np.inf)
                    best = self._best_gpu.setdefault(request, np.zeros_like(self._changed))
                    best[fits] = of_gpus.argmax(axis=1)
        self._scores[request] = scores, self._placed
        return scores

    def _take(self, node: int, request: PlacementRequest, memory_mib: int) -> State:
        nodes = self.nodes
        gpu_milli = nodes.gpu_milli[node]
        if request.shares:
            gpu_milli[self._gpu_of(node, request)] -= request.gpu_milli
            nodes.held[node, 0] += 1
        elif request.gpus:
            gpu_milli[(gpu_milli == MILLI).nonzero()[0][: request.gpus]] = 0
            nodes.held[node, request.gpus] += 1
        nodes.cpu_milli[node] -= request.cpu_milli
        self._memory[node] -= memory_mib
        self._placed += 1
        self._changed[node] = self._placed
        return State(node, int(nodes.cpu_milli[node]), gpu_milli.copy())

    def _gpu_of(self, node: int, request: PlacementRequest) -> int:
        """Return the GPU of the highest score, or the one with the least free that fits."""
        if self._score_gpus is not None:
            return int(self._best_gpu[request][node])
        free = self.nodes.gpu_milli[node]
        fits = free >= request.gpu_milli
        return self._draw(fits) if self._is_random else int(np.where(fits, free, np.inf).argmin())

    def _draw(self, ties: NDArray[np.bool_]) -> int:
        best = ties.nonzero()[0]
        return int(best[self._rng.integers(len(best))])


def sweep_placement(
    jobs: IntoFrame,
    machines: IntoFrame,
    /,
    *,
    policies: Mapping[str, str | PlacementPolicy],
    seeds: Sequence[int],
    ties: Sequence[str] = ("name",),
    progress: Callable[[float], None] | None = None,
) -> pl.DataFrame:
    """Simulate the placement of jobs under each policy, seed and rule of ties."""
    workload = Workload(jobs, machines)
    chosen = {name: find_policy(policy) for name, policy in policies.items()}
    cells = [(n, s, t) for n in policies for s in seeds for t in ties]
    runs = []
    for done, (name, seed, tie) in enumerate(cells, start=1):
        placed = place_all(workload, chosen[name], np.random.default_rng(seed), ties=tie)
        keys = (pl.lit(name).alias("policy"), pl.lit(seed, pl.Int64).alias("seed"))
        runs.append(placed.select(*keys, pl.lit(tie).alias("ties"), pl.all()))
        if progress is not None:
            progress(done / len(cells))
    return declared(pl.concat(runs), PlacementRuns)


def summarize_placement(runs: pl.DataFrame, /) -> pl.DataFrame:
    """Return means and standard deviations over seeds, in the order of the runs."""
    by = ("policy", "ties", "arrived")
    table = runs.group_by(by, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"), *over_seeds(("allocated", "fragment"))
    )
    return declared(table.drop("allocated_n", "fragment_n"), PlacementSummary)
