"""How a workload is spread over time: arrivals, demand, queueing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from traceana.analysis import (
    arrival_rhythm,
    gpu_demand,
    gpu_demand_if_started_at_submission,
    interarrival_curve,
    lorenz_curve,
    queueing_delay,
)
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Drawing,
    Gallery,
    Text,
    drawing,
    make_table,
    words,
)
from traceana.report.sections.workload_spread import tell_spread
from traceana.results.formatting import count, days, plural, seconds, share

if TYPE_CHECKING:
    from traceana.report.context import Context

_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S
_CLOCK_OF_ITS_OWN = (
    "Its clock counts from the beginning of the collection: an hour is one of the trace's own "
    "days, which begin at a time of day that nobody told, and no weekday has a name."
)


@dataclass(frozen=True)
class Clock:
    """How a trace's times are read: hours ahead of its clock and their name, None where unnamed."""

    utc_offset_h: float
    name: str | None
    note: str


_SURVIVORS = ("alibaba-openb-2023",)
"""Traces that hold what was there when they began, and nothing else of the time before."""
_CLOCKS = {
    "alibaba-pai-2020": Clock(
        8, "UTC+8", "Its times were shifted so that hour and weekday are true in UTC+8."
    ),
}


def build_shape(
    session: Context, trace: str, jobs: pl.LazyFrame, *, several_clusters: bool
) -> Content:
    """Tell of one trace how unevenly its GPU-hours and submissions are spread.

    Jobs may be very many: each question reads the columns that it asks of, and leaves them.
    """
    name = session.title(trace)
    n_jobs = _ask(jobs, pl.len())
    since, first_end, survivors = jobs, 0.0, 0
    if trace in _SURVIVORS:
        first_end = _ask(jobs, pl.col("end_s").min()) or 0.0
        if first_end - (_ask(jobs, pl.col("submit_s").min()) or 0.0) > _DAY_S:
            since = jobs.remove(pl.col("submit_s") < first_end)
            survivors = n_jobs - _ask(since, pl.len())
    told = (
        f"{survivors:,} of {plural(n_jobs, 'pod')} were created before the first pod ended "
        f"(day {days(0, first_end)}): they are in the trace because they were still there, a "
        "sample of survivors, and demand until then is theirs alone. Arrivals by hour and weekday "
        "are of the others."
    )
    spread = tell_spread(
        jobs, since if survivors else None, name, several_clusters=several_clusters
    )
    clock = _CLOCKS.get(trace, Clock(0, None, _CLOCK_OF_ITS_OWN))
    pictures = [
        *_arrivals(trace, since, clock),
        *_demand(trace, jobs),
        *_concentration(trace, jobs, several_clusters=several_clusters),
    ]
    blocks: list[Block] = [
        *([Text(told)] if survivors else []),
        *spread.blocks,
        Text(clock.note),
        Gallery(tuple(pictures)),
        *_queueing(jobs, name),
    ]
    return Content(spread.findings, tuple(blocks), spread.headline)


def _ask(jobs: pl.LazyFrame, what: pl.Expr) -> Any:  # noqa: ANN401  a number of jobs, or a time
    return jobs.select(what).collect().item()


def _concentration(trace: str, jobs: pl.LazyFrame, *, several_clusters: bool) -> list[Drawing]:
    curve = lorenz_curve(jobs)
    if curve.is_empty():
        return []
    known, n_jobs = (
        _ask(jobs, what) for what in ((pl.col("gpus") * pl.col("runtime_s")).count(), pl.len())
    )
    return [
        drawing(
            "concentration",
            curve,
            trace=trace,
            key=f"concentration-{trace}",
            about=f"GPU-hours over jobs, n = {known:,} of {n_jobs:,} jobs with GPU-hours",
            groups=lorenz_curve(jobs, by="cluster") if several_clusters else None,
        )
    ]


def _arrivals(trace: str, jobs: pl.LazyFrame, clock: Clock) -> list[Drawing]:
    slots: tuple[Literal["hour", "weekday"], ...] = ("hour", "weekday")
    if not _ask(jobs, pl.col("submit_s").count()):
        return []
    pictures = [
        drawing(
            "arrivals",
            arrival_rhythm(jobs, per=per, utc_offset_h=clock.utc_offset_h),
            trace=trace,
            key=f"arrivals-{per}-{trace}",
            about=f"Jobs submitted by {per}, " + (clock.name or "on the trace's own clock"),
            clock=clock.name,
        )
        for per in slots
    ]
    curve = interarrival_curve(jobs)
    if curve.height:
        pictures.append(
            drawing(
                "interarrivals",
                curve,
                trace=trace,
                key=f"interarrivals-{trace}",
                about="Times between submissions",
            )
        )
    return pictures


def _demand(trace: str, jobs: pl.LazyFrame) -> list[Drawing]:
    about, by_hour = "GPUs asked for by hour", gpu_demand(jobs, bin_s=_HOUR_S)
    assumed = not by_hour["gpus_mean"].count()
    if assumed:
        by_hour = gpu_demand_if_started_at_submission(jobs, bin_s=_HOUR_S)
        about += ", had every job started when it was submitted (the trace tells no starts)"
    if not by_hour["gpus_mean"].count():
        return []
    return [
        drawing(
            "gpu-demand",
            by_hour,
            trace=trace,
            key=f"demand-{trace}",
            about=about,
            starts_assumed=assumed,
        )
    ]


def _queueing(jobs: pl.LazyFrame, name: str) -> list[Block]:
    if queueing_delay(jobs)["n"].item() == 0:
        return [Text("The jobs table tells no starts: no queueing delay can be seen.")]
    return [
        make_table(
            queueing_delay(jobs, by="qos"),
            [
                words("QoS class", "qos"),
                Column("Jobs", "jobs", count),
                Column("Delays", "n", count),
                Column("Never started", "n_no_start", count),
                Column("At once", "share_zero", share),
                Column("Mean (s)", "mean_s", seconds),
                Column("Median (s)", "median_s", seconds),
                Column("90 % (s)", "p90_s", seconds),
                Column("99 % (s)", "p99_s", seconds),
                Column("Largest (s)", "max_s", seconds),
            ],
            caption=f"Queueing delay: from submission to start, of the jobs that started. {name}",
            total=queueing_delay(jobs).with_columns(qos=pl.lit("all")),
        )
    ]
