"""Tables of hazards over runtime, of ends at time limits, and of useful and lost GPU-hours."""

from __future__ import annotations

from traceana.tables.declare import (
    ResultTable,
    count,
    fraction,
    interval,
    number,
    quantiles,
    seconds,
    text,
)


class HazardByRuntime(ResultTable):
    """Rate of an event while rows run, by interval of runtime."""

    event = text("Event", "status value that is the event")
    from_s = seconds("From", "runtime from which the interval counts")
    to_s = seconds("To", "runtime before which it ends; null: no end")
    n_at_risk = count("Running", "rows that ran in the interval")
    n_events = count("Events", "rows with the event in the interval")
    run_hours = number("Hours", "hours that rows ran in the interval", display="hours", unit="h")
    hazard_per_h = number("Per hour", "events over run_hours", unit="1/h")
    ci_low, ci_high = interval(description="of hazard_per_h")
    ratio = number("Ratio", "hazard over that of all runtimes", display="ratio")
    note = text("Note", "that the rows are likely not independent", optional=True)


class TimeLimitEnds(ResultTable):
    """Jobs that reach their time limit."""

    n = count("Jobs", "jobs with a runtime and a time limit")
    n_missing = count("Without", "jobs without a runtime or a time limit")
    at_limit = count("At limit", "jobs that ran as long as their limit or longer")
    share_at_limit = fraction("Fraction", "at_limit over n")
    hours = number("GPU-hours", "of the jobs at the limit", display="hours", unit="h")
    share_hours = fraction("Fraction of the GPU-hours", "hours over those of all n")
    p25, median, p75 = quantiles("quantile of runtime over limit", 25, 50, 75, display="percent")


class Goodput(ResultTable):
    """GPU-hours by what became of them."""

    kind = text("GPU-hours that are", "useful, repeated, lost or unfinished")
    n = count("Runs", "runs with a runtime and GPUs")
    n_missing = count("Without", "runs without a runtime or GPUs")
    gpu_hours = number("GPU-hours", "GPUs times runtime", display="hours", unit="h")
    share = fraction("Fraction", "of the GPU-hours of all kinds")
