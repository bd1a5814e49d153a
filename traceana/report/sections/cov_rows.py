"""Whether the jobs with worker times are rows of the published CoV table, and with which ddof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived.workers import cov_matches
from traceana.report.blocks import Column, Content, Heading, Text, make_table, words
from traceana.results.formatting import count, plural, three_digits

if TYPE_CHECKING:
    from traceana.report.context import Context

_TRACE: Final = "alibaba-minibatch-2020"
_A_ROW: Final = 0.99
"""Share of differences within rounding from which a job is said to be the row."""


def match_jobs(session: Context) -> Content:
    """Table of best matches under both ddof; nothing where one of the two tables is absent."""
    if not all(session.has(_TRACE, table) for table in ("worker_samples", "cov_samples")):
        return Content((), ())
    matches = session.once(cov_matches, _TRACE)
    told = matches.filter(pl.col("overlap").is_not_null())
    blocks = (
        Heading("Are these jobs rows of that table?"),
        Text(
            "Each job's CoV is laid along every row of the table at every shift; the best match "
            "under either ddof stands here. Worker times are whole numbers, so rounding explains "
            "a difference up to a bound that is known for each tick: where a job is a row, nearly "
            "all differences keep within it under the right ddof, and hardly any under the other."
        ),
        make_table(
            told,
            [
                words("Job", "job_id"),
                Column("ddof", "ddof", str),
                words("Most like", "cov_job_id"),
                Column("From its sample", "first_sample", count),
                Column("Samples compared", "overlap", count),
                Column("Largest difference", "max_abs_difference", three_digits),
                Column("Median difference", "median_abs_difference", three_digits),
                Column("Within rounding", "share_within_rounding", _fine_share),
            ],
            caption=f"Best match of each job in the published CoV table. {session.title(_TRACE)}",
        ),
    )
    return Content((_finding(matches),), blocks)


def _finding(matches: pl.DataFrame) -> str:
    jobs = matches["job_id"].n_unique()
    rows = matches.filter(pl.col("share_within_rounding") >= _A_ROW).sort("job_id")
    if rows.is_empty():
        return f"none of {plural(jobs, 'job')} with worker times is a row of the CoV table."
    named = ", ".join(
        f"{row['job_id']} is {row['cov_job_id']} (ddof {row['ddof']}, "
        f"{_fine_share(row['share_within_rounding'])} of {row['overlap']:,} differences within "
        "rounding)"
        for row in rows.iter_rows(named=True)
    )
    return (
        f"of {plural(jobs, 'job')} with worker times, {rows['job_id'].n_unique()} are rows of the "
        f"published CoV table: {named}."
    )


def _fine_share(value: float) -> str:
    """Write a share of one so that one sample in two thousand still shows."""
    return f"{100 * value:.2f} %"
