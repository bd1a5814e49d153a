"""Rows that come again: set apart where a table has a key, counted where it has none."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HASHES_AT_ONCE: Final = 1 << 22


class KeyFilter:
    """Sets apart rows whose key was there before, in any earlier block.

    Keys are remembered as two 64-bit hashes each: two different keys are taken for one with
    probability below n^2 / 2^129 for n rows (1e-24 for ten million).
    """

    def __init__(self, key: list[str]) -> None:
        self._key = key
        self._seen = pl.DataFrame(schema={"a": pl.UInt64, "b": pl.UInt64})

    def split(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows whose key is new, and the others; keys within `rows` are distinct."""
        key = pl.struct(self._key)
        hashes = rows.select(a=key.hash(1), b=key.hash(2))
        again = hashes.with_row_index("i").join(self._seen, on=["a", "b"], how="semi")["i"]
        repeated = np.zeros(rows.height, bool)
        repeated[again.to_numpy()] = True
        self._seen = self._seen.vstack(hashes.filter(~repeated))
        return rows.filter(~repeated), rows.filter(repeated)

    def count(self) -> int:
        """Return 0: no repeated row is kept."""
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class RowCounter:
    """Counts rows that repeat an earlier one in every column, in bounded memory.

    64-bit hashes of all rows go to a temporary file; they are then compared in parts that fit
    into memory. For ten million rows the chance of one wrong count is below 3e-6.
    """

    def __init__(self, columns: list[str]) -> None:
        self._columns = columns
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  closed by __exit__
        self._rows = 0

    def split(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Take rows in; all of them are kept."""
        hashes = rows.select(pl.struct(self._columns).hash(1)).to_series().to_numpy()
        self._file.write(hashes.tobytes())
        self._rows += rows.height
        return rows, rows.clear()

    def count(self) -> int:
        """Return how many rows repeat an earlier one."""
        if not self._rows:
            return 0
        self._file.flush()
        hashes = np.memmap(self._file, np.uint64, mode="r")
        parts = -(-self._rows // _HASHES_AT_ONCE)
        return self._rows - sum(np.unique(_part(hashes, p, parts)).size for p in range(parts))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _part(hashes: NDArray[np.uint64], part: int, parts: int) -> NDArray[np.uint64]:
    """Return the hashes that fall into one of `parts` parts, looking at a stretch at a time."""
    stretches = (hashes[i : i + _HASHES_AT_ONCE] for i in range(0, hashes.size, _HASHES_AT_ONCE))
    return np.concatenate([stretch[stretch % np.uint64(parts) == part] for stretch in stretches])
