"""Summary of a workload, and its queueing delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.overlap import (
    HELD,
    LENGTH,
    Window,
    count_reckoned,
    note_reckoned,
    open_overlap,
)
from traceana.errors import DataError
from traceana.questions.failures.curves import kaplan_meier
from traceana.questions.workload.tables import QueueingDelay, WorkloadSummary
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

    from traceana.questions.failures.tables_competing_risks import SurvivalCurves


@returns(WorkloadSummary)
def workload_summary(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    submit: str = "submit_s",
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    entry: str | None = None,
    observed: str | None = None,
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute jobs, GPU-hours, runtimes, sizes and the range of submissions.

    GPU-hours are the sum of gpus * hours within the window. A job runs from start_s for its
    runtime. Without a start it runs from end_s minus its runtime, else from its submission, else
    from the window's beginning. Without a runtime it runs until end_s, else, if its status is
    running, unknown or null, until the window's end. Columns of these names are used if there are
    any; without times, GPU-hours are gpus * runtime / 3600. Pending jobs, and cancelled ones
    without a start, never ran.
    With `entry` or `observed`, quantiles are Kaplan-Meier estimates, and the mean of a group with
    truncated or censored jobs is null.

    Parameters
    ----------
    jobs
        One row per job; eager or lazy, of any supported engine. Null and NaN are missing.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    submit, runtime, gpus
        Columns of the submission (seconds or datetimes), the runtime and the requested GPUs.
    entry, observed
        As in :func:`kaplan_meier`.
    window
        First and last second of the observation window on the clock of the trace; None: from the
        first to the last time in the frame.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns `by` and
        {columns}

        Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan,
        1996). A statistic of no value is null.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 6, 9], "runtime_s": [60, 600, 720], "gpus": [1, 2, 8]})
    >>> found = traceana.workload_summary(jobs)
    >>> found.select("jobs", "runtime_s_median", pl.col("gpu_hours").round(2)).rows()
    [(3, 600.0, 1.95)]
    """
    keys = as_names(by)
    refuse_clash(keys, WorkloadSummary.columns())
    measures = {"submit": submit, "runtime": runtime, "gpus": gpus}
    time, size, begun = nw.col(runtime), nw.col(gpus), nw.col(submit)
    gpu_hours = size * nw.col(HELD) / 3600
    quantiles = {"p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}
    summary = reduce_frame(
        open_overlap(jobs, keys, measures, window=window),
        keys,
        jobs=nw.len(),
        jobs_with_runtime=time.count(),
        gpu_hours=gpu_hours.sum(),
        window_s=nw.col(LENGTH).max(),
        jobs_without_gpu_hours=nw.len() - gpu_hours.count(),
        runtime_s_mean=time.mean(),
        **{
            f"runtime_s_{name}": time.quantile(q, interpolation="linear")
            for name, q in quantiles.items()
        },
        gpus_median=size.quantile(0.5, interpolation="linear"),
        gpus_p95=size.quantile(0.95, interpolation="linear"),
        gpus_max=size.max(),
        first_submit_s=begun.min(),
        last_submit_s=begun.max(),
        **count_reckoned(),
    )
    # engines sum nothing to 0
    partly_known = pl.col("jobs_without_gpu_hours") < pl.col("jobs")
    table = summary.with_columns(
        gpu_hours=pl.when(partly_known).then("gpu_hours"),
        gpus_mean=pl.when(partly_known & (pl.col("window_s") > 0)).then(
            3600 * pl.col("gpu_hours") / pl.col("window_s")
        ),
        note=note_reckoned(),
    ).with_columns(  # the last digits of a sum depend on how the engine splits the rows
        pl.col("gpu_hours", "gpus_mean", "runtime_s_mean").round_sig_figs(13)
    )
    if entry is not None or observed is not None:
        survival = kaplan_meier(
            jobs,
            by=keys,
            status=None,
            runtime=runtime,
            entry=entry,
            observed=observed,
            quantiles=tuple(quantiles.values()),
        )
        table = _by_survival(table, survival, keys, quantiles)
    return declared(table, WorkloadSummary, by=keys)


def _by_survival(
    summary: pl.DataFrame,
    survival: SurvivalCurves,
    keys: tuple[str, ...],
    quantiles: dict[str, float],
) -> pl.DataFrame:
    """Replace quantiles of the runtime by their Kaplan-Meier estimates, in the same order."""
    order = survival.groups.sort(keys, nulls_last=True) if keys else survival.groups
    cut = order["n_truncated"] + order["n_censored"] > 0
    of = survival.quantiles
    runtime_columns = {
        f"runtime_s_{name}": of.filter(pl.col("quantile") == q)["time_s"]
        for name, q in quantiles.items()
    }
    return summary.with_columns(
        n_truncated=order["n_truncated"],
        n_censored=order["n_censored"],
        runtime_s_mean=pl.when(~cut).then("runtime_s_mean"),
        runtime_s_restricted_mean=order["restricted_mean_s"],
        horizon_s=pl.lit(survival.horizon_s),
        **runtime_columns,
    )


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

    A job that never started is in no quantile but `p90_pending_s` and `p99_pending_s`, the
    Kaplan-Meier estimates in which pending jobs (column status) are censored at end_s, else at the
    window's end. A job that was cancelled before it started has no delay.

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
    >>> found.select("n", "mean_s", "median_s", pl.col("fraction_zero").round(2)).rows()
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
        fraction_zero=nw.when(~delay.is_null()).then((delay == 0).cast(nw.Float64)).mean(),
        min_s=delay.min(),
    )
    if (delays["min_s"] < 0).any():
        raise DataError(f"a job starts before it was submitted: {start} is below {submit}")
    why = pl.lit(f"no job has both {submit} and {start}")
    delays = _with_pending(delays, jobs, keys, (submit, start), window)
    table = delays.with_columns(note=pl.when(pl.col("n") == 0).then(why))
    return declared(table, QueueingDelay, by=keys)


def _with_pending(
    delays: pl.DataFrame,
    jobs: IntoFrame,
    keys: tuple[str, ...],
    times: tuple[str, str],
    window: Window | None,
) -> pl.DataFrame:
    """Add the 90 and 99 % quantiles of the delays with pending jobs as censored ones."""
    submit, start = times
    names = column_names(jobs)
    plain = delays.with_columns(p90_pending_s="p90_s", p99_pending_s="p99_s")
    if "status" not in names:
        return plain
    end = "end_s" if "end_s" in names and "end_s" not in (*keys, submit, start) else None
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
    curves = kaplan_meier(
        seen, by=keys, status=None, runtime="wait", observed="seen", quantiles=(0.9, 0.99)
    )
    at = pl.col("quantile")
    table = (
        curves.quantiles.group_by(keys or pl.lit(0), maintain_order=True)
        .agg(
            p90_pending_s=pl.col("time_s").filter(at == 0.9).first(),
            p99_pending_s=pl.col("time_s").filter(at == 0.99).first(),
        )
        .select(*keys, "p90_pending_s", "p99_pending_s")
    )
    if not keys:
        return delays.hstack(table)
    return delays.join(table, on=keys, how="left", nulls_equal=True, maintain_order="left")
