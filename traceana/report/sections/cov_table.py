"""A published CoV table: distribution of its values, and its match to worker samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.derived import workers
from traceana.derived.workers import cov_matches
from traceana.report.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Text,
    drawing,
    picture_key,
    result_table,
)
from traceana.results.formatting import count, fine_share, plural, ratio, share
from traceana.results.variation import CovMatch, CovPooled, CovSeries

if TYPE_CHECKING:
    from traceana.report.context import Context

COLUMNS: Final = (
    *("n", "mean", "q05", "q25", "median", "q75", "q95", "max"),
    *("share_above_0_1", "share_above_0_5", "share_above_1", "median_ci_low", "median_ci_high"),
)
"""Columns of a distribution of CoV on the page."""
_IS_ROW: Final = 0.99
"""Fraction of differences within rounding from which a job is a row of the table."""


def published_table(session: Context, trace: str) -> Content:
    """Summarize the table over all jobs, and by job."""
    jobs, overall = session.once(workers.published_cov, trace)
    known = session.manifest(trace).tables["cov_samples"].workers_per_job
    medians = jobs["median"].drop_nulls().to_numpy()
    bound = _ddof_bound(overall["max"].item(), known)
    truncation = ["right_truncated"] if jobs["right_truncated"].count() else []
    blocks: tuple[Block, ...] = (
        Heading("Published CoV table"),
        Text(
            "The publisher computed these values; the file does not state ddof."
            f"{bound} The confidence interval over all jobs resamples jobs; those by job resample "
            f"blocks of time steps.{_lengths(overall.row(0, named=True))}"
        ),
        result_table(
            overall.with_columns(job_id=pl.lit("all")),
            CovPooled,
            columns=["job_id", *COLUMNS],
            headings={"job_id": "Jobs"},
            caption="Published CoV, each time step of each job counted once. "
            + session.title(trace),
        ),
        result_table(
            jobs,
            CovSeries,
            columns=["job_id", *COLUMNS, "effective_n", *truncation],
            caption=f"Published CoV by job. {session.title(trace)}",
            folded=True,
        ),
        Gallery(tuple(_pictures(session, trace))),
    )
    if not len(medians):
        return Content((), blocks)
    finding = (
        f"in the published CoV table ({plural(jobs.height, 'job')}, "
        f"{overall['n'].item():,} values) the medians by job range from {ratio(medians.min())} to "
        f"{ratio(medians.max())}; {share(overall['share_above_0_5'].item())} of all values exceed "
        f"0.5.{bound}"
    )
    return Content((finding,), blocks)


def _pictures(session: Context, trace: str) -> list[Drawing]:
    cov = workers.cov_samples(session, trace)
    examples = session.manifest(trace).tables["cov_samples"].example_jobs
    shown = cov.filter(pl.col("job_id").is_in(examples))
    whole = drawing(
        "cov-ecdf",
        cov,
        trace=trace,
        key=picture_key("published-ecdf", trace),
        about="Distribution of the published CoV",
        ddof=None,
    )
    if shown.is_empty():
        return [whole]
    some = drawing(
        "cov",
        shown,
        trace=trace,
        key=picture_key("published", trace),
        about="Published CoV of the jobs in the publisher's figure",
        ddof=None,
    )
    return [some, whole]


def _ddof_bound(largest: float | None, n_workers: int | None) -> str:
    """Return whether the values can have ddof 0, which bounds them."""
    if largest is None or n_workers is None:
        return ""
    bound = math.sqrt(n_workers - 1)
    known = (
        f" With {n_workers} workers a CoV with ddof 0 is at most {bound:g}; the maximum is "
        f"{ratio(largest)}"
    )
    return f"{known}, so {'not all values' if largest > bound else 'all values may'} have ddof 0."


def _lengths(overall: dict[str, Any]) -> str:
    """Return how many jobs are truncated, and the median length."""
    if overall["n_right_truncated"] is None:
        return ""
    truncated = (
        f" {overall['n_right_truncated']} of {plural(overall['n_jobs'], 'job')} reach the last "
        "column and are right-truncated"
    )
    median = overall["length_median"]
    if median is None:
        return f"{truncated}; the median length exceeds the table."
    return f"{truncated}; the median length is {count(median)} samples (Kaplan-Meier)."


def match_jobs(session: Context, trace: str) -> Content:
    """Table of the best matches under both ddof."""
    matches = session.once(cov_matches, trace)
    blocks = (
        Heading("Match of these jobs to the published CoV table"),
        Text(
            "Each job's CoV is compared with every row of the table at every shift. The table "
            "shows the best match for each ddof. Worker times are integers, so rounding explains "
            "differences up to a known bound. If a job is a row of the table, nearly all "
            "differences are within that bound under the right ddof, and few under the other."
        ),
        result_table(
            matches.drop_nulls("overlap"),
            CovMatch,
            columns=[
                *("job_id", "ddof", "cov_job_id", "first_sample", "overlap"),
                *("max_abs_difference", "median_abs_difference", "share_within_rounding"),
            ],
            caption="Best match of each job in the published CoV table. " + session.title(trace),
        ),
    )
    return Content((_finding(matches),), blocks)


def _finding(matches: pl.DataFrame) -> str:
    jobs = matches["job_id"].n_unique()
    rows = matches.filter(pl.col("share_within_rounding") >= _IS_ROW).sort("job_id")
    if rows.is_empty():
        return f"none of {plural(jobs, 'job')} with worker times is a row of the CoV table."
    named = ", ".join(
        f"{row['job_id']} is {row['cov_job_id']} (ddof {row['ddof']}, "
        f"{fine_share(row['share_within_rounding'])} of {row['overlap']:,} differences within "
        "rounding)"
        for row in rows.iter_rows(named=True)
    )
    return (
        f"of {plural(jobs, 'job')} with worker times, {rows['job_id'].n_unique()} are rows of the "
        f"published CoV table: {named}."
    )
