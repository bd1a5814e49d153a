"""Workload of a trace: all results of the section, each from the columns that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl
import polars.selectors as cs

from traceana import analysis
from traceana.analysis.runtimes.capacity import sum_gpus
from traceana.derived.cohorts import GROUPINGS
from traceana.derived.jobs_of_tasks import from_tasks, jobs_of_tasks
from traceana.derived.observation import Observation, observe

if TYPE_CHECKING:
    from collections.abc import Callable

    from narwhals.stable.v2.typing import IntoFrame

    from traceana.analysis.frames import Names
    from traceana.store.manifest import Manifest
    from traceana.store.session import Session

_DAY_S: Final = 86_400
_MAX_GROUPS: Final = 50
_SEEN: Final = {"runtime": "duration_s", "entry": "entry_s", "observed": "observed"}


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
    concentration: Split | None
    interarrivals: Split | None
    queueing: pl.DataFrame | None
    """Results of the functions of these names."""
    hours: pl.DataFrame | None
    curve: pl.DataFrame | None
    """Arrivals by hour, and the interarrival curve, without survivors."""
    demand: pl.DataFrame | None
    starts_assumed: bool
    """GPU demand by hour, and whether jobs are assumed to start when submitted."""
    capacity: float | None
    """GPUs of all machines."""
    lorenz: pl.DataFrame | None
    """Lorenz curve."""
    observation: Observation | None
    """What the trace's window cuts off; None without runtimes."""
    waits: pl.DataFrame | None
    """Distribution function of the queueing delay."""


def describe_workload(session: Session, trace: str, /) -> Workload:
    """Compute the results on the jobs of a trace."""
    manifest = session.manifest(trace)
    # a trace may have many jobs: each result reads the columns it needs
    jobs, by = session.scan(trace, "jobs"), grouping_column(session, trace, "jobs")
    there = set(manifest.tables["jobs"].columns)
    derived = from_tasks(session, trace)
    if derived:
        rows_of_tasks = session.once(jobs_of_tasks, trace)
        jobs = rows_of_tasks.lazy()
        there = {column.name for column in rows_of_tasks if column.count()}
        groups = (*manifest.tables["tasks"].groups, *GROUPINGS)
        by = next((name for name in groups if name in there), None)
    since, survivors, first_end_s = _without_survivors(jobs, manifest)
    sized, timed = {"gpus", "runtime_s"} <= there, "submit_s" in there
    demand, assumed = _demand(jobs, there)

    def split(function: Callable[..., pl.DataFrame]) -> Split:
        return Split(function(jobs), function(since) if survivors else None)

    observation, rows, columns = (None, jobs, {}) if derived else _observed(session, trace)

    def summarize(by: Names = ()) -> pl.DataFrame:
        found = analysis.workload_summary(rows, by=by)  # GPU-hours of recorded runtimes
        if not columns:
            return found
        seen = analysis.workload_summary(rows, by=by, **columns)
        return seen.with_columns(found.select(cs.matches("gpu_hours|jobs_with")))

    curve = analysis.interarrival_curve(since) if timed else pl.DataFrame()
    lorenz = analysis.lorenz_curve(jobs) if sized else pl.DataFrame()
    queueing = waits = None
    if {"submit_s", "start_s"} <= there:
        queueing = analysis.queueing_delay(jobs)
        delay = jobs.select(value=pl.col("start_s") - pl.col("submit_s"))
        waits = analysis.empirical_distribution(delay, "value")
    waited = queueing is not None and bool(queueing["n"].item())
    machines = manifest.has("machines", ("gpus",))
    return Workload(
        by=by,
        survivors=survivors,
        first_end_s=first_end_s,
        summary=summarize(),
        by_group=summarize(by=by) if by else None,
        concentration=split(analysis.concentration) if sized else None,
        interarrivals=split(analysis.interarrivals) if timed else None,
        queueing=queueing if waited else None,
        hours=_rhythm(since, manifest, "hour") if timed else None,
        curve=curve if curve.height else None,
        demand=demand,
        starts_assumed=assumed,
        capacity=sum_gpus(session.frame(trace, "machines")) if machines else None,
        lorenz=lorenz if lorenz.height else None,
        observation=observation,
        waits=waits if waited else None,
    )


def grouping_column(session: Session, trace: str, table: str, /) -> str | None:
    """Return the first of the manifest's groups, or cluster, that has several values.

    None if there is no such column, or each has more than 50 values.
    """
    known = session.manifest(trace).tables[table]
    names = [name for name in (*known.groups, "cluster") if name in known.columns]
    if not names:
        return None
    rows = session.scan(trace, table)
    counts = rows.select(pl.col(*dict.fromkeys(names)).n_unique()).collect().row(0, named=True)
    return next((name for name, n in counts.items() if 2 <= n <= _MAX_GROUPS), None)


def clock_name(manifest: Manifest, /) -> str | None:
    """Return the name of the local time of hours and weekdays; None if it is not known."""
    if manifest.utc_offset_h is not None:
        return f"UTC{manifest.utc_offset_h:+g}"
    return (manifest.timezone or "UTC") if manifest.absolute_times else None


def _without_survivors(jobs: pl.LazyFrame, manifest: Manifest) -> tuple[pl.LazyFrame, int, float]:
    """Return the jobs submitted after the first end, the number of the others, and that end."""
    if not (manifest.lists_only_survivors and manifest.has("jobs", ("submit_s", "end_s"))):
        return jobs, 0, 0.0
    first_end_s = _value(jobs, pl.col("end_s").min())
    if first_end_s - _value(jobs, pl.col("submit_s").min()) <= _DAY_S:
        return jobs, 0, 0.0
    before = pl.col("submit_s") < first_end_s
    return jobs.remove(before), _value(jobs.filter(before), pl.len()), first_end_s


def _observed(session: Session, trace: str) -> tuple[Observation | None, IntoFrame, dict[str, str]]:
    """Return what the window cuts off, the jobs, and the columns of entry and observed ends."""
    manifest = session.manifest(trace)
    if not manifest.has("jobs", ("runtime_s",)):
        return None, session.frame(trace, "jobs"), {}
    jobs = session.scan(trace, "jobs")
    names = ("status", "submit_s", "start_s", "end_s", "runtime_s")
    times, observation = observe(jobs.select(names).collect(), manifest)
    if not observation.n_truncated + observation.n_censored:
        return observation, session.frame(trace, "jobs"), {}
    rows = pl.concat([jobs, times.lazy().select(_SEEN.values())], how="horizontal")
    return observation, rows, _SEEN


def _value(jobs: pl.LazyFrame, of: pl.Expr) -> Any:  # noqa: ANN401  a number
    return jobs.select(of).collect().item()


def _demand(jobs: pl.LazyFrame, there: set[str]) -> tuple[pl.DataFrame | None, bool]:
    """Return the demand, and whether jobs are assumed to start when submitted."""
    for start, end, assumed in (
        ("start_s", "end_s", False),
        ("start_s", "runtime_s", False),
        ("submit_s", "runtime_s", True),
    ):
        if {start, end, "gpus"} <= there:
            runtime = end if end == "runtime_s" else None
            demand = analysis.gpu_demand(jobs, start=start, runtime=runtime)
            if demand["gpus_mean"].count():
                return demand, assumed
    return None, False


def weekdays_and_waits(
    session: Session, trace: str, /
) -> tuple[pl.DataFrame | None, pl.DataFrame | None, str | None]:
    """Return the submissions by weekday, and the queueing delays by a column with its name."""
    manifest, found = session.manifest(trace), session.once(describe_workload, trace)
    jobs = session.scan(trace, "jobs")
    since, _, _ = _without_survivors(jobs, manifest)
    days = _rhythm(since, manifest, "weekday") if manifest.has("jobs", ("submit_s",)) else None
    if found.queueing is None or found.by is None:
        return days, None, None
    rows = session.once(jobs_of_tasks, trace).lazy() if from_tasks(session, trace) else jobs
    delays = rows.select(
        pl.col(found.by).cast(pl.String), value=pl.col("start_s") - pl.col("submit_s")
    )
    return days, analysis.empirical_distribution(delays, "value", by=found.by), found.by


def _rhythm(
    jobs: pl.LazyFrame, manifest: Manifest, per: Literal["hour", "weekday"]
) -> pl.DataFrame:
    if manifest.absolute_times and manifest.timezone and manifest.utc_offset_h is None:
        at = pl.from_epoch((pl.col("submit_s") * 1000).cast(pl.Int64), time_unit="ms")
        local = at.dt.replace_time_zone("UTC").dt.convert_time_zone(manifest.timezone)
        jobs = jobs.select(submit_s=local.dt.replace_time_zone(None))
    return analysis.arrival_rhythm(jobs, per=per, utc_offset_h=manifest.utc_offset_h or 0)
