"""GPU-hours by job and by group: concentration, and what was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.cohorts.overlap import HELD, Window, count_reckoned, note_reckoned, open_overlap
from traceana.questions.workload.tables import Concentration, GpuHours, LorenzCurve
from traceana.stats.arguments import check_count
from traceana.store.frames import Names, as_names, collect, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

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
    keys = as_names(by)
    refuse_clash(keys, Concentration.columns())
    x = pl.col("gpu_hours").drop_nulls()
    n, total = x.len(), x.sum()
    rank = pl.int_range(1, n + 1)

    def held_by(part: pl.Expr) -> pl.Expr:
        """Return the fraction of the GPU-hours that parts of the jobs have."""
        return (part.clip(0, 1) * x).sum() / total

    table = reduce_frame(
        _gpu_hours(jobs, keys, runtime, gpus, window),
        keys,
        jobs=pl.len(),
        n_missing=pl.col("gpu_hours").null_count(),
        n=n,
        gpu_hours=pl.when(n > 0).then(total),
        **{name: held_by(rank - n + top * n) for name, top in _TOP.items()},
        fraction_of_lower_half=held_by(n / 2 - rank + 1),
        gini=2 * (rank * x).sum() / (n * total) - (n + 1) / n,
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
    keys = as_names(by)
    refuse_clash(keys, ("fraction_of_jobs", "fraction_of_gpu_hours", "gpu_hours"))
    held = pl.col("gpu_hours")
    table = _gpu_hours(jobs, keys, runtime, gpus, window).drop_nulls("gpu_hours")
    groups = table.group_by(keys).agg(held) if keys else table.select(held.implode())
    groups = groups.filter(held.list.sum() > 0)
    below, curves = np.linspace(0, 1, points), []
    for hours in groups["gpu_hours"]:
        summed = np.cumsum([0.0, *hours])
        curves.append(np.interp(below * len(hours), range(len(summed)), summed / summed[-1]))
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
    return collect(frame.select(*keys, hours.alias("gpu_hours"))).sort("gpu_hours")


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
    jobs, by, runtime, gpus, window
        As in :func:`workload_summary`.
    status
        Column of the status.
    user
        Column of the user, to count users; None: they are not counted.

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
    keys = as_names(by)
    refuse_clash(keys, GpuHours.columns())
    hours = nw.col(gpus) * nw.col(HELD) / 3600
    users = {} if user is None else {"users": nw.col(user).n_unique()}
    table = reduce_frame(
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
    stable = table.with_columns(pl.col("gpu_hours", "failed", "cancelled").round_sig_figs(12))
    shares = stable.with_columns(
        pl.col("jobs", "n_missing", *users).cast(pl.Int64),
        fraction_of_all=pl.when(total.sum() > 0).then(total / total.sum()),
        failed=pl.when(total > 0).then(pl.col("failed") / total),
        cancelled=pl.when(total > 0).then(pl.col("cancelled") / total),
        note=note_reckoned(),
    )
    named = shares.sort(keys, nulls_last=True)
    ordered = named.sort("gpu_hours", "jobs", descending=True, maintain_order=True)
    return declared(ordered, GpuHours, by=keys)
