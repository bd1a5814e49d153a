"""What is asked of Spark, of rows and of stored tables, and of whom the answers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from tests.store.test_frames import COMPARISONS, QUESTIONS, ROWS
from traceana import (
    allocation_rate,
    compare_distributions,
    compare_plans,
    deadline_rules,
    deadline_tightness,
    detect_stragglers,
    empirical_distribution,
    energy_coverage,
    energy_savings,
    energy_to_accuracy,
    eta_sweep,
    failure_correlations,
    gpu_capacity_check,
    gpu_demand,
    gpu_hours_by,
    gpu_sharing,
    idle_gpu_hours,
    iteration_cov,
    iteration_rates,
    map_groups_to_workloads,
    match_cov_rows,
    replay_published_draws,
    runtime_by,
    runtime_correlations,
    runtime_ratio,
    straggler_attributes,
    summarize_cov,
    task_runtimes,
    utilization,
    workload_summary,
)
from traceana.cohorts.cohort import form_cohort
from traceana.questions.recurring.analyze import grouped_jobs
from traceana.questions.runtimes.ratio import ratio_tables
from traceana.questions.stragglers.analyze import cov_by_job, stragglers, worker_samples
from traceana.questions.utilization.analyze import requested_used
from traceana.questions.workload.analyze import describe_workload, weekdays_and_waits
from traceana.questions.workload.analyze_consumers import describe_consumers
from traceana.store import Trace


def used(rows: Any) -> Any:
    """The rows with the GPUs that they use."""
    return nw.from_native(rows).with_columns(gpus_used=nw.col("size")).to_native()


ROW_QUESTIONS: dict[str, Callable[[Any], pl.DataFrame]] = {
    **QUESTIONS,
    **COMPARISONS,
    "runtime_correlations": lambda rows: runtime_correlations(rows).table,
    "compare_distributions": lambda rows: compare_distributions(
        rows, "runtime_s", "cluster", resamples=9, rng=1
    ),
    "runtime_ratio": lambda rows: runtime_ratio(rows, by="cluster").sort("worker_id", "row"),
    "gpu_hours_by": lambda rows: gpu_hours_by(rows, "cluster").sort("cluster"),
    "failure_correlations": lambda rows: (
        failure_correlations(rows, features="gpus", by="size", resamples=100).table
    ),
    "empirical_distribution": lambda rows: empirical_distribution(rows, "runtime_s", by="cluster"),
    "gpu_sharing": lambda rows: gpu_sharing(rows, device="cluster"),
    "idle_gpu_hours": lambda rows: idle_gpu_hours(used(rows), by="cluster"),
    "utilization": lambda rows: utilization(used(rows), by="cluster"),
    "allocation_rate": lambda rows: allocation_rate(gpu_demand(ROWS), rows),
    "straggler_attributes": lambda rows: (
        straggler_attributes(rows, attributes="worker_id", worker="row", resamples=99).attributes
    ),
}


def is_asked_here(question: str) -> bool:
    """Return whether the tests ask Spark too, not the script alone: each function, and clusters."""
    variant = question.partition(", ")[2]
    return variant in ("", "clusters") or question in ("kaplan_meier, all", "correlate, all")


def ask_of_ended(question: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The published family refuses a row without a status."""
    return frame.drop_nulls("status") if question == "runtime_correlations" else frame


# what takes the tables of one trace together, or of two
TABLES: dict[str, tuple[tuple[str, ...], Callable[..., pl.DataFrame]]] = {
    "iteration_cov": (
        ("alibaba-minibatch-2020/worker_samples",),
        lambda samples: iteration_cov(samples, ddof=0),
    ),
    "detect_stragglers": (
        ("alibaba-minibatch-2020/worker_samples",),
        lambda samples: detect_stragglers(samples).jobs,
    ),
    "match_cov_rows": (
        ("alibaba-minibatch-2020/worker_samples", "alibaba-minibatch-2020/cov_samples"),
        match_cov_rows,
    ),
    "summarize_cov": (("alibaba-minibatch-2020/cov_samples",), summarize_cov),
    "workload_summary": (
        ("microsoft-itp-2021/jobs",),
        lambda jobs: workload_summary(jobs, by="cluster"),
    ),
    "runtime_by": (("alibaba-openb-2023/jobs",), lambda jobs: runtime_by(jobs, ("qos", "status"))),
    "deadline_rules": (
        ("elasticflow-2023/training_plans", "elasticflow-2023/jobs"),
        deadline_rules,
    ),
    "deadline_tightness": (
        ("elasticflow-2023/training_plans", "elasticflow-2023/jobs"),
        deadline_tightness,
    ),
    "iteration_rates": (
        ("elasticflow-2023/training_plans", "elasticflow-2023/jobs"),
        iteration_rates,
    ),
    "compare_plans": (
        ("elasticflow-2023/training_plans", "elasticflow-2023/jobs"),
        lambda plans, jobs: compare_plans(plans, plans, jobs),
    ),
    "replay_published_draws": (("elasticflow-2023/training_plans",), replay_published_draws),
    "energy_savings": (("zeus-2023/training_runs", "zeus-2023/power_profiles"), energy_savings),
    "energy_coverage": (
        ("zeus-2023/training_runs", "zeus-2023/power_profiles"),
        lambda runs, power: energy_coverage(runs, power, gpu="v100", dataset="cifar100"),
    ),
    "energy_to_accuracy": (
        ("zeus-2023/training_runs", "zeus-2023/power_profiles"),
        lambda runs, power: energy_to_accuracy(runs, power, gpu="v100", dataset="cifar100"),
    ),
    "eta_sweep": (
        ("zeus-2023/training_runs", "zeus-2023/power_profiles"),
        lambda runs, power: eta_sweep(runs, power, gpu="v100", dataset="cifar100"),
    ),
    "map_groups_to_workloads": (
        (
            "alibaba-openb-2023/jobs",
            "zeus-2023/training_runs",
            "zeus-2023/power_profiles",
        ),
        lambda jobs, runs, power: (
            map_groups_to_workloads(
                jobs, runs, power, gpu="v100", by="cpus", min_recurrences=1
            ).groups
        ),
    ),
    "task_runtimes": (
        ("alibaba-pai-2020/tasks", "alibaba-pai-2020/instances"),
        lambda tasks, instances: task_runtimes(tasks, instances, end_imputation="running"),
    ),
    "gpu_capacity_check": (
        ("alibaba-pai-2020/tasks", "alibaba-pai-2020/instances", "alibaba-pai-2020/machines"),
        gpu_capacity_check,
    ),
}


def own_jobs() -> pl.DataFrame:
    """Return jobs with ties and missing values."""
    n, draw = 400, np.random.default_rng(3)
    submit = 1_583_000_000 + np.sort(draw.integers(0, 60 * 86_400, n) // 600 * 600.0)
    start = submit + draw.integers(0, 900, n)
    runtime = np.floor(draw.lognormal(6, 2, n)) + 1
    gpus = draw.choice([0, 0.5, 1, 2, 8], n)
    return pl.DataFrame(
        {
            "job_id": [f"job-{i}" for i in range(n)],
            "user": draw.choice([f"u{i}" for i in range(30)], n),
            "queue": draw.choice(["long", "short"], n),
            "gpu_type": draw.choice(["T4", "V100"], n),
            "group": draw.choice([f"g{i}" for i in range(40)], n),
            "status": draw.choice(["completed", "failed", "cancelled"], n),
            "submit_s": submit,
            "start_s": start,
            "end_s": start + runtime,
            "runtime_s": runtime,
            "gpus": gpus,
            "cpus": 4 * gpus + 2,
            "cpu_time_s": runtime * gpus,
        }
    ).with_columns(pl.when(pl.int_range(n) % 9 > 0).then("start_s").alias("start_s"))


def own_samples() -> pl.DataFrame:
    """Return worker samples of three jobs, of which one has a straggler, in no order."""
    draw = np.random.default_rng(4)
    step, job, rank = (axis.ravel() for axis in np.mgrid[:60, :3, :4])
    slow = np.where((job == 1) & (rank == 2), 2.0, 1.0)
    samples = pl.DataFrame(
        {
            "job_id": [f"run-{one}" for one in job],
            "worker_id": rank.astype(str),
            "time_s": 1.6e9 + 30.0 * step,
            "batch_time": slow * draw.lognormal(0, 0.1, step.size),
        }
    )
    return samples.sample(fraction=1, shuffle=True, seed=2)


# what a report reduces of jobs and worker samples
OWN: dict[str, Callable[[Trace], Any]] = {
    # the first computes the second, and keeps it
    "workload": lambda trace: {
        "days": weekdays_and_waits(trace),
        "jobs": trace.once(describe_workload),
    },
    "consumers": describe_consumers,
    "cohort": form_cohort,
    "requested": lambda trace: requested_used(trace)[0],
    "groups": grouped_jobs,
    "ratios": lambda trace: ratio_tables(trace, "jobs"),
    "cov": cov_by_job,
    "stragglers": stragglers,
    "samples": worker_samples,
}


def frames_of(found: Any) -> Iterator[tuple[str, object]]:
    """The frames and numbers of a result, by their place in it."""
    if isinstance(found, Trace):  # what a cohort is of, not a number
        return
    if is_dataclass(found):
        found = {one.name: getattr(found, one.name) for one in fields(found)}
    if isinstance(found, tuple):
        found = dict(enumerate(found))
    if not isinstance(found, dict):
        yield "", found
        return
    for name, part in found.items():
        for place, frame in frames_of(part):
            yield f"{name} {place}", frame
