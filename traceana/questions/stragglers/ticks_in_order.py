"""Reduce rows sorted by job and time, with the same workers in the same order at each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.stats.dispersion import row_moments
from traceana.store.frames import LARGEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

NUMBERS: Final = {
    *(pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
    *(pl.Float32, pl.Float64),
}
"""Types that numpy compares as Polars does."""

NAMES: Final = {*NUMBERS, pl.String}
"""Types of job and worker columns."""

_ROW: Final = ".row"

PROBE: Final = 10_000
"""Rows in which the first iteration must end."""


def moments_in_order(
    rows: pl.LazyFrame, by: Sequence[str], time: str, worker: str, value: str, /, *, ddof: int
) -> pl.DataFrame | None:
    """Return [*by, time, n_workers, mean, std], sorted; None if the rows are not in order.

    The order: all rows of a job together, its times ascending, at each time the same workers in
    the same order, each with a value. Jobs may be in any order. Each row is compared with one
    other at a fixed distance, without hashing. Memory grows with the times, not with the rows.
    """
    schema = rows.collect_schema()
    names = {schema[name] for name in (*by, worker)}
    if schema[time] not in NUMBERS or not schema[value].is_numeric() or names - NAMES:
        return None
    width = _first_tick(rows.head(PROBE).collect(), (*by, time), worker)
    n_rows = rows.select(pl.len()).collect(engine="streaming").item()
    if width is None or n_rows % width:
        return None
    jobs = _find_jobs(rows, by, worker, width, n_rows)
    if jobs is None:
        return None
    numbers = rows.select(time, pl.col(value).cast(pl.Float64))
    ticks = _read_ticks(numbers, width, n_rows // width, ddof)
    return None if ticks is None else _join(jobs, ticks, width, time)


def _first_tick(head: pl.DataFrame, keys: Sequence[str], worker: str) -> int | None:
    """Return how many workers the first time has; None if a worker is missing or repeated."""
    if head.is_empty():
        return None
    same = pl.all_horizontal(pl.col(key).eq_missing(pl.col(key).first()) for key in keys)
    width = head.select(same.arg_min()).item()
    workers = head[worker].head(width)
    plain = width >= 2 and workers.n_unique() == width and not has_missing(workers)
    return width if plain else None


def has_missing(labels: pl.Series, /) -> bool:
    """Whether a column has a null or a NaN."""
    return labels.has_nulls() or (labels.dtype.is_float() and bool(labels.is_nan().any()))


def _find_jobs(
    rows: pl.LazyFrame, by: Sequence[str], worker: str, width: int, n_rows: int
) -> pl.DataFrame | None:
    """Return [.row, *by], the first row of each job; None if the rows are not in order."""
    queries = [rows.select((pl.col(worker) == pl.col(worker).shift(width)).sum())]
    if by:
        begins = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in by)
        queries.append(rows.select(by).with_row_index(_ROW).filter(begins))
    repeated, *found = pl.collect_all(queries, engine="streaming")
    if repeated.item() != n_rows - width:
        return None
    if not found:
        return pl.DataFrame({_ROW: [0]})
    jobs = found[0]
    # a first job of nulls equals the null that shift puts before it
    plain = jobs[_ROW].first() == 0 and (jobs[_ROW] % width == 0).all()
    if not plain or not jobs.select(by).is_unique().all():
        return None
    nan = any(jobs[name].is_nan().any() for name in by if jobs[name].dtype.is_float())
    return None if nan else jobs


def _read_ticks(rows: pl.LazyFrame, width: int, n_ticks: int, ddof: int) -> pl.DataFrame | None:
    """Return [time, n_workers, mean, std]; None if a time or a value is invalid."""
    time = rows.collect_schema().names()[0]
    mean, std = np.empty(n_ticks), np.empty(n_ticks)
    starts = []
    done = 0
    for times, x in _whole_ticks(rows.collect_batches(lazy=True, engine="streaming"), width):
        n = len(x) // width
        same = times[1:] == times[:-1]
        # NaN, also for null, equals no time
        if np.count_nonzero(same) != len(x) - n or same[width - 1 :: width].any():
            return None
        if not (x.min() >= 0 and x.max() <= LARGEST):
            return None
        starts.append(times[::width].copy())
        part = slice(done, done + n)
        _, mean[part], std[part] = row_moments(x.reshape(-1, width), ddof=ddof)
        done += n
    return pl.DataFrame({time: np.concatenate(starts)}).with_columns(
        n_workers=pl.lit(width, pl.Int64), mean=mean, std=std
    )


def _whole_ticks(batches: Iterable[pl.DataFrame], width: int) -> Iterator[list[NDArray[Any]]]:
    """Yield the columns of batches cut between times; only a time in two batches is copied."""
    rest: list[NDArray[Any]] = []
    for batch in batches:
        columns = [column.to_numpy() for column in batch.get_columns()]
        used = 0
        if rest:
            used = width - len(rest[0])
            rest = [
                np.concatenate((old, new[:used])) for old, new in zip(rest, columns, strict=True)
            ]
            if len(rest[0]) < width:
                continue
            yield rest
        end = batch.height - (batch.height - used) % width
        if end > used:
            yield [column[used:end] for column in columns]
        rest = [column[end:] for column in columns] if end < batch.height else []


def _join(jobs: pl.DataFrame, ticks: pl.DataFrame, width: int, time: str) -> pl.DataFrame | None:
    """Add the job columns and sort the jobs; None if the times of a job do not ascend."""
    starts: NDArray[np.int64] = jobs[_ROW].to_numpy().astype(np.int64) // width
    times = ticks[time].to_numpy()
    ascends = times[1:] > times[:-1]
    ascends[starts[1:] - 1] = True
    if not ascends.all():
        return None
    jobs = jobs.drop(_ROW)
    if not jobs.width:
        return ticks
    lengths = np.diff(starts, append=ticks.height)
    order = jobs.select(pl.arg_sort_by(jobs.columns, nulls_last=True)).to_series().to_numpy()
    if (order[1:] < order[:-1]).any():
        jobs, starts, lengths = jobs[order], starts[order], lengths[order]
        ticks = pl.concat(ticks.slice(*piece) for piece in zip(starts, lengths, strict=True))
    names = jobs[np.repeat(np.arange(jobs.height, dtype=np.uint32), lengths)]
    return pl.concat([names, ticks], how="horizontal")
