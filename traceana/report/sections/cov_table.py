"""The published CoV table: how its values are spread over ticks and jobs, and how surely."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.analysis import summarize_cov_pooled, summarize_cov_series
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
from traceana.results.formatting import count, plural, ratio, ratio_range, share
from traceana.schema.training import COV_TABLE_END_S, WORKERS_A_JOB

if TYPE_CHECKING:
    from traceana.report.context import Context

_TRACE = "alibaba-minibatch-2020"
_SAMPLED: Final = ("job_13", "job_74", "job_81", "job_27", "job_15")
"""The five jobs whose CoV the publisher shows."""
SUMMARY: Final = (
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
)
"""Columns of a CoV's summary."""
INTERVAL: Final = Column("Median, 95 % interval", ("median_low", "median_high"), ratio_range)
WORTH: Final = Column("Effective ticks", "effective_n", count)
"""How many independent ticks a job's are worth."""


def published_table(session: Context) -> Content:
    """Summarise the table over all jobs, and by job; nothing but the remedy where it is absent."""
    heading = Heading("The published CoV table")
    if not session.has(_TRACE, "cov_samples"):
        remedy = session.absent(_TRACE, "cov_samples", what="The published CoV of each job")
        return Content((), (heading, remedy))
    cov = session.scan(_TRACE, "cov_samples").collect()
    jobs = summarize_cov_series(cov, cut_at=COV_TABLE_END_S, rng=1)
    medians = jobs["median"].to_numpy()
    overall = summarize_cov_pooled(cov, cut_at=COV_TABLE_END_S, rng=1).with_columns(
        job_id=pl.lit("all")
    )
    largest = overall["max"].item()
    blocks: tuple[Block, ...] = (
        heading,
        Text(
            "The publisher computed these CoVs; which ddof they have is not in the file. "
            + _which_ddof(largest)
            + " The interval over all jobs draws whole jobs; by job it draws blocks of ticks. "
            + _lengths(overall.row(0, named=True))
        ),
        make_table(
            overall,
            [words("Jobs", "job_id"), *SUMMARY, INTERVAL],
            caption=f"Published CoV, each tick of each job counted once. {session.title(_TRACE)}",
        ),
        make_table(
            jobs,
            [
                words("Job", "job_id"),
                *SUMMARY,
                INTERVAL,
                WORTH,
                Column("Cut at the end", "right_truncated", _yes_or_no, numeric=False),
            ],
            caption=f"Published CoV by job. {session.title(_TRACE)}",
            folded=True,
        ),
        Gallery(_pictures(cov)),
    )
    finding = (
        f"the published CoV table has {plural(jobs.height, 'job')} and {overall['n'].item():,} "
        f"values. Their medians by job range from {ratio(medians.min())} to "
        f"{ratio(medians.max())}; {share(overall['share_above_0_5'].item())} of all values "
        f"are above 0.5. {_which_ddof(largest)}"
    )
    return Content((finding,), blocks)


def _pictures(cov: pl.DataFrame) -> tuple[Drawing, ...]:
    sampled = cov.filter(pl.col("job_id").is_in(_SAMPLED))
    pictures = [
        drawing(
            "cov-ecdf",
            cov,
            trace=_TRACE,
            key="published-ecdf",
            about="Distribution of the published CoV",
            ddof=None,
        )
    ]
    if not sampled.is_empty():
        picture = drawing(
            "cov",
            sampled,
            trace=_TRACE,
            key="published-sampled",
            about="CoV of the jobs of the publisher's figure",
            ddof=None,
        )
        pictures.insert(0, picture)
    return tuple(pictures)


def _which_ddof(largest: float) -> str:
    bound = math.sqrt(WORKERS_A_JOB - 1)
    known = f"With {WORKERS_A_JOB} workers a CoV with ddof 0 is at most {bound:g}; the largest is"
    if largest > bound:
        return f"{known} {ratio(largest)}, so these values cannot all have ddof 0."
    return f"{known} {ratio(largest)}, which leaves both possible."


def _lengths(overall: dict[str, Any]) -> str:
    """Say how many jobs were cut at the table's end, and how long half of them are."""
    cut = (
        f"{overall['n_right_truncated']} of {plural(overall['n_jobs'], 'job')} reach the last "
        "column and were cut there, so that their true length is unknown"
    )
    median = overall["length_median"]
    if median is None:
        return f"{cut}; the median length is beyond the table."
    return f"{cut}; half of the jobs have ended by sample {count(median)} (Kaplan and Meier)."


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"
