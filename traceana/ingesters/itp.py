"""Jobs of ten Microsoft clusters: ``microsoft-itp-2021``, and ``elasticflow-2023`` on top of it.

The cluster is told by the file's name only. Both traces hold the same jobs.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from traceana.ingesters.recipe import Recipe


def _jobs(stem: str) -> dict[str, pl.Expr]:
    return {
        "job_id": pl.col("job_id"),
        "cluster": pl.lit(stem),
        "submit_s": pl.col("submission_time"),
        "runtime_s": pl.col("duration"),
        "gpus": pl.col("num_gpu"),
    }


def _training_plans(stem: str) -> dict[str, pl.Expr]:
    return {
        "job_id": pl.col("job_id"),
        "cluster": pl.lit(stem),
        "model": pl.col("model_name"),
        "batch_size": pl.col("batch_size"),
        "iterations": pl.col("num_iteration"),
        "deadline_s": pl.col("deadline"),
    }


_JOB_NUMBERS: Final = ("submission_time", "duration", "num_gpu")

ITP_RECIPES: Final = (Recipe(table="jobs", columns=_jobs, numbers=_JOB_NUMBERS),)

ELASTICFLOW_RECIPES: Final = (
    *ITP_RECIPES,
    Recipe(
        table="training_plans",
        columns=_training_plans,
        numbers=("deadline",),
        whole_numbers=("batch_size", "num_iteration"),
    ),
)
