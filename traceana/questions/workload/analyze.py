"""Workload of a trace: all results of the section, each from the columns that it needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import GROUPINGS, SEEN
from traceana.cohorts.observation import Observation, capacity_of, observe, window_of
from traceana.cohorts.overlap import Window, local_offset_s
from traceana.cohorts.tasks import from_tasks, jobs_of_tasks, sample_jobs
from traceana.errors import DataError
from traceana.questions.failures.hazards import cause_specific_hazards
from traceana.questions.runtimes.distributions import empirical_distribution
from traceana.questions.workload.demand import (
    arrival_rhythm,
    gpu_demand,
    interarrival_curve,
    interarrivals,
    seasonality,
)
from traceana.questions.workload.summary import (
    concentration,
    lorenz_curve,
    queueing_delay,
    workload_summary,
)
from traceana.stats.arrays import Floats
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.time_blocks import DAY_S, MIN_BLOCKS, time_blocks
from traceana.store import Trace
from traceana.store.frames import collect, column_names, read_once, reduce_frame
from traceana.store.manifest import Manifest
from traceana.tables.display import key_heading

_DAY_S: Final = 86_400
_HOUR_S: Final = 3600
_YEAR_S: Final = 365 * _DAY_S
_MAX_GROUPS: Final = 50
_SIZE: Final = "gpus_requested"


@dataclass(frozen=True)
class Split:
    """A result on all jobs, and without survivors; None where there are none."""

    total: pl.DataFrame
    since: pl.DataFrame | None = None


@dataclass(frozen=True)
class Workload:
    """Results on the jobs of a trace; None where columns are missing."""

    by: str | None
    """Column of the groups; None if there is none with several values."""
    survivors: int
    first_end_s: float
    """Jobs submitted before the first recorded end, if the trace lists only survivors of that time,
    and that end; 0 if there are none."""
    summary: pl.DataFrame
    by_group: pl.DataFrame | None
    """Summary of all jobs, and by group."""
    reckoned: str | None
    """Which jobs run to or from an end that is not recorded."""
    starts_assumed: bool
    """Whether jobs are assumed to start when submitted."""
    capacity: float | None
    """GPUs of the cluster."""
    observation: Observation | None
    """What the trace's window cuts off; None without runtimes."""
    concentration: Split | None = None
    lorenz: pl.DataFrame | None = None
    """Concentration of the GPU-hours, and the Lorenz curve."""
    requested: pl.DataFrame | None = None
    demand: pl.DataFrame | None = None
    """Distribution function of the GPUs requested, and GPU demand by hour."""
    queueing: pl.DataFrame | None = None
    queueing_by: dict[str, pl.DataFrame] = field(default_factory=dict)
    waits: pl.DataFrame | None = None
    """Queueing delays: of all jobs, by group and by the GPUs requested, and their distribution."""
    of_starts: bool = False
    """Whether arrivals are starts, since no submission is recorded."""
    interarrivals: Split | None = None
    hours: pl.DataFrame | None = None
    curve: pl.DataFrame | None = None
    seasonality: pl.DataFrame | None = None
    """Arrivals by hour, the interarrival curve, and tests of seasonality, without survivors."""


def describe_workload(trace: Trace, /) -> Workload:
    """Compute the results on the jobs of a trace."""
    manifest = trace.manifest
    by = grouping_column(trace, "jobs")
    every = jobs = _read_jobs(trace, by)
    observation: Observation | None
    rows: IntoFrame
    columns: dict[str, str]
    if from_tasks(trace):
        rows_of_tasks = trace.once(jobs_of_tasks)
        jobs = rows_of_tasks.lazy()
        present = {column.name for column in rows_of_tasks if column.count()}
        groups = (*manifest.tables["tasks"].groups, *GROUPINGS)
        by = next((name for name in groups if name in present), None)
        observation, rows, columns = None, jobs, {}
    else:
        present = set(manifest.tables["jobs"].columns)
        observation, rows, columns = _observed(trace, jobs)
    # jobs of tasks may be a sample; times between submissions need every job
    since, survivors, first_end_s = _without_survivors(every, manifest)
    window = trace.once(window_of)
    summarize = partial(workload_summary, rows, window=window, **columns)
    summary = summarize()
    # the rows that are observed have ends
    whole = workload_summary(jobs, window=window) if columns else summary
    results = _sizes(jobs, present, window, since if survivors and jobs is every else None)
    results |= _arrivals(every, since if survivors else None, manifest, present)
    if {"submit_s", "start_s"} <= present:
        results |= _waits(jobs, window, by)
    return Workload(
        by=by,
        survivors=survivors,
        first_end_s=first_end_s,
        summary=summary,
        reckoned=whole["note"].item(),
        by_group=summarize(by=by) if by else None,
        starts_assumed="start_s" not in present,
        capacity=None if (cluster := capacity_of(trace)) is None else cluster.gpus,
        observation=observation,
        **results,
    )


def _sizes(
    jobs: IntoFrame, present: set[str], window: Window | None, since: IntoFrame | None
) -> dict[str, Any]:
    """Return the results on GPUs and GPU-hours, of those without survivors if they are given."""
    if "gpus" not in present:
        return {}
    sizes = empirical_distribution(jobs, "gpus")
    requested = sizes if (sizes["value"] > 0).any() else None
    results: dict[str, Any] = {"requested": requested, "demand": _in_bins(jobs, window)}
    if "runtime_s" in present:
        without = None if since is None else concentration(since, window=window)
        total = concentration(jobs, window=window)
        if total["n"].item() > 1:
            results["concentration"] = Split(total, without)
            results["lorenz"] = _unless_empty(lorenz_curve(jobs, points=1001, window=window))
    return results


def _arrivals(
    jobs: IntoFrame, since: IntoFrame | None, manifest: Manifest, present: set[str]
) -> dict[str, Any]:
    """Return the results on the times of submission, or of starts, without survivors."""
    arrived = next((name for name in ("submit_s", "start_s") if name in present), None)
    if arrived is None:
        return {}
    without = None if since is None else interarrivals(since, submit=arrived)
    since = jobs if since is None else since
    hours = _rhythm(since, manifest, "hour", arrived)
    results = {
        "interarrivals": Split(interarrivals(jobs, submit=arrived), without),
        "of_starts": arrived == "start_s",
        "hours": hours if hours["jobs_per_h"].count() else None,
        "curve": _unless_empty(interarrival_curve(since, submit=arrived)),
    }
    if arrived == "submit_s":
        times = local_submissions(since, manifest).cast(pl.Float64).fill_null(float("nan"))
        results["seasonality"] = _unless_empty(seasonality(times.to_numpy()))
    return results


def _unless_empty(frame: pl.DataFrame) -> pl.DataFrame | None:
    return frame if frame.height else None


def _waits(jobs: IntoFrame, window: Window | None, by: str | None) -> dict[str, Any]:
    """Return the results on queueing delays; none of a trace in which no delay is known."""
    queueing = queueing_delay(jobs, window=window)
    if not queueing["n"].item():
        return {}
    sized = _by_size(jobs)
    names = [name for name in (by, _SIZE) if name in column_names(sized)]
    return {
        "queueing": queueing,
        "queueing_by": {name: queueing_delay(sized, name, window=window) for name in names},
        "waits": empirical_distribution(_delays(jobs), "value"),
    }


def grouping_column(trace: Trace, table: str, /) -> str | None:
    """Return the first of the manifest's groups, or of the usual ones, with several values."""
    table_facts = trace.manifest.tables[table]
    names = [name for name in (*table_facts.groups, *GROUPINGS) if name in table_facts.columns]
    if not names:
        return None
    rows = trace.rows(table)
    counts = reduce_frame(rows, (), **{name: nw.col(name).n_unique() for name in names})
    return next(
        (name for name, n in counts.row(0, named=True).items() if 2 <= n <= _MAX_GROUPS), None
    )


def clock_name(manifest: Manifest, /) -> str | None:
    """Return the name of the local time of hours and weekdays; None if it is not known."""
    if manifest.utc_offset_h is not None:
        return f"UTC{manifest.utc_offset_h:+g}"
    return (manifest.timezone or "UTC") if manifest.absolute_times else None


def _without_survivors(jobs: IntoFrame, manifest: Manifest) -> tuple[IntoFrame, int, float]:
    """Return jobs submitted from when all are listed, the number of others, and that time."""
    if manifest.lists_from_window and manifest.has("jobs", ("submit_s",)):
        return _split_at(jobs, float(manifest.window_start_s or 0.0))
    if not manifest.has("jobs", ("submit_s", "end_s")):
        return jobs, 0, 0.0
    rows, submitted = nw.from_native(jobs).lazy(), nw.col("submit_s")
    firsts = {"ended": nw.col("end_s").min(), "submitted": submitted.min()}
    first_end_s, first_submit_s = reduce_frame(rows, (), **firsts).row(0)
    if first_end_s - first_submit_s <= _DAY_S:
        return jobs, 0, 0.0
    return _split_at(jobs, first_end_s)


def _split_at(jobs: IntoFrame, time_s: float) -> tuple[IntoFrame, int, float]:
    """Return the jobs submitted from a time on, or without one, and the number of the others."""
    rows, submitted = nw.from_native(jobs).lazy(), nw.col("submit_s")
    before = submitted < time_s
    since = rows.filter(~before | submitted.is_null())
    n = reduce_frame(rows.filter(before), (), n=nw.len()).item()
    return since.to_native(), n, time_s


def _read_jobs(trace: Trace, by: str | None) -> IntoFrame:
    """Return the columns of jobs that all results need; those of Polars are read once."""
    rows = trace.rows("jobs")
    present = rows.collect_schema().names()
    needed = ["submit_s", "start_s", "end_s", "runtime_s", "gpus", "status", by]
    needed += ["job_id"] if trace.once(sample_jobs) else []
    jobs: IntoFrame = read_once(rows, [name for name in needed if name in present]).to_native()
    return jobs


def _observed(
    trace: Trace, jobs: IntoFrame
) -> tuple[Observation | None, IntoFrame, dict[str, str]]:
    """Return what the window cuts off, the jobs, and the columns of entry and observed ends."""
    manifest = trace.manifest
    if not manifest.has("jobs", ("runtime_s",)):
        return None, jobs, {}
    rows, observation = observe(jobs, manifest, sample=trace.once(sample_jobs))
    if not observation.n_truncated + observation.n_censored:
        return observation, jobs, {}
    return observation, rows, SEEN


def _delays(jobs: IntoFrame, *by: str) -> IntoFrame:
    """Return the queueing delay of each job as value, with `by` as text."""
    delay = nw.col("start_s") - nw.col("submit_s")
    keys = [nw.col(name).cast(nw.String) for name in by]
    rows: IntoFrame = nw.from_native(jobs).select(*keys, value=delay).to_native()
    return rows


def _in_bins(jobs: IntoFrame, window: Window | None) -> pl.DataFrame | None:
    """Return the demand by hour, or by year if a time is far from the others (an end in 9999)."""
    options: dict[str, Any] = {"window": window}
    if "end_s" not in column_names(jobs):
        options["runtime"] = "runtime_s"
    try:
        demand = gpu_demand(jobs, **options)
    except DataError:
        demand = gpu_demand(jobs, bin_s=_YEAR_S, **options)
    return demand if demand["gpus_mean"].sum() else None


def weekdays_and_waits(trace: Trace, /) -> tuple[pl.DataFrame | None, dict[str, pl.DataFrame]]:
    """Return the submissions by weekday where that is known, and delays by column of the groups."""
    manifest, workload = trace.manifest, trace.once(describe_workload)
    jobs = trace.frame("jobs")
    since, _, _ = _without_survivors(jobs, manifest)
    timed = manifest.has("jobs", ("submit_s",)) and clock_name(manifest)
    days = _rhythm(since, manifest, "weekday", "submit_s") if timed else None
    rows = trace.once(jobs_of_tasks).lazy() if from_tasks(trace) else jobs
    delays = {
        name: empirical_distribution(_delays(_by_size(rows), name), "value", by=name)
        for name in workload.queueing_by
    }
    if delays and "runtime_s" in column_names(rows):
        delays["fraction"] = _wait_fractions(rows)
    return days, delays


def task_counts(trace: Trace, /) -> dict[str, pl.DataFrame]:
    """Return the distributions of users by their tasks, and of instances by those of their task."""
    curves = {}
    if trace.has("tasks") and trace.has("jobs", ("user",)):
        users = trace.scan("jobs").select("job_id", "user").drop_nulls()
        tasks = trace.scan("tasks").select("job_id").join(users, on="job_id")
        counts = tasks.group_by("user").len("value")
        curves["tasks-by-user"] = empirical_distribution(counts, "value")
    if trace.has("tasks", ("instances",)):
        size = pl.col("instances").drop_nulls().cast(pl.UInt32)
        sizes = trace.scan("tasks").select(value=size.repeat_by(size).explode())
        curves["instances-by-task"] = empirical_distribution(sizes, "value")
    return curves


def _wait_fractions(jobs: IntoFrame) -> pl.DataFrame:
    """Return the distribution of wait / (wait + runtime), of the halves of the runtimes."""
    times = nw.from_native(jobs).lazy().select("submit_s", "start_s", "runtime_s")
    wait, runtime = pl.col("start_s") - pl.col("submit_s"), pl.col("runtime_s")
    with_wait = collect(times).filter(wait.is_not_null(), runtime > 0)
    short = pl.when(runtime <= runtime.median()).then(pl.lit("short")).otherwise(pl.lit("long"))
    rows = with_wait.select(value=wait / (wait + runtime), length=short)
    return empirical_distribution(rows, "value", by="length")


def _by_size(jobs: IntoFrame) -> IntoFrame:
    """Add gpus_requested: none, a fraction of one, one or several; null where it is not known."""
    if "gpus" not in column_names(jobs):
        return jobs
    gpus, size = nw.col("gpus"), nw.lit(None, nw.String)
    for holds, name in (
        (gpus == 0, "none"),
        ((gpus > 0) & (gpus < 1), "fraction of one"),
        (gpus == 1, "one"),
        (gpus > 1, "several"),
    ):
        size = nw.when(holds).then(nw.lit(name)).otherwise(size)
    sized: IntoFrame = nw.from_native(jobs).with_columns(size.alias(_SIZE)).to_native()
    return sized


def _rhythm(
    jobs: IntoFrame, manifest: Manifest, per: Literal["hour", "weekday"], arrived: str
) -> pl.DataFrame:
    return arrival_rhythm(_local(jobs, manifest, arrived), per=per, submit=arrived)


def local_submissions(jobs: IntoFrame, manifest: Manifest, /) -> pl.Series:
    """Return the submissions on the local clock, in seconds; without a clock as they are."""
    local = nw.from_native(_local(jobs, manifest, "submit_s")).lazy().select("submit_s")
    return collect(local)["submit_s"]


def _local(jobs: IntoFrame, manifest: Manifest, arrived: str) -> IntoFrame:
    rows, submitted = nw.from_native(jobs), nw.col(arrived)
    if manifest.utc_offset_h is not None:
        local = submitted + manifest.utc_offset_h * _HOUR_S
    elif manifest.absolute_times and manifest.timezone:
        local = submitted + local_offset_s(rows.lazy(), submitted, manifest.timezone)
    else:
        return jobs
    frame: IntoFrame = rows.select(local.alias(arrived)).to_native()
    return frame


WAITS_NEED: Final = ("submit_s", "start_s", "gpus")
MOST_ROWS: Final = 50_000
"""Jobs beyond which as many are drawn at random."""
_FEWEST_DAYS: Final = 14
_QUARTER_S: Final = DAY_S / 4
_MINUTE_S: Final = 60.0
_WEEKS: Final = "Weeks later"


def adjusted_waits(trace: Trace, /) -> pl.DataFrame | None:
    """Return hazard ratios of the start of GPU jobs, all other features equal; None without a fit.

    A ratio below 1 means longer waits. Features are GPUs, load (GPUs of the jobs that run or wait
    at the submission), weeks since the first submission, quarter of the day, weekend, and the
    trace's grouping. Pending jobs are censored at their last record, else at the end of the window;
    jobs cancelled before they started at their end. Jobs of one time wait alike, and those of one
    user: standard errors are over blocks of days and users. Of 150 simulated logs of 60 users of
    Pareto sizes whose days and users differ, 6.7 % have p below 0.05 for a feature of the user
    without an effect, in 30 days and in 90; of 200 users 6.0 %. Weeks are for adjustment, without a
    test.
    """
    if not trace.has("jobs", WAITS_NEED):
        return None
    rows, features = _with_features(trace, grouping_column(trace, "jobs"))
    if rows.height > MOST_ROWS:
        rows = rows.sample(MOST_ROWS, seed=1)
    if not rows.height:
        return None
    time = rows["submit_s"].to_numpy()
    blocks = time_blocks(time, np.log(rows["wait_s"].to_numpy() + _MINUTE_S))
    if blocks.n_blocks < MIN_BLOCKS:
        return None
    rows = rows.with_columns(pl.Series("block", blocks.code))
    users = "user" in rows.columns and rows["user"].count()
    if users:
        rows = rows.with_columns(user=pl.coalesce("user", pl.int_range(pl.len()).cast(pl.String)))
    try:
        hazards = cause_specific_hazards(
            rows,
            features=features,
            causes="started",
            runtime="wait_s",
            cluster=["block", "user"] if users else "block",
        )
    except DataError:
        return None
    trend = pl.col("feature") == _WEEKS
    p = hazards["pvalue"].to_numpy().astype(float)
    p[(hazards["feature"] == _WEEKS).to_numpy()] = np.nan
    return hazards.with_columns(
        *(pl.when(~trend).then(name) for name in ("ci_low", "ci_high", "pvalue")),
        pvalue_adjusted=pl.Series(adjust_pvalues(p, method="holm")).fill_nan(None),
        note=pl.when(trend)
        .then(pl.lit("for adjustment; drift has a test of its own"))
        .otherwise("note"),
    )


def _with_features(trace: Trace, by: str | None) -> tuple[pl.DataFrame, list[str]]:
    """Return GPU jobs with wait_s, status (started or waiting), submit_s and the features."""
    window = trace.once(window_of)
    names = [
        name for name in ("end_s", "status", "user", by) if name and trace.has("jobs", (name,))
    ]
    rows = collect(trace.scan("jobs").select(*WAITS_NEED, *names))
    rows = rows.with_columns(
        pl.lit(None, pl.Float64).alias("end_s") if "end_s" not in names else pl.col("end_s"),
        pl.col("status").cast(pl.String) if "status" in names else pl.lit("").alias("status"),
    ).filter(pl.col("submit_s") >= (window[0] if window else -np.inf))  # a survivor waited longer
    waits = pl.col("start_s").is_null()
    last = pl.coalesce("end_s", pl.lit(window and window[1], pl.Float64))
    rows = rows.with_columns(
        wait_s=(pl.when(waits).then(last).otherwise("start_s") - pl.col("submit_s")).clip(0),
        load=pl.Series(_load(rows)),
        local=local_submissions(rows, trace.manifest),
    ).filter(
        pl.col("gpus") > 0,
        ~waits | pl.col("status").is_in(["pending", "cancelled"]),
        pl.col("wait_s").is_not_null(),
    )
    time = pl.col("submit_s")
    days = float(rows.select((time.max() - time.min()) / DAY_S).item() or 0)
    named: dict[str, pl.Expr] = {
        "GPUs doubled": pl.col("gpus").log(2),
        "GPUs running or waiting doubled": (1 + pl.col("load")).log(2),
    }
    if days >= _FEWEST_DAYS:
        clock = clock_name(trace.manifest)
        quarter = (pl.col("local") % DAY_S // _QUARTER_S).cast(pl.Int64)
        hours = pl.format("{} to {} h", quarter * 6, quarter * 6 + 6)
        named |= {
            _WEEKS: (time - time.min()) / (7 * DAY_S),
            f"Time of day ({clock or 'hours modulo 24'})": hours,
        }
        if clock:  # Unix day 0 was a Thursday
            weekend = (pl.col("local") // DAY_S + 3) % 7 >= 5
            named["Day"] = pl.when(weekend).then(pl.lit("weekend")).otherwise(pl.lit("weekday"))
    if by is not None:
        named[key_heading(by)] = pl.col(by).cast(pl.String)
    user = ["user"] if "user" in names else []
    status = pl.when(waits).then(pl.lit("waiting")).otherwise(pl.lit("started"))
    return rows.select("wait_s", "submit_s", *user, status=status, **named), [*named]


def _load(rows: pl.DataFrame) -> Floats:
    """Return the GPUs of the other jobs that run or wait at each submission."""
    gpus = rows["gpus"].fill_null(0).cast(pl.Float64).to_numpy()
    begin, end = (rows[name].cast(pl.Float64).to_numpy() for name in ("submit_s", "end_s"))
    ended = np.flatnonzero(~np.isnan(end))

    def total(times: Floats, of: Floats, side: Literal["left", "right"]) -> Floats:
        order = np.argsort(times, kind="stable")
        sums: Floats = np.concatenate([[0.0], np.cumsum(of[order])])
        return sums[np.searchsorted(times[order], begin, side=side)]

    return (total(begin, gpus, "left") - total(end[ended], gpus[ended], "right")).clip(0.0)
