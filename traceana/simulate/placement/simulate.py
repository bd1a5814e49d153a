"""Simulate the placement of jobs that share GPUs as a cluster fills up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.placement.policies import POLICIES
from traceana.simulate.placement.run import Cluster
from traceana.simulate.placement.tables import Placement
from traceana.simulate.placement.workload import Workload
from traceana.stats.arguments import as_generator, check_choice, is_number, takes
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.simulate.placement.policies import PlacementPolicy
    from traceana.simulate.placement.request import Ints

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
    until they request `fill` times the GPUs of the machines. A job is placed on a machine with
    enough CPU, memory and GPUs of an accepted type, never leaves, and is lost if none fits. A job
    that shares a GPU takes the one with the least free that fits, unless the policy chooses
    another; a job with several takes free GPUs of lowest index. Machines without GPUs are not used.

    The fragment is the part of the free GPUs that typical requests cannot use: the mean over the
    most frequent requests, which cover 95 % of the jobs [1]_.

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
        Machine that wins among equal scores. "name": that of the smallest name, where a run
        numbers the machines in random order, as the publisher's simulator does; "random": a
        random one for each job.
    fill
        GPUs that the jobs request in the end, as a fraction of all GPUs; 0.1 to 10.

    Returns
    -------
    DataFrame
        One row per 10 % of the GPUs that are requested, 10 to 130 with the default `fill`: the mean
        over the arrivals that round to this percentage; if there is none, the state before.
        {columns}

    Raises
    ------
    DataError
        If no machine has a GPU, no job requests one, a value is negative, or an argument is
        invalid.

    References
    ----------
    .. [1] Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
       Gradient Descent, USENIX ATC 2023.

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
    allocated, fragment = np.zeros(len(recorded)), np.zeros(len(recorded))
    if recorded[0]:
        fragment[0] = cluster.fragment()
    for step, job in enumerate(arrivals.tolist(), start=1):
        request = workload.requests[job]
        if cluster.place(request, int(workload.memory_mib[job])):
            allocated[step] = request.total_gpu_milli
        if recorded[step]:
            fragment[step] = cluster.fragment()
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
