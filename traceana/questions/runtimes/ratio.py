"""Runtimes relative to the mean of their group, and runtimes of tasks by imputation."""

from __future__ import annotations

from typing import Final, NamedTuple

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import GROUPINGS
from traceana.cohorts.tables import MissingTimes, RuntimeRatioSummary
from traceana.cohorts.task_times import END_IMPUTATIONS, check_capacity, impute_ends, sum_gpus
from traceana.cohorts.tasks import (
    OWNERS,
    instance_times,
    sample_jobs,
    sampled_rows,
    task_owners,
    task_times,
)
from traceana.errors import DataError
from traceana.store import Trace
from traceana.store.frames import (
    Names,
    as_names,
    collect,
    column_names,
    open_frame,
    reduce_frame,
    refuse_clash,
    with_totals,
)
from traceana.tables.declare import declared, returns
from traceana.tables.display import key_heading
from traceana.tables.formatting import in_sentence, listed

_RATIO: Final = "runtime_ratio"
_SMALLEST_MEAN: Final = 1e-150
"""Smallest mean that is divided by: the ratio could overflow below it."""
_QUANTILES: Final = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}


def runtime_ratio(jobs: IntoFrame, /, by: Names, *, runtime: str = "runtime_s") -> pl.DataFrame:
    """Divide each runtime by the mean runtime of its group.

    The ratios of a group average 1 (Zeus, NSDI'23, scales recurring jobs by them).

    Parameters
    ----------
    jobs
        One row per job or task; eager or lazy, of any supported engine. All its columns are
        collected; none may be called runtime_ratio.
    by
        Columns to group by; null is a group of its own, and ``()`` takes all rows as one group.
    runtime
        Column of runtimes, in any unit; durations become seconds.

    Returns
    -------
    DataFrame
        The frame (NaN as null, runtime as a float) with the column runtime_ratio, in the order of
        its rows if the engine has one. The ratio is null if the runtime is null, or all runtimes
        of the group are 0.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"group": ["a", "a", "b"], "runtime_s": [50.0, 150.0, 60.0]})
    >>> traceana.runtime_ratio(jobs, by="group")["runtime_ratio"].to_list()
    [0.5, 1.5, 1.0]
    """
    keys = as_names(by)
    names = column_names(jobs)
    if _RATIO in names:
        raise DataError(f"the frame has a column {_RATIO}; drop or rename it")
    others = [name for name in names if name not in (*keys, runtime)]
    rows = collect(open_frame(jobs, keys=(*keys, *others), measures={"runtime": runtime}))
    with_mean = nw.from_native(rows.lazy())
    with_mean = with_totals(with_mean, keys, **{_RATIO: nw.col(runtime).mean()})
    mean = pl.col(_RATIO)
    ratio = pl.when(mean > 0).then(pl.col(runtime) / mean)
    return collect(with_mean, streaming=False).select(*names, ratio.alias(_RATIO))


@returns(RuntimeRatioSummary)
def summarize_runtime_ratio(
    jobs: IntoFrame, /, by: Names, *, runtime: str = "runtime_s"
) -> pl.DataFrame:
    """Summarize the distribution of runtimes over the mean of their group.

    Parameters
    ----------
    jobs, by, runtime
        As in :func:`runtime_ratio`.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"group": ["a", "a", "b"], "runtime_s": [50.0, 150.0, 60.0]})
    >>> found = traceana.summarize_runtime_ratio(jobs, by="group")
    >>> found.select("group", "n", "mean_s", "median", "max").rows()
    [('a', 2, 100.0, 1.0, 1.5), ('b', 1, 60.0, 1.0, 1.0)]
    """
    keys, value = as_names(by), nw.col(runtime)
    refuse_clash(keys, ("note",))
    groups = reduce_frame(
        open_frame(jobs, keys=keys, measures={"runtime": runtime}),
        keys,
        n=value.count(),
        mean_s=value.mean(),
        cov=value.std(ddof=1),
        **{name: value.quantile(q, interpolation="linear") for name, q in _QUANTILES.items()},
        max=value.max(),
        n_missing=nw.len() - value.count(),
    )
    spread = ["cov", *_QUANTILES, "max"]
    n, mean = pl.col("n"), pl.col("mean_s")
    note = (
        pl.when(n == 0)
        .then(pl.lit("no runtime"))
        .when(mean == 0)
        .then(pl.lit("every runtime is 0"))
        .when(mean < _SMALLEST_MEAN)
        .then(pl.lit("the mean runtime is too close to 0 for a ratio"))
        .when(n == 1)
        .then(pl.lit("one runtime has no standard deviation"))
    )
    ratios = pl.when(mean >= _SMALLEST_MEAN).then(pl.col(spread) / mean).fill_nan(None)
    return declared(
        groups.with_columns(ratios.name.keep(), note=note), RuntimeRatioSummary, by=keys
    )


ROW_TABLES: Final = ("jobs", "tasks", "recurring_jobs")  # tables whose rows have runtimes


class RatioTables(NamedTuple):
    """Runtime ratios of a trace."""

    groupings: pl.DataFrame
    """[grouping, groups, n_excluded] with the columns of
    :class:`traceana.cohorts.tables.RuntimeRatioSummary`: ratios over all groups together, without
    a grouping and for each. Rows alone in their group, or without one, are excluded."""
    groups: pl.DataFrame | None
    """The summary of each group of the first grouping; None if there is no grouping."""


def tables_with_runtimes(trace: Trace, /) -> list[str]:
    """Return the tables of :data:`ROW_TABLES` to analyze: tasks only if jobs have no runtimes."""
    jobs = trace.has("jobs", ("runtime_s",))
    times = ("start_s", "end_s")
    present = {
        "jobs": jobs,
        "tasks": not jobs and trace.has("tasks") and trace.has("instances", times),
        "recurring_jobs": trace.has("recurring_jobs", times),
    }
    return [table for table, has_runtimes in present.items() if has_runtimes]


def ratio_tables(trace: Trace, table: str, /) -> RatioTables:
    """Return the runtime ratios of a table, for each of its groupings."""
    everything = _rows(trace, table)
    rows = everything.filter(pl.col("runtime_s").is_not_null())
    groupings = _groupings(rows, trace.manifest.tables[table].groups)
    parts = []
    for by in ((), *groupings):
        several = rows.select(*by, "runtime_s")
        if by:
            several = several.drop_nulls(by).filter(pl.len().over(by) > 1)
        ratios = runtime_ratio(several, by=by).select("runtime_ratio")
        counts = {
            "grouping": grouping_title(by),
            "groups": several.select(by).n_unique() if by else 1,
            "n_excluded": rows.height - several.height,
        }
        summary = summarize_runtime_ratio(ratios, by=(), runtime="runtime_ratio")
        parts.append(pl.concat([pl.DataFrame([counts]), summary], how="horizontal"))
    # rows without a runtime are counted
    groups = summarize_runtime_ratio(everything, by=groupings[0]) if groupings else None
    return RatioTables(pl.concat(parts), groups)


def grouping_title(by: tuple[str, ...], /) -> str:
    """Return the name of a grouping for a sentence: QoS class, status and GPUs."""
    names = [in_sentence(key_heading(name)) for name in by]
    return listed(names) if names else "none"


def _rows(trace: Trace, table: str) -> pl.DataFrame:
    if table == "tasks":
        rows = task_times(trace)
        owners = trace.once(task_owners)
        return rows.hstack(owners) if owners.width else rows
    there = trace.scan(table).collect_schema().names()
    groups = (*trace.manifest.tables[table].groups, *GROUPINGS, *OWNERS)
    used = {*groups, "status", "gpus", "group", "runtime_s", "start_s", "end_s"}
    names = [name for name in there if name in used]
    rows = sampled_rows(trace, table, *names).collect()
    if table == "recurring_jobs":
        return rows.with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))
    return rows


def _groupings(rows: pl.DataFrame, groups: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the groupings by one column, then the joint ones."""
    named = dict.fromkeys((*groups, *GROUPINGS))
    others = ("status", *OWNERS, "gpus", "group")
    varies = {
        name: name in rows.columns and rows[name].drop_nulls().n_unique() > 1
        for name in (*named, *others)
    }
    varying = [name for name in named if varies[name]]
    single = dict.fromkeys((*varying, *(name for name in ("status", *OWNERS) if varies[name])))
    joint = [
        tuple(name for name in names if varies[name])
        for names in ((*varying[:1], "status", "gpus"), ("group", "status"))
    ]
    return [*((name,) for name in single), *(by for by in joint if len(by) > 1)]


def capacity(trace: Trace, /) -> tuple[pl.DataFrame, float | None]:
    """Return the capacity check, and the largest relative standard error of its GPU-hours."""
    times = trace.once(instance_times)
    gpus = sum_gpus(trace.frame("machines")) if trace.has("machines") else None
    check = check_capacity(times, gpus)
    sample = trace.once(sample_jobs)
    if sample is None:
        return check, None
    gpu_s = pl.col("gpus") * pl.col("instance_s")
    requested = times.tasks.select("job_id").with_columns(
        impute_ends(times, name).select(gpu_s.alias(name)).collect().to_series()
        for name in END_IMPUTATIONS
    )
    errors = [error for error in sample.relative_errors(requested).values() if error is not None]
    # multiplied by all tasks over those drawn
    summed = ("gpu_hours", "gpu_hours_gang", "fraction_of_capacity")
    return check.with_columns(pl.col(summed) / sample.fraction), max(errors, default=None)


def task_gpu_hours(trace: Trace, /) -> pl.DataFrame:
    """Return [job_id, status, gpus, runtime_s, user]: of each task the time of its instances."""
    times = impute_ends(trace.once(instance_times), "drop").select(
        "job_id", pl.col("status").cast(pl.String), "gpus", runtime_s=pl.col("instance_s")
    )
    owners = trace.once(task_owners, "user")
    users = [owners["user"].cast(pl.String)] if "user" in owners.columns else []
    return times.collect(engine="streaming").hstack(users)


def means_by_outcome(trace: Trace, by: str | None, /) -> pl.DataFrame:
    """Return [outcome, by] with `mean NAME` and `n NAME` of the runtimes of each imputation."""
    times, runtime = trace.once(instance_times), pl.col("runtime_s")
    failed = pl.col("status").is_in(trace.manifest.failure_statuses)
    outcome = (
        pl.when(status="completed").then(pl.lit("success")).when(failed).then(pl.lit("failure"))
    )
    keys = ["outcome"] + ([by] if by else [])
    joined = pl.DataFrame()
    for name in END_IMPUTATIONS:
        rows = impute_ends(times, name).with_columns(outcome=outcome).drop_nulls("outcome")
        of_name = {f"mean {name}": runtime.mean(), f"n {name}": runtime.count()}
        table = reduce_frame(rows, keys, **of_name)
        joined = (
            joined.join(table, on=keys, how="left", nulls_equal=True) if joined.width else table
        )
    return joined.sort(keys, descending=[True, False][: len(keys)], nulls_last=True)


def missing_times(trace: Trace, /) -> pl.DataFrame:
    """Return the missing starts and ends of instances, by the status of their task."""
    n = pl.col("n_instances")
    by_status = trace.once(instance_times).tasks.group_by("status")
    missing = by_status.agg(
        tasks=pl.len().cast(pl.Int64),
        without_instances=(n == 0).sum().cast(pl.Int64),
        instances=n.sum(),
        no_start=(1 - pl.col("n_start").sum() / n.sum()).fill_nan(None),
        no_end=(1 - pl.col("n_end").sum() / n.sum()).fill_nan(None),
    )
    return declared(missing.sort("tasks", "status", descending=True), MissingTimes)
