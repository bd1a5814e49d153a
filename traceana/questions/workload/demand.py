"""GPUs requested over time, and quantiles of runtime and size."""

from __future__ import annotations

from typing import Final

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.overlap import (
    BEGIN,
    COUNTED,
    HELD,
    JOBS,
    UNTIL,
    Window,
    note_reckoned,
    open_overlap,
    sum_edges,
)
from traceana.errors import DataError
from traceana.questions.workload.tables import GpuDemand, JobQuantiles, SizeDistribution
from traceana.stats.arguments import is_number
from traceana.store.frames import (
    LARGEST,
    Names,
    as_names,
    read_once,
    reduce_frame,
    refuse_clash,
)
from traceana.tables.declare import declared, returns

_MOST_BINS: Final = 10_000_000
_QUANTILES: Final = {
    f"p{q:02}" if q != 50 else "median": q / 100 for q in (1, 5, 25, 50, 75, 95, 99)
}


@returns(GpuDemand)
def gpu_demand(
    jobs: IntoFrame,
    /,
    *,
    bin_s: float = 3600,
    by: Names = (),
    start: str = "start_s",
    end: str = "end_s",
    runtime: str | None = None,
    gpus: str = "gpus",
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute the GPUs requested by running jobs, averaged over time bins.

    gpus_mean is the sum over jobs of their GPUs times their seconds within the bin, over bin_s;
    summed over bins and multiplied by bin_s / 3600 it equals the GPU-hours. What of a job lies in
    the window is decided as in :func:`workload_summary`: jobs that still run are counted until the
    window's end, and those without a start from their submission or the window's beginning. Demand
    from submissions can exceed the capacity of the cluster. `note` counts these jobs.

    Parameters
    ----------
    jobs, by, window
        As in :func:`workload_summary`.
    bin_s
        Length of a bin in s; bins are [k, k + 1) * bin_s on the clock of the trace, at most ten
        million.
    start, end, gpus
        Columns of the start (seconds or datetimes), the end and the requested GPUs.
    runtime
        Column of the runtime: jobs end at start + runtime, and `end` is not used. None: runtime_s
        where the frame has it, else `end`.

    Returns
    -------
    DataFrame
        Every bin from the first start to before the last end of each group, sorted by `by` and bin,
        nulls last. A group without any complete job has one row of nulls with a note. The
        columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0, 1800], "end_s": [3600, 7200], "gpus": [4, 8]})
    >>> traceana.gpu_demand(jobs).select("bin_start_s", "gpus_mean", "jobs_mean").rows()
    [(0.0, 8.0, 1.5), (3600.0, 8.0, 1.0)]
    """
    if not (is_number(bin_s) and 0 < bin_s <= LARGEST):
        raise DataError(f"bin_s must be a positive number of seconds; it is {bin_s!r}")
    keys = as_names(by)
    refuse_clash(keys, (*GpuDemand.columns(), "index"))
    second = end if runtime is None else runtime
    measures = {"start": start, "end" if runtime is None else "runtime": second, "gpus": gpus}
    unused = () if runtime is None else ("end",)
    opened = open_overlap(jobs, keys, measures, unused=unused, window=window)
    used = dict.fromkeys((*keys, *measures.values(), BEGIN, UNTIL, *COUNTED))
    frame = read_once(opened, used)
    shortest = nw.col(second) if runtime else nw.col(end) - nw.col(start)
    begun, ended = nw.col(BEGIN), nw.col(UNTIL)
    placed = ~(begun * nw.col(gpus)).is_null()
    groups = reduce_frame(
        frame,
        keys,
        n_excluded=nw.len() - nw.when(placed).then(begun).count(),
        shortest=shortest.min(),
        first=nw.when(placed).then(begun).min(),
        last=nw.when(placed).then(ended).max(),
        **{
            name: nw.when(placed).then(column).otherwise(0).sum()
            for name, column in ((weight, nw.col(weight)) for weight in COUNTED)
        },
    )
    if (groups["shortest"] < 0).any():
        raise DataError(f"a job ends before it starts: {second} is below {start}")
    ends = groups.with_columns(
        (pl.col("first") / bin_s).floor(), (pl.col("last") / bin_s).ceil() - 1
    ).with_columns(pl.max_horizontal("first", "last").alias("last"))
    bins = float((ends["last"] - ends["first"] + 1).sum())
    if bins > _MOST_BINS or (ends["last"] > 2**53).any():
        raise DataError(
            f"bin_s {bin_s:g} is too short: there would be {bins:.3g} bins, and at most "
            f"{_MOST_BINS:,} are given, on a clock of at most 2^53 of them"
        )
    numbers = pl.int_ranges(pl.col("first").cast(pl.Int64), pl.col("last").cast(pl.Int64) + 1)
    # every bin of every group, null where it has none
    grid = ends.with_columns(index=numbers).drop("shortest", "first", "last").explode("index")

    def place(time: nw.Expr) -> tuple[nw.Expr, nw.Expr]:
        number = (time / bin_s).floor()
        return number, (number + 1) * bin_s - time

    changes = sum_edges(frame.filter(placed), keys, (gpus,), place)

    def mean(weight: str) -> pl.Expr:
        """Return the weight at the beginning of each bin, and the changes within it."""
        before = pl.col(f"{weight} change").cum_sum().shift(1, fill_value=0)
        mean = before.over(pl.lit(0), *keys) + pl.col(f"{weight} left") / bin_s
        # the order of the sums differs between engines, by less than a billionth of a GPU
        return pl.when(~left_out).then(mean.clip(0).round(9))

    left_out = pl.col("index").is_null()
    why = f"no job has {start}, {second} and {gpus}"
    demand = (
        grid.join(changes, on=[*keys, "index"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.selectors.matches(" (change|left)$").fill_null(0))
        .with_columns(
            bin_start_s=pl.col("index") * float(bin_s),
            gpus_mean=mean(gpus),
            jobs_mean=mean(JOBS),
            note=pl.when(left_out).then(pl.lit(why)).otherwise(note_reckoned()),
        )
    )
    return declared(demand, GpuDemand, by=keys)


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
    jobs, by, runtime, gpus, window
        As in :func:`workload_summary`; GPU-hours are those within the window.

    Returns
    -------
    DataFrame
        Three rows per group, sorted by `by`, nulls last, with the columns `by` and
        {columns}

        Statistics are over the n jobs that have the quantity, and null where n is 0.

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
    result = result.sort(keys, nulls_last=True, maintain_order=True) if keys else result
    return declared(result, JobQuantiles, by=keys)


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
    jobs, by, runtime, gpus, window
        As in :func:`workload_summary`; GPU-hours are those within the window.

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
    >>> found.select("gpus", "fraction_of_jobs", pl.col("fraction_of_gpu_hours").round(2)).rows()
    [(1.0, 0.25, 0.0), (2.0, 0.5, 0.04), (8.0, 0.25, 0.95)]
    """
    keys = as_names(by)
    refuse_clash(keys, ("gpus", "fraction_of_jobs", "fraction_of_gpu_hours"))
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
    partly_known = pl.col("jobs_without_gpu_hours") < pl.col("jobs")  # engines sum nothing to 0

    def fraction(column: str) -> pl.Expr:
        part, whole = pl.col(column), pl.col(column).sum().over(pl.lit(0), *keys)
        return pl.when(whole > 0).then(part / whole)

    table = sizes.with_columns(gpu_hours=pl.when(partly_known).then("gpu_hours")).with_columns(
        fraction_of_jobs=fraction("jobs"), fraction_of_gpu_hours=fraction("gpu_hours")
    )
    return declared(table, SizeDistribution, by=keys)
