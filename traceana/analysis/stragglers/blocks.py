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

SPARSEST: Final = 10
"""Cells (worker, tick) to a row, above which a job that is too large for a part is refused."""

CELLS_AT_ONCE: Final = 200_000
"""Cells (worker, tick) of a block, or those of its only job: what is worked on stays in cache."""

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
    order; .job counts the jobs of the part, .worker the workers of a job. The blocks are laid out
    as they are asked for, once, so that jobs of few shared ticks are not held side by side.
    """

    jobs: pl.DataFrame
    workers: pl.DataFrame
    blocks: Iterator[Block]


def read_parts(
    frame: nw.LazyFrame[Any], keys: Sequence[str], at: str, over: str, value: str, /
) -> Iterator[Part]:
    """Cut a frame into parts of whole jobs, in the order of the keys, nulls last.

    Raises
    ------
    DataError
        If `at` is not a number, `at` or `over` is null beside a value, or a (*keys, at, over)
        has more than one value; or the workers of a large job hardly ever share a tick.
    """
    kind = frame.collect_schema()[at]
    if not kind.is_numeric() and collect(frame.select(nw.col(at).count())).item():
        raise DataError(f"column {at} holds {kind}; numbers are needed, such as seconds")
    for condition in _cuts(frame, keys):
        rows = collect(frame.filter(condition))
        yield _part(rows, keys, at, over, value)


def _cuts(frame: nw.LazyFrame[Any], keys: Sequence[str]) -> Iterator[nw.Expr]:
    """Conditions on the key of most values, each for about ROWS_AT_ONCE rows."""
    jobs = reduce_frame(frame, keys, **{"rows of a job": nw.len()})
    key = max(keys, key=lambda name: jobs[name].n_unique())
    sizes = jobs.group_by(key).agg(pl.col("rows of a job").sum()).sort(key, nulls_last=True)
    part = (sizes["rows of a job"].cum_sum() - 1) // ROWS_AT_ONCE
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
    there = x.is_not_null()
    workers = (
        rows.group_by(*keys, over)
        .agg(
            x.count().cast(pl.Int64).alias("n_samples"),
            x.null_count().cast(pl.Int64).alias("n_missing"),
            (there & ~placed).any().alias(".lost"),
            t.filter(there).sort().alias(".time"),
            x.filter(there).sort_by(t.filter(there)).alias(".value"),
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
    flat = workers.filter(pl.col("n_samples") > 0).select(".time", ".value")
    time_s, values = (flat[name].explode().to_numpy() for name in flat.columns)
    workers = workers.drop(".time", ".value")
    series = np.repeat(np.arange(workers.height), workers["n_samples"].to_numpy())
    twice = np.flatnonzero((time_s[1:] == time_s[:-1]) & (series[1:] == series[:-1]))
    if len(twice):
        whose = workers.row(int(series[twice[0]]), named=True) | {at: float(time_s[twice[0]])}
        raise _repeated(whose, len(twice), (*keys, at, over))
    job, worker = (workers[name].to_numpy()[series].astype(np.intp) for name in (".job", ".worker"))
    n_workers = np.bincount(workers[".job"].to_numpy(), minlength=jobs.height)
    names = jobs.select(keys)
    blocks = _blocks(job, worker, time_s, values, n_workers=n_workers, jobs=names, at=at)
    return Part(jobs, workers, blocks)


def _blocks(
    job: NDArray[np.intp],
    worker: NDArray[np.intp],
    time_s: Floats,
    value: Floats,
    *,
    n_workers: NDArray[np.intp],
    jobs: pl.DataFrame,
    at: str,
) -> Iterator[Block]:
    """Lay out rows that are in the order of job, worker and time."""
    first_row = np.searchsorted(job, np.arange(len(n_workers) + 1))
    there = np.flatnonzero(np.diff(first_row))
    rows_of = [slice(first_row[one], first_row[one + 1]) for one in there]
    ticks = [
        _ticks(time_s[rows], int(n_workers[one])) for one, rows in zip(there, rows_of, strict=True)
    ]
    n_ticks = np.array([len(times) for times, _ in ticks], dtype=np.intp)
    cells = n_ticks * n_workers[there]
    scattered = (cells > ROWS_AT_ONCE) & (cells > SPARSEST * np.diff(first_row)[there])
    if scattered.any():
        which = int(np.flatnonzero(scattered)[0])
        whose = jobs.row(int(there[which]), named=True)
        raise _scattered(whose, int(n_workers[there[which]]), int(n_ticks[which]), at)
    room = np.ceil(np.log(n_ticks) / np.log(_GROWTH)).astype(np.intp)
    shapes, shape_of = np.unique(np.stack([n_workers[there], room]), axis=1, return_inverse=True)
    for shape in range(shapes.shape[1]):
        alike = np.flatnonzero(shape_of.ravel() == shape)
        at_once = max(1, CELLS_AT_ONCE // int(cells[alike].max()))
        for begin in range(0, len(alike), at_once):
            members = alike[begin : begin + at_once]
            length = n_ticks[members].max()
            block = Block(
                there[members],
                np.full((len(members), length), np.nan),
                np.full((len(members), shapes[0, shape], length), np.nan),
            )
            for place, member in enumerate(members):
                times, tick = ticks[member]
                rows = rows_of[member]
                block.time_s[place, : len(times)] = times
                if tick is None:
                    block.value[place, :, : len(times)] = value[rows].reshape(-1, len(times))
                else:
                    block.value[place, worker[rows], tick] = value[rows]
            yield block


def _ticks(time_s: Floats, n_workers: int) -> tuple[Floats, NDArray[np.intp] | None]:
    """Distinct times of a job in order, and which each row has; None where no worker lacks one."""
    n_ticks, left = divmod(len(time_s), n_workers)
    if not left and (time_s.reshape(n_workers, n_ticks) == time_s[:n_ticks]).all():
        return time_s[:n_ticks], None
    times, tick = np.unique(time_s, return_inverse=True)
    return times, tick


def _repeated(first: dict[str, object], surplus: int, key: Sequence[str]) -> DataError:
    where = ", ".join(f"{name} {first[name]!r}" for name in key)
    return DataError(
        f"a worker would count twice: {surplus} row(s) too many with the same ({', '.join(key)}), "
        f"one of them at {where}; keep one row of each"
    )


def _scattered(job: dict[str, object], n_workers: int, n_ticks: int, at: str) -> DataError:
    where = ", ".join(f"{name} {key!r}" for name, key in job.items())
    return DataError(
        f"the {n_workers} workers of {where} hardly ever share one of their {n_ticks} values of "
        f"{at}: round {at} to the step of the samples, such as ({at} // 10) * 10"
    )
