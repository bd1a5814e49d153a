"""Training runs, epoch times and power: ``zeus-2023`` (Zeus, NSDI'23)."""

from __future__ import annotations

from typing import Final

import polars as pl

from traceana.ingesters.recipe import Recipe


def _training_runs(_stem: str) -> dict[str, pl.Expr]:
    return {
        name: pl.col(name)
        for name in (
            "dataset",
            "network",
            "batch_size",
            "optimizer",
            "learning_rate",
            "run",
            "target_metric",
            "target_epoch",
        )
    }


def _power_profiles(stem: str) -> dict[str, pl.Expr]:
    return {
        "gpu": pl.lit(stem.removeprefix("summary_power_")),
        "dataset": pl.col("dataset"),
        "network": pl.col("network"),
        "batch_size": pl.col("batch_size"),
        "optimizer": pl.col("optimizer"),
        "power_limit_w": pl.col("power_limit"),
        "epoch_s": pl.col("time_per_epoch"),
        "mean_power_w": pl.col("average_power"),
    }


def _recurring_jobs(_stem: str) -> dict[str, pl.Expr]:
    return {
        "group": pl.col("group"),
        "start_s": pl.col("start_time"),
        "end_s": pl.col("end_time"),
        "dataset": pl.col("dataset"),
        "runtime_ratio": pl.col("runtime_ratio"),
    }


RECIPES: Final = (
    Recipe(
        table="training_runs",
        columns=_training_runs,
        numbers=("learning_rate", "target_metric"),
        whole_numbers=("batch_size", "run", "target_epoch"),
        nulls={"target_epoch": ("nan",)},  # never reached: an outcome, not a gap
    ),
    Recipe(
        table="power_profiles",
        columns=_power_profiles,
        numbers=("power_limit", "time_per_epoch", "average_power"),
        whole_numbers=("batch_size",),
    ),
    Recipe(
        table="recurring_jobs",
        columns=_recurring_jobs,
        numbers=("start_time", "end_time", "runtime_ratio"),
    ),
)
