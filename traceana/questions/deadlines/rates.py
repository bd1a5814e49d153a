"""Training plans joined with their jobs, and the throughput behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError
from traceana.simulate.deadlines.tables import IterationRates
from traceana.stats.multiplicity import adjust_pvalues
from traceana.store.frames import collect, open_frame, reading
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from narwhals.stable.v2.typing import IntoFrame


KEY = ("cluster", "job_id")
CELL = ("model", "batch_size", "gpus")
"""Key of a throughput."""
_LARGEST = 1e15


def join_plans(
    training_plans: IntoFrame,
    jobs: IntoFrame,
    /,
    *,
    columns: Mapping[str, str],
    by: Sequence[str] = (),
) -> pl.DataFrame:
    """Return the plans whose job is known, with the job's *by, submit_s, runtime_s and gpus."""
    measures = ("batch_size", "iterations", "deadline_s")
    plans = _with_key(collect(open_frame(training_plans, keys=(*KEY, "model"), measures=measures)))
    roles = {"submit": "submit_s", "runtime": "runtime_s", "gpus": "gpus"}
    of_jobs = tuple(name for name in by if name not in (*plans.columns, *roles.values()))
    read = collect(open_frame(jobs, keys=(*KEY, *of_jobs), measures=columns))
    names = {columns[role]: name for role, name in roles.items()}
    known = _with_key(read.rename(names))
    if known.select(KEY).is_duplicated().any():
        raise DataError("a job occurs twice in the jobs table: (cluster, job_id) must be unique")
    joined = plans.join(known, on=KEY, maintain_order="left")
    if joined.is_empty():
        raise DataError("no training plan has its job: cluster and job_id of the two tables differ")
    for name in ("batch_size", "iterations"):
        if ((joined[name] % 1 != 0) | (joined[name] > _LARGEST)).any():
            raise DataError(f"column {name} must hold whole numbers, {_LARGEST:g} at most")
    return joined.with_columns(pl.col("batch_size", "iterations").cast(pl.Int64))


def _with_key(rows: pl.DataFrame) -> pl.DataFrame:
    categories = pl.selectors.categorical() | pl.selectors.enum()
    texts = pl.selectors.by_name(*KEY, "model", require_all=False)
    with reading():  # no engine writes a duration as text
        text = rows.cast({categories | texts: pl.String})
    return text.with_columns(
        cluster=pl.when(pl.col("cluster") != "").then("cluster").otherwise(pl.lit("all"))
    )


def with_holm(tests: pl.DataFrame, /) -> pl.DataFrame:
    """Add the p-values adjusted by Holm; a null is no part of the family."""
    tests = tests.with_columns(pl.col("value", "pvalue").fill_nan(None))  # of too few plans
    pvalues = tests["pvalue"].fill_null(float("nan")).to_numpy()
    adjusted = pl.Series(adjust_pvalues(pvalues, method="holm"), dtype=pl.Float64)
    return tests.with_columns(pvalue_adjusted=adjusted.fill_nan(None))


@returns(IterationRates)
def iteration_rates(
    training_plans: IntoFrame,
    jobs: IntoFrame,
    /,
    *,
    submit: str = "submit_s",
    runtime: str = "runtime_s",
    gpus: str = "gpus",
) -> pl.DataFrame:
    r"""Compute iterations per second per model, batch size and GPUs.

    If the iterations i of a plan (ElasticFlow, ASPLOS'23) are floor(x t) with runtime t and a
    throughput x of its model, batch size and GPUs, each plan gives bounds of x: :math:`i / t \le x
    < (i + 1) / t`. Where the bounds of all plans of a cell overlap, the middle of the overlap is
    the estimate; otherwise the median of i / t is.

    Parameters
    ----------
    training_plans
        One row per plan: [cluster, job_id, model, batch_size, iterations, deadline_s].
    jobs
        One row per job: [cluster, job_id] and the columns below. Both eager or lazy, of any
        supported engine. Plans without their job, and rows with a null or with a runtime or GPU
        count of zero, are excluded.
    submit, runtime, gpus
        Columns of the submission (seconds or datetimes), the runtime and the requested GPUs.

    Returns
    -------
    DataFrame
        Sorted by model, batch size and GPUs:
        {columns}

    Raises
    ------
    DataError
        If a job is not unique, or no plan has its job.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> plans, jobs = (store.scan("elasticflow-2023", t) for t in ("training_plans", "jobs"))
    >>> rates = traceana.iteration_rates(plans, jobs).filter(model="vgg16", batch_size=256)
    >>> rates.select("gpus", pl.col("scaling_efficiency").round(2)).head(3).rows()
    [(1.0, 1.0), (2.0, 0.96), (4.0, 0.87)]
    """
    return rates_of(
        join_plans(
            training_plans, jobs, columns={"submit": submit, "runtime": runtime, "gpus": gpus}
        )
    )


def rates_of(joined: pl.DataFrame, /) -> pl.DataFrame:
    """Compute :func:`iteration_rates` of plans joined with their jobs."""
    used = joined.filter(
        pl.col("runtime_s") > 0, pl.col("gpus") > 0, pl.col("iterations").is_not_null()
    )
    iterations, runtime = pl.col("iterations"), pl.col("runtime_s")
    ratio = iterations / runtime
    cells = (
        used.group_by(CELL)
        .agg(
            n=pl.len().cast(pl.Int64),
            median=ratio.median(),
            spread=(ratio.max() - ratio.min()) / ratio.median(),
            lowest=ratio.max(),
            highest=((iterations + 1) / runtime).min(),
        )
        .sort(CELL)
        .with_columns(is_one_rate=pl.col("lowest") < pl.col("highest"))
        .with_columns(pl.when("is_one_rate").then(pl.col("lowest", "highest")))
        .with_columns(
            iterations_per_s=pl.coalesce((pl.col("lowest") + pl.col("highest")) / 2, "median")
        )
    )
    on_one = cells.filter(gpus=1.0).select("model", "batch_size", on_one="iterations_per_s")
    efficiency = pl.col("iterations_per_s") / (pl.col("gpus") * pl.col("on_one"))
    found = cells.join(on_one, on=CELL[:2], how="left", maintain_order="left").with_columns(
        pl.when(pl.col("median") > 0).then("spread"),
        samples_per_s=pl.col("iterations_per_s") * pl.col("batch_size"),
        scaling_efficiency=pl.when(pl.col("on_one") > 0).then(efficiency),
    )
    return declared(found, IterationRates)
