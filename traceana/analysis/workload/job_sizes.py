"""How long jobs run and how many GPUs they ask for: quantiles, and jobs by number of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import Names, as_names, open_frame, reduce_frame, refuse_clash

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_QUANTILES: Final = {
    "p01": 0.01,
    "p05": 0.05,
    "p25": 0.25,
    "median": 0.5,
    "p75": 0.75,
    "p95": 0.95,
    "p99": 0.99,
}
_STATISTICS: Final = ("n", "n_missing", "mean", "min", *_QUANTILES, "max")


def job_quantiles(jobs: IntoFrame, /, *, by: Names = ()) -> pl.DataFrame:
    """Quantiles of runtime, of GPUs asked for and of GPU-hours a job.

    Parameters
    ----------
    jobs
        One row a job: [*by, runtime_s, gpus]; eager or lazy, of any listed engine. Null and NaN
        are missing.
    by
        Columns to group by; ``()`` for one group. Null in `by` is a group of its own.

    Returns
    -------
    DataFrame
        Three rows a group, quantity "runtime_s", "gpus" and "gpu_hours" (gpus * runtime_s / 3600):
        [*by, quantity, n, n_missing, mean, min, p01, p05, p25, median, p75, p95, p99, max], sorted
        by `by`, nulls last. Everything is over the n jobs that have the quantity, and null where
        n is 0. Quantiles interpolate linearly between order statistics (type 7 of Hyndman and
        Fan, 1996).

    Raises
    ------
    DataError
        If a column is missing or not numeric, or a value is negative or infinite.
    """
    keys = as_names(by)
    refuse_clash(keys, ("quantity",))
    frame = open_frame(jobs, keys=keys, measures=("runtime_s", "gpus"))
    quantities = {
        "runtime_s": nw.col("runtime_s"),
        "gpus": nw.col("gpus"),
        "gpu_hours": nw.col("gpus") * nw.col("runtime_s") / 3600,
    }
    parts = [
        reduce_frame(
            frame,
            keys,
            n=x.count(),
            n_missing=nw.len() - x.count(),
            mean=x.mean(),
            min=x.min(),
            **{name: x.quantile(q, interpolation="linear") for name, q in _QUANTILES.items()},
            max=x.max(),
        ).select(*keys, pl.lit(quantity).alias("quantity"), *_STATISTICS)
        for quantity, x in quantities.items()
    ]
    result = pl.concat(parts)
    return result.sort(keys, nulls_last=True, maintain_order=True) if keys else result


def size_distribution(jobs: IntoFrame, /, *, by: Names = ()) -> pl.DataFrame:
    """Jobs and GPU-hours by the number of GPUs asked for.

    Parameters
    ----------
    jobs
        One row a job: [*by, runtime_s, gpus]; eager or lazy, of any listed engine. Null and NaN
        are missing.
    by
        Columns to group by; ``()`` for one group. Null in `by` is a group of its own.

    Returns
    -------
    DataFrame
        One row a number of GPUs, and one where it is null: [*by, gpus, jobs, share_of_jobs,
        gpu_hours, share_of_gpu_hours, jobs_without_gpu_hours, runtime_s_median], sorted by `by`
        and gpus, nulls last. Shares are within the group; GPU-hours are summed over the jobs with
        GPUs and runtime known, and are null, as is their share, where no job has both.

    Raises
    ------
    DataError
        If a column is missing or not numeric, or a value is negative or infinite.
    """
    keys = as_names(by)
    refuse_clash(keys, ("share_of_jobs", "share_of_gpu_hours"))
    runtime = nw.col("runtime_s")
    gpu_hours = nw.col("gpus") * runtime / 3600
    sizes = reduce_frame(
        open_frame(jobs, keys=keys, measures=("runtime_s", "gpus")),
        (*keys, "gpus"),
        jobs=nw.len(),
        gpu_hours=gpu_hours.sum(),
        jobs_without_gpu_hours=nw.len() - gpu_hours.count(),
        runtime_s_median=runtime.quantile(0.5, interpolation="linear"),
    )
    known = pl.col("jobs_without_gpu_hours") < pl.col("jobs")  # engines sum nothing to 0

    def share(column: str) -> pl.Expr:
        part, whole = pl.col(column), pl.col(column).sum().over(pl.lit(0), *keys)
        return pl.when(whole > 0).then(part / whole)

    return sizes.with_columns(gpu_hours=pl.when(known).then("gpu_hours")).select(
        *(*keys, "gpus", "jobs"),
        share("jobs").alias("share_of_jobs"),
        "gpu_hours",
        share("gpu_hours").alias("share_of_gpu_hours"),
        *("jobs_without_gpu_hours", "runtime_s_median"),
    )
