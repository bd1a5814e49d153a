"""Hash index from the keys of instances to the rows of their tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Hashes: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int64]
Tasks: TypeAlias = NDArray[np.int32]

_ODD: Final = pl.lit(0x9E3779B97F4A7C15, pl.UInt64)  # the hash of (a, b) is not that of (b, a)


def hash_keys(keys: Sequence[str], seed: int) -> pl.Expr:
    """Return a hash of a task's keys together, null where one is."""
    job, task = (pl.col(key).hash(seed) for key in keys)
    known = pl.all_horizontal(pl.col(key).is_not_null() for key in keys)
    return pl.when(known).then(job + task * _ODD)


class _Table(NamedTuple):
    """Tasks by the first bits of their mixed hashes; `level` mixes them differently per table."""

    rows: Tasks
    shift: np.uint64
    level: np.uint64

    def find(self, hashes: Hashes, checks: Hashes) -> Tasks:
        return self.rows.take(self.slots(hashes, checks))

    def slots(self, hashes: Hashes, checks: Hashes) -> Indices:
        return ((hashes + checks * self.level) >> self.shift).view(np.int64)


class HashIndex(NamedTuple):
    """Tasks in hash tables.

    Of tasks that share a slot the last one keeps it, the others move to the next table. A slot thus
    has one task, whose second hash (64 bits) must equal the instance's: for ten million keys
    without a task the chance of a false match is below 1e-10.
    """

    checks: Hashes
    """The second hash of each task, and 0 at the end for "no task"."""
    tables: list[_Table]
    """From the largest to the smallest."""
    n_found: int
    """Tasks without a null key, which can be found."""

    @classmethod
    def of(cls, tasks: pl.DataFrame, keys: Sequence[str]) -> Self | None:
        """Index `tasks` by their keys; None where two of them share both hashes."""
        columns = tasks.select(hash=hash_keys(keys, 1), check=hash_keys(keys, 3))
        left = np.flatnonzero(columns["hash"].is_not_null()).astype(np.int32)
        hashes, all_checks = (column.fill_null(0).to_numpy() for column in columns)
        n, n_found = tasks.height, left.size
        tables: list[_Table] = []
        while left.size or not tables:
            here, checks = hashes[left], all_checks[left]
            bits = left.size.bit_length() + 1
            shift, level = np.uint64(64 - bits), np.uint64(len(tables))
            table = _Table(np.full(1 << bits, n, np.int32), shift, level)
            slots = table.slots(here, checks)
            table.rows[slots] = left
            taken_by = table.rows[slots]
            lost = np.flatnonzero(taken_by != left)
            taken_by = taken_by[lost]
            same = (hashes[taken_by] == here[lost]) & (all_checks[taken_by] == checks[lost])
            if same.any():
                return None
            tables.append(table)
            left = left[lost]
        return cls(np.append(all_checks, np.uint64(0)), tables, n_found)

    def find(self, hashes: Hashes, checks: Hashes) -> Tasks:
        """Return the row of each key's task; the number of tasks if there is none."""
        starts = np.flatnonzero(np.append(True, checks[1:] != checks[:-1]))
        if 2 * starts.size > checks.size:
            return self._find(hashes, checks)
        rows = self._find(hashes[starts], checks[starts])  # once for instances in a row
        return np.repeat(rows, np.diff(starts, append=checks.size))

    def _find(self, hashes: Hashes, checks: Hashes) -> Tasks:
        first, *others = self.tables
        rows = first.find(hashes, checks)
        left = np.flatnonzero(self.checks.take(rows) != checks)
        for table in others:
            still = checks[left]
            found = table.find(hashes[left], still)
            rows[left] = found
            left = left[self.checks.take(found) != still]
        rows[left] = self.checks.size - 1
        return rows
