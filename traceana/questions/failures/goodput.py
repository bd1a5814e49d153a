"""Useful, repeated and lost GPU-hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.cohorts.overlap import HELD, open_overlap
from traceana.questions.failures.tables_hazard import Goodput
from traceana.store.frames import Names, as_names, collect, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.cohorts.overlap import Window


@returns(Goodput)
def goodput(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    same: Names = ("user", "job_name"),
    success: Names = "completed",
    failure: Names = ("failed", "cancelled"),
    status: str = "status",
    start: str = "start_s",
    end: str = "end_s",
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    window: Window | None = None,
) -> pl.DataFrame:
    """Divide GPU-hours into useful, repeated, lost and unfinished ones.

    - useful: of successful runs
    - repeated: of unsuccessful runs after whose end the same job started again
    - lost: of other unsuccessful runs
    - unfinished: of runs with another status, such as running

    The whole of an unsuccessful run counts, although a checkpoint may have kept a part of its work:
    repeated and lost GPU-hours are an upper bound. Hours are those within the window, as for
    :func:`workload_summary`.

    Parameters
    ----------
    jobs
        One row per run: `by`, `same`, `status`, `start`, `end`, `runtime` and `gpus`; eager or
        lazy, of any supported engine.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    same
        Columns that runs of the same job share, such as user and job_name. A run without one of
        them is not repeated. ``same=()``: none is.
    success, failure
        Status values of successful and unsuccessful runs.
    status, start, end, runtime, gpus
        Columns of the status, the start and the end (seconds or datetimes), the runtime (seconds or
        a duration) and the GPUs.
    window
        First and last second of the observation window on the clock of the trace; None: from the
        first to the last time in the frame.

    Returns
    -------
    DataFrame
        One row per group and kind, sorted by `by`, with every kind:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({
    ...     "user": "u", "job_name": ["a", "a", "b"], "status": ["failed", "completed", "failed"],
    ...     "start_s": [0, 3600, 0], "runtime_s": [3600, 7200, 1800], "gpus": [8, 8, 2],
    ... }).with_columns(end_s=pl.col("start_s") + pl.col("runtime_s"))
    >>> traceana.goodput(jobs).select("kind", "gpu_hours").rows()
    [('useful', 16.0), ('repeated', 8.0), ('lost', 1.0), ('unfinished', 0.0)]
    """
    keys, names = as_names(by), as_names(same)
    refuse_clash(keys, Goodput.columns())
    columns = tuple(dict.fromkeys((*keys, *names, status)))
    measures = {"start": start, "end": end, "runtime": runtime, "gpus": gpus}
    rows = collect(open_overlap(jobs, columns, measures, window=window))
    failed = pl.col(status).is_in(as_names(failure))
    again = pl.lit(value=False)
    if names:
        rows = rows.sort(start, nulls_last=True, maintain_order=True)
        latest = pl.col(start).max().over(names)
        whole = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
        again = whole & (latest >= pl.col(end)) & (latest > pl.col(start))
    kind = (
        pl.when(pl.col(status).is_in(as_names(success)))
        .then(pl.lit("useful"))
        .when(failed & again.fill_null(value=False))
        .then(pl.lit("repeated"))
        .when(failed)
        .then(pl.lit("lost"))
        .otherwise(pl.lit("unfinished"))
    )
    hours = pl.col(HELD) * pl.col(gpus) / 3600
    found = reduce_frame(
        rows.select(*keys, kind.alias("kind"), hours.alias("hours")),
        (*keys, "kind"),
        n=pl.col("hours").count(),
        n_missing=pl.col("hours").null_count(),
        gpu_hours=pl.col("hours").sum(),
    )
    kinds = pl.DataFrame({"kind": ["useful", "repeated", "lost", "unfinished"], "order": range(4)})
    groups = found.select(keys).unique() if keys else pl.DataFrame({"all": [0]})
    every = groups.join(kinds, how="cross")
    total = pl.col("gpu_hours").sum().over(keys) if keys else pl.col("gpu_hours").sum()
    found = (
        every.join(found, on=[*keys, "kind"], how="left", nulls_equal=True)
        .with_columns(pl.col("n", "n_missing").fill_null(0), pl.col("gpu_hours").fill_null(0.0))
        .with_columns(share=pl.when(total > 0).then(pl.col("gpu_hours") / total))
        .sort(*keys, "order", nulls_last=True)
    )
    return declared(found, Goodput, by=keys)
