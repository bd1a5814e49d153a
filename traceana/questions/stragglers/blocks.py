"""Samples of jobs as arrays (job, worker, time), in bounded parts, and the reports behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.stats.arrays import Booleans, Floats
from traceana.store.frames import collect, reduce_frame

Counts: TypeAlias = NDArray[np.intp]

ROWS_AT_ONCE: Final = 2_000_000
"""Rows in memory at a time, or those of the largest job if it has more."""
SPARSEST: Final = 10
"""Cells (worker, time) per row above which a job that exceeds a part is refused."""
CELLS_AT_ONCE: Final = 200_000
"""Cells (worker, time) of a block, so that it fits into the processor's cache."""


def over(above: Floats, below: Floats, /) -> Floats:
    """Return a ratio; NaN where the second is not above 0."""
    below = np.broadcast_to(below, above.shape)
    ratio: Floats = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
    return ratio


def repeated_rows(first: dict[str, object], surplus: int, key: Sequence[str], /) -> DataError:
    """Return the error of rows that share a key, of which the first is named."""
    where = ", ".join(f"{name} {first[name]!r}" for name in key)
    return DataError(
        f"{surplus} duplicate row(s) with the same ({', '.join(key)}), one of them at {where}; "
        "keep one row of each"
    )


@dataclass(frozen=True)
class Block:
    """Jobs of one size: place in the part, times (job, time) and values (job, worker, time)."""

    job: NDArray[np.intp]
    time_s: Floats
    value: Floats


@dataclass(frozen=True)
class Part:
    """Some whole jobs; rows without a value are counted and excluded."""

    jobs: pl.DataFrame  # [*by, .job, n_missing]
    workers: pl.DataFrame  # [*by, worker, .job, .worker, n_samples, n_missing]
    blocks: Iterator[Block]


def read_parts(
    frame: nw.LazyFrame[Any], keys: Sequence[str], time: str, worker: str, value: str, /
) -> Iterator[Part]:
    """Cut a frame into parts of whole jobs, in the order of the keys, nulls last."""
    for condition in cut_jobs(frame, keys):
        yield _part(collect(frame.filter(condition)), keys, time, worker, value)


def cut_jobs(frame: nw.LazyFrame[Any], keys: Sequence[str]) -> Iterator[nw.Expr]:
    """Yield conditions on the key with most values, each for about ROWS_AT_ONCE rows."""
    jobs = reduce_frame(frame, keys, **{"rows of a job": nw.len()})
    key = max(keys, key=lambda name: jobs[name].n_unique())
    sizes = jobs.group_by(key).agg(pl.col("rows of a job").sum()).sort(key, nulls_last=True)
    part = (sizes["rows of a job"].cum_sum() - 1) // ROWS_AT_ONCE
    if sizes.is_empty():
        yield nw.col(key).is_null()  # one part without rows
    for _, some in sizes.group_by(part, maintain_order=True):
        named = some[key].drop_nulls()
        if len(named):
            yield (nw.col(key) >= named[0]) & (nw.col(key) <= named[-1])
        if len(named) < some.height:
            yield nw.col(key).is_null()


def _part(rows: pl.DataFrame, keys: Sequence[str], time: str, worker: str, value: str) -> Part:
    x, t, who = pl.col(value), pl.col(time).cast(pl.Float64), pl.col(worker)
    placed = t.is_finite().fill_null(value=False) & who.is_not_null()
    present = x.is_not_null()
    workers = (
        rows.group_by(*keys, worker)
        .agg(
            x.count().cast(pl.Int64).alias("n_samples"),
            x.null_count().cast(pl.Int64).alias("n_missing"),
            (present & ~placed).any().alias(".lost"),
            t.filter(present).sort().alias(".time"),
            x.filter(present).sort_by(t.filter(present)).alias(".value"),
        )
        .sort(*keys, worker, nulls_last=True)
    )
    if workers[".lost"].any():
        raise DataError(
            f"{time} or {worker} is null or infinite in a row with a {value}; drop such rows"
        )
    jobs = workers.group_by(*keys, maintain_order=True).agg(pl.col("n_missing").sum())
    jobs = jobs.with_row_index(".job").select(*keys, ".job", "n_missing")
    workers = (
        workers.drop(".lost")
        .filter(who.is_not_null())
        .join(jobs.drop("n_missing"), on=keys, nulls_equal=True, maintain_order="left")
        .with_columns(pl.int_range(pl.len()).over(".job").alias(".worker"))
    )
    flat = workers.filter(pl.col("n_samples") > 0).select(".time", ".value")
    time_s, values = (flat[name].explode().to_numpy() for name in flat.columns)
    workers = workers.drop(".time", ".value")
    series = np.repeat(np.arange(workers.height), workers["n_samples"].to_numpy())
    twice = np.flatnonzero((time_s[1:] == time_s[:-1]) & (series[1:] == series[:-1]))
    if len(twice):
        whose = workers.row(int(series[twice[0]]), named=True) | {time: float(time_s[twice[0]])}
        raise repeated_rows(whose, len(twice), (*keys, time, worker))
    job, who_of = (workers[name].to_numpy()[series].astype(np.intp) for name in (".job", ".worker"))
    n_workers = np.bincount(workers[".job"].to_numpy(), minlength=jobs.height)
    names = jobs.select(keys)
    blocks = _blocks(job, who_of, time_s, values, n_workers=n_workers, jobs=names, time=time)
    return Part(jobs, workers, blocks)


def _blocks(
    job: NDArray[np.intp],
    worker: NDArray[np.intp],
    time_s: Floats,
    value: Floats,
    *,
    n_workers: NDArray[np.intp],
    jobs: pl.DataFrame,
    time: str,
) -> Iterator[Block]:
    """Lay out rows that are sorted by job, worker and time."""
    first_row = np.searchsorted(job, np.arange(len(n_workers) + 1))
    boundaries = np.flatnonzero(np.diff(first_row))
    rows_of = [slice(first_row[boundary], first_row[boundary + 1]) for boundary in boundaries]
    ticks = [
        _ticks(time_s[rows], int(n_workers[boundary]))
        for boundary, rows in zip(boundaries, rows_of, strict=True)
    ]
    n_ticks = np.array([len(times) for times, _ in ticks], dtype=np.intp)
    cells = n_ticks * n_workers[boundaries]
    scattered = (cells > ROWS_AT_ONCE) & (cells > SPARSEST * np.diff(first_row)[boundaries])
    if scattered.any():
        which = int(np.flatnonzero(scattered)[0])
        job_of = jobs.row(int(boundaries[which]), named=True)
        where = ", ".join(f"{name} {key!r}" for name, key in job_of.items())
        raise DataError(
            f"the {n_workers[boundaries[which]]} workers of {where} rarely share one of their "
            f"{n_ticks[which]} values of {time}; round {time} to the sampling interval, such as "
            f"({time} // 10) * 10"
        )
    shapes = np.stack([n_workers[boundaries], n_ticks])
    for shape in np.unique(shapes, axis=1).T:
        alike = np.flatnonzero((shapes == shape[:, None]).all(axis=0))
        at_once = max(1, CELLS_AT_ONCE // int(shape.prod()))
        for begin in range(0, len(alike), at_once):
            members = alike[begin : begin + at_once]
            times_s = np.stack([ticks[member][0] for member in members])
            block = Block(boundaries[members], times_s, np.full((len(members), *shape), np.nan))
            for value_of, member in zip(block.value, members, strict=True):
                rows, tick = rows_of[member], ticks[member][1]
                if tick is None:
                    value_of[:] = value[rows].reshape(shape)
                else:
                    value_of[worker[rows], tick] = value[rows]
            yield block


def _ticks(time_s: Floats, n_workers: int) -> tuple[Floats, NDArray[np.intp] | None]:
    """Return the distinct times of a job and the index of each row; None if none is missing."""
    n_ticks, left = divmod(len(time_s), n_workers)
    if not left and (time_s.reshape(n_workers, n_ticks) == time_s[:n_ticks]).all():
        return time_s[:n_ticks], None
    times, tick = np.unique(time_s, return_inverse=True)
    return times, tick


USUAL_HOLD: Final = 0.97  # quantile of a worker's run lengths that is its usual hold
FEWEST_REPORTS: Final = 10  # minimum number of reports, which limits the usual hold


@dataclass(frozen=True)
class Reports:
    """Reports of each series in order: their number n, and whether the series repeats values."""

    n: Counts
    holds: Booleans
    begins: Counts
    first: Counts
    last: Counts
    n_ticks: int
    whose: Counts
    place: Counts

    def of(self, series: int, /) -> tuple[Counts, Counts]:
        """First and last sample of one series' reports."""
        end = int(np.searchsorted(self.whose, series, side="right"))
        mine = slice(end - int(self.n[series]), end)
        return self.first[mine] % self.n_ticks, self.last[mine] % self.n_ticks

    def at_begin(self, present: Floats, /) -> Floats:
        """Return the number of each report's first sample: (series, report); else NaN."""
        table = np.full((len(self.n), int(self.n.max(initial=0))), np.nan)
        table[self.whose, self.place] = present[self.begins]
        return table


def read_reports(value: Floats, present: Booleans, level: Floats, /) -> Reports:
    """Find the reports of each series: runs of one value, cut at the usual hold."""
    where = np.flatnonzero(present)
    x = value.ravel()[where]
    samples = np.count_nonzero(present, axis=1)
    series = np.repeat(np.arange(len(value)), samples)
    new = np.ones(len(x), dtype=bool)
    new[1:] = (x[1:] != x[:-1]) | (series[1:] != series[:-1])
    # each sample of a worker is a report if more than half of them are its median
    constant = 2 * np.count_nonzero((value == level[:, None]) & present, axis=1) > samples
    begins = np.flatnonzero(new | np.repeat(constant, samples))
    lengths = np.diff(begins, append=len(x))
    hold = np.minimum(_usual_hold(lengths, series[begins], len(value)), samples // FEWEST_REPORTS)
    hold = np.maximum(hold, 1)
    # cut a run at multiples of the hold; no piece is shorter
    of_run = hold[series[begins]]
    pieces = np.maximum(lengths // of_run, 1)
    piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begins = np.repeat(begins, pieces) + piece * np.repeat(of_run, pieces)
    whose = series[begins]
    n = np.bincount(whose, minlength=len(value))
    return Reports(
        n=n,
        holds=hold > 1,
        begins=begins,
        first=where[begins],
        last=where[np.append(begins, len(x))[1:] - 1],
        n_ticks=value.shape[1],
        whose=whose,
        place=np.arange(len(whose)) - (np.cumsum(n) - n)[whose],
    )


def coming_report(value: Floats, present: Booleans, reports: Reports, /) -> Floats:
    """Return at each sample the next report if values are repeated, else the value itself."""
    if not reports.holds.any() or not len(reports.begins):
        return value
    x = value[present]
    of_report = x[reports.begins]
    following = of_report.copy()
    same = reports.whose[1:] == reports.whose[:-1]
    following[:-1] = np.where(
        same & reports.holds[reports.whose[1:]], of_report[1:], of_report[:-1]
    )
    coming = value.copy()
    coming[present] = np.repeat(following, np.diff(reports.begins, append=len(x)))
    return coming


def _usual_hold(lengths: Counts, whose: Counts, n_series: int) -> Counts:
    """Return a high quantile of each series' run lengths; 1 if there is none."""
    n = np.bincount(whose, minlength=n_series)
    rank = np.cumsum(n) - n + np.ceil(USUAL_HOLD * n).astype(np.intp) - 1
    room = int(lengths.max(initial=0)) + 1
    ordered = np.sort(whose * room + lengths) % room  # within each series, for whose is sorted
    hold = np.ones(n_series, dtype=np.intp)
    hold[n > 0] = ordered[rank[n > 0]]
    return hold
