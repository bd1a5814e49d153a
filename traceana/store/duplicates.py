"""Rows that come again: set apart where a table has a key, counted where it has none."""

from __future__ import annotations

import tempfile
from typing import Final

import numpy as np
import polars as pl

_HASHES_AT_ONCE: Final = 1 << 22


class KeyFilter:
    """Remembers the keys of all rows kept so far, as two 64-bit hashes each.

    Two different keys are taken for one with probability below n^2 / 2^129 for n rows
    (1e-24 for ten million).
    """

    def __init__(self, key: list[str]) -> None:
        self._key = key
        self._seen = pl.DataFrame(schema={"a": pl.UInt64, "b": pl.UInt64})

    def repeats(self, rows: pl.DataFrame) -> pl.Series:
        """Say of each row whether its key was there before; its keys must be distinct."""
        key = pl.struct(self._key)
        hashes = rows.select(a=key.hash(1), b=key.hash(2))
        again = hashes.with_row_index("i").join(self._seen, on=["a", "b"], how="semi")["i"]
        mask = np.zeros(rows.height, bool)
        mask[again.to_numpy()] = True
        self._seen = self._seen.vstack(hashes.filter(~pl.Series(mask)))
        return pl.Series(mask)


class RowCounter:
    """Counts rows that repeat an earlier one in every column, in bounded memory.

    64-bit hashes of all rows go to a temporary file; they are then compared in parts that fit
    into memory. For ten million rows the chance of one wrong count is below 3e-6.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  closed by `count`
        self._rows = 0

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows in."""
        hashes = rows.select(pl.struct(pl.all()).hash(1)).to_series().to_numpy()
        self._file.write(hashes.tobytes())
        self._rows += rows.height

    def count(self) -> int:
        """Return how many rows repeat an earlier one."""
        if not self._rows:
            self._file.close()
            return 0
        self._file.flush()
        hashes = np.memmap(self._file, np.uint64, mode="r")
        parts = -(-self._rows // _HASHES_AT_ONCE)
        distinct = sum(
            np.unique(hashes if parts == 1 else _part(hashes, part, parts)).size
            for part in range(parts)
        )
        del hashes
        self._file.close()
        return self._rows - int(distinct)


def _part(
    hashes: np.ndarray[tuple[int, ...], np.dtype[np.uint64]], part: int, parts: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """Return the hashes that fall into one of `parts` parts, looking at a stretch at a time."""
    stretches = range(0, hashes.size, _HASHES_AT_ONCE)
    picked = [hashes[start : start + _HASHES_AT_ONCE] for start in stretches]
    return np.concatenate([stretch[stretch % np.uint64(parts) == part] for stretch in picked])
