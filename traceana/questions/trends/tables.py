"""Tables of trends, outages and changes of level."""

from __future__ import annotations

from traceana.tables.declare import (
    ResultTable,
    ci,
    clock,
    count,
    flag,
    fraction,
    hours,
    number,
    seconds,
    text,
)


class Trends(ResultTable):
    """One row per period: what was submitted, what ran, and how it ended."""

    period = text("Period", "first day of the period, or its number on the clock of the trace")
    start_s = clock("Start", "on the clock of the trace")
    end_s = clock("End", "of the period, or of the observation window")
    jobs = count("Jobs", "submitted (started where no submission is recorded)")
    users = count("Users", "who submitted them; null without users")
    jobs_mean = number("Running jobs", "mean over the period")
    gpu_hours = hours("GPU-hours", "used within the period")
    cpu_hours = hours("CPU-hours", "used within the period")
    node_hours = hours("Node-hours", "used within the period")
    utilization = fraction("Utilization", "GPU-hours of the capacity; null where it is unknown")
    wait_s_median = seconds("Median wait", "of jobs that started in the period")
    runtime_s_median = seconds("Median runtime", "of jobs that ended in the period")
    n_ended = count("Ended", "successes and failures that ended in the period")
    failure_rate = fraction("Failure rate", "failures of the successes and failures")


class Outages(ResultTable):
    """Times in which no job ran, longer than chance explains."""

    begin = text("Begin", "local time, or seconds on the clock of the trace")
    start_s = clock("Start", "on the clock of the trace")
    end_s = clock("End", "on the clock of the trace")
    duration_s = seconds("Duration")
    gpu_hours_lost = hours(
        "GPU-hours lost", "duration times the mean GPUs in use; null without GPUs"
    )
    jobs_lost = number("Jobs lost", "duration times the mean rate of submissions")
    pvalue = number("p", "probability of such a gap by chance", display="pvalue")


class FailureBursts(ResultTable):
    """Times in which jobs of many users failed together."""

    begin = text("Begin", "local time of the first failure, or seconds on the clock of the trace")
    start_s = clock("Start", "of the first failure, on the clock of the trace")
    end_s = clock("End", "of the last failure, on the clock of the trace")
    n = count("Failed jobs", "but not by a limit that the user requested")
    n_users = count("Users", "of these jobs")
    n_running = count("Running jobs", "at the first failure")
    gpu_hours = hours("GPU-hours", "of the jobs that failed; null without GPUs")
    pvalue = number("p", "probability of so many users by chance", display="pvalue")


class IdleNodes(ResultTable):
    """Nodes that ran no job at the same time, longer than chance explains."""

    begin = text("Begin", "local time from which all of them ran no job, or seconds on the clock")
    start_s = clock("Start", "on the clock of the trace")
    end_s = clock("End", "until which all of them ran no job, on the clock of the trace")
    duration_s = seconds("Duration")
    n = count("Nodes", "that ran no job")
    n_nodes = count("Of", "nodes of the log")
    nodes = text("Names", "of the nodes")
    is_first = flag("From the begin", "of the log on: they may be new")
    lasts = flag("Lasts", "until the end of the log")
    gpu_hours_lost = hours(
        "GPU-hours lost", "duration times the mean GPUs in use on them otherwise; null without GPUs"
    )
    jobs_lost = number("Jobs lost", "duration times the mean rate of jobs on them otherwise")
    pvalue = number("p", "probability of such gaps by chance", display="pvalue")


class LevelChanges(ResultTable):
    """Stretches of time in which comparable jobs differ from the rest."""

    measure = text("Measure", "runtime, failure rate, wait or demand")
    user = text("User", "whose jobs alone changed; null: comparable jobs of all users")
    job_name = text("Job name", "of these jobs; numbers that differ from job to job are #")
    queue = text("Queue", "whose jobs alone changed; null: those of all queues")
    begin = text("Begin", "first day, seconds on the clock of the trace, or weekends")
    earliest = text("Earliest", "begin that the noise leaves possible")
    latest = text("Latest", "begin that the noise leaves possible")
    start_s = clock("Start", "on the clock of the trace")
    end_s = clock("End", "on the clock of the trace; null: it lasts")
    effect = fraction("Change", "ratio minus 1; of the failure rate the difference")
    ci_low, ci_high = ci("of the change", display="percent")
    level = number("Level", "median runtime or wait (s), failure rate, GPUs (CPUs) in use")
    level_rest = number("Level outside", "the same outside of the stretch")
    n = count("Jobs", "comparable jobs within the stretch; of the demand, days")
    n_rest = count("Other jobs", "comparable jobs outside of it")
    strata = count("Strata", "user, name, queue, size (wait: queue, size) with jobs on both sides")
    gpu_hours = hours("GPU-hours", "of the jobs within the stretch")
    pvalue = number(
        "p", "of the permutation test; of weekends a t test over weeks", display="pvalue"
    )
    note = text("Note", "the change without a user of two fifths of the jobs")


class Drift(ResultTable):
    """Linear change of each measure of comparable jobs."""

    measure = text("Measure", "runtime, failure rate, wait or demand")
    queue = text("Queue", "of the waits; null: all queues")
    per_week = fraction("Change per week", "ratio minus 1; of the failure rate the difference")
    ci_low, ci_high = ci("of the change, over blocks of days", display="percent")
    n = count("Jobs", "comparable jobs; of the demand, days")
    strata = count("Strata", "user, name, queue, size (wait: queue, size) with several days")
    pvalue = number("p", "of no change", display="pvalue")
    note = text("Note", "why there is no interval, or that it is too narrow")


class ClusterUtilization(ResultTable):
    """One row per period: what of the GPUs was allocated, down and idle."""

    period = text("Period", "first day of the period; 'all': the whole window")
    gpu_type = text("GPU type", "'all', and the types of the machines where there are several")
    start_s = clock("Start", "on the clock of the trace")
    end_s = clock("End", "of the period, or of the observation window")
    gpus = number("GPUs", "of the cluster", display="plain")
    gpu_hours = hours("GPU-hours", "GPUs times the hours of the period")
    allocated = fraction("Allocated", "fraction of the GPU-hours, by overlap")
    down = fraction("Down", "fraction on machines with a fault; null without")
    idle = fraction("Idle", "the rest, not below 0")
