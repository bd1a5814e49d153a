"""Submissions and the GPUs requested over time, and quantiles of runtime and size."""

from __future__ import annotations

from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import ArrayLike

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
from traceana.questions.workload.tables import (
    ArrivalRhythm,
    GpuDemand,
    InterarrivalCurve,
    Interarrivals,
    JobQuantiles,
    Seasonality,
    SizeDistribution,
)
from traceana.stats.arguments import check_count, is_number
from traceana.stats.arrays import Floats, Integers
from traceana.stats.time_blocks import LONGEST_S
from traceana.store.frames import (
    LARGEST,
    Names,
    as_keys,
    collect,
    open_frame,
    read_once,
    reduce_frame,
)
from traceana.tables.declare import declared, returns, schema_of

_MOST_BINS: Final = 10_000_000
_QUANTILES: Final = {
    f"p{q:02}" if q != 50 else "median": q / 100 for q in (1, 5, 25, 50, 75, 95, 99)
}


@returns(GpuDemand)
def gpu_demand(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    bin_s: float = 3600,
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
    keys = as_keys(by, (*GpuDemand.columns(), "index"))
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
        **{name: nw.when(placed).then(nw.col(name)).otherwise(0).sum() for name in COUNTED},
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
    keys = as_keys(by, ("quantity",))
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
    keys = as_keys(by, ("gpus", "fraction_of_jobs", "fraction_of_gpu_hours"))
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


_MOST_POINTS: Final = 1_000_000


@returns(Interarrivals)
def interarrivals(jobs: IntoFrame, /, by: Names = (), *, submit: str = "submit_s") -> pl.DataFrame:
    """Compute interarrival times and the burstiness of submissions.

    - cv, the coefficient of variation of the interarrival times (ddof 1): 0 for periodic
      arrivals, 1 for a Poisson process, above 1 for bursts.
    - burstiness = (cv - 1) / (cv + 1), from -1 (periodic) over 0 (Poisson) to 1; and memory, the
      Pearson correlation of successive interarrival times (Goh and Barabasi, EPL 81, 2008).

    Daily and weekly cycles alone make all of them differ from the values of a Poisson process.

    Parameters
    ----------
    jobs, by, submit
        As in :func:`workload_summary`.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last. memory is null for fewer than 4 submissions or equal
        interarrival times. The columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 30, 100, 400]})
    >>> found = traceana.interarrivals(jobs)
    >>> found.select("n", "mean_s", "median_s", pl.col("cv").round(2)).rows()
    [(4, 100.0, 45.0, 1.36)]
    """
    keys = as_keys(by, (*Interarrivals.columns(), "submit_s", "gap_s"))
    # sums over groups that are known to be sorted depend on the number of threads
    rows = _gaps(jobs, keys, submit).sort("submit_s")
    gap, before = pl.col("gap_s"), pl.col(".before")
    pairs = gap.is_not_null() & before.is_not_null()
    both = [column.filter(pairs) for column in (gap, before)]
    vary = pl.all_horizontal(column.min() < column.max() for column in both)
    table = reduce_frame(
        rows,
        keys,
        jobs=pl.len(),
        n_missing=pl.col("submit_s").null_count(),
        n=gap.count(),
        mean_s=gap.mean(),
        median_s=gap.quantile(0.5, "linear"),
        p99_s=gap.quantile(0.99, "linear"),
        max_s=gap.max(),
        fraction_zero=(gap == 0).mean(),
        cv=pl.when(gap.mean() > 0).then(gap.std() / gap.mean()),
        memory=pl.when(vary).then(pl.corr(*both)),
    )
    cv = pl.col("cv")
    note = (
        pl.when(pl.col("n") < 2)
        .then(pl.lit("fewer than 3 submissions"))
        .when(cv.is_null())
        .then(pl.lit("all at one time"))
    )
    table = table.with_columns(burstiness=(cv - 1) / (cv + 1), note=note)
    return declared(table, Interarrivals, by=keys)


@returns(InterarrivalCurve)
def interarrival_curve(
    jobs: IntoFrame, /, by: Names = (), *, points: int = 201, submit: str = "submit_s"
) -> pl.DataFrame:
    """Compute the survival function of the interarrival times.

    It is listed beside that of a Poisson process of the same rate, exp(-gap / mean gap).

    Parameters
    ----------
    jobs, by, submit
        As in :func:`interarrivals`.
    points
        Times per group, evenly spaced on a logarithmic axis from the smallest above 0 to the
        largest; from 2 to a million. A time of 0 comes before them if there is one.

    Returns
    -------
    DataFrame
        Sorted by `by` and gap_s, nulls last. A group in which no time is above 0 has no row. The
        columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 30, 100, 400]})
    >>> traceana.interarrival_curve(jobs, points=3).select("gap_s", "fraction_longer").rows()
    [(10.0, 0.75), (54.77225575051662, 0.5), (300.0, 0.0)]
    """
    check_count("points", points, least=2, most=_MOST_POINTS)
    keys = as_keys(by, (*InterarrivalCurve.columns(), "submit_s"))
    gaps = _gaps(jobs, keys, submit).drop_nulls("gap_s")
    schema = {key: gaps.schema[key] for key in keys} | schema_of(InterarrivalCurve)
    curves = [pl.DataFrame(schema=schema)]
    # without keys there is one group of all
    for _, of_group in gaps.group_by(keys or pl.lit(0), maintain_order=True):
        gap_s = of_group["gap_s"].sort().to_numpy()
        above = gap_s[gap_s > 0]
        if not above.size:
            continue
        at = np.geomspace(above[0], above[-1], points)
        at[0], at[-1] = above[0], above[-1]  # to the last digit
        at = np.unique(at if above.size == gap_s.size else np.append(0.0, at))
        curve = {
            "gap_s": at,
            "fraction_longer": 1 - np.searchsorted(gap_s, at, side="right") / gap_s.size,
            "fraction_longer_poisson": np.exp(-at / gap_s.mean()),
        }
        group = of_group[:1].select(*keys, n=pl.lit(gap_s.size, pl.Int64))
        curves.append(group.join(pl.DataFrame(curve), how="cross"))
    return declared(pl.concat(curves), InterarrivalCurve, by=keys)


def _gaps(jobs: IntoFrame, keys: tuple[str, ...], submit: str) -> pl.DataFrame:
    """Return [*keys, submit_s, gap_s, .before], sorted: the time since the last submission."""
    times = collect(open_frame(jobs, keys=keys, measures={"submit": submit}))
    rows = times.rename({submit: "submit_s"}).sort(*keys, "submit_s", nulls_last=True)
    rows = rows.with_columns(gap_s=pl.col("submit_s").diff().over(pl.lit(0), *keys))
    return rows.with_columns(pl.col("gap_s").shift(1).over(pl.lit(0), *keys).alias(".before"))


_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S
_WEEK_S: Final = 7 * _DAY_S
# per -> a slot's length, its cycle's, the first slot's number, and how far into the cycle second 0
# of the Unix clock is (it was a Thursday, the fourth day)
_SLOTS: Final = {"hour": (_HOUR_S, _DAY_S, 0, 0), "weekday": (_DAY_S, _WEEK_S, 1, 3 * _DAY_S)}


@returns(ArrivalRhythm)
def arrival_rhythm(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    per: Literal["hour", "weekday"],
    utc_offset_h: float = 0,
    submit: str = "submit_s",
) -> pl.DataFrame:
    """Count submissions by hour of the day or weekday, with their rates.

    The rate of a slot is its jobs over the time for which the slot was observed, from the first
    to the last submission of the group. Counts alone would depend on how often a slot occurs.

    Seconds are read as seconds since 1970-01-01 00:00 UTC. If second 0 is the beginning of the
    data collection, hour 0 is the first hour of a day that begins when the collection did.

    Parameters
    ----------
    jobs, by, submit
        As in :func:`workload_summary`.
    per
        "hour" for hours 0 to 23, "weekday" for 1 (Monday) to 7, as in ISO 8601.
    utc_offset_h
        Hours to add to the clock for local time, -24 to 24.

    Returns
    -------
    DataFrame
        Every slot of every group with a submission, sorted by group and slot, nulls last. Jobs
        without a submission are not counted. The columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 60, 3600, 90000]})
    >>> rhythm = traceana.arrival_rhythm(jobs, per="hour").head(3)
    >>> rhythm.select("hour", "jobs", "fraction_of_all").rows()
    [(0, 2, 0.5), (1, 2, 0.5), (2, 0, 0.0)]
    """
    if not isinstance(per, str) or per not in _SLOTS:
        raise DataError(f"per must be one of {', '.join(_SLOTS)}; it is {per!r}")
    if not (is_number(utc_offset_h) and -24 <= utc_offset_h <= 24):
        raise DataError(f"utc_offset_h must lie from -24 to 24 hours; it is {utc_offset_h!r}")
    slot_s, cycle_s, first_slot, ahead_s = _SLOTS[per]
    keys = as_keys(by, (per, "fraction_of_all", "observed_h", "jobs_per_h", "in_group"))
    # whole weeks change neither hour nor weekday, and keep what is floored from being negative
    shift = (ahead_s + utc_offset_h * _HOUR_S) % _WEEK_S
    local = nw.col(submit) + shift
    slot = ((local % cycle_s) / slot_s).floor() + first_slot
    counts = reduce_frame(
        open_frame(jobs, keys=keys, measures={"submit": submit})
        .filter(~nw.col(submit).is_null())
        .with_columns(slot.alias(per)),
        (*keys, per),
        jobs=nw.len(),
        first=local.min(),
        last=local.max(),
    )
    if (counts["last"] > 2**53).any():
        raise DataError(f"{submit} is above 2^53 s; such seconds are not exact")
    counts = counts.with_columns(pl.col(per).cast(pl.Int64))
    spans = reduce_frame(
        counts,
        keys,
        first=pl.col("first").min(),
        last=pl.col("last").max(),
        in_group=pl.col("jobs").sum(),
    ).filter(pl.col("in_group") > 0)  # a frame without rows is still one group of no keys
    slots = pl.DataFrame({per: range(first_slot, first_slot + cycle_s // slot_s)})
    begins = (pl.col(per) - first_slot) * slot_s

    def seconds_before(time: str) -> pl.Expr:
        """Return how long the slot was, from the clock's beginning to a time."""
        past = pl.col(time)
        return (past / cycle_s).floor() * slot_s + (past % cycle_s - begins).clip(0, slot_s)

    observed_h = (seconds_before("last") - seconds_before("first")) / _HOUR_S
    table = (
        spans.join(slots, how="cross")
        .join(counts.select(*keys, per, "jobs"), on=[*keys, per], how="left", nulls_equal=True)
        .with_columns(pl.col("jobs").fill_null(0), observed_h=observed_h)
        .with_columns(
            fraction_of_all=pl.col("jobs") / pl.col("in_group"),
            jobs_per_h=pl.col("jobs") / pl.when(pl.col("observed_h") > 0).then("observed_h"),
        )
        .sort(*keys, per, nulls_last=True)
    )
    return declared(table, ArrivalRhythm, by=keys)


_CYCLES: Final = {"day": (_DAY_S, 24, 10), "week": (_WEEK_S, 7, 5)}
"""Length, slots, and the fewest whole cycles."""
_RESAMPLES: Final = 999


def seasonality(times_s: ArrayLike, /, *, rng: int = 1) -> pl.DataFrame:
    """Test whether submissions depend on the hour of the day, and on the day of the week.

    Each whole day (week) is shifted in a circle, which keeps its total and the dependence of
    consecutive hours but no common phase. The statistic is the variance of the mean square roots
    of the counts; fewer than 10 days or 5 weeks are not tested.
    """
    times = np.asarray(times_s, dtype=np.float64)
    times = times[np.isfinite(times)]
    generator = np.random.default_rng(rng)
    rows: list[dict[str, Any]] = []
    for name, (length_s, slots, fewest) in _CYCLES.items() if len(times) else ():
        first = np.ceil(times.min() / length_s)
        cycles = int(times.max() // length_s - first)
        if cycles < fewest or cycles * length_s > LONGEST_S:
            continue
        place = ((times - first * length_s) // (length_s / slots)).astype(np.int64)
        place = place[(place >= 0) & (place < cycles * slots)]
        # a day without jobs is the same however it is shifted
        busy, at = np.unique(place // slots, return_inverse=True)
        if not len(busy):
            continue
        counts = np.bincount(at * slots + place % slots, minlength=len(busy) * slots)
        mean = counts.reshape(-1, slots).sum(axis=0) / cycles
        amplitude = float(mean.std() / mean.mean())
        row = {"cycle": name, "n_cycles": cycles, "n": len(place), "amplitude": amplitude}
        roots = np.sqrt(counts).reshape(-1, slots)
        rows.append(row | {"pvalue": _pvalue(roots, busy, cycles, generator)})
    return declared(pl.DataFrame(rows, schema=schema_of(Seasonality)), Seasonality)


def _pvalue(roots: Floats, busy: Integers, cycles: int, generator: np.random.Generator) -> float:
    slots = roots.shape[1]
    variances, exceed = (roots.sum(axis=0) / cycles).var(), 0
    for _ in range(_RESAMPLES):
        shift = generator.integers(0, slots, (cycles, 1))[busy]
        moved = np.take_along_axis(roots, (np.arange(slots) + shift) % slots, axis=1)
        exceed += int((moved.sum(axis=0) / cycles).var() >= variances * (1 - 1e-12))
    return (exceed + 1) / (_RESAMPLES + 1)
