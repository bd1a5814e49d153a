"""Tightness of deadlines, and how many could be met at the requested GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.questions.deadlines.rates import CELL, join_plans, rates_of
from traceana.simulate.deadlines.tables import DeadlineTightness
from traceana.stats.intervals import wilson_interval
from traceana.store.frames import Names, as_names, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_QUANTILES = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}


@returns(DeadlineTightness)
def deadline_tightness(
    training_plans: IntoFrame,
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    confidence: float = 0.95,
    submit: str = "submit_s",
    runtime: str = "runtime_s",
    gpus: str = "gpus",
) -> pl.DataFrame:
    """Compute the tightness of deadlines and the fraction that is feasible.

    Tightness is (deadline_s - submit) / runtime, with the runtime at the requested GPUs. At 1 or
    above, a job that starts when submitted meets the deadline at these GPUs; below, only with
    more GPUs. Queueing and contention are not modeled, so the fractions are upper bounds for any
    scheduler that runs jobs as requested.

    `n_met_fastest` counts the deadlines met with more GPUs. The job then runs its iterations at the
    highest rate that :func:`iteration_rates` finds for its model and batch size, or in its own
    runtime if that is shorter.

    Parameters
    ----------
    training_plans, jobs
        As in :func:`iteration_rates`.
    by
        Columns of plans or jobs to group by, such as cluster, model or gpus. By default all rows
        are one group.
    confidence
        Coverage of the Wilson intervals, in (0, 1); they treat deadlines as independent.
    submit, runtime, gpus
        Columns of the submission (seconds or datetimes), the runtime and the requested GPUs.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last. Quantiles interpolate linearly (type 7 of Hyndman and Fan,
        1996). The columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> plans, jobs = (store.scan("elasticflow-2023", t) for t in ("training_plans", "jobs"))
    >>> found = traceana.deadline_tightness(plans, jobs)
    >>> found.select("n", pl.col("share_met", "tightness_median").round(1)).rows()
    [(2081, 0.5, 1.0)]
    """
    keys = as_names(by)
    refuse_clash(keys, DeadlineTightness.columns())
    names = {"submit": submit, "runtime": runtime, "gpus": gpus}
    joined = join_plans(training_plans, jobs, by=keys, columns=names)
    best = (
        rates_of(joined).group_by("model", "batch_size").agg(best=pl.col("iterations_per_s").max())
    )
    left = pl.col("deadline_s") - pl.col("submit_s")
    fastest = pl.min_horizontal("runtime_s", pl.col("iterations") / pl.col("best"))
    used = (
        joined.join(best, on=CELL[:2], how="left")
        .filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
        .with_columns(tightness=left / pl.col("runtime_s"), in_time=left >= fastest)
        .filter(pl.col("tightness").is_finite(), pl.col("in_time").is_not_null())
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
    found = table.with_columns(
        share_met=pl.when(pl.col("n") > 0).then(pl.col("n_met") / pl.col("n")),
        ci_low=pl.Series(low).fill_nan(None),
        ci_high=pl.Series(high).fill_nan(None),
        share_met_fastest=pl.when(pl.col("n") > 0).then(pl.col("n_met_fastest") / pl.col("n")),
    )
    return declared(found, DeadlineTightness, by=keys)
