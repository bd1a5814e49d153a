"""Failures of tasks of job arrays by their position in the array."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from scipy.special import ndtr, stdtr, xlogy

from traceana.cohorts.ends import END_CLASS, OUTCOMES, with_end_class, without_numbers
from traceana.store import Trace

_FEWEST_ARRAYS: Final = 3
_ALPHA: Final = 0.001
_NEEDED: Final = ("array_id", "status", "job_name", "user")


def failing_positions(trace: Trace, /) -> list[dict[str, Any]]:
    """Find names whose array tasks fail more often from, or up to, a position in the array.

    Of each user and name with three arrays or more. Within an array, failed tasks are ranked by
    position among the ended ones (Wilcoxon); the sum has the variance of a random order of each
    array and, with t, that between arrays. The larger p, two-sided and times the number of names,
    is below 0.001. The position divides the tasks of all arrays with the largest likelihood.
    """
    if not trace.has("jobs", _NEEDED):
        return []
    status = pl.col("status").cast(pl.String)
    rows = with_end_class(trace.scan("jobs")).filter(status.is_in(["completed", "failed"]))
    failed = status.is_in([*OUTCOMES["failure"]]) & (pl.col(END_CLASS) == "job").fill_null(
        value=True
    )
    table = rows.select(
        "array_id",
        "user",
        name=without_numbers(pl.col("job_name").cast(pl.String))[0],
        at=pl.col("job_id").str.extract(r"_(\d+)(?:@|$)").cast(pl.Float64),
        failed=failed.fill_null(value=False),
    ).drop_nulls()
    names = table.collect().partition_by("user", "name", maintain_order=True)
    tested = [(part, p) for part in names if (p := _pvalue(part)) is not None]
    found = [_divided(part) for part, p in tested if p * len(tested) < _ALPHA]
    return sorted(found, key=lambda row: (-row["failures"], row["name"]))


def _pvalue(part: pl.DataFrame) -> float | None:
    rank, failed = pl.col("at").rank(), pl.col("failed")
    n, n_failed = pl.len(), failed.sum()
    arrays = part.group_by("array_id").agg(
        excess=rank.filter(failed).sum() - n_failed * (n + 1) / 2,
        variance=n_failed * (n - n_failed) * (n + 1) / 12,
    )
    mixed = arrays.filter(pl.col("variance") > 0)
    excess, variance = mixed.select("excess", "variance").to_numpy().T
    if len(excess) < _FEWEST_ARRAYS:
        return None
    between = np.sqrt(len(excess)) * excess.std(ddof=1)
    of_arrays = 2 * stdtr(len(excess) - 1, -abs(excess.sum()) / between) if between else 0.0
    return float(max(of_arrays, 2 * ndtr(-abs(excess.sum()) / np.sqrt(variance.sum()))))


def _divided(part: pl.DataFrame) -> dict[str, Any]:
    """Return the position from which tasks fail at another rate, and both rates."""
    at, failed = part.sort("at").select("at", "failed").to_numpy().astype(float).T
    cuts = np.unique(at)[1:]
    below = np.searchsorted(at, cuts)
    n = np.stack([below, len(at) - below])
    n_failed = np.stack([np.cumsum(failed)[below - 1], failed.sum() - np.cumsum(failed)[below - 1]])
    fits = (xlogy(n_failed, n_failed / n) + xlogy(n - n_failed, 1 - n_failed / n)).sum(axis=0)
    best = int(fits.argmax())
    (before, after), (few, more) = n[:, best], n_failed[:, best]
    return {
        **part.row(0, named=True),
        "arrays": part["array_id"].n_unique(),
        "from": int(cuts[best]),
        "sides": ((int(few), int(before)), (int(more), int(after))),
        "failures": int(failed.sum()),
    }
