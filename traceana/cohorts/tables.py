"""Result tables of task runtimes, runtime ratios and recurring groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import polars as pl

from traceana.tables.declare import (
    ResultTable,
    any_key,
    clock,
    count,
    fraction,
    hours,
    number,
    quantiles,
    seconds,
    text,
)
from traceana.tables.result import Result


class TaskRuntimes(ResultTable):
    """Runtime of each task."""

    job_id = any_key("Job", "job of the task")
    task_name = any_key("Task", "name of the task in its job")
    status = text("Status", "status in the tasks table, whatever its instances have")
    runtime_s = seconds("Runtime", "end_s minus start_s")
    n_instances = count("Instances", "rows of instances; 0 if there are none")
    gpus = number("GPUs", "GPUs requested per instance", display="plain")
    cpus = number("CPUs", "CPU cores requested per instance", display="plain")
    memory_gib = number("Memory (GiB)", "memory requested per instance", display="plain")
    gpu_type = any_key("GPU type", "GPU type in the tasks table")
    start_s = clock("Start", "first start of the n_used")
    end_s = clock("End", "last end of the n_used")
    n_used = count("Instances used", "instances that the runtime is computed from")
    n_missing_start = count("Without start", "instances without a start")
    n_missing_end = count("Without end", "instances without an end")
    instance_s = seconds("Instance time", "sum of end minus start over the n_used")
    note = text("Note", "why there is no runtime")


class CapacityCheck(ResultTable):
    """GPU-hours requested and the capacity of the machines, by imputation of missing ends."""

    end_imputation = text("End imputation", "see task_runtimes")
    tasks = count("Tasks", "number of tasks")
    tasks_with_runtime = count("Tasks with a runtime", "tasks that have a runtime")
    mean_s = seconds("Mean", "mean runtime")
    median_s = seconds("Median", "median runtime")
    instances = count("Instances", "instances of these tasks")
    instances_used = count("Instances used", "instances that runtimes are computed from")
    gpu_hours = hours("GPU-hours", "GPUs times instance time")
    gpu_hours_gang = hours(
        "GPU-hours if gang-scheduled",
        "GPUs times instances used times runtime: all held from the first start to the last end",
    )
    machine_gpus = number("GPUs of the machines", "sum over the machines", display="plain")
    span_h = hours("Time span (h)", "from the first to the last time")
    capacity_gpu_hours = hours("Capacity (GPU-hours)", "machine_gpus times span_h")
    fraction_of_capacity = fraction("Fraction of capacity", "gpu_hours over capacity_gpu_hours")
    tasks_without_gpus = count(
        "Tasks without GPUs", "tasks with a runtime whose number of GPUs is missing, counted as 0"
    )
    instances_of_no_task = count("Instances of no task", "instances whose task is not listed")
    note = text("Note", "why there is no fraction of capacity")


class MissingTimes(ResultTable):
    """Missing starts and ends of instances, by the status of their task."""

    status = text("Status of the task", "status in the tasks table")
    tasks = count("Tasks", "number of tasks")
    without_instances = count("Without any instance", "tasks without instances")
    instances = count("Instances", "instances of these tasks")
    no_start = fraction("Start missing", "fraction of the instances")
    no_end = fraction("End missing", "fraction of the instances")


class RuntimeRatioSummary(ResultTable):
    """Distribution of runtimes divided by the mean of their group."""

    n = count("Runtimes", "runtimes that are not missing")
    mean_s = seconds("Mean", "mean runtime")
    cov = number("CoV", "coefficient of variation of the runtimes (ddof 1)")
    p05, p25, median, p75, p95, p99 = quantiles(
        "quantile of runtime over mean_s", 5, 25, 50, 75, 95, 99
    )
    max = number("Maximum", "largest runtime over mean_s")
    n_missing = count("Without runtime", "rows without a runtime")
    note = text("Note", "why a value is null")


class RecurringGroups(ResultTable):
    """Groups of recurring jobs."""

    recurrences = count("Recurrences", "jobs with a start and an end")
    mean_s = seconds("Mean runtime", "mean of end minus start")
    cov = number("CoV", "standard deviation (ddof 1) over the mean; null for one job or mean 0")
    first_start_s = clock("First start", "earliest start")
    last_end_s = clock("Last end", "latest end")
    n_missing = count("Without start or end", "jobs without a start or an end")
    dataset = text("Data set", "assigned by `map_groups_to_workloads`; only there", optional=True)


class MappedJobs(ResultTable):
    """Jobs of recurring groups with the workload of their group."""

    group = text("Group", "the recurring group")
    start_s = clock("Start", "start of the job")
    end_s = clock("End", "end of the job")
    dataset = text("Data set", "data set of the workload assigned to the group")
    runtime_ratio = number(
        "Runtime ratio", "runtime over the mean runtime of all jobs with the data set"
    )


class MappedWorkloads(ResultTable):
    """Training workloads with the groups assigned to them."""

    dataset = text("Data set", "data set of the workload")
    default_s = seconds("Default run", "time of its default run")
    groups = count("Groups", "groups assigned to it")
    jobs = count("Jobs", "jobs of these groups")
    mean_s = seconds("Mean runtime", "mean runtime of these jobs")
    group_mean_low_s = seconds("Shortest group mean", "smallest mean runtime of a group")
    group_mean_high_s = seconds("Longest group mean", "largest mean runtime of a group")
    note = text("Note", "why no group is assigned to it")


@dataclass(frozen=True, repr=False, eq=False)
class WorkloadMapping(Result):
    """Recurring groups with the training workload assigned to each.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> jobs = store.scan("zeus-2023", "recurring_jobs")
    >>> traceana.map_groups_to_workloads(jobs, runs, power, gpu="v100").groups["dataset"][1]
    'movielens-1m'
    """

    jobs: Annotated[pl.DataFrame, MappedJobs]
    """One row per job of a recurring group, sorted by start, as the table recurring_jobs."""
    groups: Annotated[pl.DataFrame, RecurringGroups]
    """The groups, as :func:`traceana.recurring_groups` returns them, with the data set."""
    workloads: Annotated[pl.DataFrame, MappedWorkloads]
    """The workloads, the shortest default run first. A data set without a default run comes
    last."""
    summarized = (("workloads", "dataset", "default_s", "groups", "jobs", "mean_s", "note"),)
