"""Runtime of each task from its instances, for each imputation of missing ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.cohorts.tables import TaskRuntimes
from traceana.cohorts.task_times import TaskTimes, read_task_times
from traceana.stats.arguments import check_choice
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

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
    rows = impute_ends(read_task_times(tasks, instances), end_imputation)
    return declared(rows.collect(engine="streaming"), TaskRuntimes)


def impute_ends(times: TaskTimes, end_imputation: str, /) -> pl.LazyFrame:
    """Return the columns of :func:`task_runtimes`, and others, from times that were read once."""
    n, n_ended = pl.col("n_instances"), pl.col("n_known")
    open_ends = pl.col("n_start") - n_ended
    imputed = _imputed(times, end_imputation)
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


def _imputed(times: TaskTimes, end_imputation: str) -> pl.Expr:
    """Return the imputed end of instances without one; null if they are excluded."""
    trace_end = pl.lit(times.last_s, pl.Float64)
    if end_imputation == "task":
        return pl.col("task_end_s")
    if end_imputation == "running":
        return pl.when(pl.col("status") == "running").then(trace_end)
    return trace_end if end_imputation == "trace_end" else pl.lit(None, pl.Float64)


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
