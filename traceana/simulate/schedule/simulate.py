"""Simulate schedules of jobs on their clusters, under a policy or several."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import as_completed
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, cast

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.processes import start_processes
from traceana.simulate.frames import read_columns
from traceana.simulate.schedule import queueing
from traceana.simulate.schedule.capacity import (
    ALL,
    GroupCapacity,
    Profile,
    Profiles,
    calibrate,
    find_capacity,
    implied_rates,
    read_profiles,
)
from traceana.simulate.schedule.elastic import EarliestDeadlineFirst, ElasticFlow
from traceana.simulate.schedule.policy import (
    Schedule,
    ScheduledJobs,
    SchedulingPolicy,
    SlottedPolicy,
    run_schedule,
)
from traceana.simulate.schedule.tables import ScheduledJob, ScheduleGroups, ScheduleSteps
from traceana.simulate.schedule.timesharing import Gandiva, Themis, Tiresias
from traceana.stats.arguments import is_number
from traceana.store.frames import column_names
from traceana.tables.declare import declared, schema_of
from traceana.tables.formatting import duration, percent
from traceana.tables.result import Result

POLICIES: Final[dict[str, Callable[[], SchedulingPolicy]]] = {
    "fifo": queueing.FirstInFirstOut,
    "fair_share": queueing.FairShare,
    "sjf": queueing.ShortestJobFirst,
    "sjf_user_mean": queueing.PredictedShortestJobFirst,
    "sjf_last_value": partial(queueing.PredictedShortestJobFirst, last=True),
    "srtf": queueing.ShortestRemainingTimeFirst,
    "easy": queueing.EasyBackfilling,
    "conservative": queueing.ConservativeBackfilling,
    "priority": queueing.Priority,
    "tiresias": Tiresias,
    "gandiva": Gandiva,
    "themis": Themis,
    "edf": EarliestDeadlineFirst,
    "edf_admission": partial(ElasticFlow, least=False),
    "edf_elastic": partial(ElasticFlow, admission=False),
    "elasticflow": ElasticFlow,
}
_METHODS: Final = ("admit", "order", "allocate", "place")


def find_policy(policy: object, /) -> tuple[str, Callable[[], SchedulingPolicy]]:
    """Return the name of a policy and a function that makes one, or a copy, for each group."""
    if isinstance(policy, str):
        if policy in POLICIES:
            return policy, POLICIES[policy]
        raise DataError(f"no policy is called {policy!r}; there are {', '.join(POLICIES)}")
    name = getattr(policy, "__name__", type(policy).__name__)
    is_made = not isinstance(policy, type) and hasattr(policy, "allocate")
    make: Any = partial(deepcopy, policy) if is_made else policy
    candidate = make() if callable(make) else policy
    if missing := [method for method in _METHODS if not callable(getattr(candidate, method, None))]:
        raise DataError(
            f"policy {name} has no method {', '.join(missing)}; derive it from SchedulingPolicy"
        )
    return name, make


_NEEDED: Final = {"submit_s": pl.Float64, "runtime_s": pl.Float64, "gpus": pl.Float64}
_OPTIONAL: Final[dict[str, type[pl.DataType]]] = {
    "start_s": pl.Float64,
    "deadline_s": pl.Float64,
    "time_limit_s": pl.Float64,
    "priority": pl.Float64,
    "user": pl.String,
    "job_name": pl.String,
    "model": pl.String,
    "batch_size": pl.Int64,
    "iterations": pl.Float64,
}
_PLANNED: Final = ("model", "batch_size", "iterations")
_MILLI: Final = 1000
_LEAST_S: Final = 10.0
"""Runtime below which a slowdown is not meaningful."""


@dataclass(frozen=True, repr=False, eq=False)
class ScheduleResult(Result):
    """A simulated schedule.

    Attributes
    ----------
    jobs, groups
        One row per job, in the order of the input, and per group of jobs.
    steps
        Use of each cluster over time.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0, 0], "runtime_s": [60, 30]})
    >>> jobs = jobs.with_columns(gpus=8)
    >>> result = traceana.simulate_schedule(jobs, policy="sjf", gpus=8)
    >>> result.jobs.select("job_id", "start_s", "wait_s").rows()
    [('a', 30.0, 30.0), ('b', 0.0, 0.0)]
    """

    policy: str
    jobs: Annotated[pl.DataFrame, ScheduledJob]
    groups: Annotated[pl.DataFrame, ScheduleGroups]
    steps: Annotated[pl.DataFrame, ScheduleSteps]
    drawn_by: ClassVar[str] = "plot_deadlines_met"

    def _drawn(self) -> pl.DataFrame:
        return self.groups

    def summary(self) -> str:
        """Return a short text on the result."""
        lines = []
        for row in self.groups.iter_rows(named=True):
            text = f"{row['policy']}, {row['group']}: {row['jobs']:,} jobs on {row['gpus']:,.0f} "
            text += f"GPUs ({row['capacity']})"
            if row["fraction_met"] is not None:
                text += f", {percent(row['fraction_met'])} of deadlines met"
            if row["wait_s_mean"] is not None:
                text += f", mean wait {duration(row['wait_s_mean'])}"
            lines.append(text)
        compared = calibrate(self.groups) if self.groups["wait_s_recorded"].count() else ""
        return "\n".join([*lines, *([compared] if compared else [])])


def simulate_schedule(
    jobs: IntoFrame,
    /,
    *,
    policy: str | SchedulingPolicy | Callable[[], SchedulingPolicy],
    gpus: float | str | Mapping[str, float] | None = None,
    machines: IntoFrame | None = None,
    profiles: IntoFrame | str | Path | None = None,
    plans: IntoFrame | None = None,
    capacity: Mapping[str, Any] | None = None,
    group: str | None = "cluster",
    scale_load: float = 1.0,
) -> ScheduleResult:
    """Simulate the schedule of jobs on their clusters under a policy.

    Events are arrivals and ends of jobs and wake-ups of the policy. At one time jobs end first,
    then jobs arrive, then the policy decides; equal ranks go by submission, then by the order of
    the input. The schedule is deterministic. Each group of jobs has a cluster of its own.

    Parameters
    ----------
    jobs
        One row per job, of any supported engine: job_id, submit_s, runtime_s (seconds on the
        requested GPUs) and gpus; and, where a policy uses them, deadline_s, time_limit_s, priority,
        user, job_name, model, batch_size and iterations. Rows with a null or negative submission,
        runtime or number of GPUs, or without GPUs, are excluded: they have no start.
    policy
        Name, one of fifo, fair_share, sjf (known runtimes), sjf_user_mean and sjf_last_value
        (predicted runtimes), srtf, easy, conservative, priority, tiresias, gandiva, themis, edf,
        edf_admission, edf_elastic, elasticflow; or a :class:`SchedulingPolicy`, or a function
        without arguments that returns one, which each group calls.
    gpus
        GPUs of each cluster, by group or of all; or a change such as ``"+10%"`` of the number that
        the other arguments give.
    machines
        One row per machine: gpus, and cluster where there are several.
    profiles
        Throughput, for policies that choose the number of GPUs: [model, batch_size, gpus,
        iterations_per_s], or a folder with a CSV file per model (columns global_batch_size, 1, 2,
        4, ...). None: the rates that `iterations` and `runtime_s` of the jobs imply.
    plans
        Further columns of the jobs by cluster and job_id, such as a ``training_plans`` table.
    capacity
        Machines by group, as a manifest states them, with the slots of policies given by name.
        Without this, `gpus` and `machines`: the largest number of GPUs requested at one time.
    group
        Column of the clusters; one cluster without this column.
    scale_load
        Factor of the arrival rate: the times between submissions are divided by it.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame(
    ...     {"job_id": ["a", "b"], "submit_s": [0, 10], "runtime_s": [100, 50], "gpus": [1, 1]}
    ... )
    >>> traceana.simulate_schedule(jobs, policy="fifo", gpus=1).jobs["wait_s"].to_list()
    [0.0, 90.0]
    """
    name, make = find_policy(policy)
    if not (is_number(scale_load) and 0 < scale_load < 1e6):
        raise DataError(f"scale_load must be above 0 and below 1,000,000; it is {scale_load!r}")
    table = read_schedule_jobs(jobs, plans=plans, group=group)
    frame = table.filter("known")
    capacities = find_capacity(frame, gpus=gpus, machines=machines, capacity=capacity)
    elastic = bool(getattr(make(), "elastic", False))
    rates = _profiles(frame, profiles) if elastic else {}
    excluded = table.filter(~pl.col("known"))
    nothing = [math.nan] * excluded.height
    parts = [_with_schedule(excluded, Schedule(nothing, nothing, [None] * excluded.height))]
    n_excluded = dict(excluded.group_by("group").len().iter_rows())
    rows, steps = [], [pl.DataFrame(schema=schema_of(ScheduleSteps))]
    for (each,), of_group in frame.group_by("group", maintain_order=True):
        scaled = _scaled(of_group.sort("submit_s", maintain_order=True), scale_load)
        where = capacities[str(each)]
        unit = 1 if (scaled["gpus"] % 1 == 0).all() else _MILLI
        made = make()
        if where.slot_s is not None and name in POLICIES and isinstance(made, SlottedPolicy):
            made = cast("Any", make)(slot_s=where.slot_s)  # the slots that the trace states
        schedule = run_schedule(
            _schedulable(scaled, rates, unit, elastic=elastic),
            made,
            gpus=int(where.gpus * unit + 1e-6),
            gpus_per_node=where.gpus_per_node * unit,
        )
        ran = _with_schedule(scaled, schedule)
        parts.append(ran)
        outcome = _outcome(ran, schedule, where, unit=unit, excluded=n_excluded.get(each, 0))
        started = scale_load == 1 and "start_s" in of_group.columns
        wait_s = (of_group["start_s"] - of_group["submit_s"]).median() if started else None
        rows.append({"policy": name, **outcome, "wait_s_recorded": wait_s})
        steps.append(_steps(schedule, str(each), unit))
    return ScheduleResult(
        policy=name,
        jobs=pl.concat(parts).sort("row").select(*ScheduledJob.columns()),
        groups=pl.DataFrame(rows, schema=schema_of(ScheduleGroups)),
        steps=pl.concat(steps),
    )


def read_schedule_jobs(
    jobs: IntoFrame, /, *, plans: IntoFrame | None = None, group: str | None = "cluster"
) -> pl.DataFrame:
    """Return the jobs with a group, their row, and whether they can be scheduled."""
    names = column_names(jobs)
    kinds: dict[str, type[pl.DataType]] = {"job_id": pl.String, **_NEEDED}
    kinds |= {name: kind for name, kind in _OPTIONAL.items() if name in names}
    if group is not None and group in names:
        kinds.setdefault(group, pl.String)
    table = read_columns(jobs, kinds, "jobs")
    label = pl.col(group).cast(pl.String) if group in kinds else pl.lit(None, pl.String)
    table = table.with_columns(label.fill_null(ALL).alias("group")).with_row_index("row")
    if plans is not None:
        table = _with_plans(table, plans, group)
    numbers = [pl.col(name) for name in _NEEDED]
    complete = pl.all_horizontal(number.is_not_null() & (number >= 0) for number in numbers)
    return table.with_columns(known=complete & (pl.col("gpus") > 0))


def _with_plans(table: pl.DataFrame, plans: IntoFrame, group: str | None) -> pl.DataFrame:
    names = column_names(plans)
    keys = ["job_id", *([group] if group in names and group in table.columns else [])]
    kinds: dict[str, type[pl.DataType]] = dict.fromkeys(keys, pl.String)
    kinds |= {name: _OPTIONAL[name] for name in (*_PLANNED, "deadline_s") if name in names}
    of_plans = read_columns(plans, kinds, "plans")
    if of_plans.select(keys).is_duplicated().any():
        raise DataError(f"plans: ({', '.join(keys)}) must be unique, and one occurs twice")
    plan_columns = table.drop(name for name in kinds if name in table.columns and name not in keys)
    return plan_columns.join(of_plans, on=keys, how="left", maintain_order="left")


def _profiles(jobs: pl.DataFrame, profiles: IntoFrame | str | Path | None) -> Profiles:
    if missing := [name for name in _PLANNED if name not in jobs.columns]:
        raise DataError(
            "this policy chooses the number of GPUs and needs the throughput of each job; jobs "
            f"lack {', '.join(missing)}"
        )
    return read_profiles(implied_rates(jobs) if profiles is None else profiles)


def _scaled(jobs: pl.DataFrame, factor: float) -> pl.DataFrame:
    if factor == 1:
        return jobs
    submit = pl.col("submit_s")
    later = submit.min() + (submit - submit.min()) / factor
    moved = [pl.col("deadline_s") + later - submit] if "deadline_s" in jobs.columns else []
    return jobs.with_columns(later, *moved)


def _schedulable(jobs: pl.DataFrame, rates: Profiles, unit: int, *, elastic: bool) -> ScheduledJobs:
    if elastic and unit != 1:
        raise DataError("a policy that chooses the number of GPUs needs whole numbers of gpus")

    def values(name: str, otherwise: pl.Expr) -> list[Any]:
        stated = pl.coalesce(name, otherwise) if name in jobs.columns else otherwise
        return jobs.with_columns(stated.alias(name))[name].to_list()

    work = runtime = jobs["runtime_s"].to_list()
    profiles: list[Profile | None] = [None] * jobs.height
    if elastic:
        keys = list(zip(jobs["model"], jobs["batch_size"], strict=True))
        if lacking := [key for key in keys if key not in rates]:
            raise DataError(
                f"profiles: there is none for model {lacking[0][0]} at batch size {lacking[0][1]}"
            )
        work, profiles = jobs["iterations"].to_list(), [rates[key] for key in keys]
        if None in work:
            raise DataError("a policy that chooses the number of GPUs needs iterations of each job")
    return ScheduledJobs(
        submit_s=jobs["submit_s"].to_list(),
        runtime_s=runtime,
        gpus=(jobs["gpus"] * unit).round().clip(1).cast(pl.Int64).to_list(),
        deadline_s=values("deadline_s", pl.lit(math.inf)),
        time_limit_s=values("time_limit_s", pl.col("runtime_s")),
        priority=values("priority", pl.lit(0.0)),
        user=values("user", pl.lit("")),
        job_name=values("job_name", pl.lit("")),
        work=work,
        profiles=profiles,
    )


def _with_schedule(jobs: pl.DataFrame, schedule: Schedule) -> pl.DataFrame:
    deadline = pl.col("deadline_s") if "deadline_s" in jobs.columns else pl.lit(None, pl.Float64)
    met = pl.Series("met", schedule.met, dtype=pl.Boolean)
    return (
        jobs.drop("start_s", strict=False)
        .with_columns(
            start_s=pl.Series(schedule.start_s, dtype=pl.Float64).fill_nan(None),
            end_s=pl.Series(schedule.end_s, dtype=pl.Float64).fill_nan(None),
            met_deadline=pl.when(deadline.is_not_null()).then(met),
        )
        .with_columns(wait_s=pl.col("start_s") - pl.col("submit_s"))
    )


def _outcome(
    jobs: pl.DataFrame, schedule: Schedule, where: GroupCapacity, *, unit: int, excluded: int
) -> dict[str, Any]:
    took = pl.col("end_s") - pl.col("submit_s")
    slowdown = (took / pl.col("runtime_s").clip(_LEAST_S)).clip(1.0)
    figures = jobs.select(
        n_too_large=(pl.col("gpus") > where.gpus + 1e-6).sum(),
        n_ended=pl.col("end_s").count(),
        n_deadlines=pl.col("met_deadline").count(),
        fraction_met=pl.col("met_deadline").mean(),
        wait_s_mean=pl.col("wait_s").mean(),
        wait_s_median=pl.col("wait_s").median(),
        wait_s_p95=pl.col("wait_s").quantile(0.95),
        completion_s_mean=took.mean(),
        slowdown_mean=slowdown.mean(),
    ).row(0, named=True)
    return {
        "group": jobs["group"][0],
        "gpus": where.gpus,
        "capacity": where.source,
        "jobs": jobs.height,
        "n_excluded": excluded,
        "n_declined": len(schedule.declined),
        **figures,
        "fairness": _fairness(jobs.select("user", slowdown.alias("slowdown")))
        if "user" in jobs.columns
        else None,
        "utilization": _utilization(schedule, where.gpus * unit),
    }


def _fairness(jobs: pl.DataFrame) -> float | None:
    means = jobs.drop_nulls().group_by("user").agg(pl.col("slowdown").mean())["slowdown"]
    values = means.to_numpy()
    return float(values.sum() ** 2 / (len(values) * (values**2).sum())) if len(values) else None


def _utilization(schedule: Schedule, gpus: float) -> float | None:
    times = np.array(schedule.times)
    if len(times) < 2 or times[-1] <= times[0]:
        return None
    used = np.array(schedule.used)[:-1]
    return float((used * np.diff(times)).sum() / (gpus * (times[-1] - times[0])))


def _steps(schedule: Schedule, group: str, unit: int) -> pl.DataFrame:
    columns = (schedule.times, schedule.used, schedule.running, schedule.waiting)
    names = ("time_s", "gpus_used", "jobs_running", "jobs_waiting")
    types = schema_of(ScheduleSteps)
    steps = pl.DataFrame(dict(zip(names, columns, strict=True)), schema_overrides=types)
    return steps.with_columns(pl.col("gpus_used") / unit, group=pl.lit(group)).select(*types)


_SMALL: Final = 20_000
"""Jobs times policies below which processes do not pay."""
_WEEK_S: Final = 7 * 86_400


def sweep_schedules(
    jobs: IntoFrame,
    policies: Mapping[str, Any],
    /,
    *,
    plans: IntoFrame | None = None,
    group: str | None = "cluster",
    processes: int = 1,
    replications: int = 0,
    rng: int = 1,
    progress: Callable[[float], object] = lambda _: None,
    **how: Any,  # noqa: ANN401  what simulate_schedule takes
) -> pl.DataFrame:
    """Return the outcome of :func:`simulate_schedule` by policy, then group.

    A replication is a log of weeks drawn with replacement from the group's, the same for all
    policies.
    """
    table = read_schedule_jobs(jobs, plans=plans, group=group)
    if how.get("profiles") is None and {*table.columns}.issuperset(_PLANNED):
        how["profiles"] = implied_rates(table)
    groups = table.group_by("group").len().sort("len", "group", descending=[True, False])
    tasks = [
        (
            *(name, policy, str(each), table.filter(group=each).drop("row", "known")),
            (how, replications, rng),
        )
        for each in groups["group"]
        for name, policy in policies.items()
    ]
    outcomes: list[pl.DataFrame] = []

    def keep(outcome: pl.DataFrame) -> None:
        outcomes.append(outcome)
        progress(len(outcomes) / len(tasks))

    processes = min(processes, len(tasks))
    if table.height * len(policies) * (1 + replications) < _SMALL or processes == 1:
        for task in tasks:
            keep(_run(*task))
    else:
        with start_processes(processes) as pool:
            for run in as_completed([pool.submit(_run, *task) for task in tasks]):
                keep(run.result())
    of_policy = pl.col("policy").cast(pl.Enum([*policies]))
    return declared(pl.concat(outcomes).sort(of_policy, "group"), ScheduleGroups)


def _run(
    name: str,
    policy: Any,  # noqa: ANN401  what simulate_schedule takes
    group: str,
    jobs: pl.DataFrame,
    options: tuple[Mapping[str, Any], int, int],
    /,
) -> pl.DataFrame:
    how, replications, seed = options
    groups = simulate_schedule(jobs, policy=policy, group="group", **how).groups
    low = high = None
    if replications:
        generator = np.random.default_rng(seed)
        same = {**how, "gpus": groups["gpus"].item(), "machines": None}
        logs = (_draw_weeks(jobs, group, generator) for _ in range(replications))
        runs = (simulate_schedule(log, policy=policy, group="group", **same) for log in logs)
        waits = [wait for run in runs if (wait := run.groups["wait_s_mean"].item()) is not None]
        if waits:
            low, high = np.quantile(waits, (0.025, 0.975)).tolist()
    return groups.with_columns(
        pl.lit(name).alias("policy"),
        pl.lit(low, pl.Float64).alias("wait_s_ci_low"),
        pl.lit(high, pl.Float64).alias("wait_s_ci_high"),
    )


def _draw_weeks(jobs: pl.DataFrame, group: str, generator: np.random.Generator) -> pl.DataFrame:
    """Draw as many weeks as the jobs have, with replacement, and put them in sequence."""
    week = (pl.col("submit_s") - pl.col("submit_s").min()) // _WEEK_S
    of_week = jobs.drop_nulls("submit_s").with_columns(week.alias("week"))
    weeks = int(of_week["week"].max() or 0) + 1  # type: ignore[arg-type]
    if weeks < 2:
        raise DataError(
            f"replications need submissions in two weeks or more; those of group {group} are in one"
        )
    times = [name for name in ("submit_s", "start_s", "deadline_s") if name in jobs.columns]
    drawn = [
        of_week.filter(week=week).with_columns(pl.col(times) + (place - week) * _WEEK_S)
        for place, week in enumerate(generator.integers(weeks, size=weeks).tolist())
    ]
    return pl.concat(drawn).drop("week")


def recorded_waits(jobs: IntoFrame, /, *, group: str | None = "cluster") -> pl.DataFrame | None:
    """Return the waits of the log itself by group, the calibration; None without starts."""
    table = read_schedule_jobs(jobs, group=group).filter("known")
    if "start_s" not in table.columns or not table["start_s"].count():
        return None
    wait = pl.col("start_s") - pl.col("submit_s")
    rows = (
        table.sort("group")
        .group_by("group", maintain_order=True)
        .agg(
            pl.lit("recorded").alias("policy"),
            pl.len().cast(pl.Int64).alias("jobs"),
            wait.mean().alias("wait_s_mean"),
            wait.median().alias("wait_s_median"),
            wait.quantile(0.95).alias("wait_s_p95"),
        )
    )
    every = pl.concat([pl.DataFrame(schema=schema_of(ScheduleGroups)), rows], how="diagonal")
    return declared(every, ScheduleGroups)
