"""Match of the jobs with worker samples to the rows of a published CoV table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived.workers import cov_matches
from traceana.report.blocks import Content, Heading, Text, result_table
from traceana.results.formatting import fine_share, plural
from traceana.results.variation import CovMatch

if TYPE_CHECKING:
    from traceana.report.context import Context

_IS_ROW: Final = 0.99
"""Fraction of differences within rounding from which a job is a row of the table."""


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
