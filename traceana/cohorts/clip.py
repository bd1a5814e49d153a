"""Jobs as a window shows them: those in it, without what happened after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from traceana.cohorts.overlap import Window

_ENDED: Final = ("completed", "failed", "cancelled")
_OF_THE_END: Final = ("end_s", "end_reason", "exit_code")


def clip_jobs(jobs: pl.LazyFrame, window: Window, /) -> pl.LazyFrame:
    """Return the jobs that waited or ran in a window, as they were seen at its end.

    A job that ends later is running, with the runtime so far and no end; one that starts later is
    pending, with neither. Kept are also jobs without an end that are not of an ended status.
    Where only submissions are recorded, jobs are chosen by these.
    """
    first, last = window
    times = jobs.select(pl.col("start_s", "end_s", "runtime_s").count()).collect()
    if not any(times.row(0)):  # only submissions are known
        submitted = pl.col("submit_s")
        return jobs.filter(submitted >= first, submitted < last)
    begun = pl.coalesce("start_s", "submit_s")
    until = pl.coalesce("end_s", begun + pl.col("runtime_s"))
    ended = pl.col("status").cast(pl.String).is_in(_ENDED).fill_null(value=False)
    later = pl.when(ended).then(begun >= first).otherwise(pl.lit(value=True))
    inside = pl.when(until.is_not_null()).then((until > first) | (begun >= first)).otherwise(later)
    seen = (pl.coalesce("submit_s", "start_s") < last).fill_null(value=True)
    # cancelled while it waited
    never = pl.col("start_s").is_null() & (pl.col("runtime_s").fill_null(0) <= 0)
    never &= pl.col("status").cast(pl.String) == "cancelled"
    cut = (until > last).fill_null(value=False)
    waits = (pl.col("start_s") >= last).fill_null(value=False)
    jobs = jobs.filter(inside.fill_null(value=True) & seen).with_columns(
        waits=waits | (never & cut).fill_null(value=False), cut=cut
    )
    waits, open_ = pl.col("waits"), pl.col("waits") | pl.col("cut")
    status = pl.when(waits).then(pl.lit("pending")).otherwise(pl.lit("running"))
    kind = jobs.collect_schema()["status"]
    return jobs.with_columns(
        pl.when(open_).then(status.cast(kind)).otherwise("status").alias("status"),
        pl.when(~waits).then("start_s").alias("start_s"),
        pl.when(waits)
        .then(None)
        .when("cut")
        .then(last - begun)
        .otherwise("runtime_s")
        .alias("runtime_s"),
        *(pl.when(~open_).then(name).alias(name) for name in _OF_THE_END),
    ).drop("waits", "cut")
