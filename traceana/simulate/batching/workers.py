"""The workers of a synchronous job: a fixed overhead and a throughput each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.frames import read_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_COLUMNS = {"worker_id": pl.String, "overhead_s": pl.Float64, "samples_per_s": pl.Float64}
_LARGEST = 1e12
"""Upper limit, and inverse lower limit, so that products do not overflow."""


@dataclass(frozen=True)
class Workers:
    """K workers; b samples take worker k overhead_s[k] + b / samples_per_s[k] seconds.

    Attributes
    ----------
    overhead_s
        (K,): time of an iteration that does not depend on its samples.
    samples_per_s
        (K,) if throughput is constant, (steps, K) if it changes from step to step.
    worker_id
        K names.
    """

    overhead_s: NDArray[np.float64]
    samples_per_s: NDArray[np.float64]
    worker_id: tuple[str, ...]

    def __post_init__(self) -> None:
        workers = self.samples_per_s.shape[-1:]
        if self.samples_per_s.ndim not in {1, 2} or not self.samples_per_s.size:
            raise DataError("throughput must have shape (workers,) or (steps, workers)")
        if workers != self.overhead_s.shape or workers != (len(self.worker_id),):
            raise DataError(
                f"there are {workers[0]} workers in the throughput, {self.overhead_s.size} in the "
                f"overhead and {len(self.worker_id)} names; the numbers must agree"
            )
        x, a = self.samples_per_s, self.overhead_s
        if not ((x >= 1 / _LARGEST) & (x <= _LARGEST)).all():
            raise DataError(
                f"every throughput must be a number of samples/s above 0, from {1 / _LARGEST:g} to "
                f"{_LARGEST:g}; found {_first_outside(x, 1 / _LARGEST):g}"
            )
        if not ((a >= 0) & (a <= _LARGEST)).all():
            raise DataError(
                f"every overhead must be a number of seconds, 0 or more and {_LARGEST:g} at most; "
                f"found {_first_outside(a, 0):g}"
            )

    @property
    def is_constant(self) -> bool:
        """Whether throughput does not change."""
        return self.samples_per_s.ndim == 1


def _first_outside(numbers: NDArray[np.float64], least: float) -> float:
    found: float = numbers[~((numbers >= least) & (numbers <= _LARGEST))].flat[0]
    return found


def read_workers(
    workers: Workers | pl.DataFrame | pl.LazyFrame | Sequence[tuple[float, float]], /
) -> Workers:
    """Return workers from (overhead_s, samples_per_s) pairs, or from a frame with these columns."""
    if isinstance(workers, Workers):
        return workers
    if isinstance(workers, pl.DataFrame | pl.LazyFrame):
        table = read_columns(workers, _COLUMNS, "workers").with_columns(
            pl.selectors.float().fill_null(float("nan"))
        )
        return Workers(
            table["overhead_s"].to_numpy(),
            table["samples_per_s"].to_numpy(),
            tuple(table["worker_id"].to_list()),
        )
    try:
        pairs = np.array([tuple(pair) for pair in workers], dtype=float).reshape(-1, 2)
    except (TypeError, ValueError):
        raise DataError("workers must be pairs of (overhead_s, samples_per_s)") from None
    return Workers(pairs[:, 0], pairs[:, 1], tuple(str(k) for k in range(len(pairs))))
