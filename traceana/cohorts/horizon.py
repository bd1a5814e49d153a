"""Outcome by a stated runtime, for cohorts of which many rows have not ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.cohorts.cohort import Cohort, form_cohort
from traceana.tables.formatting import duration

if TYPE_CHECKING:
    from traceana.store import Trace

MOST_NOT_ENDED: Final = 0.05
"""Fraction of rows that have not ended above which outcomes are those by a runtime."""
MOST_UNTIMED: Final = 0.05
"""Fraction of failed rows without a runtime above which no outcome is by a runtime."""
_HORIZONS_S: Final = (86_400.0, 21_600.0, 3600.0, 600.0)
_WATCHED: Final = 1 / 3
_FEWEST: Final = 10


def count_not_ended(cohort: Cohort, /) -> int:
    """Return the rows that run or wait; a row of unknown status is none of them."""
    open_ = cohort.rows["status"].cast(pl.String).is_in(["running", "pending"])
    return int(open_.sum() or 0)


def is_censored(cohort: Cohort, /) -> bool:
    """Return whether many rows have not ended, and the runtimes of the failed ones are known."""
    failed = cohort.rows.filter(pl.col("status").cast(pl.String) == "failed")
    untimed = failed["duration_s"].null_count()
    return (
        count_not_ended(cohort) > MOST_NOT_ENDED * cohort.rows.height
        and not failed.is_empty()
        and untimed <= MOST_UNTIMED * failed.height
    )


def outcome_cohort(trace: Trace, /) -> Cohort:
    """Return the cohort whose failures are compared.

    A rate among ended rows depends on how long the others were watched. If more than 5 % of the
    rows have not ended, the outcome is therefore that by a runtime, `horizon_s`: of the rows that
    started in the window and at least `horizon_s` before its end, those that failed by then have
    status failed, all others status completed (they had not failed). It is the longest of 1 day, 6
    hours, 1 hour and 10 minutes for which a third of the started rows, and 10 failures, remain.
    Where more than 5 % of the failed rows have no runtime, none is, and rates count ended rows.
    """
    cohort = form_cohort(trace)
    if not is_censored(cohort):
        return cohort
    watched = form_cohort(trace, end_imputation="running")
    started = watched.rows.filter(pl.col("watched_s").is_not_null())
    for horizon_s in _HORIZONS_S:
        table = started.filter(
            pl.col("watched_s") >= horizon_s,
            pl.col("duration_s").is_not_null(),
            pl.col("entry_s") == 0,
        )
        failed = (pl.col("status").cast(pl.String) == "failed").fill_null(value=False) & (
            pl.col("duration_s") <= horizon_s
        )
        rows = table.with_columns(
            status=pl.when(failed).then(pl.lit("failed")).otherwise(pl.lit("completed")),
            runtime_s=pl.lit(None, pl.Float64),
        )
        enough = table.height >= _WATCHED * started.height
        if enough and (rows["status"] == "failed").sum() >= _FEWEST:
            excluded = cohort.rows.height - rows.height
            by_then = duration(horizon_s)
            definition = (
                f"{count_not_ended(cohort):,} of the {cohort.rows.height:,} "
                f"{cohort.noun} have no end state, so a rate among ended ones would depend on how "
                f"long the others were watched. Tests and models use failure within {by_then} of "
                f"runtime among the {rows.height:,} {cohort.noun} that started in the window and "
                f"at least {by_then} before its end; {excluded:,} are excluded."
            )
            definitions = (*watched.definitions, definition)
            return replace(watched, rows=rows, horizon_s=horizon_s, definitions=definitions)
    return cohort
