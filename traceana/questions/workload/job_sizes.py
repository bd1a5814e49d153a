"""Quantiles of runtime and size, and jobs by number of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.overlap import HELD, open_overlap
from traceana.questions.workload.tables import JobQuantiles, SizeDistribution
from traceana.store.frames import Names, as_names, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.cohorts.overlap import Window

_QUANTILES: Final = {
    "p01": 0.01,
    "p05": 0.05,
    "p25": 0.25,
    "median": 0.5,
    "p75": 0.75,
    "p95": 0.95,
    "p99": 0.99,
}


@returns(JobQuantiles)
def job_quantiles(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute quantiles of the runtime, GPUs and GPU-hours of jobs.

    Parameters
    ----------
    jobs
        One row per job; eager or lazy, of any supported engine. Null and NaN are missing.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    runtime, gpus
        Columns of the runtime and the requested GPUs.
    window
        As in :func:`workload_summary`: GPU-hours are those within it.

    Returns
    -------
    DataFrame
        Three rows per group, sorted by `by`, nulls last, with the columns `by` and
        {columns}

        Statistics are over the n jobs that have the quantity, and null where n is 0. Quantiles
        interpolate linearly between order statistics (type 7 of Hyndman and Fan, 1996).

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 2, 8], "runtime_s": [60, 60, 600, 3600]})
    >>> traceana.job_quantiles(jobs).head(2).select("quantity", "n", "median", "max").rows()
    [('runtime_s', 4, 330.0, 3600.0), ('gpus', 4, 2.0, 8.0)]
    """
    keys = as_names(by)
    refuse_clash(keys, ("quantity",))
    frame = open_overlap(jobs, keys, {"runtime": runtime, "gpus": gpus}, window=window)
    quantities = {
        "runtime_s": nw.col(runtime),
        "gpus": nw.col(gpus),
        "gpu_hours": nw.col(gpus) * nw.col(HELD) / 3600,
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
        ).with_columns(quantity=pl.lit(quantity))
        for quantity, x in quantities.items()
    ]
    result = pl.concat(parts)
    ordered = result.sort(keys, nulls_last=True, maintain_order=True) if keys else result
    return declared(ordered, JobQuantiles, by=keys)


@returns(SizeDistribution)
def size_distribution(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    window: Window | None = None,
) -> pl.DataFrame:
    """Count jobs and GPU-hours by the number of requested GPUs.

    Parameters
    ----------
    jobs, by, runtime, gpus
        As in :func:`job_quantiles`.
    window
        As in :func:`workload_summary`: GPU-hours are those within it.

    Returns
    -------
    DataFrame
        One row per number of GPUs, and one for null, sorted by `by` and gpus, nulls last, with
        the columns `by` and
        {columns}

        GPU-hours and their fraction are null where no job has both GPUs and runtime.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 2, 8], "runtime_s": [60, 60, 600, 3600]})
    >>> found = traceana.size_distribution(jobs)
    >>> found.select("gpus", "jobs", "share_of_jobs", pl.col("share_of_gpu_hours").round(2)).rows()
    [(1.0, 1, 0.25, 0.0), (2.0, 2, 0.5, 0.04), (8.0, 1, 0.25, 0.95)]
    """
    keys = as_names(by)
    refuse_clash(keys, ("gpus", "share_of_jobs", "share_of_gpu_hours"))
    time = nw.col(runtime)
    gpu_hours = nw.col(gpus) * nw.col(HELD) / 3600
    sizes = reduce_frame(
        open_overlap(jobs, keys, {"runtime": runtime, "gpus": gpus}, window=window),
        (*keys, gpus),
        jobs=nw.len(),
        gpu_hours=gpu_hours.sum(),
        jobs_without_gpu_hours=nw.len() - gpu_hours.count(),
        runtime_s_median=time.quantile(0.5, interpolation="linear"),
    ).rename({gpus: "gpus"})
    known = pl.col("jobs_without_gpu_hours") < pl.col("jobs")  # engines sum nothing to 0

    def fraction(column: str) -> pl.Expr:
        part, whole = pl.col(column), pl.col(column).sum().over(pl.lit(0), *keys)
        return pl.when(whole > 0).then(part / whole)

    found = sizes.with_columns(gpu_hours=pl.when(known).then("gpu_hours")).with_columns(
        share_of_jobs=fraction("jobs"), share_of_gpu_hours=fraction("gpu_hours")
    )
    return declared(found, SizeDistribution, by=keys)
