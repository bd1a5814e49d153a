"""Tables of utilization: used versus requested resources, idle and shared GPUs, allocation."""

from __future__ import annotations

from traceana.tables.declare import (
    ResultTable,
    ci,
    clock,
    count,
    fraction,
    hours,
    interval,
    number,
    quantiles,
    text,
)


class Utilization(ResultTable):
    """Used versus requested resources, one row per group and resource."""

    resource = text("Resource", "what was requested and used")
    n = count("Instances", "rows with a request above 0 and a use")
    n_missing = count("Without", "rows without a request above 0 or without a use")
    requested_mean = number("Requested (mean)", "null where the resource is not requested")
    used_mean = number("Used (mean)", "mean use")
    used_of_requested = fraction("Used of requested", "sum of use over sum of requests")
    ci_low, ci_high = ci("of used_of_requested", display="percent")
    p25, median, p75 = quantiles("quantile of use over request", 25, 50, 75, display="percent")
    fraction_over = fraction("Used more", "fraction of rows that used more than they requested")


class RequestedUsed(ResultTable):
    """Used versus requested resources of jobs that ended, one row per group and resource."""

    resource = text("Resource", "what was requested and used, and the unit of the hours")
    n = count("Jobs", "jobs with a use and a request above 0")
    n_missing = count("Without", "jobs without a use or a request above 0")
    p25, median, p75 = quantiles("quantile of use over request", 25, 50, 75, display="percent")
    ci_low, ci_high = interval("95 % CI of the median", "Woodruff's interval", display="percent")
    requested_hours = hours("Requested", "sum over jobs")
    unused_hours = hours("Unused", "requested minus used, at least 0, summed")
    fraction_unused = fraction("Fraction unused", "unused_hours over requested_hours")


class IdleGpuHours(ResultTable):
    """GPU-hours that were requested and not used."""

    n = count("Instances", "rows with GPUs, use and runtime")
    n_missing = count("Without", "rows without GPUs, use or runtime")
    gpu_hours = hours("GPU-hours", "GPUs times runtime")
    used_gpu_hours = hours("Used", "used GPUs times runtime")
    idle_gpu_hours = hours("Idle", "GPUs minus used GPUs, at least 0, times runtime")
    fraction_idle = fraction("Fraction idle", "idle_gpu_hours over gpu_hours")
    ci_low, ci_high = ci("of fraction_idle", display="percent")
    n_unused = count("Unused", "rows whose use is below the limit")
    unused_gpu_hours = hours("GPU-hours unused", "GPU-hours of these rows")
    fraction_unused = fraction("Fraction unused", "unused_gpu_hours over gpu_hours")
    unused_ci_low, unused_ci_high = ci("of fraction_unused", display="percent")
    note = text("Note", "that the rows are likely not independent", optional=True)


class GpuSharing(ResultTable):
    """GPUs that several instances use at once."""

    devices = count("GPUs", "GPUs with at least one instance")
    devices_shared = count("GPUs shared", "GPUs with several instances at once")
    n = count("Instances", "rows with a GPU, a start and an end")
    n_missing = count("Without", "rows without a GPU, a start or an end")
    busy_hours = hours("Busy", "time with at least one instance")
    shared_hours = hours("Shared", "time with several instances")
    fraction_of_time = fraction("Fraction shared", "shared_hours over busy_hours")
    instances_max = count("Most at once", "largest number of instances on one GPU")


class Allocation(ResultTable):
    """Allocated GPUs against the capacity, by time bin."""

    bin_start_s = clock("Bin start", "on the clock of the trace")
    gpus_mean = number("Allocated GPUs", "averaged over the bin", unit="GPUs")
    capacity_gpus = number("GPUs of the machines", "sum over the machines", display="plain")
    allocation_rate = fraction("Allocation rate", "gpus_mean over capacity_gpus")


class AllocationSummary(ResultTable):
    """Allocation rate over time."""

    capacity_gpus = number("GPUs of the machines", "sum over the machines", display="plain")
    bins = count("Bins", "time bins")
    bins_over = count("Bins above 100 %", "time bins with more allocated GPUs than capacity")
    mean = fraction("Mean allocation rate", "over the bins")
    p05, median, p95 = quantiles("quantile over the bins", 5, 50, 95, display="percent")
    max = fraction("Maximum", "over the bins")


class MachineUtilization(ResultTable):
    """Use of machines, weighted by the time that each row covers."""

    machines = count("Machines", "machines with a row")
    n = count("Rows", "rows with a start and an end")
    n_missing = count("Without times", "rows without a start or an end")
    cpu = number("CPU (%)", "mean CPU use", display="seconds", unit="%")
    iowait = number("I/O wait (%)", "mean CPU time waiting for input and output", unit="%")
    gpu = number("GPU (%, all)", "mean GPU use over all GPUs of a machine", display="seconds")
    gpu_each = number("GPU (%, each)", "the same over the number of GPUs", display="seconds")
    workers = number("Instances at once", "mean instances on the machine", display="seconds")


class SampledUsage(ResultTable):
    """What monitors of GPUs measured, one row per group."""

    gpus = count("GPUs", "distinct GPUs with a sample")
    n = count("Samples", "samples with a utilization")
    n_missing = count("Without", "samples without a utilization")
    n_ambiguous = count("Shared", "samples of a machine with several jobs or free GPUs, of no job")
    gpu_hours = hours("GPU-hours", "time that the samples cover")
    idle_gpu_hours = hours("Idle", "of them, those of samples below the idle limit")
    fraction_idle = fraction("Fraction idle", "idle_gpu_hours over gpu_hours with a utilization")
    utilization_mean = fraction("Utilization (mean)", "weighted by time")
    memory_gib_max = number("Memory (most)", "largest GPU memory of a sample", unit="GiB")
    power_w_mean = number("Power (mean)", "weighted by time", unit="W")
    energy_kwh = number("Energy", "power times time", unit="kWh")
