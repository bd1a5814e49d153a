"""Tables of faults of machines, of the failures that jobs see, and of checkpoint intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import dataframely as dy
import polars as pl

from traceana.tables.declare import (
    ResultTable,
    clock,
    count,
    interval,
    number,
    p_value,
    ratio,
    seconds,
    text,
)
from traceana.tables.result import Result

_RATE = "1/1000 node-days"


class JobFaults(ResultTable):
    """Faults of machines that ended jobs, with the names of table ``faults``."""

    machine_id = text("Machine", "machine, or the list of machines of the job")
    start_s = clock("Time", "end of the jobs")
    class_ = dy.String(
        alias="class",
        nullable=True,
        description="end reason of the jobs",
        metadata={"heading": "End reason", "display": "text", "unit": "", "optional": False},
    )
    jobs = count("Jobs", "jobs that ended")


class MachineReliability(ResultTable):
    """Faults, repairs and availability of machines, one row per group."""

    n = count("Faults", "faults that began in the window")
    machines_failed = count("Machines", "machines with such a fault")
    rate = number("Faults per 1,000 node-days", "faults over machines times days", unit=_RATE)
    ci_low, ci_high = interval(description="of rate, scaled by the dispersion of the faults")
    mtbf_s = seconds("MTBF", "machine time over faults: mean time between failures of a machine")
    n_open = count("Not repaired", "faults whose repair had not ended with the window")
    n_missing = count("Without end", "faults without a recorded end, before another of the machine")
    mttr_s = seconds(
        "MTTR", "mean time to repair by Kaplan-Meier, up to the longest observed downtime"
    )
    median_s = seconds("Median repair", "median time to repair by Kaplan-Meier")
    downtime_s = seconds("Downtime", "machine time with at least one fault")
    availability = number(
        "Availability", "fraction of the machine time without a fault", display="fine_fraction"
    )
    note = text("Note", "why a value is null or a bound")


class MachineFaults(ResultTable):
    """Machines with a fault, compared with chance; the most faults first."""

    n = count("Faults", "faults that began in the window")
    expected = ratio("Expected", "faults over machines")
    pvalue = p_value("p", "binomial tail, if all machines had the same rate")
    pvalue_adjusted = p_value("Adjusted p", "Holm's, over all machines")
    pvalue_negative_binomial = p_value(
        "p (negative binomial)",
        "tail of the distribution fitted to the other machines, Holm's adjustment",
    )
    downtime_s = seconds("Downtime", "time with at least one fault")
    last_s = clock("Last fault", "beginning of its last fault")


class FaultCounts(ResultTable):
    """Machines by their number of faults, against chance; one row per number."""

    faults = count("Faults at least", "number of faults")
    machines = count("Machines", "machines with at least so many faults")
    poisson = number("Poisson", "expected machines if all were alike")
    negative_binomial = number("Negative binomial", "expected machines if their rates differ")


class FaultDispersion(ResultTable):
    """Variance of the number of faults against the Poisson distribution."""

    across = text("Across", "machines, or blocks of time")
    n = count("Counts", "number of machines or blocks")
    mean = number("Mean", "faults of each")
    dispersion = number("Variance / mean", "1 for independent faults at one rate")
    pvalue = p_value("p", "against the Poisson distribution, one-sided")
    alpha = number("Negative binomial alpha", "variance = mean + alpha mean^2; 0: Poisson")
    note = text("Note", "length of a block")


class ConcurrentFaults(ResultTable):
    """Machines that are down at a time, over the window."""

    mean = number("Mean", "time average of the machines down")
    p99 = count("99 % quantile", "at most so many are down 99 % of the time")
    max = count("Maximum", "most machines down at once")
    mean_fraction = number("Mean (of all)", "mean over machines", display="fine_fraction")
    p99_fraction = number("99 % quantile (of all)", "p99 over machines", display="fine_fraction")
    max_fraction = number("Maximum (of all)", "max over machines", display="fine_fraction")
    max_at_s = clock("First at", "beginning of the first time of the maximum")


class FaultPeriods(ResultTable):
    """Faults by period of the window."""

    start_s = clock("Start", "beginning of the period")
    end_s = clock("End", "end of the period")
    n = count("Faults", "faults that began in the period")
    rate = number("Faults per 1,000 node-days", "faults over machines times days", unit=_RATE)
    ci_low, ci_high = interval(description="of rate, scaled by the dispersion over machines")


class MachinesDown(ResultTable):
    """Machines down, one row per change."""

    time_s = clock("Time", "beginning of the step")
    machines_down = count("Machines down", "from this time to the next")


class JobFailureIntervals(ResultTable):
    """Mean time to failure of a job, one row per number of machines."""

    machines = count("Machines", "machines of the job")
    mean_s = seconds("Mean time to failure", "1 / (r N): independent faults at rate r per machine")
    ci_low_s, ci_high_s = interval(description="of mean_s", display="duration")
    observed_s = seconds(
        "From the log", "window over expected failures of a job on random machines that are up"
    )
    observed_ci_low_s, observed_ci_high_s = interval(
        description="of observed_s, over blocks of time", display="duration"
    )
    note = text("Note", "why a value is null")


class CheckpointIntervals(ResultTable):
    """Interval between checkpoints, and the fraction of time that trains."""

    mttf_s = seconds("Mean time to failure", "of the job")
    method = text("Method", "young: first order, daly: higher order, exact: maximum of the ratio")
    interval_s = seconds("Checkpoint every", "training time between two checkpoints")
    effective_training_ratio = number(
        "Effective training time", "fraction of the wall time that trains", display="fine_fraction"
    )
    checkpoint_fraction = number(
        "Checkpoints", "fraction that writes them", display="fine_fraction"
    )
    lost_fraction = number(
        "Lost", "fraction of repeated work and restarts", display="fine_fraction"
    )


@dataclass(frozen=True, repr=False, eq=False)
class ReliabilityResult(Result):
    """Result of :func:`~traceana.machine_reliability`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> faults = pl.DataFrame({"machine_id": ["a"], "start_s": [0.0], "end_s": [8640.0]})
    >>> result = traceana.machine_reliability(faults, total_machines=10, window=(0, 864_000))
    >>> result.overall["availability"].item(), result.offenders.height
    (0.999, 0)
    """

    total_machines: int
    """Machines observed, with those that never failed if it was stated, else those with a fault."""
    is_stated: bool
    """Whether the number of machines was stated."""
    window_s: tuple[float, float]
    """Beginning and end of the observation window."""
    overall: Annotated[pl.DataFrame, MachineReliability]
    """One row for all faults."""
    groups: Annotated[pl.DataFrame | None, MachineReliability]
    """The same by group; None without `by`."""
    machines: Annotated[pl.DataFrame, MachineFaults]
    """Machines with a fault, compared with chance."""
    counts: Annotated[pl.DataFrame, FaultCounts]
    """Machines by their number of faults, with the expectation of two distributions."""
    dispersion: Annotated[pl.DataFrame, FaultDispersion]
    """Variance of the number of faults over machines, and over blocks of time."""
    concurrent: Annotated[pl.DataFrame | None, ConcurrentFaults]
    """Machines down at a time; None where the log has no ends."""
    periods: Annotated[pl.DataFrame, FaultPeriods]
    """Faults over time."""
    down: Annotated[pl.DataFrame | None, MachinesDown]
    """Each change of the machines down; None where the log has no ends."""

    drawn_by = "plot_faults_over_time"

    @property
    def offenders(self) -> pl.DataFrame:
        """Machines with more faults than chance explains (adjusted p of at most 5 %)."""
        return self.machines.filter(self.machines["pvalue_adjusted"] <= 0.05)

    summarized = (
        ("overall", "n", "rate", "ci_low", "ci_high", "mttr_s", "median_s", "availability", "note"),
        ("machines", "n", "expected", "pvalue_adjusted", "downtime_s"),
        ("dispersion", "across", "dispersion", "pvalue"),
    )


@dataclass(frozen=True, repr=False, eq=False)
class JobFailureResult(Result):
    """Result of :func:`~traceana.job_failure_interval`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> faults = pl.DataFrame({"machine_id": ["a"], "start_s": [0.0], "end_s": [8640.0]})
    >>> result = traceana.job_failure_interval(
    ...     faults, [1, 5], total_machines=10, window=(0, 864_000)
    ... )
    >>> result.intervals["mean_s"].to_list()
    [8640000.0, 1728000.0]
    """

    intervals: Annotated[pl.DataFrame, JobFailureIntervals]
    """Mean time to failure, one row per number of machines."""
    summarized = (("intervals",),)
