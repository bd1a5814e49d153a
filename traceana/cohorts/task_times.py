"""First starts, last ends and summed times of the instances of each task, and its runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.tables import CapacityCheck, TaskRuntimes
from traceana.errors import DataError
from traceana.stats.arguments import check_choice
from traceana.store.frames import (
    LARGEST,
    admit_columns,
    check_range,
    clean_columns,
    collect,
    open_frame,
    reading,
    reduce_frame,
)
from traceana.tables.declare import declared, returns

KEYS: Final = ("job_id", "task_name")
_TIMES: Final = ("start_s", "end_s")
_ODD: Final = pl.lit(0x9E3779B97F4A7C15, pl.UInt64)  # the hash of (a, b) is not that of (b, a)
_HASH: Final = ".task"
_OPEN: Final = ("open_first_s", "open_last_s", "open_sum_s")
_COUNTS: Final = ("n_instances", "n_start", "n_end", "n_known")


@dataclass(frozen=True)
class TaskTimes:
    """Tasks with the times of their instances; every imputation of ends follows from these."""

    tasks: pl.DataFrame
    """The rows of the tasks table in their order, its times as task_start_s and task_end_s, with
    n_instances, n_start, n_end (instances that have one) and n_known (both); first_s, last_s and
    known_s (first start, last end and summed time of the n_known); open_first_s, open_last_s and
    open_sum_s (first, last and summed start of those that have no end)."""
    first_s: float | None
    last_s: float | None
    """Earliest and latest time known in either table; None without any."""
    instances_of_no_task: int
    """Rows of instances whose task is not in the tasks table."""


def read_task_times(
    tasks: IntoFrame, instances: IntoFrame, /, *, open_ends: bool = True
) -> TaskTimes:
    """Aggregate instances by task: one pass over them, then a join.

    Without `open_ends`, what imputations of ends need is null.
    """
    rows = clean_columns(admit_columns(instances, (*KEYS, *_TIMES)), _TIMES)
    listed = _read_tasks(tasks)
    start, end = nw.col("start_s"), nw.col("end_s")
    extremes = (start.min(), start.max(), end.min(), end.max(), (end - start).min())
    named = (value.alias(str(place)) for place, value in enumerate(extremes))
    *ends, shortest = collect(rows.select(*named)).row(0)
    if any(not 0 <= time <= LARGEST for time in ends if time is not None):
        check_range(rows, _TIMES)  # a second pass, for its message
    if shortest is not None and shortest < 0:
        raise DataError("an instance ends before it starts: end_s is below start_s")
    by_task, in_no_task = _aggregate(listed, rows, open_ends)
    of_tasks = pl.col("task_start_s", "task_end_s")
    ends += listed.select(of_tasks.min().name.suffix(" low"), of_tasks.max()).row(0)
    times = [time for time in ends if time is not None]
    return TaskTimes(
        pl.concat([listed, by_task.with_columns(pl.col(_COUNTS).fill_null(0))], how="horizontal"),
        first_s=min(times, default=None),
        last_s=max(times, default=None),
        instances_of_no_task=in_no_task,
    )


def _read_tasks(tasks: IntoFrame) -> pl.DataFrame:
    measures = (*_TIMES, "gpus", "cpus", "memory_gib")
    lazy = clean_columns(admit_columns(tasks, (*KEYS, "status", "gpu_type", *measures)), measures)
    listed = collect(lazy.with_columns(nw.col("status").cast(nw.String)))
    check_range(nw.from_native(listed.lazy()), measures)  # read once, whatever the engine
    repeated = listed.filter(listed.select(KEYS).is_duplicated())
    if not repeated.is_empty():
        job, task = repeated.select(KEYS).row(0)
        raise DataError(
            f"tasks has {repeated.height} rows that share their (job_id, task_name), the first "
            f"of them ({job}, {task}); one row per task is needed"
        )
    return listed.rename({name: f"task_{name}" for name in _TIMES})


def hash_keys(keys: Sequence[str], seed: int, /) -> pl.Expr:
    """Return a hash of a task's keys together, null where one is."""
    job, task = (pl.col(key).hash(seed) for key in keys)
    complete = pl.all_horizontal(pl.col(key).is_not_null() for key in keys)
    return pl.when(complete).then(job + task * _ODD)


def _aggregate(
    listed: pl.DataFrame, rows: nw.LazyFrame[Any], open_ends: bool
) -> tuple[pl.DataFrame, int]:
    """Return the numbers of each task, and how many instances are in no task."""
    keys: tuple[str, ...] = KEYS
    if rows.implementation is nw.Implementation.POLARS:
        instances = rows.to_native()
        if instances.select(KEYS).collect_schema() == listed.select(KEYS).schema:
            # two hashes in one number (2^-127 n^2 that any two tasks share it) take half of what
            # the text takes
            keys = (_HASH,)
            first, second = (hash_keys(KEYS, seed).cast(pl.Int128) for seed in (1, 3))
            hashed = (first * pl.lit(2**63, pl.Int128) + second).alias(_HASH)
            listed = listed.select(hashed)
            rows = nw.from_native(instances.select(hashed, *_TIMES))
    listed, by_task = listed.select(keys), _reduce(rows, keys, open_ends)
    if keys == KEYS:
        listed, by_task = _match_types(listed, by_task)
    n_instances = int(by_task["n_instances"].sum())
    # the keys alone are joined, then gathered: a join of all columns needs twice the memory
    positions = by_task.lazy().select(keys).with_row_index(".place")
    table = listed.lazy().join(positions, on=keys, how="left", maintain_order="left")
    place = table.select(".place").collect(engine="streaming").to_series()
    joined = by_task.drop(keys).select(pl.all().gather(place))
    return joined, n_instances - int(joined["n_instances"].sum())


def _match_types(listed: pl.DataFrame, by_task: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Give the keys of both frames one type: all text is String, all whole numbers are Int64."""
    keys = pl.selectors.by_name(*KEYS)
    text = pl.selectors.categorical() | pl.selectors.enum()
    if listed.select(KEYS).schema != by_task.select(KEYS).schema:
        casts = (keys & text).cast(pl.String), (keys & pl.selectors.integer()).cast(pl.Int64)
        with reading():
            listed, by_task = listed.with_columns(casts), by_task.with_columns(casts)
    for key in KEYS:
        here, of_tasks = listed.schema[key], by_task.schema[key]
        if by_task[key].count() == 0:  # the type of a column without any value is a guess
            by_task = by_task.with_columns(pl.lit(None, here).alias(key))
        elif listed.is_empty():
            listed = listed.with_columns(pl.lit(None, of_tasks).alias(key))
        elif here != of_tasks:
            raise DataError(f"{key} is {here} in tasks and {of_tasks} in instances")
    return listed, by_task


def _reduce(rows: nw.LazyFrame[Any], keys: Sequence[str], open_ends: bool) -> pl.DataFrame:
    start, end = nw.col("start_s"), nw.col("end_s")
    complete = ~end.is_null() & ~start.is_null()
    parts = rows.select(
        *keys,
        *_TIMES,
        nw.when(complete).then(start).alias("known_start"),
        nw.when(complete).then(end).alias("known_end"),
        nw.when(end.is_null()).then(start).alias("open_start"),
        (end - start).alias("seconds"),
    )
    aggregates = {
        "n_instances": nw.len(),
        "n_start": start.count(),
        "n_end": end.count(),
        "n_known": nw.col("seconds").count(),
        "first_s": nw.col("known_start").min(),
        "last_s": nw.col("known_end").max(),
        "known_s": nw.col("seconds").sum(),
        "open_first_s": nw.col("open_start").min(),
        "open_last_s": nw.col("open_start").max(),
        "open_sum_s": nw.col("open_start").sum(),
    }
    used = aggregates if open_ends else {k: v for k, v in aggregates.items() if k not in _OPEN}
    # unsorted: the join restores the order of the tasks
    table = reduce_frame(parts, keys, False, **used)
    if not open_ends:
        table = table.with_columns(pl.lit(None, pl.Float64).alias(name) for name in _OPEN)
    return table.with_columns(
        # a sum of no value is 0 in some engines, and null in others
        pl.when(pl.col("n_known") > 0).then("known_s"),
        pl.when(pl.col("open_first_s").is_not_null()).then("open_sum_s"),
    )


END_IMPUTATIONS: Final = ("drop_task", "drop", "task", "running", "trace_end")
"""Imputations of missing ends, in the order in which they are listed."""


@returns(TaskRuntimes)
def task_runtimes(
    tasks: IntoFrame, instances: IntoFrame, /, *, end_imputation: str = "drop"
) -> pl.DataFrame:
    """Compute the runtime of each task from the times of its instances.

    The runtime is the last end of the instances minus their first start. Traces lose ends, and how
    missing ends are imputed decides the result; :func:`gpu_capacity_check` compares each
    imputation with the capacity of the machines.

    Parameters
    ----------
    tasks
        One row per task: [job_id, task_name, status, start_s, end_s, gpus, cpus, memory_gib,
        gpu_type]; eager or lazy, of any supported engine.
    instances
        One row per instance, or per attempt: [job_id, task_name, start_s, end_s]; rows need not
        be unique. Instances whose task is not in `tasks` are excluded.
    end_imputation
        Which instances are used, and with which end. Instances with both times always are, and
        those without a start never.

        - "drop": instances without an end are excluded;
        - "drop_task": also, a task with any instance without a start or an end has no runtime;
        - "task": a missing end is the task's own end_s, if it has one and none of its instances
          without an end starts later;
        - "running": a missing end is the end of the trace if the status of the task is running;
          other instances without an end are excluded;
        - "trace_end": a missing end is the end of the trace.

        The end of the trace is the latest start or end in either table.

    Returns
    -------
    DataFrame
        Every row of `tasks` in its order:
        {columns}

    Raises
    ------
    DataError
        If a task has two rows, or job_id or task_name differs in type between the tables.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> trace = store.trace(*store.traces("tasks"))
    >>> tasks, instances = (trace.scan(t) for t in ("tasks", "instances"))
    >>> runtimes = traceana.task_runtimes(tasks, instances, end_imputation="running")
    >>> runtimes.height, runtimes["runtime_s"].count()
    (2522, 2044)
    """
    check_choice("end_imputation", end_imputation, END_IMPUTATIONS)
    open_ends = not end_imputation.startswith("drop")
    rows = impute_ends(read_task_times(tasks, instances, open_ends=open_ends), end_imputation)
    return declared(rows.collect(engine="streaming"), TaskRuntimes)


def impute_ends(times: TaskTimes, end_imputation: str, /) -> pl.LazyFrame:
    """Return the columns of :func:`task_runtimes`, and others, from times that were read once."""
    n, n_ended = pl.col("n_instances"), pl.col("n_known")
    open_ends = pl.col("n_start") - n_ended
    trace_end, none = pl.lit(times.last_s, pl.Float64), pl.lit(None, pl.Float64)
    imputed = {
        "task": pl.col("task_end_s"),
        "running": pl.when(pl.col("status") == "running").then(trace_end),
        "trace_end": trace_end,
    }.get(end_imputation, none)
    imputable = (imputed >= pl.col("open_last_s")).fill_null(value=False)
    added = pl.when(imputable)
    used = n_ended + added.then(open_ends).otherwise(0)
    enough = used == n if end_imputation == "drop_task" else used > 0
    open_s = (open_ends * imputed - pl.col("open_sum_s")).clip(0)  # at 0, rounding has a sign
    start = pl.min_horizontal("first_s", added.then("open_first_s"))
    end = pl.max_horizontal("last_s", added.then(imputed))
    return (
        times.tasks.lazy()
        .with_columns(
            start_s=start,
            end_s=end,
            n_used=pl.when(enough).then(used).otherwise(0),
            n_missing_start=n - pl.col("n_start"),
            n_missing_end=n - pl.col("n_end"),
            # the sum of nothing is 0 on one engine and null on another
            instance_s=pl.when(n_ended > 0).then("known_s").otherwise(0.0)
            + added.then(open_s).otherwise(0.0),
            note=_why(end_imputation, imputed),
        )
        .with_columns(
            pl.when(pl.col("n_used") > 0).then(pl.col("start_s", "end_s", "instance_s")).name.keep()
        )
        .with_columns(
            runtime_s=pl.col("end_s") - pl.col("start_s"),
            note=pl.when(pl.col("n_used") == 0).then("note"),
        )
    )


def _why(end_imputation: str, imputed: pl.Expr) -> pl.Expr:
    """Return why no instance of a task is used."""
    lacking = "no instance has both start and end"
    if end_imputation == "drop_task":
        lacking = "an instance lacks its start or its end"
    contradiction = pl.lit(end_imputation == "task") & (imputed < pl.col("open_last_s"))
    return (
        pl.when(pl.col("n_instances") == 0)
        .then(pl.lit("no instance"))
        .when(contradiction)
        .then(pl.lit("the task ends before an instance without an end starts"))
        .otherwise(pl.lit(lacking))
    )


@returns(CapacityCheck)
def gpu_capacity_check(
    tasks: IntoFrame, instances: IntoFrame, machines: IntoFrame, /
) -> pl.DataFrame:
    """Compare the GPU-hours under each imputation of missing ends with the capacity.

    If tasks request more GPU-hours than the machines have, the imputation is wrong for the trace
    as a whole. If they request less it is not thereby right: lost ends may be missing from it.

    gpu_hours = sum over tasks of gpus * instance_s / 3600: each instance requests gpus, as PAI's
    publisher states. gpu_hours_gang = sum of gpus * n_used * runtime_s / 3600: all instances of a
    task are held from its first start to its last end, also attempts that follow one another.
    capacity_gpu_hours = sum of the machines' GPUs * span_h: all GPUs are available all the time.

    Parameters
    ----------
    tasks, instances
        As in :func:`task_runtimes`.
    machines
        One row per machine: gpus, without nulls; eager or lazy, of any supported engine.

    Returns
    -------
    DataFrame
        One row per imputation:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> trace = store.trace(*store.traces("tasks"))
    >>> tasks, instances = (trace.scan(t) for t in ("tasks", "instances"))
    >>> machines = trace.scan("machines")
    >>> found = traceana.gpu_capacity_check(tasks, instances, machines)
    >>> found.select("end_imputation", pl.col("fraction_of_capacity").round(1)).rows()
    [('drop_task', 0.0), ('drop', 0.0), ('task', 0.0), ('running', 1.6), ('trace_end', 2.9)]
    """
    return check_capacity(read_task_times(tasks, instances), sum_gpus(machines))


def check_capacity(times: TaskTimes, machine_gpus: float | None, /) -> pl.DataFrame:
    """Do what :func:`gpu_capacity_check` does; None: the capacity is unknown."""
    span_h = 0.0
    if times.first_s is not None and times.last_s is not None:
        span_h = (times.last_s - times.first_s) / 3600
    capacity = None if machine_gpus is None else machine_gpus * span_h
    note = "no capacity: the machines have no GPU, or the trace has no span"
    if machine_gpus is None:
        note = "no capacity: the trace has no machines table"
    fraction = pl.col("gpu_hours") / pl.lit(capacity, pl.Float64)
    finite = fraction.is_finite().fill_null(value=False)
    gpus, runtime = pl.col("gpus"), pl.col("runtime_s")
    requested = [
        reduce_frame(
            impute_ends(times, end_imputation),
            (),
            tasks=pl.len(),
            tasks_with_runtime=runtime.count(),
            mean_s=runtime.mean(),
            median_s=runtime.median(),
            instances=pl.col("n_instances").sum(),
            instances_used=pl.col("n_used").sum(),
            gpu_hours=(gpus * pl.col("instance_s")).sum() / 3600,
            gpu_hours_gang=(gpus * pl.col("n_used") * runtime).sum() / 3600,
            tasks_without_gpus=(runtime.is_not_null() & gpus.is_null()).sum(),
        ).with_columns(end_imputation=pl.lit(end_imputation))
        for end_imputation in END_IMPUTATIONS
    ]
    table = pl.concat(requested).with_columns(
        machine_gpus=pl.lit(machine_gpus, pl.Float64),
        span_h=pl.lit(span_h),
        capacity_gpu_hours=pl.lit(capacity, pl.Float64),
        fraction_of_capacity=pl.when(finite).then(fraction),
        instances_of_no_task=pl.lit(times.instances_of_no_task, pl.Int64),
        note=pl.when(~finite).then(pl.lit(note)),
    )
    return declared(table, CapacityCheck)


def sum_gpus(machines: IntoFrame, /) -> float:
    """Return the GPUs of all machines."""
    gpus = nw.col("gpus")
    frame = open_frame(machines, keys=(), measures=("gpus",))
    total, stated, rows = reduce_frame(
        frame, (), gpus=gpus.sum(), known=gpus.count(), rows=nw.len()
    ).row(0)
    if stated < rows:
        raise DataError(f"{rows - stated} machine(s) have no number of gpus")
    return float(total or 0)
