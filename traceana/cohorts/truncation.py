"""Rows missing under right truncation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceana.stats.survival import product_limit

if TYPE_CHECKING:
    import polars as pl


def estimate_unlisted(rows: pl.DataFrame, start: str, last: float, /) -> float | None:
    """Estimate the rows missing under right truncation (Lynden-Bell, MNRAS 155, 1971).

    A runtime is listed only if it is at most the time left in the window. With time reversed this
    is left truncation, and a listed row has weight 1 / F(time left).
    """
    kept = rows.drop_nulls([start, "runtime_s"])
    runtime, left = kept["runtime_s"].to_numpy(), last - kept[start].to_numpy()
    if not len(kept) or (runtime > left + 1).any():
        return None
    left = np.maximum(left, runtime)
    times = np.unique(runtime)
    ends = np.bincount(np.searchsorted(times, runtime), minlength=len(times))
    # in reversed time a row enters after the last runtime beyond the time left
    beyond = np.searchsorted(times, left, side="right")
    late = np.bincount(beyond, minlength=len(times) + 1)[: len(times)]
    below = np.append(product_limit(ends[::-1], 0 * ends, late[::-1])[::-1], 1.0)
    # F below each runtime; a row has weight 1 / F(time left)
    share = below[beyond]
    return float((1 / share[share > 0] - 1).sum())
