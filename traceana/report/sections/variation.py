"""How much the workers of a job differ, tick by tick: computed, and as published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis import iteration_cov, summarize_cov_series
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Drawing,
    Gallery,
    Heading,
    Text,
    drawing,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.cov_rows import match_jobs
from traceana.report.sections.cov_table import INTERVAL, SUMMARY, WORTH, published_table
from traceana.results.formatting import plural, ratio, share

if TYPE_CHECKING:
    from traceana.report.context import Context

_TRACE = "alibaba-minibatch-2020"
_MOST_DRAWN = 12


def build(session: Context) -> Content:
    """CoV by job with both ddof, the workers' times, the published CoV table, and their match."""
    parts = [_computed(session), published_table(session), match_jobs(session)]
    name = session.title(_TRACE)
    return Content(
        tuple(f"{name}: {finding}" for part in parts for finding in part.findings),
        tuple(block for part in parts for block in part.blocks),
        " ".join(f"{name}: {part.headline}" for part in parts if part.headline),
    )


def _computed(session: Context) -> Content:
    heading = Heading("Mini-batch time of the workers")
    if not session.has(_TRACE, "worker_samples"):
        remedy = session.absent(_TRACE, "worker_samples", what="CoV between workers by tick")
        return Content((), (heading, remedy))
    samples = session.scan(_TRACE, "worker_samples").collect()
    covs = {ddof: iteration_cov(samples, ddof=ddof) for ddof in (0, 1)}
    summary = pl.concat(
        [
            summarize_cov_series(cov, rng=1).with_columns(ddof=pl.lit(ddof))
            for ddof, cov in covs.items()
        ]
    ).sort(pl.col("job_id").str.len_chars(), "job_id", "ddof")
    ticks = samples.select("job_id", "time_s").unique().height
    left_out = ticks - covs[0].height
    blocks: tuple[Block, ...] = (
        heading,
        Text(
            "CoV at a tick is the workers' standard deviation over their mean. With ddof 0 it "
            "divides by the number of workers n (the publisher's definition), with ddof 1 by "
            f"n - 1. Of {plural(ticks, 'tick')}, {left_out:,} with fewer than two workers are left "
            "out. Percentages name quantiles over ticks. Values are sampled every 10 s and held, "
            "so neighbouring ticks are not independent: effective ticks say how many independent "
            "ones are worth as much, and the median's 95 % interval draws blocks of ticks. It "
            "takes the job to behave alike throughout, and is too narrow where a job drifts."
        ),
        make_table(
            summary,
            [words("Job", "job_id"), Column("ddof", "ddof", str), *SUMMARY, INTERVAL, WORTH],
            caption=f"CoV of mini-batch time over the workers, by job. {session.title(_TRACE)}",
        ),
        Gallery(_pictures(samples, covs[0])),
    )
    of_jobs = summary.filter(ddof=0)
    return Content((_finding(of_jobs),), blocks, _headline(of_jobs))


def _pictures(samples: pl.DataFrame, cov: pl.DataFrame) -> tuple[Drawing, ...]:
    jobs = samples["job_id"].unique().to_list()
    pictures = []
    for job in sorted(jobs, key=lambda name: (len(name), name))[:_MOST_DRAWN]:
        pictures += [
            drawing(
                "worker-times",
                samples.filter(job_id=job),
                trace=_TRACE,
                key=f"times-{job}",
                about=f"Mini-batch time of the workers of {job}",
            ),
            drawing(
                "cov",
                cov.filter(job_id=job),
                trace=_TRACE,
                key=f"cov-{job}",
                about=f"CoV over the workers of {job}",
                ddof=0,
            ),
        ]
    whole = drawing(
        "cov-ecdf",
        cov,
        trace=_TRACE,
        key="cov-ecdf",
        about="Distribution of CoV by job",
        ddof=0,
    )
    times = drawing(
        "batch-time-ecdf",
        samples,
        trace=_TRACE,
        key="batch-time-ecdf",
        about="Distribution of mini-batch time by job",
    )
    return (*pictures, times, whole)


def _headline(summary: pl.DataFrame) -> str:
    by_median = summary.sort("median").rows(named=True)
    least, most = by_median[0], by_median[-1]
    return (
        "at a typical tick, the mini-batch times of a job's workers spread by "
        f"{share(least['median'])} of their mean in {least['job_id']} and by "
        f"{share(most['median'])} in {most['job_id']}, the least and the most of "
        f"{plural(len(by_median), 'job')}."
    )


def _finding(summary: pl.DataFrame) -> str:
    by_median = summary.sort("median").rows(named=True)
    least, most = by_median[0], by_median[-1]
    return (
        f"between the workers of {plural(len(by_median), 'job')}, mini-batch time differs least in "
        f"{least['job_id']} (median CoV {ratio(least['median'])}, ddof 0, {least['n']:,} ticks) "
        f"and most in {most['job_id']} (median {ratio(most['median'])}, largest "
        f"{ratio(most['max'])}, {most['n']:,} ticks)."
    )


SECTION = Section(
    "variation",
    "Variation between workers",
    30,
    build,
    figures=("worker-times", "cov", "batch-time-ecdf", "cov-ecdf"),
)
