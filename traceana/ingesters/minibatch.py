"""Mini-batch times of workers and their CoV: ``alibaba-minibatch-2020`` (AntMan, OSDI'20)."""

from __future__ import annotations

from typing import Final

import polars as pl

from traceana.ingesters.block import LINE
from traceana.ingesters.recipe import Recipe

_SECONDS_A_SAMPLE: Final = 10


def _worker_samples(stem: str) -> dict[str, pl.Expr]:
    return {
        "job_id": pl.lit(stem.removesuffix("_norm")),
        "worker_id": pl.col("worker"),
        "time_s": pl.col("time"),
        "gpus": pl.col("gpu") / 100,
        "batch_time": pl.col("batch_time_norm"),
    }


def _samples_below_each_other(cells: pl.DataFrame) -> pl.DataFrame:
    """One row a sample; the empty cells after a job's last sample are padding, not samples."""
    long = cells.rename({"": "job"}).unpivot(
        index=["job", LINE], variable_name="sample", value_name="cov"
    )
    sample = pl.col("sample").cast(pl.Int64)
    last = pl.when(pl.col("cov").is_not_null()).then(sample).max().over(LINE)
    return long.filter(sample <= last).sort(LINE, sample, maintain_order=True)


def _cov_samples(_stem: str) -> dict[str, pl.Expr]:
    return {
        "job_id": pl.col("job"),
        "sample": pl.col("sample"),
        "time_s": pl.col("sample") * _SECONDS_A_SAMPLE,
        "cov": pl.col("cov"),
    }


RECIPES: Final = (
    Recipe(
        table="worker_samples",
        columns=_worker_samples,
        numbers=("gpu", "time", "batch_time_norm"),
    ),
    Recipe(
        table="cov_samples",
        columns=_cov_samples,
        numbers=("cov",),
        whole_numbers=("sample",),
        reshape=_samples_below_each_other,
    ),
)
