"""GPU-hours by group: who used a cluster, and what was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.overlap import HELD, count_reckoned, note_reckoned, open_overlap
from traceana.questions.workload.tables_usage import GpuHours
from traceana.store.frames import Names, as_names, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.cohorts.overlap import Window


@returns(GpuHours)
def gpu_hours_by(
    jobs: IntoFrame,
    /,
    by: Names,
    *,
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    status: str = "status",
    user: str | None = None,
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute the GPU-hours of each group, by status of the jobs.

    Parameters
    ----------
    jobs
        One row per job; eager or lazy, of any supported engine. Null and NaN are missing.
    by
        Columns to group by; null is a group of its own.
    runtime, gpus, status
        Columns of the runtime, the requested GPUs and the status.
    user
        Column of the user, to count users; None: they are not counted.
    window
        First and last second of the observation window on the clock of the trace; None: from the
        first to the last time in the frame.

    Returns
    -------
    DataFrame
        The largest group first, with the columns of `by` and
        {columns}

        GPU-hours are gpus times the hours of a job within the window, as for
        :func:`workload_summary`.

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
    keys = as_names(by)
    refuse_clash(keys, GpuHours.columns())
    hours = nw.col(gpus) * nw.col(HELD) / 3600
    users = {} if user is None else {"users": nw.col(user).n_unique()}
    found = reduce_frame(
        open_overlap(
            jobs,
            tuple(dict.fromkeys((*keys, status, *([user] if user else [])))),
            {"runtime": runtime, "gpus": gpus},
            window=window,
        ),
        keys,
        jobs=nw.len(),
        n_missing=nw.len() - hours.count(),
        gpu_hours=hours.sum(),
        **{
            name: nw.when(nw.col(status) == name).then(hours).otherwise(0).sum()
            for name in ("failed", "cancelled")
        },
        **users,
        **count_reckoned(),
    )
    total = pl.col("gpu_hours")
    # the last digits of a sum depend on how the engine splits the rows
    stable = found.with_columns(pl.col("gpu_hours", "failed", "cancelled").round_sig_figs(12))
    shares = stable.with_columns(
        pl.col("jobs", "n_missing", *users).cast(pl.Int64),
        share=pl.when(total.sum() > 0).then(total / total.sum()),
        failed=pl.when(total > 0).then(pl.col("failed") / total),
        cancelled=pl.when(total > 0).then(pl.col("cancelled") / total),
        note=note_reckoned(),
    )
    named = shares.sort(keys, nulls_last=True)
    ordered = named.sort("gpu_hours", "jobs", descending=True, maintain_order=True)
    return declared(ordered, GpuHours, by=keys)
