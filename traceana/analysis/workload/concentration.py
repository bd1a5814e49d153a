"""How unevenly GPU-hours are spread over jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.analysis.frames import Names, as_names, collect, open_frame, refuse_clash
from traceana.errors import DataError
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_TOP: Final = {"share_of_top_1_percent": 0.01, "share_of_top_10_percent": 0.1}
_MOST_POINTS: Final = 1_000_000
_SPREAD: Final = (*_TOP, "share_of_lower_half", "gini")
_COLUMNS: Final = ("jobs", "n_missing", "n", "gpu_hours", *_SPREAD, "note")


def concentration(jobs: IntoFrame, /, *, by: Names = ()) -> pl.DataFrame:
    """Share of GPU-hours of the largest jobs, and the Gini coefficient of GPU-hours.

    With x_1 <= ... <= x_n the GPU-hours of the jobs (gpus * runtime_s / 3600),
    gini = 2 sum(i x_i) / (n sum(x)) - (n + 1) / n: 0 where all jobs are equal, (n - 1) / n where
    one job has all. The top p is the p * n largest jobs, of which the last may count in part
    (the Lorenz curve between its points).

    Parameters
    ----------
    jobs
        One row a job: [*by, runtime_s, gpus]; eager or lazy, of any listed engine. The rows are
        put in order by Polars in memory (`by` and one number a job only).
    by
        Columns to group by; ``()`` for one row over all. Null in `by` is a group of its own.

    Returns
    -------
    DataFrame
        [*by, jobs, n_missing, n, gpu_hours, share_of_top_1_percent, share_of_top_10_percent,
        share_of_lower_half, gini, note], sorted by `by`, nulls last. Everything is over the n jobs
        of which GPUs and runtime are known; n_missing are the others. Shares and gini are null
        where these have no GPU-hours, and note says so.

    Raises
    ------
    DataError
        If a column is missing or not numeric, or a value is negative or infinite.
    """
    keys = as_names(by)
    refuse_clash(keys, _COLUMNS)
    x = pl.col("gpu_hours")
    rows = _gpu_hours(jobs, keys).sort("gpu_hours")  # nulls first, out of the way
    held = x.drop_nulls()
    n, total = held.len(), held.sum()
    rank = pl.int_range(1, n + 1)  # from the smallest
    share = {
        name: ((top * n - (n - rank)).clip(0, 1) * held).sum() / total for name, top in _TOP.items()
    }
    statistics = {
        "jobs": pl.len().cast(pl.Int64),
        "n_missing": x.null_count().cast(pl.Int64),
        "n": n.cast(pl.Int64),
        "gpu_hours": pl.when(n > 0).then(total),
        **share,
        "share_of_lower_half": ((n / 2 - rank + 1).clip(0, 1) * held).sum() / total,
        "gini": 2 * (rank * held).sum() / (n * total) - (n + 1) / n,
    }
    if keys:
        result = rows.group_by(keys).agg(**statistics).sort(keys, nulls_last=True)
    else:
        result = rows.select(**statistics)
    some = pl.col("gpu_hours") > 0
    return result.with_columns(
        pl.when(some).then(pl.col(*_SPREAD)).name.keep(),
        note=pl.when(some.fill_null(value=False).not_()).then(pl.lit("no GPU-hours")),
    ).select(*keys, *_COLUMNS)


def lorenz_curve(jobs: IntoFrame, /, *, by: Names = (), points: int = 101) -> pl.DataFrame:
    """Share of GPU-hours that the smallest jobs hold together, at evenly spaced shares of jobs.

    Parameters
    ----------
    jobs, by
        As in :func:`concentration`.
    points
        Number of points a group, from share 0 to share 1; from 2 to a million.

    Returns
    -------
    DataFrame
        [*by, share_of_jobs, share_of_gpu_hours], sorted by them, nulls last; linear between jobs.
        A group without GPU-hours has no curve, and no row.

    Raises
    ------
    DataError
        As :func:`concentration`, and if `points` is out of range.
    """
    if not (is_number(points, whole=True) and 2 <= points <= _MOST_POINTS):
        raise DataError(
            f"points must be a whole number from 2 to {_MOST_POINTS:,}; it is {points!r}"
        )
    keys = as_names(by)
    refuse_clash(keys, ("share_of_jobs", "share_of_gpu_hours", "gpu_hours"))
    known = _gpu_hours(jobs, keys).drop_nulls("gpu_hours")
    held = pl.col("gpu_hours").sort()
    groups = known.group_by(keys).agg(held) if keys else known.select(held.implode())
    groups = groups.filter(pl.col("gpu_hours").list.sum() > 0)
    shares = np.linspace(0, 1, points)
    curves = []
    for hours in groups["gpu_hours"]:
        summed = np.concatenate(([0.0], np.cumsum(hours.to_numpy())))
        jobs_below = np.arange(len(hours) + 1)
        curves.append(np.interp(shares * len(hours), jobs_below, summed / summed[-1]))
    both = ("share_of_jobs", "share_of_gpu_hours")
    lists = pl.List(pl.Float64)
    return (
        groups.select(
            *keys,
            pl.Series(both[0], [shares] * groups.height, dtype=lists),
            pl.Series(both[1], curves, dtype=lists),
        )
        .explode(both)
        .sort(*keys, both[0], nulls_last=True)
    )


def _gpu_hours(jobs: IntoFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    hours = nw.col("gpus") * nw.col("runtime_s") / 3600
    frame = open_frame(jobs, keys=keys, measures=("runtime_s", "gpus"))
    return collect(frame.select(*keys, hours.alias("gpu_hours")))
