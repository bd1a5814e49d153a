"""Jobs that fail again and again, crashes at start, and failing positions of job arrays."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from scipy.special import ndtr, stdtr, xlogy

from traceana.cohorts.ends import END_CLASS, OUTCOMES, with_end_class, without_numbers
from traceana.store import Trace
from traceana.store.frames import collect

AGAIN_S: Final = 3600.0
"""Longest time from a failure to the submission of the next try, of a short series."""
FIRST_S: Final = 60.0
"""Runtime below which a failure is a crash at start."""
_CHANCE: Final = 0.01
_FEWEST: Final = 20
_MOSTLY: Final = 0.5
_MANY: Final = 0.05
_TIMES: Final = 2
"""Crashes of a named group: so many, this fraction of its failures and that of all failures, and
so many times the fraction of its completed jobs that end as early."""


class Repeats(NamedTuple):
    """Series of failures by user and job name, crashes at start by user or name, all failures."""

    series: pl.DataFrame
    crashes: pl.DataFrame
    names: pl.DataFrame
    """Names of jobs by failures, the most first: [job_name, failed, ended, hours, reason, with]."""
    failures: int
    ended: int
    tries: int
    unit: str
    """GPU, or CPU where no job has GPUs."""
    hours: float


def fewest_tries(jobs: int, /, *, soon: bool = True) -> int:
    """Return the length from which a series of failures is rare by chance.

    In a log of n jobs of which half fail, and half are submitted soon after the end of the one
    before, n / 2 * 4^(1 - k) series have k failures: at most 0.01. Of a series that may go on later
    (not `soon`) it is n / 2 * 2^(1 - k).
    """
    return 1 + math.ceil(math.log(max(jobs, 1) / 2 / _CHANCE, 4 if soon else 2))


def find_repeats(trace: Trace, /) -> Repeats:
    """Find jobs that failed again and again, and groups whose failures are crashes at start.

    Time limits and faults of machines are no failures of a job here: it goes on after them.
    """
    stated = {*trace.manifest.tables["jobs"].columns}
    users = [nw.col(name).cast(nw.String) for name in ("user", "account") if name in stated]
    runtime, status = nw.col("runtime_s"), nw.col("status").cast(nw.String)
    reason = nw.col("end_reason").cast(nw.String) if "end_reason" in stated else status
    limit = reason.str.contains("(?i)^(time|deadline)").fill_null(value=False)
    by_machine = nw.col(END_CLASS).is_in(["machine"]).fill_null(value=False)
    name = nw.col("job_name").cast(nw.String) if "job_name" in stated else nw.lit(None, nw.String)
    jobs = nw.from_native(with_end_class(trace.rows("jobs").to_native()))
    rows = collect(
        jobs.filter(status.is_in([*OUTCOMES["success"], *OUTCOMES["failure"]])).select(
            *("submit_s", "end_s", "runtime_s"),
            user=nw.coalesce(*users) if users else nw.lit(None, nw.String),
            job_name=name,
            reason=reason,
            failed=(failed := status.is_in([*OUTCOMES["failure"]])),
            own=failed & ~limit & ~by_machine,
            **{
                unit: (nw.col(column) if column in stated else 0) * runtime / 3600
                for unit, column in (("GPU", "gpus"), ("CPU", "cpus"))
            },
        )
    )
    unit = "GPU" if rows["GPU"].sum() else "CPU"
    rows = rows.rename({unit: "hours"})
    rows = rows.with_columns(job_name=without_numbers(pl.col("job_name"))[0])
    failures, tries = int(rows["failed"].sum()), fewest_tries(rows.height)
    crashes = [_crashes(rows, name, failures) for name in ("user", "job_name")]
    hours = float(rows["hours"].sum() or 0)
    series, ended = _series(rows, tries), rows.height
    return Repeats(series, pl.concat(crashes), _names(rows), failures, ended, tries, unit, hours)


def _names(rows: pl.DataFrame) -> pl.DataFrame:
    reason = pl.col("reason").filter("failed").drop_nulls().mode().sort().first()
    return (
        rows.drop_nulls("job_name")
        .group_by("job_name")
        .agg(
            pl.col("hours").filter("failed").sum(),
            reason=reason,
            of_reason=(pl.col("reason").filter("failed") == reason).sum(),
            failed=pl.col("failed").sum(),
            ended=pl.len(),
        )
        .sort("failed", "job_name", descending=[True, False])
    )


def _series(rows: pl.DataFrame, tries: int) -> pl.DataFrame:
    """Return jobs by user and name whose failures followed each other, the most costly first.

    Either soon, or without a job that completed in between: then a series is longer.
    """
    keys = ["user", "job_name"]
    rows = rows.drop_nulls(["job_name", "submit_s"]).sort("submit_s", maintain_order=True)
    of_late = fewest_tries(rows.height, soon=False)
    # a window over a million users takes minutes, and most have too few failures for a series
    rows = rows.filter(pl.col("own").sum().over(keys) >= min(tries, of_late))
    gap = pl.col("submit_s") - pl.col("end_s").shift().over(keys)
    later = pl.col("own").shift().over(keys) & (gap >= 0)
    places = {"soon": later & (gap <= AGAIN_S), "later": later & pl.col("own")}
    rows = rows.with_columns(
        (~goes_on.fill_null(value=False)).cum_sum().over(keys).alias(name)
        for name, goes_on in places.items()
    )
    length = {name: pl.len().over(*keys, name) for name in places}
    return (
        rows.filter("own")
        .filter((length["soon"] >= tries) | (length["later"] >= of_late))
        .group_by(keys)
        .agg(
            pl.col("hours").sum(),
            pl.col("runtime_s").median(),
            failures=pl.len(),
            first_s=pl.col("submit_s").min(),
            last_s=pl.col("end_s").max(),
        )
        .sort("hours", "failures", "first_s", descending=[True, True, False])
    )


def _crashes(rows: pl.DataFrame, by: str, failures: int) -> pl.DataFrame:
    """Return the groups most of whose failures, and many of all, are crashes at start."""
    early, crashed = pl.col("runtime_s") < FIRST_S, pl.col("own") & (pl.col("runtime_s") < FIRST_S)
    completed = early.filter(~pl.col("failed"))
    return (
        rows.drop_nulls([by, "runtime_s"])
        .group_by(pl.lit(by).alias("by"), pl.col(by).alias("group"))
        .agg(
            pl.col("hours").filter(crashed).sum(),
            crashes=crashed.sum(),
            own=pl.col("own").sum(),
            ended=pl.len(),
            usual=completed.mean().fill_null(0.0),
            job_name_most=pl.col("job_name").filter(crashed).drop_nulls().mode().sort().first(),
        )
        .filter(
            pl.col("crashes") >= max(_FEWEST, _MANY * failures),
            pl.col("crashes") >= _MOSTLY * pl.col("own"),
            pl.col("crashes") > _TIMES * pl.col("usual") * pl.col("ended"),
        )
        .sort("crashes", "group", descending=[True, False])
    )


_FEWEST_ARRAYS: Final = 3
_ALPHA: Final = 0.001
_NEEDED: Final = ("array_id", "status", "job_name", "user")


def failing_positions(trace: Trace, /) -> list[dict[str, Any]]:
    """Find names whose array tasks fail more often from, or up to, a position in the array.

    Of each user and name with three arrays or more. Within an array, failed tasks are ranked by
    position among the ended ones (Wilcoxon); the sum has the variance of a random order of each
    array and, with t, that between arrays. The larger p, two-sided and times the number of names,
    is below 0.001. The position divides the tasks of all arrays with the largest likelihood.
    """
    if not trace.has("jobs", _NEEDED):
        return []
    status = pl.col("status").cast(pl.String)
    rows = with_end_class(trace.scan("jobs")).filter(status.is_in(["completed", "failed"]))
    failed = status.is_in([*OUTCOMES["failure"]]) & (pl.col(END_CLASS) == "job").fill_null(
        value=True
    )
    table = rows.select(
        "array_id",
        "user",
        name=without_numbers(pl.col("job_name").cast(pl.String))[0],
        at=pl.col("job_id").str.extract(r"_(\d+)(?:@|$)").cast(pl.Float64),
        failed=failed.fill_null(value=False),
    ).drop_nulls()
    names = table.collect().partition_by("user", "name", maintain_order=True)
    tested = [(part, p) for part in names if (p := _pvalue(part)) is not None]
    found = [_divided(part) for part, p in tested if p * len(tested) < _ALPHA]
    return sorted(found, key=lambda row: (-row["failures"], row["name"]))


def _pvalue(part: pl.DataFrame) -> float | None:
    rank, failed = pl.col("at").rank(), pl.col("failed")
    n, n_failed = pl.len(), failed.sum()
    arrays = part.group_by("array_id").agg(
        excess=rank.filter(failed).sum() - n_failed * (n + 1) / 2,
        variance=n_failed * (n - n_failed) * (n + 1) / 12,
    )
    mixed = arrays.filter(pl.col("variance") > 0)
    excess, variance = mixed.select("excess", "variance").to_numpy().T
    if len(excess) < _FEWEST_ARRAYS:
        return None
    between = np.sqrt(len(excess)) * excess.std(ddof=1)
    of_arrays = 2 * stdtr(len(excess) - 1, -abs(excess.sum()) / between) if between else 0.0
    return float(max(of_arrays, 2 * ndtr(-abs(excess.sum()) / np.sqrt(variance.sum()))))


def _divided(part: pl.DataFrame) -> dict[str, Any]:
    """Return the position from which tasks fail at another rate, and both rates."""
    at, failed = part.sort("at").select("at", "failed").to_numpy().astype(float).T
    cuts = np.unique(at)[1:]
    below = np.searchsorted(at, cuts)
    n = np.stack([below, len(at) - below])
    n_failed = np.stack([np.cumsum(failed)[below - 1], failed.sum() - np.cumsum(failed)[below - 1]])
    fits = (xlogy(n_failed, n_failed / n) + xlogy(n - n_failed, 1 - n_failed / n)).sum(axis=0)
    best = int(fits.argmax())
    (before, after), (few, more) = n[:, best], n_failed[:, best]
    return {
        **part.row(0, named=True),
        "arrays": part["array_id"].n_unique(),
        "from": int(cuts[best]),
        "sides": ((int(few), int(before)), (int(more), int(after))),
        "failures": int(failed.sum()),
    }
