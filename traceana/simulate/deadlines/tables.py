"""Tables of deadlines: iteration rates, tightness, tested rules and compared plans."""

from __future__ import annotations

from traceana.tables.declare import (
    ResultTable,
    any_key,
    count,
    flag,
    fraction,
    interval,
    number,
    text,
)


class IterationRates(ResultTable):
    """Iterations per second of each (model, batch size, GPUs)."""

    model = any_key("Model")
    batch_size = count("Batch size", unit="samples")
    gpus = number("GPUs", display="plain", unit="GPUs")
    iterations_per_s = number(
        "Iterations per s",
        "middle of the bounds where all plans agree, else the median of iterations / runtime",
        display="plain",
        unit="1/s",
    )
    n = count("Plans")
    spread = number("Range / median", "range of iterations / runtime over its median")
    lowest = number("Lower bound (1/s)", "null if no rate fits all", display="plain", unit="1/s")
    highest = number("Upper bound (1/s)", "null if no rate fits all", display="plain", unit="1/s")
    is_one_rate = flag("One rate", "one rate explains all plans")
    samples_per_s = number("Samples per s", "iterations_per_s * batch_size", unit="1/s")
    scaling_efficiency = number(
        "Scaling efficiency",
        "rate over `gpus` times that on one GPU; null where the latter is missing",
        display="ratio",
    )


class DeadlineTightness(ResultTable):
    """Tightness of deadlines, and the fraction that jobs without a wait would meet."""

    n = count("Deadlines")
    n_met = count("Met", "tightness at least 1")
    fraction_met = fraction("Fraction met")
    ci_low, ci_high = interval(description="Wilson interval of fraction_met", display="percent")
    n_met_fastest = count("Met with more GPUs", "met at the highest rate of the model")
    fraction_met_fastest = fraction("With more GPUs", "fraction met with more GPUs")
    tightness_min = number("Minimum tightness", display="ratio")
    tightness_p05 = number("5 %", "quantile of the tightness", display="ratio")
    tightness_p25 = number("25 %", "quantile of the tightness", display="ratio")
    tightness_median = number("Median", "median tightness", display="ratio")
    tightness_p75 = number("75 %", "quantile of the tightness", display="ratio")
    tightness_p95 = number("95 %", "quantile of the tightness", display="ratio")
    tightness_max = number("Maximum", "maximum tightness", display="ratio")


class DeadlineRules(ResultTable):
    """Tests of the rules by which plans were generated."""

    rule = text("Rule")
    n = count("n")
    measure = text("Measure")
    value = number("Value")
    pvalue = number("p", "null if the rule is no hypothesis test", display="pvalue")
    pvalue_adjusted = number("p adjusted", "Holm's, over the tests", display="pvalue")


class PlanComparison(ResultTable):
    """Published and synthetic plans of the same jobs compared."""

    compared = text("Compared")
    n = count("n", "published plans, or cells")
    n_synthetic = count("n synthetic", "synthetic plans, or cells")
    measure = text("Measure")
    value = number("Value")
    pvalue = number("p", "null if there is no test", display="pvalue")
    pvalue_adjusted = number("p adjusted", "Holm's, over the tests", display="pvalue")


class PublishedDraws(ResultTable):
    """Models of each file as draws of one seeded generator."""

    cluster = any_key("File")
    n = count("Plans")
    n_ordered = count("With an id in the sequence")
    n_as_drawn = count("Found as drawn")
    n_passed_over = count("Draws passed over", "null if no id could be ordered")


class DeadlinePolicies(ResultTable):
    """Missed deadlines of jobs that share a cluster, by scheduling policy."""

    cluster = text("Cluster")
    policy = text("Policy")
    capacity = number("GPUs", "GPUs of the cluster", display="plain", unit="GPUs")
    n = count("Jobs")
    n_excluded = count("Excluded", "a value is missing or 0, or the job needs more GPUs")
    n_missed = count("Missed", "jobs that end after their deadline")
    fraction_missed = fraction("Fraction missed")
    ci_low, ci_high = interval(description="Wilson interval of fraction_missed", display="percent")
