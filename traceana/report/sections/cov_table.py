"""A published CoV table: distribution of its values over time steps and jobs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.derived import workers
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
from traceana.results.formatting import count, plural, ratio, share
from traceana.results.variation import CovPooled, CovSeries

if TYPE_CHECKING:
    from traceana.report.context import Context

COLUMNS: Final = (
    *("n", "mean", "q05", "q25", "median", "q75", "q95", "max"),
    *("share_above_0_1", "share_above_0_5", "share_above_1", "median_ci_low", "median_ci_high"),
)
"""Columns of a distribution of CoV on the page."""


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
