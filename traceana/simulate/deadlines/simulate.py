"""Training plans drawn for any jobs as the ElasticFlow files show, and deadlines that jobs miss."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Final, TypeAlias

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.schema import TABLES
from traceana.simulate.deadlines.tables import DeadlinePolicies
from traceana.simulate.frames import read_columns
from traceana.simulate.schedule.policy import ScheduledJobs, run_schedule
from traceana.simulate.schedule.queueing import Priority
from traceana.stats.arguments import as_generator, as_list, is_number
from traceana.stats.arrays import Floats
from traceana.stats.intervals import wilson_interval
from traceana.store.frames import column_names
from traceana.tables.declare import declared, interval_columns, returns, schema_of

TIGHTNESS: Final = (0.5, 1.5)
"""Ends of the uniform draw of (deadline - submission) / runtime in the published files."""
_MEASURES: Final = ("submit_s", "runtime_s", "gpus")

Draw: TypeAlias = Callable[[np.random.Generator, int], "Floats"]
"""Draws n numbers."""


DISTRIBUTIONS: Final[dict[str, Callable[..., Floats]]] = {
    "uniform": np.random.Generator.uniform,
    "loguniform": lambda rng, low, high, n: np.exp(rng.uniform(np.log(low), np.log(high), n)),
    # numpy refuses a triangle without a width
    "triangular": lambda rng, low, high, n: (
        rng.triangular(low, (low + high) / 2, high, n) if low < high else rng.uniform(low, high, n)
    ),
}
"""Distributions of the tightness between two ends; the triangle has its mode in the middle."""

_MOST_ITERATIONS: Final = 1e15  # that the table can hold
_MOST_TIGHTNESS: Final = 1e6
_RATE: Final[dict[str, type[pl.DataType]]] = {
    "model": pl.String,
    "batch_size": pl.Int64,
    "gpus": pl.Float64,
    "iterations_per_s": pl.Float64,
}


def published_rates() -> pl.DataFrame:
    """Return [model, batch_size, gpus, iterations_per_s] of the ElasticFlow files."""
    text = files(__package__).joinpath("published_rates.csv").read_bytes()
    return pl.read_csv(text, comment_prefix="#", schema=_RATE)


def synthesize_deadlines(
    jobs: IntoFrame,
    /,
    *,
    rng: int | np.random.Generator = 1,
    rates: IntoFrame | None = None,
    tightness: tuple[float, float] = TIGHTNESS,
    distribution: str | Draw = "uniform",
) -> pl.DataFrame:
    r"""Draw training plans by the rules of the ElasticFlow files.

    The rules, inferred from the published traces (Gu et al., ASPLOS'23):
    :doc:`/explanation/deadlines`.

    1. (model, batch size) is drawn with equal probability among the pairs that have a rate at the
       GPUs of the job: log(rate) is interpolated linearly in log(GPUs), proportional to the GPUs
       below the smallest count, constant above the largest.
    2. iterations = floor(rate(model, batch size, GPUs) * runtime), at least 1.
    3. deadline_s = floor(submit + u * runtime) with u uniform on [0.5, 1.5).

    Parameters
    ----------
    jobs
        One row per job: job_id, submit_s (seconds or datetimes), runtime_s, gpus and optionally
        cluster (else ``all``); eager or lazy, of any supported engine. Jobs with a null, or a
        runtime or GPU count of zero, get no plan.
    rng
        Seed or generator.
    rates
        [model, batch_size, gpus, iterations_per_s] of :func:`traceana.iteration_rates`; None for
        :func:`published_rates`.
    tightness
        Ends of the distribution of (deadline - submission) / runtime.
    distribution
        "uniform", "loguniform" or "triangular" between these ends, or a function of (generator, n)
        that returns n values of the tightness; then the ends are ignored.

    Returns
    -------
    DataFrame
        A ``training_plans`` table [job_id, cluster, model, batch_size, iterations, deadline_s], in
        the order of the jobs. It is SYNTHETIC, as the published columns are.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"job_id": ["a"], "submit_s": [0], "runtime_s": [100], "gpus": [1]})
    >>> traceana.synthesize_deadlines(jobs, tightness=(2, 2))["deadline_s"].item()
    200.0
    """
    generator = as_generator(rng)
    draw = _draw_of(tightness, distribution)
    table_read = read_jobs(jobs, _MEASURES)
    if table_read.drop_nulls("job_id").select("cluster", "job_id").is_duplicated().any():
        raise DataError("a job occurs twice in the jobs table: (cluster, job_id) must be unique")
    table = published_rates() if rates is None else _check(rates, _RATE, "rates")
    _check_rates(table)
    jobs_known = table_read.drop_nulls().filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
    job_gpus, times = (jobs_known[name].to_numpy() for name in ("gpus", "runtime_s"))
    pairs, rate = _rates_at(table, job_gpus)
    offered = ~np.isnan(rate)
    if not offered.any(axis=1).all():
        without = job_gpus[~offered.any(axis=1)][0]
        sizes = ", ".join(f"{gpus:g}" for gpus in table["gpus"].unique().sort())
        raise DataError(f"rates offer no model at {without:g} GPUs; they have rows for {sizes}")
    # the k-th of the offered pairs, k uniform
    rank = generator.integers(offered.sum(axis=1))
    chosen = np.argmax(np.cumsum(offered, axis=1) > rank[:, None], axis=1)
    iterations = np.floor(rate[np.arange(len(times)), chosen] * times)
    if (iterations > _MOST_ITERATIONS).any():
        raise DataError(f"a job would have more than {_MOST_ITERATIONS:g} iterations")
    try:
        drawn = np.asarray(draw(generator, len(times)), dtype=float)
    except (TypeError, ValueError):
        drawn = np.empty(0)
    if drawn.shape != times.shape or not ((drawn >= 0) & (drawn <= _MOST_TIGHTNESS)).all():
        raise DataError(
            f"distribution must return {len(times)} numbers from 0 to {_MOST_TIGHTNESS:g}"
        )
    plans = jobs_known.select("job_id", "cluster").with_columns(
        pairs[chosen],
        iterations=pl.Series(np.maximum(iterations, 1), dtype=pl.Int64),
        deadline_s=pl.Series(np.floor(jobs_known["submit_s"].to_numpy() + drawn * times)),
    )
    return TABLES["training_plans"].validate(plans, cast=True)


def _draw_of(tightness: tuple[float, float], distribution: str | Draw) -> Draw:
    if callable(distribution):
        return distribution
    if distribution not in DISTRIBUTIONS:
        raise DataError(
            f"distribution must be {', '.join(DISTRIBUTIONS)} or a function of (generator, n); it "
            f"is {distribution!r}"
        )
    try:
        low, high = tightness
    except (TypeError, ValueError):
        low = high = -1.0
    lowest = np.nextafter(0, 1) if distribution == "loguniform" else 0.0
    if not (is_number(low) and is_number(high) and lowest <= low <= high <= _MOST_TIGHTNESS):
        above = "above 0" if lowest else "0 or more"
        raise DataError(
            f"tightness must be two numbers, {above} and in order, {_MOST_TIGHTNESS:g} at most; it "
            f"is {tightness!r}"
        )
    return lambda generator, n: DISTRIBUTIONS[distribution](generator, low, high, n)


def read_jobs(jobs: IntoFrame, measures: Sequence[str], /) -> pl.DataFrame:
    """Return [job_id, cluster] as text, a missing cluster being ``all``, and the measures."""
    kinds: dict[str, type[pl.DataType]] = {"job_id": pl.String}
    cluster = pl.lit("all")
    if "cluster" in column_names(jobs):
        kinds["cluster"] = pl.String
        cluster = pl.when(pl.col("cluster") != "").then("cluster").otherwise(cluster)
    kinds |= dict.fromkeys(measures, pl.Float64)
    return _check(jobs, kinds, "jobs").select(
        pl.when(pl.col("job_id") != "").then("job_id"),
        cluster.alias("cluster"),
        *dict.fromkeys(measures),
    )


def _check(given: IntoFrame, needed: dict[str, type[pl.DataType]], what: str) -> pl.DataFrame:
    table = read_columns(given, needed, what)
    for column in table.select(pl.selectors.numeric()):
        if (column < 0).any():
            raise DataError(f"{what}: column {column.name} must be finite and not negative")
    return table


def _check_rates(rates: pl.DataFrame) -> None:
    usable = rates.drop_nulls().filter(pl.col("iterations_per_s") > 0, pl.col("gpus") > 0)
    distinct = usable.unique(("model", "batch_size", "gpus"))
    if rates.is_empty() or distinct.height < rates.height:
        raise DataError(
            "rates must have rows without nulls, iterations_per_s and gpus above 0, and each "
            "(model, batch_size, gpus) once"
        )


def _rates_at(rates: pl.DataFrame, gpus: Floats) -> tuple[pl.DataFrame, Floats]:
    """Return the pairs, and the rate of each (job, pair); NaN where a pair has none."""
    pairs = rates.select("model", "batch_size").unique(maintain_order=True)
    counts, of_job = np.unique(gpus, return_inverse=True)
    fewest, most = rates["gpus"].min(), rates["gpus"].max()
    columns = []
    for pair in pairs.iter_rows(named=True):
        of_pair = rates.filter(**pair).sort("gpus")
        points, values = of_pair["gpus"].to_numpy(), of_pair["iterations_per_s"].to_numpy()
        at = np.exp(np.interp(np.log(counts), np.log(points), np.log(values)))
        at = np.where(counts < points[0], values[0] * counts / points[0], at)
        # a count that other pairs know beyond this pair's own range is one it is not offered at
        beyond_low = (counts < points[0]) & (points[0] > fewest)
        beyond_high = (counts > points[-1]) & (points[-1] < most)
        columns.append(np.where(beyond_low | beyond_high, np.nan, at))
    return pairs, np.column_stack(columns)[of_job] if len(gpus) else np.empty((0, pairs.height))


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
_LOAD: Final = 0.8


@returns(DeadlinePolicies)
def simulate_deadlines(
    jobs: IntoFrame,
    /,
    *,
    plans: IntoFrame | None = None,
    policies: Sequence[str | Policy] = tuple(POLICIES),
    capacity: float | None = None,
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
        As for :func:`synthesize_deadlines`, and `deadline`. Rows with a null, or a runtime or GPU
        count of zero, are excluded.
    plans
        [cluster, job_id, deadline_s] with the deadlines, such as what
        :func:`synthesize_deadlines` returns; None: `jobs` has them.
    policies
        Names of :data:`POLICIES` ("fifo", "sjf", "edf", "least_slack"), or functions of the jobs
        that return one rank per job.
    capacity
        GPUs of each cluster. None: the fewest at which the jobs, started when submitted, would use
        80 % of them from the first submission to the last; at least those of the
        largest job.
    deadline
        Column of the deadline (seconds or datetimes, as submit_s) without `plans`.

    Returns
    -------
    DataFrame
        One row per cluster and policy:
        {columns}

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
    ranks = _policies(policies)
    if plans is None:
        table = read_jobs(jobs, (*_MEASURES, deadline)).with_columns(deadline_s=deadline)
    else:
        kinds = {"cluster": pl.String, "job_id": pl.String, "deadline_s": pl.Float64}
        of_plans = read_columns(plans, kinds, "plans")
        table = read_jobs(jobs, _MEASURES)
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
        size = _capacity(of_cluster) if capacity is None else float(capacity)
        fits = of_cluster.filter(pl.col("gpus") <= size + 1 / _PARTS)
        of_jobs = fits.select("submit_s", "runtime_s", "gpus", "deadline_s").to_numpy().T
        submit_s, runtime_s, requested, deadline_s = of_jobs
        excluded = table.filter(cluster=str(cluster)).height - fits.height
        for name, policy in ranks.items():
            ranked = np.asarray(policy(fits), dtype=float)
            if ranked.shape != (fits.height,) or np.isnan(ranked).any():
                raise DataError(f"policy {name} must return {fits.height} ranks, one per job")
            start_s = start_times(submit_s, runtime_s, requested, ranked, size)
            row = {"cluster": cluster, "policy": name, "capacity": size, "n": fits.height}
            missed = int((start_s + runtime_s > deadline_s).sum())
            rows.append(row | {"n_excluded": excluded, "n_missed": missed})
    outcome = pl.DataFrame(rows, schema=schema_of(DeadlinePolicies))
    outcome = outcome.sort("cluster", maintain_order=True).with_columns(
        fraction_missed=pl.when(pl.col("n") > 0).then(pl.col("n_missed") / pl.col("n")),
        **interval_columns(wilson_interval(outcome["n_missed"], outcome["n"])),
    )
    return declared(outcome, DeadlinePolicies)


def _policies(policies: Sequence[str | Policy]) -> dict[str, Policy]:
    chosen: dict[str, Policy] = {}
    given = as_list("policies", policies)
    for policy in given:
        if isinstance(policy, str) and policy in POLICIES:
            chosen[policy] = POLICIES[policy]
        elif callable(policy):
            chosen[getattr(policy, "__name__", type(policy).__name__)] = policy
        else:
            raise DataError(
                f"no policy is called {policy!r}; there are {', '.join(POLICIES)}, or a function "
                "of the jobs that returns one rank per job"
            )
    if not chosen or len(chosen) < len(given):
        raise DataError("policies must be one or more with different names")
    return chosen


def _capacity(jobs: pl.DataFrame) -> float:
    """Size a cluster by the GPU time between the first submission and the last."""
    last = float(jobs["submit_s"][-1])
    span = last - float(jobs["submit_s"][0])
    inside = pl.min_horizontal("runtime_s", last - pl.col("submit_s"))
    work = float(jobs.select((pl.col("gpus") * inside).sum()).item())
    needed = math.ceil(work / span / _LOAD) if span > 0 else 0
    return max(float(needed), math.ceil(float(str(jobs["gpus"].max()))))


def start_times(
    submit: Floats, runtime: Floats, gpus: Floats, ranks: Floats, capacity: float, /
) -> Floats:
    """Return when each job starts; jobs are in order of submission, and each fits."""
    n, seconds = len(submit), runtime.tolist()
    rigid = ScheduledJobs(
        submit_s=submit.tolist(),
        runtime_s=seconds,
        gpus=[round(each * _PARTS) for each in gpus.tolist()],
        deadline_s=[math.inf] * n,
        time_limit_s=seconds,
        priority=(-ranks).tolist(),
        user=[""] * n,
        work=seconds,
        profiles=[None] * n,
    )
    size = math.floor(capacity * _PARTS + 0.5)
    return np.array(run_schedule(rigid, Priority(), gpus=size, gpus_per_node=size).start_s)
