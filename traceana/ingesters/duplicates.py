"""Repeated rows: rejected if the table has a key, else counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class KeyFilter:
    """Sets apart rows whose key was there before, in this block or an earlier one.

    Keys are remembered as a hash of 64 bits and one of 32: two different keys are taken for one
    with probability below n^2 / 2^97 for n rows (1e-15 for ten million).
    """

    def __init__(self, key: Sequence[str | pl.Expr]) -> None:
        self._key = key
        self._seen: list[tuple[NDArray[np.uint64], NDArray[np.uint32]]] = []

    def split(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows whose key is new, and the others."""
        key = pl.struct(*self._key)
        hashes = rows.select(a=key.hash(1), b=(key.hash(2) % (1 << 32)).cast(pl.UInt32))
        new = hashes.select(pl.struct("a", "b").is_first_distinct()).to_series().to_numpy().copy()
        first, second = (hashes[name].to_numpy() for name in ("a", "b"))
        order = np.argsort(first)
        first, second = first[order], second[order]
        for seen_first, seen_second in self._seen:
            at = np.minimum(np.searchsorted(seen_first, first), seen_first.size - 1)
            again = (seen_first[at] == first) & (seen_second[at] == second)
            new[order[again]] = False
        self._remember(first[new[order]], second[new[order]])
        if new.all():
            return rows, rows.clear()
        return rows.filter(new), rows.filter(~new)

    def _remember(self, first: NDArray[np.uint64], second: NDArray[np.uint32]) -> None:
        """Add sorted hashes; what is alike in size is merged, so that few parts are looked up."""
        while self._seen and self._seen[-1][0].size <= first.size:
            earlier_first, earlier_second = self._seen.pop()
            first = np.concatenate([earlier_first, first])
            order = np.argsort(first, kind="stable")  # merges two sorted parts
            first, second = first[order], np.concatenate([earlier_second, second])[order]
        if first.size:
            self._seen.append((first, second))

    def count(self) -> int:
        """Return 0: no repeated row is kept."""
        return 0


class RowCounter:
    """Counts rows that repeat an earlier one in every column.

    64-bit hashes of all rows are kept: for ten million rows, 80 MB, and the chance of one wrong
    count is below 3e-6.
    """

    def __init__(self, columns: list[str]) -> None:
        self._columns = columns
        self._hashes: list[pl.Series] = []

    def split(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Take rows in; all of them are kept."""
        # a hash of the whole row costs twice as much as the sum of its cells' hashes
        cells = [pl.col(name).hash(seed) for seed, name in enumerate(self._columns)]
        self._hashes.append(rows.select(pl.sum_horizontal(cells)).to_series())
        return rows, rows.clear()

    def count(self) -> int:
        """Return how many rows repeat an earlier one."""
        if not self._hashes:
            return 0
        # for hashes nearly all distinct, counting unique ones takes much longer than sorting
        hashes = np.sort(pl.concat(self._hashes, rechunk=True).to_numpy())
        return int(np.count_nonzero(hashes[1:] == hashes[:-1]))
