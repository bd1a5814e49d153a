"""First starts, last ends and summed times of the instances of each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import DataError
from traceana.store.frames import (
    LARGEST,
    admit_columns,
    check_range,
    clean_columns,
    collect,
    reading,
    reduce_unsorted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame

KEYS: Final = ("job_id", "task_name")
_TIMES: Final = ("start_s", "end_s")
_ODD: Final = pl.lit(0x9E3779B97F4A7C15, pl.UInt64)  # the hash of (a, b) is not that of (b, a)
_UNIT: Final = 2.0**40  # of a second
_REQUESTED: Final = ("gpus", "cpus", "memory_gib")
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


def read_task_times(tasks: IntoFrame, instances: IntoFrame, /) -> TaskTimes:
    """Aggregate instances by task: one pass over them, then a join."""
    rows = clean_columns(admit_columns(instances, (*KEYS, *_TIMES)), _TIMES)
    listed = _read_tasks(tasks)
    _refuse_repeated(listed)
    extremes = _extremes(rows)
    _check_times(rows, extremes)
    by_task, in_no_task = _aggregate(listed, rows)
    times = [time for time in (*extremes[:-1], *_ends_of(listed)) if time is not None]
    return TaskTimes(
        pl.concat([listed, by_task.with_columns(pl.col(_COUNTS).fill_null(0))], how="horizontal"),
        first_s=min(times, default=None),
        last_s=max(times, default=None),
        instances_of_no_task=in_no_task,
    )


def _read_tasks(tasks: IntoFrame) -> pl.DataFrame:
    columns = (*KEYS, "status", "gpu_type", *_TIMES, *_REQUESTED)
    measures = (*_TIMES, *_REQUESTED)
    lazy = clean_columns(admit_columns(tasks, columns), measures)
    listed = collect(lazy.with_columns(nw.col("status").cast(nw.String)))
    check_range(nw.from_native(listed.lazy()), measures)  # read once, whatever the engine
    return listed.rename({name: f"task_{name}" for name in _TIMES})


def _refuse_repeated(listed: pl.DataFrame) -> None:
    repeated = listed.filter(listed.select(KEYS).is_duplicated())
    if not repeated.is_empty():
        job, task = repeated.select(KEYS).row(0)
        raise DataError(
            f"tasks has {repeated.height} rows that share their (job_id, task_name), the first "
            f"of them ({job}, {task}); one row per task is needed"
        )


def hash_keys(keys: Sequence[str], seed: int, /) -> pl.Expr:
    """Return a hash of a task's keys together, null where one is."""
    job, task = (pl.col(key).hash(seed) for key in keys)
    complete = pl.all_horizontal(pl.col(key).is_not_null() for key in keys)
    return pl.when(complete).then(job + task * _ODD)


def _aggregate(listed: pl.DataFrame, rows: nw.LazyFrame[Any]) -> tuple[pl.DataFrame, int]:
    """Return the numbers of each task, and how many instances are in no task."""
    if rows.implementation is nw.Implementation.POLARS:
        instances = rows.to_native()
        if instances.select(KEYS).collect_schema() == listed.select(KEYS).schema:
            # two hashes (2^-128 n^2 that any two tasks share both) take half of what text takes
            hashed = [
                hash_keys(KEYS, seed).alias(key) for seed, key in zip((1, 3), KEYS, strict=True)
            ]
            listed = listed.with_columns(hashed)
            rows = nw.from_native(instances.with_columns(hashed))
    listed, by_task = _match_types(listed, _reduce(rows))
    n_instances = int(by_task["n_instances"].sum())
    joined = _join(listed, by_task)
    return joined, n_instances - int(joined["n_instances"].sum())


def _join(listed: pl.DataFrame, by_task: pl.DataFrame) -> pl.DataFrame:
    """Join the keys alone, then gather: a join of all columns needs twice the memory."""
    positions = by_task.lazy().select(KEYS).with_row_index(".place")
    table = listed.lazy().select(KEYS).join(positions, on=KEYS, how="left", maintain_order="left")
    place = table.select(".place").collect(engine="streaming").to_series()
    return by_task.drop(KEYS).select(pl.all().gather(place))


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


def _reduce(rows: nw.LazyFrame[Any]) -> pl.DataFrame:
    on_polars = rows.implementation is nw.Implementation.POLARS
    start, end = nw.col("start_s"), nw.col("end_s")
    complete = ~end.is_null() & ~start.is_null()
    summed: list[nw.Expr] = [end - start, nw.when(end.is_null()).then(start)]
    if on_polars:  # streamed in any order: sums of whole numbers do not depend on it
        summed = [(column * _UNIT).round().cast(nw.Int128) for column in summed]
    seconds, opened = summed
    parts = rows.select(
        *KEYS,
        *_TIMES,
        nw.when(complete).then(start).alias("known_start"),
        nw.when(complete).then(end).alias("known_end"),
        nw.when(end.is_null()).then(start).alias("open_start"),
        opened.alias("opened"),
        seconds.alias("seconds"),
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
        "open_sum_s": nw.col("opened").sum(),
    }
    if on_polars:
        named = [value.alias(name) for name, value in aggregates.items()]
        sums = pl.col("known_s", "open_sum_s").cast(pl.Float64) / _UNIT
        counts = pl.col(_COUNTS).cast(pl.Int64)
        table = collect(parts.group_by(*KEYS).agg(*named)).with_columns(sums, counts)
    else:
        # unsorted: the join restores the order of the tasks
        table = reduce_unsorted(parts, KEYS, **aggregates)
    return table.with_columns(
        # a sum of no value is 0 in some engines, and null in others
        pl.when(pl.col("n_known") > 0).then("known_s"),
        pl.when(pl.col("open_first_s").is_not_null()).then("open_sum_s"),
    )


def _extremes(rows: nw.LazyFrame[Any]) -> list[float | None]:
    start, end = nw.col("start_s"), nw.col("end_s")
    ends = (start.min(), start.max(), end.min(), end.max(), (end - start).min())
    lazy = rows.select(*(value.alias(str(at)) for at, value in enumerate(ends)))
    return list(collect(lazy).row(0))


def _check_times(rows: nw.LazyFrame[Any], extremes: list[float | None]) -> None:
    """Refuse times out of range; a second pass is made only if the extremes are."""
    *ends, shortest = extremes
    if any(not 0 <= time <= LARGEST for time in ends if time is not None):
        check_range(rows, _TIMES)
    if shortest is not None and shortest < 0:
        raise DataError("an instance ends before it starts: end_s is below start_s")


def _ends_of(listed: pl.DataFrame) -> list[float | None]:
    times = pl.col("task_start_s", "task_end_s")
    return list(
        listed.select(times.min().name.suffix(" low"), times.max().name.suffix(" high")).row(0)
    )
