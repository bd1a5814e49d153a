"""Repeated rows: rejected if the table has a key, else counted."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_HASHES_AT_ONCE: Final = 1 << 23
_STEP: Final = 1 << 16


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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class RowCounter:
    """Counts rows that repeat an earlier one in every column, in bounded memory.

    64-bit hashes of all rows go to a temporary file if they are many; they are then compared in
    parts that fit into memory. For ten million rows the chance of one wrong count is below 3e-6.
    """

    def __init__(self, columns: list[str]) -> None:
        self._columns = columns
        self._file = tempfile.SpooledTemporaryFile(8 * _HASHES_AT_ONCE)  # noqa: SIM115  __exit__
        self._rows = 0

    def split(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Take rows in; all of them are kept."""
        # a hash of the whole row costs twice as much as the sum of its cells' hashes
        cells = [pl.col(name).hash(seed) for seed, name in enumerate(self._columns)]
        hashes = rows.select(pl.sum_horizontal(cells)).to_series().to_numpy()
        self._file.write(hashes.data)
        self._rows += rows.height
        return rows, rows.clear()

    def count(self) -> int:
        """Return how many rows repeat an earlier one."""
        if not self._rows:
            return 0
        bits = ((self._rows - 1) // _HASHES_AT_ONCE).bit_length()
        return sum(_count_repeated(self._part(part, bits)) for part in range(1 << bits))

    def _part(self, part: int, bits: int) -> NDArray[np.uint64]:
        """Return the hashes whose first bits are `part`, looking at a step at a time."""
        self._file.seek(0)
        found = []
        while step := self._file.read(8 * _STEP):
            hashes = np.frombuffer(step, np.uint64)
            found.append(hashes[hashes >> np.uint64(64 - bits) == part] if bits else hashes)
        return np.concatenate(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _count_repeated(hashes: NDArray[np.uint64]) -> int:
    hashes.sort()  # for hashes nearly all distinct, np.unique takes a hundred times as long
    return int(np.count_nonzero(hashes[1:] == hashes[:-1]))
