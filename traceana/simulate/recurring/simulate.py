"""Simulate recurring jobs on the trace: one, a sweep with its summary, groups (Zeus, NSDI'23)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.schema import TrainingDefaults
from traceana.schema.training_tables import TrainingTables, check_one_of
from traceana.simulate.frames import over_seeds, read_result, read_seeds, with_intervals
from traceana.simulate.recurring import run as runner
from traceana.simulate.recurring import tables as declared_tables
from traceana.simulate.recurring.policies import PolicyMaker, policy_maker
from traceana.simulate.recurring.read import JobTrace, read_job, read_table, read_tables
from traceana.stats.arguments import as_generator, is_number
from traceana.tables.declare import declared, returns, schema_of


def simulate_recurring(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu: str,
    dataset: str,
    target: float | None = None,
    eta: float = 0.5,
    beta: float = 2.0,
    recurrences: int | None = None,
    rng: int | np.random.Generator = 1,
    defaults: TrainingDefaults | None = None,
    policy: str | PolicyMaker = "zeus",
) -> declared_tables.RecurringResult:
    """Simulate a recurring job that learns batch size and power limit.

    A run draws one training path of the batch size. It is stopped after E = min(floor(beta *
    Cmin / c), max_epochs) epochs, with c the cost of an epoch at its power limit and Cmin the
    least cost of a recurrence so far, and reaches the target if the path does within E. A batch
    size whose first epoch exceeds the bound does not run; its policy observes 100 * beta * Cmin.
    A recurrence repeats runs until one reaches the target. cost = eta * energy + (1 - eta) *
    max_power * time. The first epoch of a batch size without a limit yet is divided equally among
    the limits. A seed reproduces the history of the published simulator run by run.

    Parameters
    ----------
    training_runs, power_profiles
        The tables of those names, of any supported engine; the order of the runs matters.
    gpu, dataset, target
        As in :func:`energy_to_accuracy`.
    eta
        Weight of energy against time in the cost, in [0, 1].
    beta
        A run is stopped when it costs this many times the least cost so far; above 0, infinite for
        no early stop.
    recurrences
        Number of recurrences; None: twice the number of batch sizes times that of power limits.
    rng
        Seed or generator of the drawn paths and of the policy.
    defaults
        Default target, batch size and largest number of epochs by data set, such as those of
        :func:`traceana.training_defaults`; None: those of the Zeus traces.
    policy
        "zeus", "default", "grid" or "oracle", or a function of (job, eta, rng), `rng` being what is
        given here, that returns a :class:`BatchSizeOptimizer` and a :class:`PowerLimitOptimizer`
        (:doc:`/how-to/own-policies`).

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> result = traceana.simulate_recurring(runs, power, gpu="v100", dataset="cifar100")
    >>> result.history.select("recurrence", "batch_size", "power_limit_w").tail(2).rows()
    [(139, 128, 200.0), (140, 128, 200.0)]
    """
    runner.check_knobs(eta=eta, beta=beta, recurrences=recurrences)
    as_generator(rng)
    name, maker = policy_maker(policy)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    job = read_job(tables, gpu=gpu, dataset=dataset, target=target)
    runs = runner.recur(job, maker, eta=eta, beta=beta, recurrences=recurrences, rng=rng)
    rows = [(recurrence, *run) for recurrence, run in runs]
    history = pl.DataFrame(rows, schema=schema_of(declared_tables.Runs), orient="row")
    references = runner.reference_points(job, eta=eta)
    return declared_tables.RecurringResult(
        gpu=gpu,
        dataset=dataset,
        target=job.target,
        policy=name,
        eta=eta,
        beta=beta,
        rng=rng,
        history=history,
        recurrences=runner.by_recurrence(history, references),
        references=references,
        totals=pl.DataFrame([runner.replication(job, runs, references)]),
        job=job,
    )


_SUMMARIZED: Final = ("energy_saved", "time_saved", "cost_saved", "regret_fraction")
_READ: Final = ("gpu", "dataset", "runs", "points_missing", "note", *_SUMMARIZED)


@returns(declared_tables.Sweep)
def sweep_recurring(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu_types: str | Sequence[str] | None = None,
    datasets: str | Sequence[str] | None = None,
    seeds: Iterable[int] = range(10),
    eta: float = 0.5,
    beta: float = 2.0,
    recurrences: int | None = None,
    defaults: TrainingDefaults | None = None,
    policy: str | PolicyMaker = "zeus",
    progress: Callable[[float], None] | None = None,
) -> pl.DataFrame:
    """Simulate all recurring jobs of a trace with several seeds.

    Parameters
    ----------
    training_runs, power_profiles, eta, beta, recurrences, defaults, policy
        As in :func:`simulate_recurring`.
    gpu_types, datasets
        One or several; None: all that were profiled.
    seeds
        Seeds, one replication each.
    progress
        Called after each job with the completed fraction.

    Returns
    -------
    DataFrame
        One row per (gpu, dataset, seed), trained to the default target. Sums are over all runs,
        savings over the last five recurrences. What cannot be simulated is null, with a note:
        {columns}

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> sweep = traceana.sweep_recurring(runs, power, datasets="cifar100", seeds=[1, 2])
    >>> sweep.select("gpu", "seed", "recurrences").rows()[:2]
    [('a40', 1, 180), ('a40', 2, 180)]
    """
    seeds = read_seeds(seeds)
    runner.check_knobs(eta=eta, beta=beta, recurrences=recurrences)
    _, maker = policy_maker(policy)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    jobs = read_jobs(tables, gpu_types=gpu_types, datasets=datasets)
    return sweep_jobs(
        jobs, maker, seeds, eta=eta, beta=beta, recurrences=recurrences, progress=progress
    )


Jobs: TypeAlias = dict[tuple[str, str], "JobTrace | DataError"]
"""Jobs by GPU and data set, or why one cannot be simulated."""


def read_jobs(
    tables: TrainingTables,
    /,
    *,
    gpu_types: str | Sequence[str] | None = None,
    datasets: str | Sequence[str] | None = None,
) -> Jobs:
    """Return the profiled jobs, of all or of some GPUs and data sets."""
    jobs = tables.power_profiles.select("gpu", "dataset").unique().sort("gpu", "dataset")
    for column, given in {"gpu": gpu_types, "dataset": datasets}.items():
        names = [given] if isinstance(given, str) else given
        if names is not None:
            for name in names:
                check_one_of(column, name, tables.power_profiles[column])
            jobs = jobs.filter(pl.col(column).is_in(list(names)))
    return {(gpu, dataset): _job_or_why_not(tables, gpu, dataset) for gpu, dataset in jobs.rows()}


def _job_or_why_not(tables: TrainingTables, gpu: str, dataset: str) -> JobTrace | DataError:
    try:
        return read_job(tables, gpu=gpu, dataset=dataset)
    except DataError as error:
        return error


def sweep_jobs(
    jobs: Jobs,
    maker: PolicyMaker,
    seeds: Sequence[int],
    /,
    *,
    eta: float = 0.5,
    beta: float = 2.0,
    recurrences: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> pl.DataFrame:
    """Return what :func:`sweep_recurring` does for jobs that were read."""
    rows: list[dict[str, object]] = []
    for done, ((gpu, dataset), job) in enumerate(jobs.items(), 1):
        key: dict[str, object] = {"gpu": gpu, "dataset": dataset}
        if isinstance(job, DataError):
            rows += [{**key, "seed": seed, "note": str(job)} for seed in seeds]
        else:
            references = runner.reference_points(job, eta=eta)
            note = "; ".join(references["note"].drop_nulls()) or None
            for seed in seeds:
                row = {**key, "seed": seed, "note": note}
                try:
                    runs = runner.recur(
                        job, maker, eta=eta, beta=beta, recurrences=recurrences, rng=seed
                    )
                    row |= runner.replication(job, runs, references)
                except DataError as error:
                    row["note"] = str(error)
                rows.append(row)
        if progress is not None:
            progress(done / len(jobs))
    return declared(
        pl.DataFrame(rows, schema=schema_of(declared_tables.Sweep)), declared_tables.Sweep
    )


@returns(declared_tables.SweepSummary)
def summarize_recurring(sweep: IntoFrame, /, *, confidence: float = 0.95) -> pl.DataFrame:
    """Average savings and regret over the seeds of a sweep.

    The intervals cover the randomness of the simulation only. They do not cover that each epoch
    was measured once and each batch size was trained a few times.

    Parameters
    ----------
    sweep
        What :func:`sweep_recurring` returns.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row per (gpu, dataset). Means are over the seeds that could be simulated, which is
        optimistic for a job with seeds_failed. Bounds are null for fewer than two:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> sweep = traceana.sweep_recurring(runs, power, datasets="cifar100", seeds=[1, 2])
    >>> found = traceana.summarize_recurring(sweep)
    >>> found.filter(gpu="v100").select("seeds", pl.col("energy_saved").round(1)).rows()
    [(2, 0.7)]
    """
    simulated = pl.col("runs").is_not_null()
    rows = read_result(sweep, declared_tables.Sweep, _READ, "summarize_recurring")
    grouped = rows.group_by("gpu", "dataset", maintain_order=True).agg(
        *over_seeds(_SUMMARIZED),
        seeds=simulated.sum().cast(pl.Int64),
        seeds_failed=(~simulated).sum().cast(pl.Int64),
        points_missing=pl.col("points_missing").max(),
        note=pl.col("note").drop_nulls().first(),
    )
    return declared(
        with_intervals(grouped, _SUMMARIZED, confidence=confidence), declared_tables.SweepSummary
    )


def simulate_recurring_groups(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    recurring_jobs: IntoFrame,
    /,
    *,
    gpu: str,
    eta: float = 0.5,
    beta: float = 2.0,
    rng: int = 1,
    defaults: TrainingDefaults | None = None,
    policy: str | PolicyMaker = "zeus",
) -> declared_tables.RecurringGroupsResult:
    """Simulate groups of recurring jobs on the trace's timeline.

    A job that starts while others of its group run takes the batch size of the cheapest run known
    by then, the default while there is none; else the policy chooses. The policy observes a run
    when it ends. One that misses its target is then repeated, for the same time. Energy, time and
    cost are scaled by the runtime_ratio of the job after that. Unlike in
    :func:`simulate_recurring`, the bound on a run is beta times the least cost of a single run.

    Parameters
    ----------
    training_runs, power_profiles, gpu, eta, beta, defaults, policy
        As in :func:`simulate_recurring`.
    recurring_jobs
        [group, start_s, end_s, dataset, runtime_ratio], as the table of that name.
    rng
        Seed. The seed of a group is the Adler-32 checksum of its name plus rng - 1, so that 1
        gives the published seeds.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> jobs = store.scan("zeus-2023", "recurring_jobs").head(20)
    >>> result = traceana.simulate_recurring_groups(runs, power, jobs, gpu="v100")
    >>> result.groups.select("dataset", "recurrences").head(2).rows()
    [('librispeech', 13), ('movielens-1m', 3)]
    """
    runner.check_knobs(eta=eta, beta=beta)
    if not is_number(rng, whole=True):
        raise DataError(f"rng must be a whole number; it is {rng!r}")
    name, maker = policy_maker(policy)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    rows = read_table("recurring_jobs", recurring_jobs, times=("start_s", "end_s"))
    datasets = rows["dataset"].unique().sort().to_list()
    jobs = {dataset: _job_or_why_not(tables, gpu, dataset) for dataset in datasets}
    errors = [job for job in jobs.values() if isinstance(job, DataError)]
    if errors and len(errors) == len(jobs):
        raise errors[0]
    history: list[tuple[object, ...]] = []
    groups = []
    for (group,), members in rows.group_by("group", maintain_order=True):
        dataset, *others = members["dataset"].unique().sort()
        if others:
            listed = ", ".join([dataset, *others])
            raise DataError(f"group {group!s} has several data sets: {listed}")
        columns = members.select("start_s", "end_s", "runtime_ratio")
        submissions = [runner.Submission(*each) for each in columns.iter_rows()]
        row: dict[str, object] = {"group": group, "dataset": dataset}
        try:
            job = jobs[dataset]
            if isinstance(job, DataError):
                raise job
            own_seed = (zlib.adler32(str(group).encode()) + rng - 1) % 2**32
            ended = runner.recur_concurrently(
                job, maker, submissions, eta=eta, beta=beta, rng=own_seed
            )
        except DataError as error:
            groups.append({**row, "note": str(error)})
            continue
        groups.append(row | _account(job, submissions, ended))
        history += [
            (group, dataset, each.recurrence, *each.run[:6], each.concurrent, *each.submission)
            for each in ended
        ]
    runs = pl.DataFrame(history, schema=schema_of(declared_tables.GroupRuns), orient="row")
    return declared_tables.RecurringGroupsResult(
        gpu=gpu,
        policy=name,
        eta=eta,
        beta=beta,
        history=runs.with_columns(pl.col(runner.MEASURES) * pl.col("runtime_ratio")),
        groups=pl.DataFrame(groups, schema=schema_of(declared_tables.Groups)),
    )


def _account(
    job: JobTrace, submissions: Sequence[runner.Submission], ended: Sequence[runner.Flight]
) -> dict[str, object]:
    row: dict[str, Any] = {
        "recurrences": len(submissions),
        "runs": len(ended),
        "runs_missed": sum(not each.run.reached for each in ended),
        "runs_concurrent": sum(each.concurrent for each in ended),
        "energy_j": sum(each.run.energy_j * each.submission.runtime_ratio for each in ended),
        "time_s": sum(each.run.time_s * each.submission.runtime_ratio for each in ended),
    }
    expected = job.expected(job.default_batch_size, job.max_power_w)
    if expected is None:
        note = f"no default: a run of batch size {job.default_batch_size} missed the target"
        return row | {"note": note}
    ratio = sum(each.runtime_ratio for each in submissions)
    for measure, unit, default in zip(("energy", "time"), "js", expected, strict=True):
        total = row[f"default_{measure}_{unit}"] = default * ratio
        if total:
            row[f"{measure}_saved"] = 1 - row[f"{measure}_{unit}"] / total
    return row
