"""Results over two crossed units, such as users and days, from results over one column each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl

from traceana.stats.intervals import two_way_interval, two_way_pvalue
from traceana.tables.result import Result

T = TypeVar("T")


def combine_units(results: Sequence[T], /) -> T:
    """Combine a function's results over either unit, and over the combinations of both.

    Intervals, p-values and standard errors change; estimates are those of all three.
    """
    first = results[0]
    if isinstance(first, tuple):
        return cast("T", tuple(combine_units(parts) for parts in zip(*results, strict=True)))
    if isinstance(first, Result):
        # predictions are of held-out units: each unit has its own
        names = {name for name in first.tables if getattr(first, name) is not None} - {
            "calibration"
        }
        frames = {name: _combined([getattr(result, name) for result in results]) for name in names}
        return cast("T", replace(cast("Any", first), **frames))
    return cast("T", _combined(cast("Sequence[pl.DataFrame]", results)))


def _combined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    first, second, both = frames
    if not first.height == second.height == both.height:
        return first
    columns: dict[str, Any] = {}

    def values(name: str) -> np.ndarray:
        return np.stack([frame[name].cast(pl.Float64).to_numpy() for frame in frames])

    for low in (name for name in first.columns if "ci_low" in name):
        high = low.replace("ci_low", "ci_high")
        ends = np.stack([values(low), values(high)], axis=1)
        columns |= zip((low, high), two_way_interval(ends), strict=True)
    columns |= {name: two_way_pvalue(values(name)) for name in first.columns if "pvalue" in name}
    if "std_error" in first.columns:
        squares = values("std_error") ** 2
        total = np.maximum(squares[0] + squares[1] - squares[2], squares[:2].max(axis=0))
        columns["std_error"] = np.sqrt(total)
    combined = first.with_columns(
        pl.Series(name, column).fill_nan(None) for name, column in columns.items()
    )
    if "note" in first.columns:
        combined = combined.with_columns(note=first["note"].fill_null(second["note"]))
    return combined
