"""The throughput by model, batch size and GPUs that generated plans imply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.deadlines.plans import CELL, join_plans

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def iteration_rates(training_plans: IntoFrame, jobs: IntoFrame, /) -> pl.DataFrame:
    r"""Iterations per second of each (model, batch size, GPUs), from plans and their jobs.

    In the ElasticFlow files iterations are no observation: they are the job's runtime times a
    throughput that depends on model, batch size and GPUs alone, cut to a whole number. Such a
    cell gives an interval for its throughput x: every row with runtime t and iterations i says
    :math:`i / t \le x < (i + 1) / t`. Where the rows of a cell agree, its middle is the
    estimate, and `is_one_rate` is true; where they do not, no single rate explains them, and the
    estimate is the median of i / t.

    Parameters
    ----------
    training_plans
        One row a plan: [cluster, job_id, model, batch_size, iterations, deadline_s].
    jobs
        One row a job: [cluster, job_id, submit_s, runtime_s, gpus]. Both eager or lazy, of any
        listed engine. Plans whose job is not there (the testbed's list, cluster ``195job``) take
        no part, nor do rows with a null, or with a runtime or GPU count of zero.

    Returns
    -------
    DataFrame
        [model, batch_size, gpus, iterations_per_s, n, spread, lowest, highest, is_one_rate,
        samples_per_s, scaling_efficiency], sorted. n is the number of rows, spread the range of
        i / t over its median. lowest and highest are the ends of the interval, null where the
        rows do not agree. samples_per_s is iterations_per_s times the (global) batch size.
        scaling_efficiency is iterations_per_s over `gpus` times that of the same model and batch
        size on one GPU, null where the cell on one GPU is not there.

    Raises
    ------
    DataError
        If a column is missing or not numeric, a value is negative or infinite, a job is not
        unique, or no plan has its job.

    References
    ----------
    Gu et al., ElasticFlow (ASPLOS'23), published traces.
    """
    used = join_plans(training_plans, jobs).filter(
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
    return cells.join(on_one, on=CELL[:2], how="left", maintain_order="left").select(
        *CELL,
        "iterations_per_s",
        "n",
        pl.when(pl.col("median") > 0).then("spread"),
        "lowest",
        "highest",
        "is_one_rate",
        samples_per_s=pl.col("iterations_per_s") * pl.col("batch_size"),
        scaling_efficiency=pl.when(pl.col("on_one") > 0).then(
            pl.col("iterations_per_s") / (pl.col("gpus") * pl.col("on_one"))
        ),
    )
