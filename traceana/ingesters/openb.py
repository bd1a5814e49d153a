"""Pods and nodes of an inference-heavy cluster: ``alibaba-openb-2023`` (FGD, ATC'23)."""

from __future__ import annotations

from typing import Final

import polars as pl

from traceana.ingesters.recipe import Recipe

_PHASES: Final = {
    "Succeeded": "completed",
    "Failed": "failed",
    "Running": "running",
    "Pending": "pending",
}


def _jobs(_stem: str) -> dict[str, pl.Expr]:
    return {
        "job_id": pl.col("name"),
        "status": pl.col("pod_phase"),
        "submit_s": pl.col("creation_time"),
        "start_s": pl.col("scheduled_time"),
        "end_s": pl.col("deletion_time"),
        "runtime_s": pl.col("deletion_time") - pl.col("scheduled_time"),
        "gpus": pl.col("num_gpu") * pl.col("gpu_milli") / 1000,
        "cpus": pl.col("cpu_milli") / 1000,
        "memory_gib": pl.col("memory_mib") / 1024,
        "gpu_type": pl.col("gpu_spec"),
        "qos": pl.col("qos"),
    }


def _machines(_stem: str) -> dict[str, pl.Expr]:
    return {
        "machine_id": pl.col("sn"),
        "gpu_type": pl.col("model"),
        "gpus": pl.col("gpu"),
        "cpus": pl.col("cpu_milli") / 1000,
        "memory_gib": pl.col("memory_mib") / 1024,
    }


RECIPES: Final = (
    Recipe(
        table="jobs",
        columns=_jobs,
        numbers=(
            "cpu_milli",
            "memory_mib",
            "num_gpu",
            "gpu_milli",
            "creation_time",
            "scheduled_time",
            "deletion_time",
        ),
        words={"pod_phase": _PHASES},
    ),
    Recipe(
        table="machines",
        columns=_machines,
        numbers=("cpu_milli", "memory_mib", "gpu"),
    ),
)
