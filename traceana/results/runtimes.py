"""Result tables of task runtimes, runtime ratios and recurring groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from traceana.results.base import Result
from traceana.results.tables import ResultTable, any_key, count, number, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl


class TaskRuntimes(ResultTable):
    """Runtime of each task."""

    job_id = any_key("Job", "job of the task")
    task_name = any_key("Task", "name of the task in its job")
    status = text("Status", "status in the tasks table, whatever its instances have")
    runtime_s = number("Runtime (s)", "end_s minus start_s", display="seconds", unit="s")
    n_instances = count("Instances", "rows of instances; 0 if there are none")
    gpus = number("GPUs", "GPUs requested per instance", display="plain")
    cpus = number("CPUs", "CPU cores requested per instance", display="plain")
    memory_gib = number("Memory (GiB)", "memory requested per instance", display="plain")
    gpu_type = any_key("GPU type", "GPU type in the tasks table")
    start_s = number("Start (s)", "first start of the n_used", display="seconds", unit="s")
    end_s = number("End (s)", "last end of the n_used", display="seconds", unit="s")
    n_used = count("Instances used", "instances that the runtime is computed from")
    n_missing_start = count("Without start", "instances without a start")
    n_missing_end = count("Without end", "instances without an end")
    instance_s = number(
        "Instance time (s)", "sum of end minus start over the n_used", display="seconds", unit="s"
    )
    note = text("Note", "why there is no runtime")


class CapacityCheck(ResultTable):
    """GPU-hours requested and the capacity of the machines, by imputation of missing ends."""

    end_imputation = text("End imputation", "see task_runtimes")
    tasks = count("Tasks", "number of tasks")
    tasks_with_runtime = count("Tasks with a runtime", "tasks that have a runtime")
    mean_s = number("Mean (s)", "mean runtime", display="seconds", unit="s")
    median_s = number("Median (s)", "median runtime", display="seconds", unit="s")
    instances = count("Instances", "instances of these tasks")
    instances_used = count("Instances used", "instances that runtimes are computed from")
    gpu_hours = number("GPU-hours", "GPUs times instance time", display="hours", unit="h")
    gpu_hours_gang = number(
        "GPU-hours if gang-scheduled",
        "GPUs times instances used times runtime: all held from the first start to the last end",
        display="hours",
        unit="h",
    )
    machine_gpus = number("GPUs of the machines", "sum over the machines", display="plain")
    span_h = number("Time span (h)", "from the first to the last time", display="hours", unit="h")
    capacity_gpu_hours = number(
        "Capacity (GPU-hours)", "machine_gpus times span_h", display="hours", unit="h"
    )
    share_of_capacity = number(
        "Fraction of capacity", "gpu_hours over capacity_gpu_hours", display="share"
    )
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
    no_start = number("Start missing", "fraction of the instances", display="share")
    no_end = number("End missing", "fraction of the instances", display="share")


class RuntimeRatioSummary(ResultTable):
    """Distribution of runtimes divided by the mean of their group."""

    n = count("Runtimes", "runtimes that are not missing")
    mean_s = number("Mean (s)", "mean runtime, in the unit of the runtimes", display="seconds")
    cov = number("CoV", "coefficient of variation of the runtimes (ddof 1)")
    p05 = number("5 %", "quantile of runtime over mean_s")
    p25 = number("25 %", "quantile of runtime over mean_s")
    median = number("Median", "median of runtime over mean_s")
    p75 = number("75 %", "quantile of runtime over mean_s")
    p95 = number("95 %", "quantile of runtime over mean_s")
    p99 = number("99 %", "quantile of runtime over mean_s")
    max = number("Maximum", "largest runtime over mean_s")
    n_missing = count("Without runtime", "rows without a runtime")
    note = text("Note", "why a value is null")


class RecurringGroups(ResultTable):
    """Groups of recurring jobs."""

    recurrences = count("Recurrences", "jobs with a start and an end")
    mean_s = number("Mean runtime (s)", "mean of end minus start", display="seconds", unit="s")
    cov = number("CoV", "standard deviation (ddof 1) over the mean; null for one job or mean 0")
    first_start_s = number("First start (s)", "earliest start", display="seconds", unit="s")
    last_end_s = number("Last end (s)", "latest end", display="seconds", unit="s")
    n_missing = count("Without start or end", "jobs without a start or an end")
    dataset = text("Data set", "data set of the workload assigned to the group", optional=True)


class MappedJobs(ResultTable):
    """Jobs of recurring groups with the workload of their group."""

    group = text("Group", "the recurring group")
    start_s = number("Start (s)", "start of the job", display="seconds", unit="s")
    end_s = number("End (s)", "end of the job", display="seconds", unit="s")
    dataset = text("Data set", "data set of the workload assigned to the group")
    runtime_ratio = number(
        "Runtime ratio", "runtime over the mean runtime of all jobs with the data set"
    )


class MappedWorkloads(ResultTable):
    """Training workloads with the groups assigned to them."""

    dataset = text("Data set", "data set of the workload")
    default_s = number("Default run (s)", "time of its default run", display="seconds", unit="s")
    groups = count("Groups", "groups assigned to it")
    jobs = count("Jobs", "jobs of these groups")
    mean_s = number("Mean runtime (s)", "mean runtime of these jobs", display="seconds", unit="s")
    group_mean_low_s = number(
        "Shortest group mean (s)", "smallest mean runtime of a group", display="seconds", unit="s"
    )
    group_mean_high_s = number(
        "Longest group mean (s)", "largest mean runtime of a group", display="seconds", unit="s"
    )
    note = text("Note", "why no group is assigned to it")


@dataclass(frozen=True, repr=False)
class WorkloadMapping(Result):
    """Recurring groups with the training workload assigned to each.

    Attributes
    ----------
    jobs
        One row per job of a recurring group, by start: the form of the table recurring_jobs.
    groups
        The groups, as :func:`traceana.analysis.recurring_groups` returns them, with the data set.
    workloads
        The workloads, the shortest default run first. A data set without a default run comes last.
    """

    jobs: pl.DataFrame
    groups: pl.DataFrame
    workloads: pl.DataFrame

    tables: ClassVar[Mapping[str, type[ResultTable]]] = {
        "jobs": MappedJobs,
        "groups": RecurringGroups,
        "workloads": MappedWorkloads,
    }

    def summary(self) -> str:
        """Return a short text on the result."""
        lines = [f"{self.groups.height:,} groups with {self.jobs.height:,} jobs"]
        for row in self.workloads.iter_rows(named=True):
            if row["groups"] is None:
                lines.append(f"{row['dataset']}: none ({row['note']})")
                continue
            lines.append(
                f"{row['dataset']} (default run {row['default_s']:,.0f} s): {row['groups']:,} "
                f"groups with {row['jobs']:,} jobs, mean runtime {row['mean_s']:,.0f} s"
            )
        return "\n".join(lines)
