"""What was asked of a cluster: jobs, their runtimes and sizes, and GPU-hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import Names, as_names, open_frame, reduce_frame

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def workload_summary(jobs: IntoFrame, /, *, by: Names = ()) -> pl.DataFrame:
    """Jobs, GPU-hours, runtimes, sizes and the span of submissions.

    GPU-hours are the sum of gpus * runtime_s / 3600 over the jobs of which both are known: of
    the others nothing is assumed.

    Parameters
    ----------
    jobs
        One row a job: [*by, submit_s, runtime_s, gpus]; eager or lazy, of any listed engine.
        Null and NaN are missing.
    by
        Columns to group by, such as cluster; ``()`` for one row over all. Null in `by` is a
        group of its own.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last:

        - by, jobs, jobs_with_runtime;
        - gpu_hours, null where no job has both; jobs_without_gpu_hours, how many have not;
        - runtime_s_mean, _p25, _median, _p75, _p95, _p99, over the jobs with a runtime, in s;
        - gpus_median, _p95, _max, over the jobs whose GPUs are known;
        - first_submit_s, last_submit_s, on the trace's clock.

        Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan,
        1996). A statistic of no value is null.

    Raises
    ------
    DataError
        If a column is missing or not numeric, or a value is negative or infinite.
    """
    keys = as_names(by)
    frame = open_frame(jobs, keys=keys, measures=("submit_s", "runtime_s", "gpus"))
    runtime, gpus, submit = nw.col("runtime_s"), nw.col("gpus"), nw.col("submit_s")
    gpu_hours = gpus * runtime / 3600
    summary = reduce_frame(
        frame,
        keys,
        jobs=nw.len(),
        jobs_with_runtime=runtime.count(),
        gpu_hours=gpu_hours.sum(),
        jobs_without_gpu_hours=nw.len() - gpu_hours.count(),
        runtime_s_mean=runtime.mean(),
        runtime_s_p25=runtime.quantile(0.25, interpolation="linear"),
        runtime_s_median=runtime.quantile(0.5, interpolation="linear"),
        runtime_s_p75=runtime.quantile(0.75, interpolation="linear"),
        runtime_s_p95=runtime.quantile(0.95, interpolation="linear"),
        runtime_s_p99=runtime.quantile(0.99, interpolation="linear"),
        gpus_median=gpus.quantile(0.5, interpolation="linear"),
        gpus_p95=gpus.quantile(0.95, interpolation="linear"),
        gpus_max=gpus.max(),
        first_submit_s=submit.min(),
        last_submit_s=submit.max(),
    )
    # engines sum nothing to 0
    known = pl.col("jobs_without_gpu_hours") < pl.col("jobs")
    return summary.with_columns(gpu_hours=pl.when(known).then("gpu_hours"))
