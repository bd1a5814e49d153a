"""Variation across the workers of a job: computed from worker samples, and as published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana import analysis
from traceana.derived import workers
from traceana.report.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Text,
    drawing,
    join_parts,
    picture_key,
    result_table,
)
from traceana.report.section import Section
from traceana.report.sections.cov_table import COLUMNS, match_jobs, published_table
from traceana.results.formatting import plural, ratio, share
from traceana.results.variation import CovSeries

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from traceana.report.context import Context
    from traceana.results.stragglers import StragglerResult

_MAX_DRAWN: Final = 12
_MAX_LINES: Final = 7
_OPENING: Final = (
    "In synchronous training each step waits for the slowest worker. The coefficient of variation "
    "(CoV) at a time step is the standard deviation across workers divided by their mean. With "
    "ddof 0 the variance divides by the number of workers n, with ddof 1 by n - 1."
)


def build(session: Context, traces: Sequence[str]) -> Content:
    """CoV by job with both ddof, the workers' times, the published CoV table, and their match."""
    drawn = max(2, _MAX_DRAWN // len(traces))
    parts = ((session.title(trace), _of_trace(session, trace, drawn)) for trace in traces)
    return join_parts(_OPENING, parts)


def _of_trace(session: Context, trace: str, drawn: int) -> Content:
    has = session.manifest(trace).has
    samples, table = has("worker_samples", ("batch_time",)), has("cov_samples", ("cov",))
    parts = [
        *([_computed(session, trace, drawn)] if samples else []),
        *([published_table(session, trace)] if table else []),
        *([match_jobs(session, trace)] if samples and table else []),
    ]
    name = session.title(trace)
    return Content(
        tuple(f"{name}: {finding}" for part in parts for finding in part.findings),
        tuple(block for part in parts for block in part.blocks),
        " ".join(f"{name}: {part.headline}" for part in parts if part.headline),
    )


def _computed(session: Context, trace: str, drawn: int) -> Content:
    samples, time = workers.worker_samples(session, trace), workers.clock(session, trace)
    cov = analysis.iteration_cov(samples, ddof=0, time=time)
    steps = samples.select("job_id", time).unique().height
    heading = Heading("Mini-batch time of the workers")
    if cov.is_empty():
        return Content((), (heading, Text("No time step has two workers; the CoV is undefined.")))
    summary = session.once(workers.cov_by_job, trace)
    stragglers = session.once(workers.stragglers, trace)
    held = session.manifest(trace).tables["worker_samples"].values_held
    blocks: tuple[Block, ...] = (
        heading,
        Text(
            f"Of {plural(steps, 'time step')}, {steps - cov.height:,} have fewer than two workers "
            "and are excluded. "
            + ("Values are repeated until the next report, so they are autocorrelated. " * held)
            + "The effective number of time steps is that of independent ones with the same "
            "information. The 95 % confidence interval of the median (Woodruff) uses it; below 20 "
            "there is none. It assumes a stationary job and is too narrow for a job that drifts."
        ),
        result_table(
            summary,
            CovSeries,
            columns=["job_id", "ddof", *COLUMNS, "effective_n", "note"],
            headings={"ddof": "ddof"},
            caption=f"CoV of mini-batch time across workers, by job. {session.title(trace)}",
        ),
        Gallery(tuple(draw_jobs(session, trace, samples, cov, drawn, stragglers=stragglers))),
    )
    of_jobs = summary.filter(ddof=0).drop_nulls("median")
    finding, headline = _conclude(of_jobs)
    return Content((finding,), blocks, headline)


def draw_jobs(
    session: Context,
    trace: str,
    samples: pl.DataFrame,
    cov: pl.DataFrame,
    drawn: int,
    /,
    *,
    stragglers: StragglerResult,
) -> list[Drawing]:
    """Draw the first jobs, and the distributions over jobs."""
    jobs = samples["job_id"].unique(maintain_order=True)
    unit = workers.batch_time_unit(session, trace)
    pictures = []
    for job in jobs.head(drawn):
        own = stragglers.of_job(job)
        slow = {*own.levels.filter("is_slow")["worker_id"], *own.episodes["worker_id"]}
        pictures += [
            drawing(
                "worker-times",
                samples.filter(job_id=job),
                trace=trace,
                key=picture_key("times", trace, job),
                about=f"Mini-batch time of the workers of {job}",
                unit=unit,
                stragglers=sorted(slow),
            ),
            drawing(
                "cov",
                cov.filter(job_id=job),
                trace=trace,
                key=picture_key("cov", trace, job),
                about=f"CoV across the workers of {job}",
                ddof=0,
            ),
        ]
    few = jobs.head(_MAX_LINES)
    some = f" (first {len(few)} of {len(jobs)} jobs)" if len(few) < len(jobs) else ""
    scale = "; the times of each job have their own scale" if unit == "relative" else ""
    return [
        *pictures,
        drawing(
            "batch-time-ecdf",
            samples.filter(samples["job_id"].is_in(few.implode())),
            trace=trace,
            key=picture_key("batch-time-ecdf", trace),
            about=f"Distribution of mini-batch time by job{some}{scale}",
            unit=unit,
        ),
        drawing(
            "cov-ecdf",
            cov,
            trace=trace,
            key=picture_key("cov-ecdf", trace),
            about="Distribution of CoV by job",
            ddof=0,
        ),
    ]


def _conclude(summary: pl.DataFrame) -> tuple[str, str]:
    """Return the finding and the headline."""
    by_median = summary.sort("median").rows(named=True)
    low, high = by_median[0], by_median[-1]
    finding = (
        f"the median CoV across workers (ddof 0) is lowest in {low['job_id']} "
        f"({ratio(low['median'])}; n = {low['n']:,} time steps) and highest in {high['job_id']} "
        f"({ratio(high['median'])}, maximum {ratio(high['max'])}; n = {high['n']:,}), of "
        f"{plural(len(by_median), 'job')}."
    )
    headline = (
        "the median standard deviation of mini-batch time across workers is between "
        f"{share(low['median'])} ({low['job_id']}) and {share(high['median'])} "
        f"({high['job_id']}) of the mean (n = {plural(len(by_median), 'job')})."
    )
    return finding, headline


SECTION = Section(
    "variation",
    "Variation between workers",
    30,
    build,
    needs=({"worker_samples": ("batch_time",)}, {"cov_samples": ("cov",)}),
    figures=("worker-times", "cov", "batch-time-ecdf", "cov-ecdf"),
    part="Stragglers",
    question="How much do mini-batch times vary between the workers of a job?",
)
