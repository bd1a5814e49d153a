"""Runtime of each task from its instances, under a named policy on missing ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis.runtimes.records import Records, read_records
from traceana.errors import DataError

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

MISSING_END: Final = ("drop_task", "drop", "task", "running", "trace_end")
"""Policies on missing ends, in the order in which they are listed wherever all are shown."""

_CONTRACT: Final = (
    *("job_id", "task_name", "status", "runtime_s", "n_instances"),
    *("gpus", "cpus", "memory_gib", "gpu_type"),
)
_MORE: Final = (
    *("start_s", "end_s", "n_used", "n_missing_start", "n_missing_end", "instance_s", "note"),
)


def task_runtimes(
    tasks: IntoFrame, instances: IntoFrame, /, *, missing_end: str = "drop"
) -> pl.DataFrame:
    """Runtime of each task: the last end of its instances minus their first start.

    Traces lose ends. What stands for a missing one decides headline numbers, so that it is named
    with every result; :func:`gpu_capacity_check` holds each policy against what there was.

    Parameters
    ----------
    tasks
        One row a task: [job_id, task_name, status, start_s, end_s, gpus, cpus, memory_gib,
        gpu_type]; eager or lazy, of any listed engine.
    instances
        One row an instance, or an attempt at one: [job_id, task_name, start_s, end_s]; rows need
        not be unique. Those of a task that is not in `tasks` are left out.
    missing_end
        Which instances take part, and with which end. Under every policy those that have both
        times do, and those without a start do not.

        - "drop": no others;
        - "drop_task": no others, and a task with any instance that lacks a start or an end has no
          runtime;
        - "task": those without an end have the task's own end_s, where there is one and none of
          them starts after it;
        - "running": those without an end run to the trace's end where the task's status is
          running, and where it is not their end is lost;
        - "trace_end": all those without an end run to the trace's end.

        The trace's end is the latest start or end in either table.

    Returns
    -------
    DataFrame
        [job_id, task_name, status, runtime_s, n_instances, gpus, cpus, memory_gib, gpu_type,
        start_s, end_s, n_used, n_missing_start, n_missing_end, instance_s, note]: every row of
        `tasks` in its order. n_instances is the rows of instances, 0 where there are none; n_used
        those that take part. start_s and end_s are the first start and last end among these, and
        instance_s is the sum over them of end minus start, all in s. status, gpus (an instance),
        cpus, memory_gib and gpu_type are as in `tasks`, whatever the instances say. runtime_s,
        start_s, end_s and instance_s are null where no instance takes part: note says why.

    Raises
    ------
    DataError
        If `missing_end` is no policy; a column is missing or not numeric; a value is negative or
        infinite; an instance ends before it starts; a task has two rows; or job_id or task_name
        differs in type between the tables.

    Notes
    -----
    Runtime and task size (n_instances) are those of the published analysis of PAI's tasks.
    max(end_s) - min(start_s) as a query writes it is no policy here: it takes the start of an
    instance whose end it leaves out.
    """
    if missing_end not in MISSING_END:
        raise DataError(
            f"missing_end is {missing_end!r}; the policies are {', '.join(MISSING_END)}"
        )
    return apply_policy(read_records(tasks, instances), missing_end)


def apply_policy(records: Records, missing_end: str, /) -> pl.DataFrame:
    """Return what :func:`task_runtimes` does, of records that were read once."""
    n, known = pl.col("n_instances"), pl.col("n_known")
    open_ends = pl.col("n_start") - known
    stands_in = _stands_in(records, missing_end)
    takes_part = ((open_ends > 0) & (stands_in >= pl.col("open_last_s"))).fill_null(value=False)
    added = pl.when(takes_part)
    used = known + added.then(open_ends).otherwise(0)
    enough = used == n if missing_end == "drop_task" else used > 0
    open_s = (open_ends * stands_in - pl.col("open_sum_s")).clip(0)  # at 0, rounding has a sign
    start = pl.min_horizontal("first_s", added.then("open_first_s"))
    end = pl.max_horizontal("last_s", added.then(stands_in))
    return (
        records.tasks.lazy()
        .with_columns(
            start_s=start,
            end_s=end,
            n_used=pl.when(enough).then(used).otherwise(0),
            n_missing_start=n - pl.col("n_start"),
            n_missing_end=n - pl.col("n_end"),
            # the sum of nothing is 0 on one engine and null on another
            instance_s=pl.when(known > 0).then("known_s").otherwise(0.0)
            + added.then(open_s).otherwise(0.0),
            note=_why(missing_end, stands_in),
        )
        .with_columns(
            pl.when(pl.col("n_used") > 0).then(pl.col("start_s", "end_s", "instance_s")).name.keep()
        )
        .with_columns(
            runtime_s=pl.col("end_s") - pl.col("start_s"),
            note=pl.when(pl.col("n_used") == 0).then("note"),
        )
        .select(*_CONTRACT, *_MORE)
        .collect(engine="streaming")
    )


def _stands_in(records: Records, missing_end: str) -> pl.Expr:
    """Return the end that stands for missing ones, null where none does."""
    trace_end = pl.lit(records.last_s, pl.Float64)
    if missing_end == "task":
        return pl.col("task_end_s")
    if missing_end == "running":
        return pl.when(pl.col("status") == "running").then(trace_end)
    return trace_end if missing_end == "trace_end" else pl.lit(None, pl.Float64)


def _why(missing_end: str, stands_in: pl.Expr) -> pl.Expr:
    """Return why no instance of a task takes part."""
    lacking = "no instance has both start and end"
    if missing_end == "drop_task":
        lacking = "an instance lacks its start or its end"
    contradiction = pl.lit(missing_end == "task") & (stands_in < pl.col("open_last_s"))
    return (
        pl.when(pl.col("n_instances") == 0)
        .then(pl.lit("no instance"))
        .when(contradiction)
        .then(pl.lit("the task ends before an instance without an end starts"))
        .otherwise(pl.lit(lacking))
    )
