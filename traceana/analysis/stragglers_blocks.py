"""Samples of jobs as arrays (job, worker, tick), a bounded part of the frame at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.analysis.frames import collect, reduce_frame
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ROWS_AT_ONCE: Final = 2_000_000
"""Rows held at a time, or those of the largest job where it has more."""

_GROWTH = 1.1  # jobs whose numbers of ticks differ by less share an array


@dataclass(frozen=True)
class Block:
    """Jobs of about one size; NaN where a job has no such tick, or a worker no value there.

    job: which job of the part each is; time_s: (job, tick); value: (job, worker, tick).
    """

    job: NDArray[np.intp]
    time_s: Floats
    value: Floats


@dataclass(frozen=True)
class Part:
    """Some of the jobs, whole, with the rows that have no value counted and left out.

    jobs: [*by, .job, n_missing]; workers: [*by, over, .job, .worker, n_samples, n_missing], in
    order; .job counts the jobs of the part, .worker the workers of a job.
    """

    jobs: pl.DataFrame
    workers: pl.DataFrame
    blocks: list[Block]


def read_parts(
    frame: nw.LazyFrame[Any], keys: Sequence[str], at: str, over: str, value: str, /
) -> Iterator[Part]:
    """Cut a frame into parts of whole jobs, in the order of the keys, nulls last.

    Raises
    ------
    DataError
        If `at` is not a number, `at` or `over` is null beside a value, or a (*keys, at, over)
        has more than one value.
    """
    kind = frame.collect_schema()[at]
    if not kind.is_numeric() and collect(frame.select(nw.col(at).count())).item():
        raise DataError(f"column {at} holds {kind}; numbers are needed, such as seconds")
    for condition in _cuts(frame, keys):
        rows = collect(frame.filter(condition))
        yield _part(rows, keys, at, over, value)


def _cuts(frame: nw.LazyFrame[Any], keys: Sequence[str]) -> Iterator[nw.Expr]:
    """Conditions on the key of most values, each for about ROWS_AT_ONCE rows."""
    jobs = reduce_frame(frame, keys, **{".rows": nw.len()})
    key = max(keys, key=lambda name: jobs[name].n_unique())
    sizes = jobs.group_by(key).agg(pl.col(".rows").sum()).sort(key, nulls_last=True)
    part = (sizes[".rows"].cum_sum() - 1) // ROWS_AT_ONCE
    if sizes.is_empty():
        yield nw.col(key).is_null()  # one part of no rows
    for _, some in sizes.group_by(part, maintain_order=True):
        named = some[key].drop_nulls()
        if len(named):
            yield (nw.col(key) >= named[0]) & (nw.col(key) <= named[-1])
        if len(named) < some.height:
            yield nw.col(key).is_null()


def _part(rows: pl.DataFrame, keys: Sequence[str], at: str, over: str, value: str) -> Part:
    x, t, who = pl.col(value), pl.col(at).cast(pl.Float64), pl.col(over)
    placed = t.is_finite().fill_null(value=False) & who.is_not_null()
    workers = (
        rows.group_by(*keys, over)
        .agg(
            x.count().cast(pl.Int64).alias("n_samples"),
            x.null_count().cast(pl.Int64).alias("n_missing"),
            (x.is_not_null() & ~placed).any().alias(".lost"),
        )
        .sort(*keys, over, nulls_last=True)
    )
    if workers[".lost"].any():
        raise DataError(
            f"{at} or {over} is null or infinite beside a {value}: whose or when it is, is unknown"
        )
    jobs = workers.group_by(*keys, maintain_order=True).agg(pl.col("n_missing").sum())
    jobs = jobs.with_row_index(".job").select(*keys, ".job", "n_missing")
    workers = (
        workers.drop(".lost")
        .filter(who.is_not_null())
        .join(jobs.drop("n_missing"), on=keys, nulls_equal=True, maintain_order="left")
        .with_columns(pl.int_range(pl.len()).over(".job").alias(".worker"))
    )
    samples = (
        rows.filter(x.is_not_null())
        .join(workers.drop("n_samples", "n_missing"), on=[*keys, over], nulls_equal=True)
        .select(".job", t.alias(".time"), ".worker", x.alias(".value"))
        .sort(".job", ".time", ".worker")
    )
    job, time_s, worker, values = (samples[name].to_numpy() for name in samples.columns)
    new_tick = np.ones(len(job), dtype=bool)
    new_tick[1:] = (job[1:] != job[:-1]) | (time_s[1:] != time_s[:-1])
    twice = np.flatnonzero(~new_tick[1:] & (worker[1:] == worker[:-1]))
    if len(twice):
        whose = {".job": job[twice[0]], ".worker": worker[twice[0]]}
        raise _repeated(workers, whose, float(time_s[twice[0]]), len(twice), (*keys, at, over))
    tick = np.cumsum(new_tick) - 1
    first_row = np.searchsorted(job, np.arange(jobs.height + 1))
    sizes = workers.group_by(".job").len()
    n_workers = np.zeros(jobs.height, dtype=np.intp)
    n_workers[sizes[".job"].to_numpy()] = sizes["len"].to_numpy()
    blocks = list(
        _blocks(first_row, n_workers, tick=tick, time_s=time_s, worker=worker, value=values)
    )
    return Part(jobs, workers, blocks)


def _blocks(
    first_row: NDArray[np.intp],
    n_workers: NDArray[np.intp],
    *,
    tick: NDArray[np.intp],
    time_s: Floats,
    worker: NDArray[np.intp],
    value: Floats,
) -> Iterator[Block]:
    there = np.flatnonzero(np.diff(first_row))
    n_ticks = tick[first_row[there + 1] - 1] - tick[first_row[there]] + 1
    room = np.ceil(_GROWTH ** np.ceil(np.log(n_ticks) / np.log(_GROWTH))).astype(int)
    shapes, shape_of = np.unique(np.stack([n_workers[there], room]), axis=1, return_inverse=True)
    for shape in range(shapes.shape[1]):
        members = np.flatnonzero(shape_of.ravel() == shape)
        length = n_ticks[members].max()
        block = Block(
            there[members],
            np.full((len(members), length), np.nan),
            np.full((len(members), shapes[0, shape], length), np.nan),
        )
        for place, job in enumerate(block.job):
            rows = slice(first_row[job], first_row[job + 1])
            local = tick[rows] - tick[first_row[job]]
            block.time_s[place, local] = time_s[rows]
            block.value[place, worker[rows], local] = value[rows]
        yield block


def _repeated(
    workers: pl.DataFrame, whose: dict[str, int], time_s: float, surplus: int, key: Sequence[str]
) -> DataError:
    *by, at, over = key
    first = workers.filter(**whose).row(0, named=True) | {at: time_s}
    where = ", ".join(f"{name} {first[name]!r}" for name in (*by, at, over))
    return DataError(
        f"a worker would count twice: {surplus} row(s) too many with the same ({', '.join(key)}), "
        f"one of them at {where}; keep one row of each"
    )
