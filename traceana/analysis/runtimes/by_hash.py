"""Instances that Polars reads, reduced to their tasks as they stream by.

A task is told by 64-bit hashes of its keys, and its numbers stand at its place in arrays: up to a
third less time and memory than groups by text take, which other engines make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from traceana.analysis.frames import reading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    _Places: TypeAlias = NDArray[np.int64]
    _Floats: TypeAlias = NDArray[np.float64]

_ROWS_A_BLOCK: Final = 100_000
_ODD: Final = pl.lit(0x9E3779B97F4A7C15, pl.UInt64)  # so that two keys cannot change places
_START, _END = 2, 1  # an instance of kind 3 has both


class Reduced(NamedTuple):
    """What instances tell.

    Attributes
    ----------
    by_task
        A row a task, in the order of the tasks: n_instances, n_start, n_end, n_known, first_s,
        last_s, known_s, open_first_s, open_last_s, open_sum_s; null where there is none.
    in_no_task
        How many of them are in no task.
    extremes
        Lowest and highest start, lowest and highest end, and shortest time of all.
    """

    by_task: pl.DataFrame
    in_no_task: int
    extremes: list[float | None]


def hash_keys(keys: Sequence[str], seed: int) -> pl.Expr:
    """Return a hash of a task's keys together, null where one is."""
    job, task = (pl.col(key).hash(seed) for key in keys)
    known = pl.all_horizontal(pl.col(key).is_not_null() for key in keys)
    return pl.when(known).then(job + task * _ODD)


def reduce_by_hash(
    tasks: pl.DataFrame, instances: pl.LazyFrame, /, *, keys: Sequence[str]
) -> Reduced | None:
    """Reduce instances to `tasks`.

    None where names must do: keys of two types, tasks that share a hash, or an instance of which a
    second hash is not its task's. Times have not been looked at before.
    """
    if instances.select(keys).collect_schema() != tasks.select(keys).schema:
        return None
    hashes = tasks.select(hash_keys(keys, 1).alias("hash"), hash_keys(keys, 3).alias("there"))
    if hashes["hash"].drop_nulls().is_duplicated().any():
        return None
    rows = (
        instances.select(
            "start_s", "end_s", hash_keys(keys, 1).alias("hash"), hash_keys(keys, 3).alias("here")
        )
        .join(hashes.lazy().with_row_index("place"), on="hash", how="left")
        .select(
            pl.col("place").fill_null(tasks.height).cast(pl.Int64),
            pl.col("start_s", "end_s").fill_null(float("nan")),
            same=pl.col("here") == pl.col("there"),
        )
    )
    sums = _Sums(tasks.height)
    with reading():
        for block in rows.collect_batches(chunk_size=_ROWS_A_BLOCK, lazy=True, engine="streaming"):
            if not block["same"].all():
                return None
            sums.add(*(block[name].to_numpy() for name in ("place", "start_s", "end_s")))
    return Reduced(sums.by_task(), sums.in_no_task, sums.extremes())


class _Times:
    """First, last and summed time of each of `n` tasks."""

    def __init__(self, n: int) -> None:
        self.first, self.last = np.full(n, np.inf), np.full(n, -np.inf)
        self.total = np.zeros(n)

    def add(self, place: _Places, first: _Floats, last: _Floats, total: _Floats) -> None:
        np.minimum.at(self.first, place, first)
        np.maximum.at(self.last, place, last)
        np.add.at(self.total, place, total)


class _Sums:
    """Numbers of `n` tasks, and at the place after them of the instances that are in none."""

    def __init__(self, n: int) -> None:
        self._kinds = np.zeros(4 * (n + 1), np.int64)
        self._known = _Times(n + 1)
        self._open = _Times(n + 1)
        self._lowest, self._highest = np.full(3, np.nan), np.full(2, np.nan)

    def add(self, place: _Places, start: _Floats, end: _Floats) -> None:
        """Add some instances; a missing time is NaN."""
        kind = _START * ~np.isnan(start) + _END * ~np.isnan(end)
        np.add.at(self._kinds, 4 * place + kind, 1)
        known, is_open = np.flatnonzero(kind == _START + _END), np.flatnonzero(kind == _START)
        first, last, opened = start[known], end[known], start[is_open]
        with np.errstate(invalid="ignore"):  # of infinite times, which are refused after all
            seconds = last - first
            self._known.add(place[known], first, last, seconds)
            self._open.add(place[is_open], opened, opened, opened)
        for at, values in enumerate((start, end, seconds)):
            self._lowest[at] = np.fmin.reduce(values, initial=self._lowest[at])
        for at, values in enumerate((start, end)):
            self._highest[at] = np.fmax.reduce(values, initial=self._highest[at])

    @property
    def in_no_task(self) -> int:
        return int(self._kinds[-4:].sum())

    def extremes(self) -> list[float | None]:
        low_start, low_end, shortest = self._lowest
        ends = (low_start, self._highest[0], low_end, self._highest[1], shortest)
        return [None if np.isnan(end) else float(end) for end in ends]

    def by_task(self) -> pl.DataFrame:
        """Return the numbers of the tasks in their order."""
        kinds = self._kinds[:-4].reshape(-1, 4)
        counts = {
            "n_instances": kinds.sum(axis=1),
            "n_start": kinds[:, _START:].sum(axis=1),
            "n_end": kinds[:, _END] + kinds[:, _START + _END],
            "n_known": kinds[:, _START + _END],
        }
        known, is_open = self._known, self._open
        n_open = pl.col("n_start") - pl.col("n_known")
        times = {
            "first_s": known.first,
            "last_s": known.last,
            "known_s": known.total,
            "open_first_s": is_open.first,
            "open_last_s": is_open.last,
            "open_sum_s": is_open.total,
        }
        frame = pl.DataFrame({**counts, **{name: of[:-1] for name, of in times.items()}})
        return frame.with_columns(
            pl.when(pl.col("n_known") > 0).then(pl.col("first_s", "last_s", "known_s")).name.keep(),
            pl.when(n_open > 0).then(pl.col("^open_.*$")).name.keep(),
        )
