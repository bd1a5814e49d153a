"""Tables of a workload: summaries, job sizes, arrivals, demand, queueing and concentration."""

from __future__ import annotations

from traceana.tables.declare import (
    ResultTable,
    clock,
    count,
    fraction,
    hours,
    number,
    quantiles,
    ratio,
    seconds,
    text,
)


class WorkloadSummary(ResultTable):
    """Jobs, GPU-hours, runtimes and sizes."""

    jobs = count("Jobs", "rows")
    jobs_with_runtime = count("Jobs with runtime")
    gpu_hours = hours("GPU-hours", "null where no job has both GPUs and runtime")
    jobs_without_gpu_hours = count(
        "Without GPU-hours", "jobs whose GPUs or time in the window are missing"
    )
    gpus_mean = number(
        "Mean demand (GPUs)", "GPU-hours over the window's hours; null without times", unit="GPUs"
    )
    n_truncated = count(
        "Left-truncated", "started before the window; with `entry` or `observed`", optional=True
    )
    n_censored = count("Censored", "end not observed; with `entry` or `observed`", optional=True)
    runtime_s_mean = seconds("Mean runtime", "null where jobs are truncated or censored")
    runtime_s_restricted_mean = number(
        "Restricted mean",
        "mean of min(runtime, horizon), with `entry` or `observed`",
        display="duration",
        unit="s",
        optional=True,
    )
    horizon_s = number(
        "Horizon", "of the restricted mean", display="duration", unit="s", optional=True
    )
    runtime_s_p25 = seconds("Runtime: 25 %", "quantile of the runtime")
    runtime_s_median = seconds("Runtime: median", "median runtime")
    runtime_s_p75 = seconds("Runtime: 75 %", "quantile of the runtime")
    runtime_s_p95 = seconds("Runtime: 95 %", "quantile of the runtime")
    runtime_s_p99 = seconds("Runtime: 99 %", "quantile of the runtime")
    gpus_median = number("GPUs: median", "over the jobs whose GPUs are known", display="plain")
    gpus_p95 = number("GPUs: 95 %", "quantile of the GPUs", display="plain")
    gpus_max = number("GPUs: maximum", display="plain")
    first_submit_s = number("Submissions (days)", "first submission", display="days", unit="s")
    last_submit_s = number("Submissions (days)", "last submission", display="days", unit="s")
    note = text("Note", "jobs whose start or end is not recorded")


class WorkloadOverview(ResultTable):
    """One row per trace: what its other tables begin with."""

    trace = text("Trace")
    jobs = count("Jobs", "rows")
    gpu_hours = hours("GPU-hours")
    runtime_s_median = seconds("Median runtime")
    gpus_median = number("Median GPUs", display="plain")
    fraction_of_top_1_percent = fraction("Top 1 % of GPU jobs", "fraction of the GPU-hours")
    cv = number("CoV of interarrival times", "without survivors; Poisson process: 1")
    delay_s_median = seconds("Median queueing delay")


class SizeDistribution(ResultTable):
    """Jobs and GPU-hours by number of GPUs."""

    gpus = number("GPUs", "number of GPUs; null: not known", display="plain")
    jobs = count("Jobs")
    fraction_of_jobs = fraction("Fraction of jobs", "within the group")
    gpu_hours = hours("GPU-hours", "null where no job has both GPUs and runtime")
    fraction_of_gpu_hours = fraction("Fraction of GPU-hours", "within the group")
    jobs_without_gpu_hours = count("Without GPU-hours", "jobs whose GPUs or runtime are missing")
    runtime_s_median = seconds("Median runtime")


class JobQuantiles(ResultTable):
    """Quantiles of runtime, GPUs and GPU-hours."""

    quantity = text("Quantity", "runtime_s, gpus or gpu_hours")
    n = count("n", "jobs that have the quantity")
    n_missing = count("Missing", "jobs that do not have it")
    mean = number("Mean")
    min = number("Minimum")
    p01, p05, p25, median, p75, p95, p99 = quantiles("quantile", 1, 5, 25, 50, 75, 95, 99)
    max = number("Maximum")


class ArrivalRhythm(ResultTable):
    """Submissions by hour of the day or weekday."""

    hour = count("Hour", "0 to 23; with per='hour'", unit="", optional=True)
    weekday = count("Weekday", "1 (Monday) to 7; with per='weekday'", unit="", optional=True)
    jobs = count("Jobs", "submissions in the slot")
    fraction_of_all = fraction("Fraction", "of the submissions of the group")
    observed_h = hours("Observed (h)", "time for which the slot was observed")
    jobs_per_h = number("Jobs per hour", "null where the slot was not observed", unit="1/h")


class GpuDemand(ResultTable):
    """GPUs requested by running jobs, by time bin."""

    bin_start_s = clock("Bin start", "on the clock of the trace")
    gpus_mean = number("GPUs", "GPUs of running jobs, averaged over the bin", unit="GPUs")
    jobs_mean = number("Jobs", "running jobs, averaged over the bin")
    n_excluded = count("Excluded", "jobs of the group that are not counted")
    note = text("Note", "why values are null; jobs whose start or end is not recorded")


class QueueingDelay(ResultTable):
    """Time from submission to start."""

    jobs = count("Jobs", "rows")
    n = count("Delays", "jobs with a submission and a start")
    n_no_start = count("Never started", "jobs with a submission and no start")
    n_no_submit = count("Without submission", "jobs without a submission")
    mean_s = seconds("Mean")
    median_s = seconds("Median")
    p75_s = seconds("75 %", "quantile")
    p90_s = seconds("90 %", "quantile")
    p95_s = seconds("95 %", "quantile")
    p99_s = seconds("99 %", "quantile")
    p90_pending_s = seconds(
        "90 % with pending", "Kaplan-Meier quantile; pending jobs censored; null: not reached"
    )
    p99_pending_s = seconds(
        "99 % with pending", "Kaplan-Meier quantile; pending jobs censored; null: not reached"
    )
    max_s = seconds("Maximum")
    fraction_zero = fraction("No delay", "fraction of delays of 0")
    note = text("Note", "why values are null")


class Seasonality(ResultTable):
    """Dependence of submissions on the hour of the day and the day of the week."""

    cycle = text("Cycle", "day (by hour) or week (by day)")
    n_cycles = count("Cycles", "whole days or weeks")
    n = count("Submissions", "within whole cycles")
    amplitude = fraction("Amplitude", "standard deviation over mean of the counts by hour or day")
    pvalue = number("p", "of circular shifts of each cycle", display="pvalue")


class Concentration(ResultTable):
    """How unevenly GPU-hours are distributed over jobs."""

    jobs = count("Jobs", "rows")
    n_missing = count("Others", "jobs that requested no GPU, or whose GPUs or runtime are missing")
    n = count("GPU jobs", "jobs that requested GPUs and have a runtime")
    gpu_hours = hours("GPU-hours")
    fraction_of_top_1_percent = fraction("Top 1 % of GPU jobs", "fraction of the GPU-hours")
    fraction_of_top_10_percent = fraction("Top 10 %", "fraction of the GPU-hours")
    fraction_of_lower_half = fraction("Lower half", "fraction of the GPU-hours")
    gini = ratio("Gini", "Gini coefficient of the GPU-hours")
    note = text("Note", "why values are null")


class LorenzCurve(ResultTable):
    """Lorenz curve of GPU-hours over jobs."""

    fraction_of_jobs = fraction("Fraction of jobs", "smallest first")
    fraction_of_gpu_hours = fraction("Fraction of GPU-hours")


class Interarrivals(ResultTable):
    """Times between submissions."""

    jobs = count("Jobs", "rows")
    n_missing = count("Missing", "jobs without a submission")
    n = count("Interarrival times", "jobs - n_missing - 1")
    mean_s = seconds("Mean")
    median_s = seconds("Median")
    p99_s = seconds("99 %", "quantile")
    max_s = seconds("Maximum")
    fraction_zero = fraction("Zero", "fraction of interarrival times of 0")
    cv = number("CoV", "coefficient of variation (ddof 1); Poisson process: 1")
    burstiness = ratio("Burstiness", "(cv - 1) / (cv + 1); Poisson process: 0")
    memory = ratio("Memory", "correlation of successive times; Poisson: 0")
    note = text("Note", "why cv is null")


class InterarrivalCurve(ResultTable):
    """Survival function of the times between submissions."""

    n = count("n", "times between submissions")
    gap_s = seconds("Interarrival time")
    fraction_longer = fraction("Longer", "fraction of times that are longer")
    fraction_longer_poisson = fraction("Longer (Poisson)", "of a Poisson process of the same rate")


class ResourceUsage(ResultTable):
    """Resources, wait, failure, waste and efficiency of each group."""

    jobs = count("Jobs")
    gpu_hours = hours("GPU-hours", "GPUs times hours in the window")
    cpu_hours = hours("CPU-hours", "CPUs times hours in the window")
    node_hours = hours("Node-hours", "nodes times hours in the window")
    fraction_of_all = fraction(
        "Of all hours", "fraction of all GPU-hours; of CPU-hours where no job has GPUs"
    )
    wait_s_median = seconds("Median wait", "median time from submission to start")
    failure_rate = fraction("Failure rate", "failed among completed and failed jobs")
    own_failure_rate = fraction(
        "Failure rate without limits",
        "failed, but not by a limit or the scheduler, among completed and failed",
    )
    fraction_wasted = fraction(
        "Wasted", "fraction of the group's hours in failed and cancelled jobs"
    )
    gpu_utilization = fraction("GPU utilization", "weighted by GPU-hours, of jobs that record it")
    idle_gpu_hours = hours("Idle GPU-hours", "GPU-hours times 1 - utilization")
    cpu_used = fraction("CPU used", "CPU time used of that allocated, of jobs with both")
    memory_used = fraction("Memory used", "memory used of that requested, weighted by runtime")
    unused_gib_hours = hours(
        "Unused GiB-hours", "memory requested minus that used, times runtime, of jobs with both"
    )
    wasted_hours = hours(
        "Hours wasted", "hours of `share` in failed and cancelled jobs, time limits included"
    )
    wait_s_p90 = seconds("90 % wait", "90th percentile of the wait")
    expansion_median = number("Expansion", "median of (wait + runtime) / runtime")
    measured_gpu_hours = hours("Measured GPU-hours", "GPU-hours of jobs with utilization")
    ended = count("Ended", "completed and failed jobs")
    own_failures = count("Failures", "those that failed, but not by a limit or the scheduler")
    energy_kwh = number("Energy (kWh)", "recorded energy", display="hours", unit="kWh")
    note = text("Note", "jobs whose time is not recorded in full")


class GpuHours(ResultTable):
    """GPU-hours by group, with what was lost."""

    jobs = count("Jobs")
    n_missing = count("Without GPU-hours", "jobs whose GPUs or runtime are missing")
    gpu_hours = hours("GPU-hours")
    fraction_of_all = fraction("Of all", "fraction of the GPU-hours of all groups")
    failed = fraction("Failed", "fraction of the group's GPU-hours in failed jobs")
    cancelled = fraction("Cancelled", "fraction of the group's GPU-hours in cancelled jobs")
    note = text("Note", "jobs whose start or end is not recorded")
