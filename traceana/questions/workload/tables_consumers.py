"""Result table of the resources that groups of jobs use."""

from __future__ import annotations

from traceana.tables.declare import ResultTable, count, fraction, number, seconds, text


class ResourceUsage(ResultTable):
    """Resources, wait, failure, waste and efficiency of each group."""

    jobs = count("Jobs")
    gpu_hours = number("GPU-hours", "GPUs times hours in the window", display="hours", unit="h")
    cpu_hours = number("CPU-hours", "CPUs times hours in the window", display="hours", unit="h")
    node_hours = number("Node-hours", "nodes times hours in the window", display="hours", unit="h")
    share = fraction("Of all", "fraction of all GPU-hours; of CPU-hours where no job has GPUs")
    median_wait_s = seconds("Median wait", "median time from submission to start")
    failure_rate = fraction("Failure rate", "failed among completed and failed jobs")
    own_failure_rate = fraction(
        "Without limits", "failed, but not by a time or memory limit, among completed and failed"
    )
    share_wasted = fraction("Wasted", "fraction of the group's hours in failed and cancelled jobs")
    gpu_utilization = fraction("GPU utilization", "weighted by GPU-hours, of jobs that record it")
    idle_gpu_hours = number(
        "Idle GPU-hours", "GPU-hours times 1 - utilization", display="hours", unit="h"
    )
    cpu_used = fraction("CPU used", "CPU time used of that allocated, of jobs with both")
    memory_used = fraction("Memory used", "memory used of that requested, weighted by runtime")
    wasted_hours = number(
        "Hours wasted",
        "hours of `share` in failed and cancelled jobs, time limits included",
        display="hours",
        unit="h",
    )
    p90_wait_s = seconds("90 % wait", "90th percentile of the wait")
    median_expansion = number("Expansion", "median of (wait + runtime) / runtime")
    measured_gpu_hours = number(
        "Measured GPU-hours", "GPU-hours of jobs with utilization", display="hours", unit="h"
    )
    ended = count("Ended", "completed and failed jobs")
    own_failures = count("Failures", "those that failed, but not by a limit")
    energy_kwh = number("Energy (kWh)", "recorded energy", display="hours", unit="kWh")
    note = text("Note", "jobs whose time is not recorded in full")
