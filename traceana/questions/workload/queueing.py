"""Queueing delay: time from submission to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import DataError
from traceana.questions.failures.curves import kaplan_meier
from traceana.questions.workload.tables import QueueingDelay
from traceana.store.frames import (
    Names,
    as_names,
    collect,
    column_names,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.cohorts.overlap import Window


@returns(QueueingDelay)
def queueing_delay(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    submit: str = "submit_s",
    start: str = "start_s",
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute the time from submission to start of the jobs that started.

    A job that never started is in no quantile but `p99_pending_s`, the Kaplan-Meier estimate in
    which pending jobs (column status) are censored at end_s, else at the window's end. A job that
    was cancelled before it started has no delay.

    Parameters
    ----------
    jobs
        One row per job; eager or lazy, of any supported engine. Null and NaN are missing.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    submit, start
        Columns of the submission and the start: seconds or datetimes.
    window
        As in :func:`workload_summary`.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns `by` and
        {columns}

        Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan, 1996).

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 20], "start_s": [5, 10, 120]})
    >>> found = traceana.queueing_delay(jobs)
    >>> found.select("n", "mean_s", "median_s", pl.col("share_zero").round(2)).rows()
    [(3, 35.0, 5.0, 0.33)]
    """
    keys = as_names(by)
    refuse_clash(keys, QueueingDelay.columns())
    refuse_clash(keys, ("note",))
    submitted, started = nw.col(submit), nw.col(start)
    delay = started - submitted
    quantiles = {"median_s": 0.5, "p75_s": 0.75, "p90_s": 0.9, "p95_s": 0.95, "p99_s": 0.99}
    delays = reduce_frame(
        open_frame(jobs, keys=keys, measures={"submit": submit, "start": start}),
        keys,
        jobs=nw.len(),
        n=delay.count(),
        n_no_start=submitted.count() - delay.count(),
        n_no_submit=nw.len() - submitted.count(),
        mean_s=delay.mean(),
        **{name: delay.quantile(q, interpolation="linear") for name, q in quantiles.items()},
        max_s=delay.max(),
        share_zero=nw.when(~delay.is_null()).then((delay == 0).cast(nw.Float64)).mean(),
        min_s=delay.min(),
    )
    if (delays["min_s"] < 0).any():
        raise DataError(f"a job starts before it was submitted: {start} is below {submit}")
    why = pl.lit(f"no job has both {submit} and {start}")
    delays = _with_pending(delays, jobs, keys, (submit, start), window)
    found = delays.with_columns(note=pl.when(pl.col("n") == 0).then(why))
    return declared(found, QueueingDelay, by=keys)


def _with_pending(
    delays: pl.DataFrame,
    jobs: IntoFrame,
    keys: tuple[str, ...],
    times: tuple[str, str],
    window: Window | None,
) -> pl.DataFrame:
    """Add the 99 % quantile of the delays with pending jobs as censored ones."""
    submit, start = times
    there = column_names(jobs)
    plain = delays.with_columns(p99_pending_s="p99_s")
    if "status" not in there:
        return plain
    end = "end_s" if "end_s" in there and "end_s" not in (*keys, submit, start) else None
    measures = {"submit": submit, "start": start, **({"end": end} if end else {})}
    columns = keys if "status" in keys else (*keys, "status")
    rows = collect(open_frame(jobs, keys=columns, measures=measures))
    is_pending = rows["status"].cast(pl.String).fill_null("") == "pending"
    pending = is_pending & rows[start].is_null()
    if not pending.any():
        return plain
    latest = (
        window[1]
        if window
        else rows.select(pl.max_horizontal(pl.col(*measures.values()).max())).item()
    )
    last = pl.coalesce(*([end] if end else []), pl.lit(latest, pl.Float64))
    seen = rows.select(
        *keys,
        wait=(pl.when(pending).then(last).otherwise(pl.col(start)) - pl.col(submit)).clip(0),
        seen=~pending,
    )
    found = kaplan_meier(
        seen, by=keys, status=None, runtime="wait", observed="seen", quantiles=(0.99,)
    ).quantiles.select(*keys, p99_pending_s="time_s")
    if not keys:
        return delays.hstack(found)
    return delays.join(found, on=keys, how="left", nulls_equal=True, maintain_order="left")
