"""Summary of a workload, its queueing delay, and the GPU-hours by job and by group."""

from __future__ import annotations

from typing import Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

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
from traceana.questions.workload.tables import (
    Concentration,
    GpuHours,
    LorenzCurve,
    QueueingDelay,
    WorkloadSummary,
)
from traceana.stats.arguments import check_count
from traceana.store.frames import (
    Names,
    as_keys,
    beside,
    collect,
    column_names,
    open_frame,
    reduce_frame,
)
from traceana.tables.declare import declared, returns


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

        Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan, 1996).
        A statistic of no value is null.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 6, 9], "runtime_s": [60, 600, 720], "gpus": [1, 2, 8]})
    >>> found = traceana.workload_summary(jobs)
    >>> found.select("jobs", "runtime_s_median", pl.col("gpu_hours").round(2)).rows()
    [(3, 600.0, 1.95)]
    """
    keys = as_keys(by, WorkloadSummary.columns())
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
        groups, of = survival.groups, survival.quantiles
        cut = groups["n_truncated"] + groups["n_censored"] > 0
        table = table.with_columns(
            groups["n_truncated"],
            groups["n_censored"],
            runtime_s_mean=pl.when(~cut).then("runtime_s_mean"),
            runtime_s_restricted_mean=groups["restricted_mean_s"],
            horizon_s=pl.lit(survival.horizon_s),
            **{
                f"runtime_s_{name}": of.filter(quantile=q)["time_s"]
                for name, q in quantiles.items()
            },
        )
    return declared(table, WorkloadSummary, by=keys)


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
    jobs, by, window
        As in :func:`workload_summary`.
    submit, start
        Columns of the submission and the start: seconds or datetimes.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 20], "start_s": [5, 10, 120]})
    >>> found = traceana.queueing_delay(jobs)
    >>> found.select("n", "mean_s", "median_s", pl.col("fraction_zero").round(2)).rows()
    [(3, 35.0, 5.0, 0.33)]
    """
    keys = as_keys(by, QueueingDelay.columns())
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
    times_of = pl.max_horizontal(pl.col(*measures.values()).max())
    latest = window[1] if window else rows.select(times_of).item()
    last = pl.coalesce(*([end] if end else []), pl.lit(latest, pl.Float64))
    seen = rows.select(
        *keys,
        wait=(pl.when(pending).then(last).otherwise(pl.col(start)) - pl.col(submit)).clip(0),
        seen=~pending,
    )
    curves = kaplan_meier(
        seen, by=keys, status=None, runtime="wait", observed="seen", quantiles=(0.9, 0.99)
    )
    time, at = pl.col("time_s"), pl.col("quantile")
    named = {"p90_pending_s": 0.9, "p99_pending_s": 0.99}
    groups = curves.quantiles.group_by(keys or pl.lit(0), maintain_order=True)
    table = groups.agg(time.filter(at == q).first().alias(name) for name, q in named.items())
    return beside(delays, table.select(*keys, *named), keys)


_TOP: Final = {"fraction_of_top_1_percent": 0.01, "fraction_of_top_10_percent": 0.1}
_MOST_POINTS: Final = 1_000_000
_SPREAD: Final = (*_TOP, "fraction_of_lower_half", "gini")


@returns(Concentration)
def concentration(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute the concentration of GPU-hours: Gini coefficient and top fractions.

    With x_1 <= ... <= x_n the GPU-hours of the jobs (gpus times the hours within the window, as
    for :func:`workload_summary`), gini = 2 sum(i x_i) /
    (n sum(x)) - (n + 1) / n: 0 where all jobs are equal, (n - 1) / n where one job has all. The top
    fraction p consists of the p * n largest jobs; the last may count in part (linear interpolation
    of the Lorenz curve). Jobs that requested no GPU have no GPU-hours and are not among the n jobs.

    Parameters
    ----------
    jobs, by, runtime, gpus, window
        As in :func:`workload_summary`.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 1, 1, 8], "runtime_s": [60, 60, 600, 36000]})
    >>> found = traceana.concentration(jobs)
    >>> found.select("gpu_hours", pl.col("fraction_of_lower_half", "gini").round(2)).rows()
    [(80.2, 0.0, 0.75)]
    """
    keys = as_keys(by, Concentration.columns())
    values = pl.col("gpu_hours").rle().struct
    x, each = values.field("value"), values.field("len").cast(pl.Int64)
    upto, n, total = each.cum_sum(), each.filter(x.is_not_null()).sum(), (each * x).sum()

    def held_by(some: pl.Expr) -> pl.Expr:
        """Return the fraction that so many jobs of each value have."""
        return (some.clip(0, each) * x).sum() / total

    table = reduce_frame(
        _gpu_hours(jobs, keys, runtime, gpus, window),
        keys,
        jobs=pl.len(),
        n_missing=pl.col("gpu_hours").null_count(),
        n=n,
        gpu_hours=pl.when(n > 0).then(total),
        **{name: held_by(top * n - (n - upto)) for name, top in _TOP.items()},
        fraction_of_lower_half=held_by(n / 2 - (upto - each)),
        # the sum of the ranks of equal values
        gini=(each * (2 * upto - each + 1) * x).sum() / (n * total) - (n + 1) / n,
    )
    some = pl.col("gpu_hours") > 0
    table = table.with_columns(
        pl.when(some).then(pl.col(*_SPREAD)).name.keep(),
        note=pl.when(some.fill_null(value=False).not_()).then(pl.lit("no GPU-hours")),
    )
    return declared(table, Concentration, by=keys)


@returns(LorenzCurve)
def lorenz_curve(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    points: int = 101,
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute the Lorenz curve of GPU-hours at evenly spaced fractions of jobs.

    Parameters
    ----------
    jobs, by, runtime, gpus, window
        As in :func:`concentration`.
    points
        Number of points per group, from fraction 0 to 1; from 2 to a million.

    Returns
    -------
    DataFrame
        Sorted by `by` and fraction_of_jobs, nulls last; linear between jobs. A group without
        GPU-hours has no row. The columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 1, 1, 8], "runtime_s": [60, 60, 600, 36000]})
    >>> found = traceana.lorenz_curve(jobs, points=5)
    >>> found.select("fraction_of_jobs", pl.col("fraction_of_gpu_hours").round(2)).rows()
    [(0.0, 0.0), (0.25, 0.0), (0.5, 0.0), (0.75, 0.0), (1.0, 1.0)]
    """
    check_count("points", points, least=2, most=_MOST_POINTS)
    keys = as_keys(by, ("fraction_of_jobs", "fraction_of_gpu_hours", "gpu_hours"))
    held = pl.col("gpu_hours")
    table = _gpu_hours(jobs, keys, runtime, gpus, window).drop_nulls("gpu_hours")
    groups = table.group_by(keys).agg(held) if keys else table.select(held.implode())
    groups = groups.filter(held.list.sum() > 0)
    below, curves = np.linspace(0, 1, points), []
    for hours in groups["gpu_hours"]:
        summed = np.cumsum(np.concatenate([[0.0], hours.to_numpy()]))
        place = np.arange(len(summed))
        curves.append(np.interp(below * len(hours), place, summed / summed[-1]))
    lists = pl.List(pl.Float64)
    curve = groups.select(
        *keys,
        fraction_of_jobs=pl.Series([below] * groups.height, dtype=lists),
        fraction_of_gpu_hours=pl.Series(curves, dtype=lists),
    ).explode("fraction_of_jobs", "fraction_of_gpu_hours")
    return declared(curve.sort(*keys, "fraction_of_jobs", nulls_last=True), LorenzCurve, by=keys)


def _gpu_hours(
    jobs: IntoFrame, keys: tuple[str, ...], runtime: str, gpus: str, window: Window | None
) -> pl.DataFrame:
    """Return [*keys, gpu_hours] of the jobs, the fewest GPU-hours first."""
    hours = nw.when(nw.col(gpus) > 0).then(nw.col(gpus) * nw.col(HELD) / 3600)
    frame = open_overlap(jobs, keys, {"runtime": runtime, "gpus": gpus}, window=window)
    rows = collect(frame.select(*keys, hours.alias("gpu_hours")))
    return rows.sort("gpu_hours", nulls_last=True)


@returns(GpuHours)
def gpu_hours_by(
    jobs: IntoFrame,
    /,
    by: Names,
    *,
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    status: str = "status",
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute the GPU-hours of each group, by status of the jobs.

    Parameters
    ----------
    jobs, by, runtime, gpus, window
        As in :func:`workload_summary`.
    status
        Column of the status.

    Returns
    -------
    DataFrame
        The largest group first, with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame(
    ...     {"user": ["ann", "ann", "bob"], "gpus": [1, 2, 1], "runtime_s": [3600, 1800, 7200],
    ...      "status": ["completed", "failed", "completed"]}
    ... )
    >>> traceana.gpu_hours_by(jobs, "user").select("user", "gpu_hours", "failed").rows()
    [('ann', 2.0, 0.5), ('bob', 2.0, 0.0)]
    """
    keys = as_keys(by, GpuHours.columns())
    hours = nw.col(gpus) * nw.col(HELD) / 3600
    columns = tuple(dict.fromkeys((*keys, status)))

    def of_status(name: str) -> nw.Expr:
        return nw.when(nw.col(status) == name).then(hours).otherwise(0).sum()

    table = reduce_frame(
        open_overlap(jobs, columns, {"runtime": runtime, "gpus": gpus}, window=window),
        keys,
        jobs=nw.len(),
        n_missing=nw.len() - hours.count(),
        gpu_hours=hours.sum(),
        failed=of_status("failed"),
        cancelled=of_status("cancelled"),
        **count_reckoned(),
    )
    total = pl.col("gpu_hours")
    # the last digits of a sum depend on how the engine splits the rows
    stable = table.with_columns(pl.col("gpu_hours", "failed", "cancelled").round_sig_figs(12))
    shares = stable.with_columns(
        fraction_of_all=pl.when(total.sum() > 0).then(total / total.sum()),
        failed=pl.when(total > 0).then(pl.col("failed") / total),
        cancelled=pl.when(total > 0).then(pl.col("cancelled") / total),
        note=note_reckoned(),
    )
    ordered = shares.sort("gpu_hours", "jobs", descending=True, maintain_order=True)
    return declared(ordered, GpuHours, by=keys)
