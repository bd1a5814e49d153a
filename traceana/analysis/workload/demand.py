"""How many GPUs jobs ask for at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import (
    LARGEST,
    Names,
    as_names,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.errors import DataError
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_MOST_BINS: Final = 10_000_000
_CHANGES: Final = ("gpus_change", "gpu_s", "asking_change", "jobs_change", "job_s")
_COLUMNS: Final = (
    *("bin", "bin_start_s", "gpus_mean", "jobs_mean", "jobs_left_out", "note", "left_s"),
)


def gpu_demand(jobs: IntoFrame, /, *, bin_s: float = 3600, by: Names = ()) -> pl.DataFrame:
    """GPUs asked for by the jobs that run, averaged over each bin of time.

    gpus_mean = the sum over jobs of gpus times the seconds that the job runs within the bin,
    over bin_s; summed over bins and multiplied by bin_s / 3600 it is GPU-hours again. Jobs that
    ran before the trace began, or whose end it lost, are missing from it: it is low at both ends.

    Parameters
    ----------
    jobs
        One row a job: [*by, start_s, end_s, gpus]; eager or lazy, of any listed engine.
    bin_s
        Length of a bin in s; bins are [k, k + 1) * bin_s on the trace's clock.
    by
        Columns to group by; ``()`` for one group. Null in `by` is a group of its own.

    Returns
    -------
    DataFrame
        [*by, bin_start_s, gpus_mean, jobs_mean, jobs_left_out, note], sorted by `by` and bin,
        nulls last; every bin from the group's first start to its last end has a row, empty or
        not. jobs_left_out counts the group's jobs of which start, end or GPUs is not known; where
        that is all of them, one row has nulls and note says so.

    Raises
    ------
    DataError
        If `bin_s` is not positive or so short that there are more than ten million bins; a column
        is missing or not numeric; a value is negative or infinite; or a job ends before it starts.
    """
    return _demand(jobs, "start_s", "end_s", nw.col("end_s"), bin_s=bin_s, by=by)


def gpu_demand_if_started_at_submission(
    jobs: IntoFrame, /, *, bin_s: float = 3600, by: Names = ()
) -> pl.DataFrame:
    """GPUs that would have been asked for at a time, had every job started when it was submitted.

    For traces that tell no starts (ITP): it is what users wanted, not what a cluster ran, and can
    exceed the GPUs there are. As :func:`gpu_demand` otherwise, with the job's end taken at
    submit_s + runtime_s.

    Parameters
    ----------
    jobs
        One row a job: [*by, submit_s, runtime_s, gpus]; eager or lazy, of any listed engine.
    bin_s, by
        As in :func:`gpu_demand`.

    Returns
    -------
    DataFrame
        As :func:`gpu_demand`.

    Raises
    ------
    DataError
        As :func:`gpu_demand`.
    """
    end = nw.col("submit_s") + nw.col("runtime_s")
    return _demand(jobs, "submit_s", "runtime_s", end, bin_s=bin_s, by=by)


def _demand(
    jobs: IntoFrame, begin: str, second: str, end: nw.Expr, /, *, bin_s: float, by: Names
) -> pl.DataFrame:
    if not (is_number(bin_s) and 0 < bin_s <= LARGEST):
        raise DataError(f"bin_s must be a positive number of seconds; it is {bin_s!r}")
    keys = as_names(by)
    refuse_clash(keys, _COLUMNS)
    frame = open_frame(jobs, keys=keys, measures=(begin, second, "gpus"))
    start, gpus = nw.col(begin), nw.col("gpus")
    known = ~((end - start) * gpus).is_null()
    groups = reduce_frame(
        frame,
        keys,
        jobs_left_out=nw.len() - nw.when(known).then(start).count(),
        shortest=(end - start).min(),
        first=nw.when(known).then(start).min(),
        last=nw.when(known).then(end).max(),
    )
    if (groups["shortest"] < 0).any():
        raise DataError(f"a job ends before it starts: {second} is below {begin}")
    grid = _grid(groups, bin_s)
    running = frame.filter(known)
    edges = pl.concat([_edge(running, keys, start, bin_s, 1), _edge(running, keys, end, bin_s, -1)])
    changes = edges.group_by(*keys, "bin").agg(pl.all().sum())

    def before(change: str) -> pl.Expr:
        return pl.col(change).cum_sum().shift(1, fill_value=0).over(pl.lit(0), *keys)

    def mean(change: str, seconds: str, jobs: str) -> pl.Expr:
        """Return what was there as the bin began, and what came and went within it."""
        # what is added up and taken away again leaves a rounding error, at times below 0; how many
        # jobs it was of is a whole number, and tells when nothing is left
        there = pl.when(before(jobs) > 0).then(before(change)).otherwise(0)
        return (there + pl.col(seconds) / bin_s).clip(0)

    left_out = pl.col("bin").is_null()
    why = f"no job has {begin}, {second} and gpus"
    return (
        grid.join(changes, on=[*keys, "bin"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.col(_CHANGES).fill_null(0))
        .select(
            *keys,
            bin_start_s=pl.col("bin") * float(bin_s),
            gpus_mean=pl.when(~left_out).then(mean("gpus_change", "gpu_s", "asking_change")),
            jobs_mean=pl.when(~left_out).then(mean("jobs_change", "job_s", "jobs_change")),
            jobs_left_out="jobs_left_out",
            note=pl.when(left_out).then(pl.lit(why)),
        )
    )


def _grid(groups: pl.DataFrame, bin_s: float) -> pl.DataFrame:
    """Return [*keys, jobs_left_out, bin] with every bin of every group, null where it has none."""
    ends = groups.with_columns((pl.col("first", "last") / bin_s).floor())
    bins = float((ends["last"] - ends["first"] + 1).sum())
    if bins > _MOST_BINS or (ends["last"] > 2**53).any():
        raise DataError(
            f"bin_s {bin_s:g} is too short: there would be {bins:.3g} bins, and at most "
            f"{_MOST_BINS:,} are given, on a clock of at most 2^53 of them"
        )
    first, last = (pl.col(name).cast(pl.Int64) for name in ("first", "last"))
    return (
        ends.with_columns(bin=pl.int_ranges(first, last + 1))
        .drop("shortest", "first", "last")
        .explode("bin")
    )


def _edge(
    running: nw.LazyFrame[Any], keys: tuple[str, ...], time: nw.Expr, bin_s: float, sign: int
) -> pl.DataFrame:
    """Return, by bin, the jobs and GPUs that come or go, and their seconds to the bin's end."""
    bin_of = (time / bin_s).floor()
    left_s = ((bin_of + 1) * bin_s - time) * sign
    return reduce_frame(
        running.with_columns(bin_of.cast(nw.Int64).alias("bin"), left_s.alias("left_s")),
        (*keys, "bin"),
        gpus_change=nw.col("gpus").sum() * sign,
        gpu_s=(nw.col("gpus") * nw.col("left_s")).sum(),
        asking_change=nw.when(nw.col("gpus") > 0).then(nw.col("gpus")).count() * sign,
        jobs_change=nw.len() * sign,
        job_s=nw.col("left_s").sum(),
    )
