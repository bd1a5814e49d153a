"""How much the workers of a job differ, tick by tick: computed, and as published."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis import iteration_cov, summarize_cov
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Gallery,
    Heading,
    Picture,
    Text,
    make_table,
    words,
)
from traceana.report.sections.cov_rows import match_jobs
from traceana.report.wording import count, plural, ratio, share
from traceana.schema.training import WORKERS_A_JOB

if TYPE_CHECKING:
    from traceana.report.material import Material

_TRACE = "alibaba-minibatch-2020"
_MOST_DRAWN = 12
_SUMMARY = [
    Column("Ticks", "n", count),
    Column("Mean", "mean", ratio),
    Column("5 %", "q05", ratio),
    Column("25 %", "q25", ratio),
    Column("Median", "median", ratio),
    Column("75 %", "q75", ratio),
    Column("95 %", "q95", ratio),
    Column("Largest", "max", ratio),
    Column("Above 0.1", "share_above_0_1", share),
    Column("Above 0.5", "share_above_0_5", share),
    Column("Above 1", "share_above_1", share),
]


def build(material: Material) -> Content:
    """CoV by job with both ddof, the workers' times, the published CoV table, and their match."""
    parts = [_computed(material), _published(material), match_jobs(material)]
    name = material.name(_TRACE)
    return Content(
        tuple(f"{name}: {finding}" for part in parts for finding in part.findings),
        tuple(block for part in parts for block in part.blocks),
    )


def _computed(material: Material) -> Content:
    heading = Heading("Mini-batch time of the workers")
    if not material.has(_TRACE, "worker_samples"):
        remedy = material.absent(_TRACE, "worker_samples", what="CoV between workers by tick")
        return Content((), (heading, remedy))
    samples = material.scan(_TRACE, "worker_samples").collect()
    covs = {ddof: iteration_cov(samples, ddof=ddof) for ddof in (0, 1)}
    summary = pl.concat(
        [summarize_cov(cov).with_columns(ddof=pl.lit(ddof)) for ddof, cov in covs.items()]
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
            "so neighbouring ticks are not independent."
        ),
        make_table(
            summary,
            [words("Job", "job_id"), Column("ddof", "ddof", str), *_SUMMARY],
            caption=f"CoV of mini-batch time over the workers, by job. {material.name(_TRACE)}",
        ),
        Gallery(_pictures(material, samples, covs[0])),
    )
    return Content((_finding(summary.filter(ddof=0)),), blocks)


def _pictures(material: Material, samples: pl.DataFrame, cov: pl.DataFrame) -> tuple[Picture, ...]:
    jobs = samples["job_id"].unique().to_list()
    pictures = []
    for job in sorted(jobs, key=lambda name: (len(name), name))[:_MOST_DRAWN]:
        pictures += [
            material.picture(
                "worker-times",
                samples.filter(job_id=job),
                trace=_TRACE,
                key=f"times-{job}",
                about=f"Mini-batch time of the workers of {job}",
            ),
            material.picture(
                "cov",
                cov.filter(job_id=job),
                trace=_TRACE,
                key=f"cov-{job}",
                about=f"CoV over the workers of {job}",
                ddof=0,
            ),
        ]
    whole = material.picture(
        "cov-ecdf",
        cov,
        trace=_TRACE,
        key="cov-ecdf",
        about="Distribution of CoV by job",
        ddof=0,
    )
    return (*pictures, whole)


def _finding(summary: pl.DataFrame) -> str:
    by_median = summary.sort("median").rows(named=True)
    least, most = by_median[0], by_median[-1]
    return (
        f"between the workers of {plural(len(by_median), 'job')}, mini-batch time differs least in "
        f"{least['job_id']} (median CoV {ratio(least['median'])}, ddof 0, {least['n']:,} ticks) "
        f"and most in {most['job_id']} (median {ratio(most['median'])}, largest "
        f"{ratio(most['max'])}, {most['n']:,} ticks)."
    )


def _published(material: Material) -> Content:
    heading = Heading("The published CoV table")
    if not material.has(_TRACE, "cov_samples"):
        remedy = material.absent(_TRACE, "cov_samples", what="The published CoV of each job")
        return Content((), (heading, remedy))
    cov = material.scan(_TRACE, "cov_samples").collect()
    jobs = summarize_cov(cov)
    medians = jobs["median"].to_numpy()
    overall = summarize_cov(cov, by=()).with_columns(job_id=pl.lit("all"))
    largest = overall["max"].item()
    blocks: tuple[Block, ...] = (
        heading,
        Text(
            "The publisher computed these CoVs; which ddof they have is not in the file. "
            + _which_ddof(largest)
        ),
        make_table(
            overall,
            [words("Jobs", "job_id"), *_SUMMARY],
            caption=f"Published CoV, each tick of each job counted once. {material.name(_TRACE)}",
        ),
        make_table(
            jobs,
            [words("Job", "job_id"), *_SUMMARY],
            caption=f"Published CoV by job. {material.name(_TRACE)}",
            folded=True,
        ),
        Gallery(
            (
                material.picture(
                    "cov-ecdf",
                    cov,
                    trace=_TRACE,
                    key="published-ecdf",
                    about="Distribution of the published CoV",
                    ddof=None,
                ),
            )
        ),
    )
    finding = (
        f"the published CoV table has {plural(jobs.height, 'job')} and {overall['n'].item():,} "
        f"values. Their medians by job range from {ratio(medians.min())} to "
        f"{ratio(medians.max())}; {share(overall['share_above_0_5'].item())} of all values "
        f"are above 0.5. {_which_ddof(largest)}"
    )
    return Content((finding,), blocks)


def _which_ddof(largest: float) -> str:
    bound = math.sqrt(WORKERS_A_JOB - 1)
    known = f"With {WORKERS_A_JOB} workers a CoV with ddof 0 is at most {bound:g}; the largest is"
    if largest > bound:
        return f"{known} {ratio(largest)}, so these values cannot all have ddof 0."
    return f"{known} {ratio(largest)}, which leaves both possible."
