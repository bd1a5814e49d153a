"""Two months of a production GPU cluster: ``alibaba-pai-2020`` (MLaaS in the Wild, NSDI'22)."""

from __future__ import annotations

from typing import Final

import polars as pl

from traceana.ingesters.recipe import Recipe

_STATUSES: Final = {
    "Terminated": "completed",
    "Failed": "failed",
    "Interrupted": "cancelled",
    "Running": "running",
    "Waiting": "pending",
}
_TIMES: Final = ("start_time", "end_time")
_NO_TIME: Final = dict.fromkeys(_TIMES, ("0", "0.0"))  # a missing time is empty, sometimes 0


def _no_cpu(column: str) -> pl.Expr:
    """GPU type; the publisher writes CPU where there is no GPU."""
    return pl.when(pl.col(column) != "CPU").then(pl.col(column))


def _jobs(_stem: str) -> dict[str, pl.Expr]:
    # the start of a job is its submission here; launch and resources stand with its tasks
    return {
        "job_id": pl.col("job_name"),
        "inst_id": pl.col("inst_id"),
        "user": pl.col("user"),
        "status": pl.col("status"),
        "submit_s": pl.col("start_time"),
        "end_s": pl.col("end_time"),
    }


def _tasks(_stem: str) -> dict[str, pl.Expr]:
    return {
        "job_id": pl.col("job_name"),
        "task_name": pl.col("task_name"),
        "instances": pl.col("inst_num"),
        "status": pl.col("status"),
        "start_s": pl.col("start_time"),
        "end_s": pl.col("end_time"),
        "cpus": pl.col("plan_cpu") / 100,
        "memory_gib": pl.col("plan_mem"),
        "gpus": pl.col("plan_gpu") / 100,
        "gpu_type": _no_cpu("gpu_type"),
    }


def _instances(_stem: str) -> dict[str, pl.Expr]:
    return {
        "job_id": pl.col("job_name"),
        "task_name": pl.col("task_name"),
        "instance_id": pl.col("inst_name"),
        "worker_id": pl.col("worker_name"),
        "inst_id": pl.col("inst_id"),
        "status": pl.col("status"),
        "start_s": pl.col("start_time"),
        "end_s": pl.col("end_time"),
        "machine_id": pl.col("machine"),
    }


def _instance_usage(_stem: str) -> dict[str, pl.Expr]:
    return {
        "job_id": pl.col("job_name"),
        "task_name": pl.col("task_name"),
        "worker_id": pl.col("worker_name"),
        "inst_id": pl.col("inst_id"),
        "machine_id": pl.col("machine"),
        "gpu_device": pl.col("gpu_name"),
        "cpus_used": pl.col("cpu_usage") / 100,
        "gpus_used": pl.col("gpu_wrk_util") / 100,
        "memory_gib_mean": pl.col("avg_mem"),
        "memory_gib_max": pl.col("max_mem"),
        "gpu_memory_gib_mean": pl.col("avg_gpu_wrk_mem"),
        "gpu_memory_gib_max": pl.col("max_gpu_wrk_mem"),
        "read_bytes": pl.col("read"),
        "write_bytes": pl.col("write"),
        "read_count": pl.col("read_count"),
        "write_count": pl.col("write_count"),
    }


def _job_tags(_stem: str) -> dict[str, pl.Expr]:
    return {
        "inst_id": pl.col("inst_id"),
        "user": pl.col("user"),
        "gpu_type_requested": _no_cpu("gpu_type_spec"),
        "group": pl.col("group"),
        "workload": pl.col("workload"),
    }


def _machines(_stem: str) -> dict[str, pl.Expr]:
    return {
        "machine_id": pl.col("machine"),
        "gpu_type": _no_cpu("gpu_type"),
        "gpus": pl.col("cap_gpu"),
        "cpus": pl.col("cap_cpu"),
        "memory_gib": pl.col("cap_mem"),
    }


_METRICS: Final = (
    "machine_cpu_iowait",
    "machine_cpu_kernel",
    "machine_cpu_usr",
    "machine_gpu",
    "machine_load_1",
    "machine_net_receive",
    "machine_num_worker",
    "machine_cpu",
)


def _machine_usage(_stem: str) -> dict[str, pl.Expr]:
    return {
        "worker_id": pl.col("worker_name"),
        "machine_id": pl.col("machine"),
        "start_s": pl.col("start_time"),
        "end_s": pl.col("end_time"),
        **{metric.removeprefix("machine_"): pl.col(metric) for metric in _METRICS},
    }


RECIPES: Final = (
    Recipe(
        table="jobs",
        columns=_jobs,
        numbers=_TIMES,
        nulls=_NO_TIME,
        words={"status": _STATUSES},
    ),
    Recipe(
        table="tasks",
        columns=_tasks,
        numbers=(*_TIMES, "plan_cpu", "plan_mem", "plan_gpu"),
        whole_numbers=("inst_num",),
        nulls=_NO_TIME,
        words={"status": _STATUSES},
    ),
    Recipe(
        table="instances",
        columns=_instances,
        numbers=_TIMES,
        nulls=_NO_TIME,
        words={"status": _STATUSES},
    ),
    Recipe(
        table="instance_usage",
        columns=_instance_usage,
        numbers=(
            "cpu_usage",
            "gpu_wrk_util",
            "avg_mem",
            "max_mem",
            "avg_gpu_wrk_mem",
            "max_gpu_wrk_mem",
            "read",
            "write",
            "read_count",
            "write_count",
        ),
    ),
    Recipe(table="job_tags", columns=_job_tags),
    Recipe(
        table="machines",
        columns=_machines,
        numbers=("cap_cpu", "cap_mem", "cap_gpu"),
    ),
    Recipe(
        table="machine_usage",
        columns=_machine_usage,
        numbers=(*_TIMES, *_METRICS),
        nulls=_NO_TIME,
    ),
)
