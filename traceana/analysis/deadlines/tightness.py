"""How tight deadlines are, and how many could be met at the GPUs asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.deadlines.plans import CELL, join_plans
from traceana.analysis.deadlines.rates import iteration_rates
from traceana.analysis.frames import Names, as_names, refuse_clash
from traceana.stats.intervals import wilson_interval

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_QUANTILES = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}
_OWN = ("n", "n_met", "share_met", "n_met_fastest", "share_met_fastest", "tightness_median")


def deadline_tightness(
    training_plans: IntoFrame,
    jobs: IntoFrame,
    /,
    *,
    by: Names = (),
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Tightness of deadlines, and how many a job could meet if it started when submitted.

    Tightness is (deadline_s - submit_s) / runtime_s: the time until the deadline over the runtime
    at the GPUs asked for. At 1 or above the deadline can be met at these GPUs by a job that does
    not wait; below, only with more GPUs. Nothing here knows of queueing or of contention, so the
    shares are upper bounds for any scheduler that runs jobs as they were asked for.

    `n_met_fastest` asks what more GPUs could do: the job runs its iterations at the highest rate
    that :func:`iteration_rates` finds for its model and batch size over all GPU counts, the job's
    own runtime counting where that is shorter.

    Parameters
    ----------
    training_plans, jobs
        As :func:`iteration_rates` takes them; plans without their job, and rows with a null, or
        with a runtime or GPU count of zero, take no part.
    by
        Columns of plans or jobs to group by (`cluster`, `model`, `gpus`); ``()`` for one row.
    confidence
        Coverage of Wilson's intervals of the shares. They treat deadlines as independent draws.

    Returns
    -------
    DataFrame
        [*by, n, n_met, share_met, ci_low, ci_high, n_met_fastest, share_met_fastest,
        tightness_min, tightness_p05, tightness_p25, tightness_median, tightness_p75,
        tightness_p95, tightness_max], sorted by `by`, nulls last. Quantiles interpolate linearly
        (type 7 of Hyndman and Fan, 1996).

    Raises
    ------
    DataError
        As :func:`iteration_rates`; also if `by` names a column of the result.
    """
    keys = as_names(by)
    refuse_clash(keys, _OWN)
    joined = join_plans(training_plans, jobs, by=keys)
    best = (
        iteration_rates(training_plans, jobs)
        .group_by("model", "batch_size")
        .agg(best=pl.col("iterations_per_s").max())
    )
    left = pl.col("deadline_s") - pl.col("submit_s")
    fastest = pl.min_horizontal("runtime_s", pl.col("iterations") / pl.col("best"))
    used = (
        joined.join(best, on=CELL[:2], how="left")
        .filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
        .with_columns(tightness=left / pl.col("runtime_s"), in_time=left >= fastest)
        .drop_nulls(["tightness", "in_time"])
    )
    tightness = pl.col("tightness")
    shares = [
        pl.len().cast(pl.Int64).alias("n"),
        (tightness >= 1).sum().cast(pl.Int64).alias("n_met"),
        pl.col("in_time").sum().cast(pl.Int64).alias("n_met_fastest"),
        tightness.min().alias("tightness_min"),
        *(tightness.quantile(q, "linear").alias(f"tightness_{p}") for p, q in _QUANTILES.items()),
        tightness.max().alias("tightness_max"),
    ]
    table = (
        used.group_by(keys).agg(shares).sort(keys, nulls_last=True) if keys else used.select(shares)
    )
    low, high = wilson_interval(table["n_met"], table["n"], confidence=confidence)
    return table.select(
        *keys,
        "n",
        "n_met",
        share_met=pl.when(pl.col("n") > 0).then(pl.col("n_met") / pl.col("n")),
        ci_low=pl.Series(low).fill_nan(None),
        ci_high=pl.Series(high).fill_nan(None),
        n_met_fastest="n_met_fastest",
        share_met_fastest=pl.when(pl.col("n") > 0).then(pl.col("n_met_fastest") / pl.col("n")),
        **{f"tightness_{p}": f"tightness_{p}" for p in ("min", *_QUANTILES, "max")},
    )
