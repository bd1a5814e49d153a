"""Test of daily and weekly seasonality of submissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.questions.workload.tables import Seasonality
from traceana.tables.declare import declared, schema_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_DAY_S: Final = 86_400.0
_CYCLES: Final = {"day": (_DAY_S, 24, 10), "week": (7 * _DAY_S, 7, 5)}
"""Length, slots, and the fewest whole cycles."""
_RESAMPLES: Final = 999


def seasonality(times_s: ArrayLike, /, *, rng: int = 1) -> pl.DataFrame:
    """Test whether submissions depend on the hour of the day, and on the day of the week.

    Each whole day is shifted in a circle by a random number of hours (each week by days), which
    keeps its total and the dependence of consecutive hours but no common phase. The statistic is
    the variance of the mean square roots of the counts by hour. The phase of the clock does not
    matter. Cycles of which fewer than 10 days or 5 weeks are whole are not tested. Returns
    :class:`~traceana.questions.workload.tables.Seasonality`; p is at least 1 / 1,000.
    """
    times = np.asarray(times_s, dtype=np.float64)
    times = times[np.isfinite(times)]
    generator = np.random.default_rng(rng)
    rows: list[dict[str, Any]] = []
    for name, (length_s, slots, fewest) in _CYCLES.items():
        first = np.ceil(times.min() / length_s) if len(times) else 0.0
        cycles = int(times.max() // length_s - first) if len(times) else 0
        if cycles < fewest:
            continue
        place = ((times - first * length_s) // (length_s / slots)).astype(np.int64)
        place = place[(place >= 0) & (place < cycles * slots)]
        counts = np.bincount(place, minlength=cycles * slots).reshape(cycles, slots)
        if not counts.any():
            continue
        rows.append(
            {
                "cycle": name,
                "n_cycles": cycles,
                "n": int(counts.sum()),
                "amplitude": float(counts.mean(axis=0).std() / counts.mean()),
                "pvalue": _pvalue(np.sqrt(counts), generator),
            }
        )
    return declared(pl.DataFrame(rows, schema=schema_of(Seasonality)), Seasonality)


def _pvalue(roots: NDArray[np.float64], generator: np.random.Generator) -> float:
    cycles, slots = roots.shape
    variances, exceed = roots.mean(axis=0).var(), 0
    for _ in range(_RESAMPLES):
        shift = generator.integers(0, slots, (cycles, 1))
        moved = np.take_along_axis(roots, (np.arange(slots) + shift) % slots, axis=1)
        exceed += int(moved.mean(axis=0).var() >= variances * (1 - 1e-12))
    return (exceed + 1) / (_RESAMPLES + 1)
