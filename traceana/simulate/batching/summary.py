"""Summary of a sweep of dynamic batching: means over the seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.simulate.batching.tables import BatchingSummary, BatchingSweep
from traceana.simulate.frames import over_seeds, read_result, with_intervals
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_KEYS: Final = ("level", "n_workers", "mean_over_min", "overhead_s", "noise_cv", "controller")
_READ: Final = (*_KEYS, "speedup", "step_s", "idle_fraction", "adjustments", "note")


@returns(BatchingSummary)
def summarize_batching(sweep: IntoFrame, /, *, confidence: float = 0.95) -> pl.DataFrame:
    """Average the runs of a sweep over the seeds.

    Parameters
    ----------
    sweep
        What :func:`sweep_batching` returns.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row per (level, overhead_s, noise_cv, controller), in the order of the sweep:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> sweep = traceana.sweep_batching(
    ...     {"uneven": [36, 12]}, controllers=["oracle"], overheads_s=[0.1], noise_cvs=[0.1],
    ...     seeds=range(3), steps=20,
    ... )
    >>> found = traceana.summarize_batching(sweep)
    >>> found.select("controller", pl.col("speedup", "speedup_ci_low").round(2)).rows()
    [('oracle', 1.91, 1.77)]
    """
    rows = read_result(sweep, BatchingSweep, _READ, "summarize_batching")
    grouped = rows.group_by(_KEYS, maintain_order=True).agg(
        *over_seeds(["speedup"]),
        pl.col("step_s", "idle_fraction", "adjustments").mean(),
        pl.col("note").drop_nulls().first(),
        n=pl.len().cast(pl.Int64),
    )
    return declared(with_intervals(grouped, ["speedup"], confidence=confidence), BatchingSummary)
