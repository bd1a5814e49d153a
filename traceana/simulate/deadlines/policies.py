"""Missed deadlines of jobs that share a cluster under simple scheduling policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.deadlines.synthesis import read_jobs
from traceana.simulate.deadlines.tables import DeadlinePolicies
from traceana.simulate.frames import read_columns
from traceana.simulate.schedule.engine import run_schedule
from traceana.simulate.schedule.policy import ScheduledJobs, ScheduleState
from traceana.simulate.schedule.queueing import Ranked
from traceana.stats.arguments import as_list, is_number
from traceana.stats.arrays import Floats
from traceana.stats.intervals import wilson_interval
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


Policy: TypeAlias = Callable[[pl.DataFrame], pl.Series]
"""Ranks jobs [submit_s, runtime_s, gpus, deadline_s]: the smallest rank starts first."""

POLICIES: Final[dict[str, Policy]] = {
    "fifo": lambda jobs: jobs["submit_s"],
    "sjf": lambda jobs: jobs["runtime_s"],
    "edf": lambda jobs: jobs["deadline_s"],
    "least_slack": lambda jobs: jobs["deadline_s"] - jobs["runtime_s"],
}
"""First in first out, shortest job first, earliest deadline first, and least slack first."""

_PARTS: Final = 1_000_000
"""Parts of a GPU, so that sums of fractions are exact."""
_LARGEST: Final = 1e12


@returns(DeadlinePolicies)
def simulate_deadlines(
    jobs: IntoFrame,
    /,
    *,
    plans: IntoFrame | None = None,
    policies: Sequence[str | Policy] = tuple(POLICIES),
    capacity: float | None = None,
    load: float = 0.8,
    submit: str = "submit_s",
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    deadline: str = "deadline_s",
) -> pl.DataFrame:
    """Count the deadlines that jobs miss under scheduling policies.

    The jobs of a cluster share identical GPUs. A job starts on all of its GPUs at once, runs for
    its recorded runtime, and is not interrupted. The waiting job of smallest rank starts as soon
    as its GPUs are free; later ones wait behind it (no backfilling). Jobs that cannot meet their
    deadline run all the same.

    Parameters
    ----------
    jobs
        One row per job: job_id, optionally cluster, and the columns below; eager or lazy, of any
        supported engine. Rows with a null, or a runtime or GPU count of zero, are excluded.
    plans
        [cluster, job_id, deadline_s] with the deadlines, such as what
        :func:`synthesize_deadlines` returns; None: `jobs` has them.
    policies
        Names of :data:`POLICIES` ("fifo", "sjf", "edf", "least_slack"), or functions of the jobs
        that return one rank per job.
    capacity
        GPUs of each cluster. None: the fewest at which the jobs, started when submitted, would use
        the fraction `load` of them from the first submission to the last; at least those of the
        largest job.
    load
        See `capacity`.
    submit, runtime, gpus, deadline
        Columns of the submission (seconds or datetimes), the runtime, the requested GPUs and the
        deadline (as the submission).

    Returns
    -------
    DataFrame
        One row per cluster and policy, and with several clusters one of all together (cluster
        null):
        {columns}

    Raises
    ------
    DataError
        If a job is not unique, or no job is left.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame(
    ...     {"job_id": ["a", "b"], "submit_s": [0, 0], "runtime_s": [100, 100], "gpus": [1, 1],
    ...      "deadline_s": [150, 150]}
    ... )
    >>> traceana.simulate_deadlines(jobs, policies=["fifo"], capacity=1)["n_missed"].item()
    1
    """
    if not (capacity is None or (is_number(capacity) and 0 < capacity <= _LARGEST)):
        raise DataError(
            f"capacity must be GPUs above 0, {_LARGEST:g} at most, or None; it is {capacity!r}"
        )
    if not (is_number(load) and 1 / _LARGEST <= load <= 1):
        raise DataError(f"load must be above 0 and at most 1; it is {load!r}")
    ranks = _policies(policies)
    roles = {"submit": submit, "runtime": runtime, "gpus": gpus}
    if plans is None:
        table = read_jobs(jobs, {**roles, "deadline": deadline})
    else:
        kinds = {"cluster": pl.String, "job_id": pl.String, "deadline_s": pl.Float64}
        of_plans = read_columns(plans, kinds, "plans")
        table = read_jobs(jobs, roles)
        table = table.join(of_plans, on=["cluster", "job_id"], how="left", maintain_order="left")
    if table.drop_nulls("job_id").select("cluster", "job_id").is_duplicated().any():
        raise DataError("a job occurs twice: (cluster, job_id) must be unique")
    frame = table.drop_nulls().filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
    if frame.is_empty():
        raise DataError("no job has a submission, runtime, GPUs and deadline, the two above 0")
    rows = []
    for (cluster,), of_cluster in frame.sort("submit_s", maintain_order=True).group_by(
        "cluster", maintain_order=True
    ):
        size = _capacity(of_cluster, load) if capacity is None else float(capacity)
        fits = of_cluster.filter(pl.col("gpus") <= size + 1 / _PARTS)
        excluded = table.filter(cluster=str(cluster)).height - fits.height
        for name, policy in ranks.items():
            row = {"cluster": cluster, "policy": name, "capacity": size, "n_excluded": excluded}
            rows.append(row | _outcome(fits, _ranks(policy, fits, name), size))
    tables = pl.DataFrame(rows, schema=schema_of(DeadlinePolicies)).sort(
        "cluster", maintain_order=True
    )
    if tables["cluster"].n_unique() > 1:
        tables = pl.concat([tables, _together(tables)], how="diagonal")
    low, high = wilson_interval(tables["n_missed"], tables["n"])
    return declared(
        tables.with_columns(
            fraction_missed=pl.when(pl.col("n") > 0).then(pl.col("n_missed") / pl.col("n")),
            ci_low=pl.Series(low).fill_nan(None),
            ci_high=pl.Series(high).fill_nan(None),
        ),
        DeadlinePolicies,
    )


def _policies(policies: Sequence[str | Policy]) -> dict[str, Policy]:
    found: dict[str, Policy] = {}
    given = as_list("policies", policies)
    for policy in given:
        if isinstance(policy, str) and policy in POLICIES:
            found[policy] = POLICIES[policy]
        elif callable(policy):
            found[getattr(policy, "__name__", type(policy).__name__)] = policy
        else:
            raise DataError(
                f"no policy is called {policy!r}; there is {', '.join(POLICIES)}, or a function of "
                "the jobs that returns one rank per job"
            )
    if not found or len(found) < len(given):
        raise DataError("policies must be one or more with different names")
    return found


def _capacity(jobs: pl.DataFrame, load: float) -> float:
    """Size a cluster by the GPU time between the first submission and the last."""
    last = float(jobs["submit_s"][-1])
    span = last - float(jobs["submit_s"][0])
    inside = pl.min_horizontal("runtime_s", last - pl.col("submit_s"))
    work = float(jobs.select((pl.col("gpus") * inside).sum()).item())
    needed = math.ceil(work / span / load) if span > 0 else 0
    return max(float(needed), math.ceil(float(str(jobs["gpus"].max()))))


def _ranks(policy: Policy, jobs: pl.DataFrame, name: str) -> Floats:
    ranks = np.asarray(policy(jobs), dtype=float)
    if ranks.shape != (jobs.height,) or np.isnan(ranks).any():
        raise DataError(f"policy {name} must return {jobs.height} ranks, one per job")
    return ranks


def _outcome(jobs: pl.DataFrame, ranks: Floats, capacity: float) -> dict[str, Any]:
    submit, runtime, gpus = (jobs[name].to_numpy() for name in ("submit_s", "runtime_s", "gpus"))
    start = start_times(submit, runtime, gpus, ranks, capacity)
    if not len(start):
        return {"n": 0, "n_missed": 0}
    end, wait = start + runtime, start - submit
    if not np.isfinite(wait).all():
        raise DataError("gpus are too many or too few for a simulation; use whole GPUs or parts")
    return {
        "n": len(start),
        "n_missed": int((end > jobs["deadline_s"].to_numpy()).sum()),
        "mean_wait_s": float(wait.mean()),
        "median_wait_s": float(np.median(wait)),
        "p95_wait_s": float(np.quantile(wait, 0.95)),
        "utilization": float((runtime * gpus).sum() / (capacity * (end.max() - submit.min()))),
    }


class _ByRank(Ranked):
    """The waiting job of the smallest rank starts first."""

    def __init__(self, ranks: Floats) -> None:
        super().__init__()
        self._ranks = ranks

    def rank(self, state: ScheduleState, job: int, /) -> float:
        """Return the rank of a job."""
        del state
        return float(self._ranks[job])


def start_times(
    submit: Floats,
    runtime: Floats,
    gpus: Floats,
    ranks: Floats,
    capacity: float,
    /,
) -> Floats:
    """Return when each job starts; jobs are in order of submission, and each fits."""
    n, seconds = len(submit), runtime.tolist()
    rigid = ScheduledJobs(
        submit_s=submit.tolist(),
        runtime_s=seconds,
        gpus=[round(each * _PARTS) for each in gpus.tolist()],
        deadline_s=[math.inf] * n,
        time_limit_s=seconds,
        priority=[0.0] * n,
        user=[""] * n,
        work=seconds,
        profiles=[None] * n,
    )
    size = math.floor(capacity * _PARTS + 0.5)
    return np.array(run_schedule(rigid, _ByRank(ranks), gpus=size, gpus_per_node=size).start_s)


def _together(rows: pl.DataFrame) -> pl.DataFrame:
    n = pl.col("n")
    return rows.group_by("policy", maintain_order=True).agg(
        pl.col("capacity", "n_excluded", "n_missed", "n").sum(),
        mean_wait_s=pl.when(n.sum() > 0).then((pl.col("mean_wait_s") * n).sum() / n.sum()),
        utilization=(pl.col("utilization") * pl.col("capacity")).sum() / pl.col("capacity").sum(),
    )
