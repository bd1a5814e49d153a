"""A sweep of dynamic batching in fewer rows: means over the seeds."""

from __future__ import annotations

from typing import Final

import polars as pl

from traceana.stats.intervals import mean_interval

_KEYS: Final = ("level", "n_workers", "mean_over_min", "overhead_s", "noise_cv", "controller")


def summarize_batching(sweep: pl.DataFrame, /, *, confidence: float = 0.95) -> pl.DataFrame:
    """Mean over the seeds of a sweep, with Student's t interval of the speed-up.

    Parameters
    ----------
    sweep
        What :func:`sweep_batching` returns.
    confidence
        Of the intervals.

    Returns
    -------
    DataFrame
        One row a (level, overhead_s, noise_cv, controller), in the sweep's order: [level,
        n_workers, mean_over_min, overhead_s, noise_cv, controller, seeds, speedup,
        speedup_ci_low, speedup_ci_high, step_s, idle_share, adjustments, note]. The interval is
        that of the mean over seeds; its bounds are null for fewer than two.
    """
    grouped = sweep.group_by(_KEYS, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("seeds"),
        pl.col("speedup").mean(),
        pl.col("speedup").std(ddof=1).fill_null(float("nan")).alias("std"),
        pl.col("step_s", "idle_share", "adjustments").mean(),
        pl.col("note").drop_nulls().first(),
    )
    low, high = mean_interval(
        *(grouped[name].cast(pl.Float64).to_numpy() for name in ("speedup", "std", "seeds")),
        confidence=confidence,
    )
    return grouped.with_columns(
        speedup_ci_low=pl.Series(low, nan_to_null=True),
        speedup_ci_high=pl.Series(high, nan_to_null=True),
    ).select(
        *_KEYS, "seeds", "speedup", "speedup_ci_low", "speedup_ci_high",
        "step_s", "idle_share", "adjustments", "note",
    )  # fmt: skip
