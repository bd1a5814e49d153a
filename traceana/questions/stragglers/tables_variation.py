"""Tables of the variation between workers."""

from __future__ import annotations

from typing import Final

from traceana.tables.declare import (
    ResultTable,
    any_key,
    count,
    flag,
    fraction,
    interval,
    number,
    quantiles,
    seconds,
    text,
)

_PERCENTS: Final = (5, 25, 50, 75, 95)


class IterationCov(ResultTable):
    """Coefficient of variation at each time step."""

    n_workers = count("Workers", "workers with a value at this time")
    mean = number("Mean", "mean over the workers, in the unit of the value")
    std = number("Standard deviation", "over the workers, in the unit of the value")
    cov = number("CoV", "`std` divided by `mean`; null where the mean is 0", display="ratio")


class CovSummary(ResultTable):
    """Distribution of the coefficient of variation over time steps."""

    n = count("Time steps", "time steps with a value")
    n_missing = count("Missing", "time steps without a value")
    mean = number("Mean", display="ratio")
    q05, q25, median, q75, q95 = quantiles("quantile", *_PERCENTS, display="ratio")
    max = number("Maximum", display="ratio")
    share_above_0_1 = fraction("Above 0.1", "fraction of values above 0.1")
    share_above_0_5 = fraction("Above 0.5", "fraction of values above 0.5")
    share_above_1 = fraction("Above 1", "fraction of values above 1")


class CovIntervals(CovSummary):
    """Distribution with confidence intervals of its quantiles."""

    q05_ci_low, q05_ci_high = interval("5 %, CI", "confidence limit", display="ratio")
    q25_ci_low, q25_ci_high = interval("25 %, CI", "confidence limit", display="ratio")
    median_ci_low, median_ci_high = interval("Median, CI", "confidence limit", display="ratio")
    q75_ci_low, q75_ci_high = interval("75 %, CI", "confidence limit", display="ratio")
    q95_ci_low, q95_ci_high = interval("95 %, CI", "confidence limit", display="ratio")


class CovSeries(CovIntervals):
    """Distribution of each job's coefficient of variation, with intervals for a time series."""

    right_truncated = flag("Truncated", "whether the job reaches `cut_at`; null without `cut_at`")
    autocorrelation = any_key("Autocorrelation", "list of the autocorrelations at lags 1 to `lags`")
    effective_n = number("Effective time steps", "effective sample size", display="count")
    note = text("Note", "why values are missing")


class CovPooled(CovIntervals):
    """Distribution of the coefficient of variation over the time steps of all jobs."""

    n_jobs = count("Jobs", "jobs in the table")
    n_right_truncated = count("Truncated", "jobs that reach `cut_at`; null without `cut_at`")
    length_q25 = number("Length, 25 %", "Kaplan-Meier quantile of a job's number of time steps")
    length_median = number("Length, median", "Kaplan-Meier median", display="count")
    length_q75 = number("Length, 75 %", "Kaplan-Meier quantile")
    note = text("Note", "why values are missing")


class CovMatch(ResultTable):
    """Best match of a job among the rows of a CoV table."""

    job_id = text("Job", "job with worker samples")
    ddof = count("ddof", "of the standard deviation")
    cov_job_id = text("Best match", "job of the CoV table with the least mean square difference")
    first_sample = count("First sample", "sample of that job where the overlap begins")
    overlap = count("Samples compared", "samples that both have")
    max_abs_difference = number("Maximum difference", "largest absolute difference")
    median_abs_difference = number("Median difference", "median absolute difference")
    first_time_s = seconds("First time", "time of the job where the overlap begins")
    share_within_rounding = number(
        "Within rounding",
        "fraction of differences that rounding explains; null if worker times are not integers",
        display="fine_share",
    )
