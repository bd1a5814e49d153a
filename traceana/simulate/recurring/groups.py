"""Simulate groups of recurring jobs, concurrent ones included (Zeus, NSDI'23)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError
from traceana.simulate.recurring.concurrent import Ended, Submission, recur_concurrently
from traceana.simulate.recurring.energy_tables import read_table, read_tables
from traceana.simulate.recurring.policies import PolicyMaker, policy_maker
from traceana.simulate.recurring.read import read_job
from traceana.simulate.recurring.recurrences import check_knobs
from traceana.simulate.recurring.tables import GroupRuns, Groups
from traceana.simulate.recurring.tables import (
    RecurringGroupsResult as RecurringGroupsResult,  # noqa: PLC0414  public in the stub
)
from traceana.stats.arguments import is_number
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame

    from traceana.schema import TrainingDefaults
    from traceana.simulate.recurring.job import JobTrace


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
) -> RecurringGroupsResult:
    """Simulate groups of recurring jobs on the trace's timeline.

    A job that starts while others of its group run takes the batch size of the cheapest run known
    by then (the default if there is none). Otherwise the policy chooses. The policy observes a run
    when it ends. A run that misses its target is repeated when it ends, for the same time on the
    clock of the trace. Energy, time and cost are scaled by the runtime_ratio of the job; policies
    observe them unscaled. Unlike in :func:`simulate_recurring`, the bound on a run is beta times
    the least cost of a single run. Data sets are trained to their default targets.

    Parameters
    ----------
    training_runs, power_profiles, gpu, eta, beta, defaults, policy
        As in :func:`simulate_recurring`.
    recurring_jobs
        [group, start_s, end_s, dataset, runtime_ratio], as the table of that name.
    rng
        Seed. The seed of a group is the Adler-32 checksum of its name plus rng - 1, so that 1
        gives the published seeds.

    Raises
    ------
    DataError
        If a group has more than one data set. A group that cannot be simulated has a note instead.

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
    check_knobs(eta=eta, beta=beta, seeds=[])
    if not is_number(rng, whole=True):
        raise DataError(f"rng must be a whole number; it is {rng!r}")
    name, maker = policy_maker(policy)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    rows = read_table("recurring_jobs", recurring_jobs, times=("start_s", "end_s"))
    jobs: dict[str, JobTrace | DataError] = {}
    for dataset in rows["dataset"].unique().sort():
        try:
            jobs[dataset] = read_job(tables, gpu=gpu, dataset=dataset)
        except DataError as error:
            jobs[dataset] = error
    if jobs and all(isinstance(job, DataError) for job in jobs.values()):
        raise DataError(str(next(iter(jobs.values()))))
    history: list[tuple[object, ...]] = []
    groups = []
    for (group,), members in rows.group_by("group", maintain_order=True):
        datasets = members["dataset"].unique().sort().to_list()
        if len(datasets) > 1:
            raise DataError(f"group {group!s} has several data sets: {', '.join(datasets)}")
        key: dict[str, object] = {"group": group, "dataset": datasets[0]}
        job = jobs[datasets[0]]
        submissions = [
            Submission(*each)
            for each in members.select("start_s", "end_s", "runtime_ratio").iter_rows()
        ]
        try:
            if isinstance(job, DataError):
                raise job
            own_seed = (zlib.adler32(str(group).encode()) + rng - 1) % 2**32
            ended = recur_concurrently(job, maker, submissions, eta=eta, beta=beta, rng=own_seed)
        except DataError as error:
            groups.append({**key, "note": str(error)})
            continue
        history += [(group, datasets[0], *_scaled(each)) for each in ended]
        groups.append({**key, **_account(job, submissions, ended)})
    return RecurringGroupsResult(
        gpu=gpu,
        policy=name,
        eta=eta,
        beta=beta,
        history=pl.DataFrame(history, schema=schema_of(GroupRuns), orient="row"),
        groups=pl.DataFrame(groups, schema=schema_of(Groups)),
    )


def _scaled(ended: Ended) -> tuple[object, ...]:
    run, ratio = ended.run, ended.runtime_ratio
    return (
        *(ended.recurrence, run.batch_size, run.power_limit_w),
        *(run.energy_j * ratio, run.time_s * ratio, run.cost_j * ratio, run.reached),
        *(ended.concurrent, ended.start_s, ended.end_s, ratio),
    )


def _account(
    job: JobTrace, submissions: Sequence[Submission], ended: Sequence[Ended]
) -> dict[str, object]:
    row: dict[str, object] = {
        "recurrences": len(submissions),
        "runs": len(ended),
        "runs_missed": sum(not each.run.reached for each in ended),
        "runs_concurrent": sum(each.concurrent for each in ended),
    }
    ratio = sum(each.runtime_ratio for each in submissions)
    expected = job.expected(job.default_batch_size, job.max_power_w)
    taken = {
        "energy_j": sum(each.run.energy_j * each.runtime_ratio for each in ended),
        "time_s": sum(each.run.time_s * each.runtime_ratio for each in ended),
    }
    row |= taken
    for (measure, total), default in zip(taken.items(), expected or (None, None), strict=True):
        row[f"default_{measure}"] = None if default is None else default * ratio
        saved = None if not default or not ratio else 1 - total / (default * ratio)
        row[measure.rsplit("_", 1)[0] + "_saved"] = saved
    if expected is None:
        row["note"] = f"no default: a run of batch size {job.default_batch_size} missed the target"
    return row
