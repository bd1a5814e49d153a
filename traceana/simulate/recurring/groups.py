"""Simulate groups of recurring jobs, concurrent ones included (Zeus, NSDI'23)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.results.base import Result
from traceana.simulate.recurring.concurrent import Ended, Submission, recur_concurrently
from traceana.simulate.recurring.policies import PolicyMaker, policy_maker
from traceana.simulate.recurring.read import read_job, read_table, read_tables
from traceana.simulate.recurring.recurrences import check_knobs
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.simulate.recurring.job import JobTrace

_HISTORY: Final = {
    "group": pl.String,
    "dataset": pl.String,
    "recurrence": pl.Int64,
    "batch_size": pl.Int64,
    "power_limit_w": pl.Float64,
    "energy_j": pl.Float64,
    "time_s": pl.Float64,
    "cost_j": pl.Float64,
    "reached": pl.Boolean,
    "concurrent": pl.Boolean,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "runtime_ratio": pl.Float64,
}
_GROUPS: Final = {
    "group": pl.String,
    "dataset": pl.String,
    "recurrences": pl.Int64,
    "runs": pl.Int64,
    "runs_missed": pl.Int64,
    "runs_concurrent": pl.Int64,
    "energy_j": pl.Float64,
    "time_s": pl.Float64,
    "default_energy_j": pl.Float64,
    "default_time_s": pl.Float64,
    "energy_saved": pl.Float64,
    "time_saved": pl.Float64,
    "note": pl.String,
}


@dataclass(frozen=True, repr=False)
class RecurringGroupsResult(Result):
    """Groups of recurring jobs, as :func:`simulate_recurring_groups` plays them out.

    Attributes
    ----------
    gpu, policy, eta, beta
        The settings.
    history
        [group, dataset, recurrence, batch_size, power_limit_w, energy_j, time_s, cost_j, reached,
        concurrent, start_s, end_s, runtime_ratio], one row a run, by group and in the order in
        which runs end. Energy, time and cost are scaled by runtime_ratio; start and end are the
        trace's. concurrent: it began while others of its group ran.
    groups
        [group, dataset, recurrences, runs, runs_missed, runs_concurrent, energy_j, time_s,
        default_energy_j, default_time_s, energy_saved, time_saved, note], one row a group. The
        savings are over the whole life of the group, exploration included, against the default's
        expected energy and time with the same ratios.
    """

    gpu: str
    policy: str
    eta: float
    beta: float
    history: pl.DataFrame
    groups: pl.DataFrame

    def summary(self) -> str:
        """Return a short text on the result."""
        played = self.groups.filter(pl.col("runs").is_not_null())
        lines = [
            (
                f"{self.groups.height:,} groups on {self.gpu}, policy {self.policy}, "
                f"eta {self.eta:g}, beta {self.beta:g}"
            ),
            (
                f"runs:   {self.history.height:,} in {played['recurrences'].sum():,} recurrences, "
                f"{played['runs_missed'].sum():,} missed the target, "
                f"{played['runs_concurrent'].sum():,} began while others ran"
            ),
        ]
        known = played.drop_nulls("energy_saved")
        for name, unit in (("energy", "j"), ("time", "s")):
            default = sum(known[f"default_{name}_{unit}"])
            if default:
                share = 100 * (1 - sum(known[f"{name}_{unit}"]) / default)
                lines.append(f"{name + ':':7} {share:.1f} % saved against the default")
        notes = self.groups["note"].value_counts(sort=True).drop_nulls().rows()
        lines += [f"note:   {number:,} groups: {note!s}" for note, number in notes]
        return "\n".join(lines)


def simulate_recurring_groups(
    training_runs: pl.DataFrame | pl.LazyFrame,
    power_profiles: pl.DataFrame | pl.LazyFrame,
    recurring_jobs: pl.DataFrame | pl.LazyFrame,
    /,
    *,
    gpu: str,
    eta: float = 0.5,
    beta: float = 2.0,
    seed: int = 0,
    policy: str | PolicyMaker = "zeus",
) -> RecurringGroupsResult:
    """Let groups of recurring jobs run on the trace's clock, with one policy a group.

    A job that starts while others of its group run takes the batch size of the cheapest run known
    by then (the default while there is none), at the limit its power policy knows for it; else the
    policy chooses. What came of a run is told to the policy when it ends, so that a concurrent
    job decides without it, and a pruning round goes on with the run it waits for. A run that
    misses its target is repeated when it ends, for the same stretch of the trace's clock. Energy,
    time and cost are scaled by the job's runtime_ratio; policies see them unscaled. Unlike in
    :func:`simulate_recurring`, the bound on a run is beta times the least cost of a single run.

    Parameters
    ----------
    training_runs, power_profiles, gpu, eta, beta, policy
        As in :func:`simulate_recurring`; data sets are trained to their default targets.
    recurring_jobs
        [group, start_s, end_s, dataset, runtime_ratio], as the table of that name.
    seed
        Added to the Adler-32 checksum of the group's name, which is the publisher's seed.

    Raises
    ------
    DataError
        If a table is not as declared, a group has more than one data set, the GPU or policy is not
        there, or a setting is out of range. A group that cannot be simulated has a note instead.
    """
    check_knobs(eta=eta, beta=beta, seeds=[])
    if not is_number(seed, whole=True):
        raise DataError(f"seed must be a whole number; it is {seed!r}")
    name, maker = policy_maker(policy)
    tables = read_tables(training_runs, power_profiles)
    rows = read_table("recurring_jobs", recurring_jobs)
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
            own_seed = (zlib.adler32(str(group).encode()) + seed) % 2**32
            ended = recur_concurrently(job, maker, submissions, eta=eta, beta=beta, seed=own_seed)
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
        history=pl.DataFrame(history, schema=_HISTORY, orient="row"),
        groups=pl.DataFrame(groups, schema=_GROUPS),
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
