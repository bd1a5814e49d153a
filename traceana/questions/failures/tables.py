"""Results of outcome analyses: runtimes, failure rates, tests and models of failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import polars as pl

from traceana.tables.declare import (
    ResultTable,
    ci,
    count,
    fraction,
    hours,
    interval,
    number,
    p_value,
    quantiles,
    ratio,
    seconds,
    text,
)
from traceana.tables.result import Result

_CLUSTERS = "clusters among the rows, only with `cluster`"


class RuntimeBy(ResultTable):
    """Runtime of each group."""

    n = count("Runtimes", "rows with a runtime")
    mean_s = seconds("Mean", "mean")
    ci_low, ci_high = ci("confidence interval of the mean", display="duration", unit="s")
    median_s = seconds("Median", "median")
    p90_s = seconds("90th percentile", "90th percentile")
    n_missing = count("Without runtime", "rows without a runtime (null or NaN)")
    p99_s = seconds("99th percentile", "99th percentile")
    n_clusters = count("Clusters", _CLUSTERS, optional=True)
    n_effective = number(
        "Effective n",
        "independent rows with the same standard error, at most n; only with `cluster`",
        display="count",
        optional=True,
    )
    note = text("Note", "why there is no interval, or that it is too narrow")


class OutcomeRates(ResultTable):
    """Success rate of each group."""

    n = count("Rows", "successes and failures")
    successes = count("Successes", "rows with a status in `success`")
    rate = fraction("Success rate", "`successes / n`; null if n is 0")
    ci_low, ci_high = ci("confidence interval of the rate", display="percent")
    n_excluded = count("Excluded", "rows that are neither, null included")
    n_clusters = count("Clusters", _CLUSTERS, optional=True)
    n_effective = number("Effective n", "of independent rows", display="count", optional=True)
    note = text("Note", "why there is no interval, or that it is likely too narrow", optional=True)


class FailureRates(ResultTable):
    """Failure rate of each group, with its rows by status."""

    n = count("Rows", "successes and failures")
    failures = count("Failures", "rows with a status in `failure`")
    rate = fraction("Failure rate", "`failures / n`; null if n is 0")
    ci_low, ci_high = ci("confidence interval of the rate", display="percent")
    n_excluded = count("Excluded", "rows that are neither, null included")
    n_missing = count("Without status", "rows without a status")
    completed = count("Completed", "rows with this status; absent for other values", optional=True)
    failed = count("Failed", "rows with this status", optional=True)
    cancelled = count("Cancelled", "rows with this status", optional=True)
    running = count("Running", "rows with this status", optional=True)
    pending = count("Pending", "rows with this status", optional=True)
    unknown = count("Unknown", "rows with this status", optional=True)
    n_clusters = count("Clusters", _CLUSTERS, optional=True)
    n_effective = number("Effective n", "of independent rows", display="count", optional=True)
    note = text("Note", "why there is no interval, or that it is likely too narrow", optional=True)


class FailureByRequest(FailureRates):
    """Failure rate of each group with its success rate."""

    success_rate = fraction("Success rate", "one minus the failure rate")


class Association(ResultTable):
    """Association between groups and failure."""

    n = count("n", "successes and failures")
    n_effective = number("Effective n", "n divided by the design effect", display="count")
    failures = count("Failures", "rows with a status in `failure`")
    n_groups = count("Groups", "groups")
    n_clusters = count("Clusters", "clusters; null without `cluster`")
    cramers_v = ratio(
        "Cramér's V", "0 if all groups have the same rate, 1 if the group determines the outcome"
    )
    ci_low, ci_high = ci("confidence interval of Cramér's V", display="ratio")
    statistic = number("Statistic", "Pearson's chi-squared, divided by the design effect")
    df = number("df", "degrees of freedom", display="plain")
    pvalue = number("p", "of equal rates in all groups", display="pvalue")
    method = text("Method", "how the p-value was computed")
    note = text("Note", "why a value is null")


class GroupTests(ResultTable):
    """Tests of failure and runtime between the groups of a cohort."""

    question = text("Question", "what is compared between which groups")
    n = count("n", "rows in the test")
    n_groups = count("Groups", "groups")
    n_clusters = count("Clusters", "clusters; null without `cluster`")
    measure = text("Effect size", "Cramér's V or epsilon squared")
    effect = ratio("Estimate", "the effect size")
    ci_low, ci_high = ci(display="ratio")
    statistic = number("Statistic", "chi-squared or H, divided by the design effect")
    df = number("df", "degrees of freedom")
    pvalue = number("p", "of equal groups", display="pvalue")
    pvalue_adjusted = number("Adjusted p", "Holm over all tests of the table", display="pvalue")
    conclusion = text("Conclusion", "by :func:`traceana.stats.multiplicity.conclude`")
    method = text("Method", "how p was computed")
    note = text("Note", "why a value is null")


class FailureOdds(ResultTable):
    """Odds ratios of failure of each group against the reference group."""

    n = count("n", "successes and failures of the group")
    failures = count("Failures", "failures of the group")
    n_reference = count("n of the reference", "successes and failures of the reference group")
    failures_reference = count("Failures of the reference", "failures of the reference group")
    crude_odds_ratio = number("Crude odds ratio", "odds ratio over all strata taken together")
    crude_ci_low, crude_ci_high = ci("Woolf's confidence interval of the crude odds ratio")
    odds_ratio = number("Mantel-Haenszel odds ratio", "odds ratio pooled over the strata")
    ci_low, ci_high = ci("its interval (Robins, Breslow and Greenland)")
    pvalue = number("p", "Cochran-Mantel-Haenszel test", display="pvalue")
    pvalue_homogeneity = p_value(
        "p of homogeneity",
        "Breslow-Day test of equal odds ratios in all strata, with Tarone's correction; null "
        "with `cluster`",
    )
    n_strata = count("Informative strata", "strata with both groups and both outcomes")
    n_clusters = count("Clusters", "clusters of either group, only with `cluster`", optional=True)
    note = text("Note", "why a value is null")


class RuntimeTest(ResultTable):
    """Rank ANOVA of the runtimes of all groups."""

    n = count("Runtimes", "rows with a runtime")
    n_effective = number("Effective n", "n divided by the design effect", display="count")
    n_groups = count("Groups", "groups")
    n_clusters = count("Clusters", "clusters; null without `cluster`")
    epsilon_squared = ratio("Epsilon squared", "fraction of the variance of ranks between groups")
    ci_low, ci_high = ci("confidence interval of epsilon squared", display="ratio")
    statistic = number("H", "Kruskal-Wallis H, divided by the design effect or for unequal spreads")
    df = number("df", "degrees of freedom")
    df_error = number(
        "Error df", "denominator: statistic / df has an F distribution; null for chi-squared"
    )
    pvalue = p_value(
        "p", "of the rank ANOVA; of two groups, of the pair; by permutations if rows are few"
    )
    note = text("Note", "why a value is null")


class RuntimeGroups(ResultTable):
    """Median runtime of each group."""

    n = count("Runtimes", "rows with a runtime")
    n_clusters = count("Clusters", "clusters; null without `cluster`")
    n_missing = count("Without runtime", "rows without a runtime")
    mean_rank = number("Mean rank", "mean rank of the runtimes", display="count")
    median_s = seconds("Median", "median")
    ci_low, ci_high = ci(
        "distribution-free interval of the median (Woodruff, JASA 47, 1952)",
        display="duration",
        unit="s",
    )


class RuntimePairs(ResultTable):
    """Pairwise comparisons of groups."""

    n_a = count("n of first", "runtimes of the first group")
    n_b = count("n of second", "runtimes of the second group")
    superiority = ratio(
        "P(first is longer)",
        "probability that a runtime of the first group is longer, ties counted half",
    )
    ci_low, ci_high = ci("its interval (Brunner and Munzel)", display="ratio")
    cliffs_delta = ratio("Cliff's delta", "`2 * superiority - 1`")
    pvalue = p_value("p", "Brunner and Munzel's test, or the Mann-Whitney test by `method`")
    pvalue_adjusted = number("Adjusted p", "adjusted over all pairs", display="pvalue")
    note = text("Note", "why a value is null")


@dataclass(frozen=True, repr=False, eq=False)
class RuntimeComparison(Result):
    """Runtimes of groups compared, from :func:`traceana.compare_runtimes`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4"] * 6 + ["V100"] * 6, "runtime_s": range(1, 13)})
    >>> traceana.compare_runtimes(jobs, "gpu").pairs["superiority"].item()
    0.0
    """

    test: Annotated[pl.DataFrame, RuntimeTest]
    """One row with the test of all groups."""
    groups: Annotated[pl.DataFrame, RuntimeGroups]
    """One row per group."""
    pairs: Annotated[pl.DataFrame, RuntimePairs]
    """One row per pair of groups."""
    summarized = (
        ("test", "n", "n_groups", "epsilon_squared", "ci_low", "ci_high", "pvalue", "note"),
        ("pairs", "superiority", "ci_low", "ci_high", "pvalue_adjusted", "note"),
    )


class OddsRatios(ResultTable):
    """Odds ratios of a logistic regression."""

    feature = text("Feature", "column of the feature")
    level = text("Level", "level of a categorical feature; null for a numeric one")
    reference = text("Reference", "level that it is compared with")
    n = count("n", "rows of the level; all rows for a numeric feature")
    failures = count("Failures", "failures among them")
    crude_odds_ratio = number("Crude odds ratio", "of the feature alone")
    crude_ci_low, crude_ci_high = ci(
        "Woolf's interval; for a numeric feature, from a model of it alone"
    )
    stratified_odds_ratio = number(
        "Stratified",
        "Mantel-Haenszel odds ratio within the other categorical features; of a numeric feature "
        "that of a model with the categorical features",
    )
    stratified_ci_low, stratified_ci_high = ci()
    odds_ratio = number("Adjusted", "odds ratio, all other features equal")
    ci_low, ci_high = ci("confidence interval of the odds ratio")
    log_odds = number("Log odds", "coefficient of the regression")
    std_error = number("Standard error", "standard error of the coefficient")
    pvalue = number("p", "of an odds ratio of 1", display="pvalue")
    pvalue_adjusted = p_value("Adjusted p", "Holm over all odds ratios of the model")
    vif = number("VIF", "variance inflation factor: 1 without collinearity")
    note = text("Note", "why a value is null")


class StandardizedRates(ResultTable):
    """Failure rate of each group, crude and at the composition of all rows."""

    n = count("Rows", "successes and failures")
    failures = count("Failures", "rows with a status in `failure`")
    rate = fraction("Failure rate", "`failures / n`")
    standardized = fraction("Standardized", "rate at the composition of all rows in the strata")
    ci_low, ci_high = ci("confidence interval of the standardized rate", display="percent")
    fraction_covered = fraction("Covered", "fraction of the rows in strata with rows of all groups")
    note = text("Note", "why a value is null")


class JointTests(ResultTable):
    """Tests of collinear features together."""

    features = text("Features", "features that are collinear (VIF of 5 or more)")
    df = count("df", "coefficients that are tested together")
    statistic = number("Statistic", "Wald's")
    df_error = number("Error df", "clusters - 1; null for independent rows", display="count")
    pvalue = number("p", "of no association of any of them", display="pvalue")
    note = text("Note", "why features are not distinguishable")


class HazardRatios(ResultTable):
    """Hazard ratios of each cause of the end."""

    cause = text("Cause", "status value whose hazard is modeled")
    feature = text("Feature", "column of the feature")
    level = text("Level", "level of a categorical feature; null for a numeric one")
    reference = text("Reference", "level that it is compared with")
    n = count("n", "rows of the level; all rows for a numeric feature")
    n_events = count("Events", "rows of them that ended by the cause")
    hazard_ratio = number("Hazard ratio", "all other features equal")
    ci_low, ci_high = ci("confidence interval of the hazard ratio")
    log_hazard = number("Log hazard ratio", "coefficient of the regression")
    std_error = number("Standard error", "standard error of the coefficient")
    pvalue = number("p", "of a hazard ratio of 1", display="pvalue")
    pvalue_adjusted = number("Adjusted p", "Holm over all hazard ratios", display="pvalue")
    note = text("Note", "why a value is null, or limits of the interval")


class OutcomesByHorizon(ResultTable):
    """Fraction of rows with each outcome by a stated runtime."""

    event = text("Outcome", "status value")
    horizon_s = seconds("By runtime", "the horizon")
    n = count("Rows", "rows with a runtime")
    n_events = count("Events", "rows with the outcome, also after the horizon")
    n_not_ended = count("Not ended", "rows with none of the outcomes (censored)")
    fraction = number("Fraction", "cumulative incidence at the horizon", display="percent")
    ci_low, ci_high = ci("confidence interval of the fraction", display="percent")
    rate_of_ended = number(
        "Rate among ended", "rows with the outcome over rows with any outcome", display="percent"
    )
    note = text("Note", "whether many rows have not ended")


class Calibration(ResultTable):
    """Predicted and observed failures by tenths of the predicted probability."""

    bin = count("Bin", "number of the tenth, by predicted probability")
    n = count("n", "rows")
    predicted = fraction("Predicted", "mean predicted probability of failure")
    observed = fraction("Observed", "fraction of failures")
    ci_low, ci_high = ci("Wilson's interval of the observed fraction", display="percent")


class ModelFit(ResultTable):
    """What a model was fitted to, and how well it predicts held-out rows."""

    n = count("n", "rows of the fit")
    failures = count("Failures", "failures among them")
    n_excluded = count(
        "Excluded",
        "successes and failures without a feature, or of a level without variation in outcome",
    )
    n_clusters = count("Clusters", "clusters; null without `cluster`")
    events_per_parameter = number(
        "Events per parameter", "the rarer outcome per coefficient; unreliable below 10"
    )
    auc = ratio("AUC", "area under the ROC curve on held-out rows")
    brier = ratio("Brier score", "mean squared error of the predictions")
    brier_of_rate = ratio("of the mean rate", "Brier score of the mean rate")
    calibration_slope = ratio("Calibration slope", "1 if calibrated")
    calibration_intercept = ratio("Calibration intercept", "0 if calibrated")
    errors = text("Standard errors", "how standard errors were estimated")
    note = text("Note", "why a value is null")


@dataclass(frozen=True, repr=False, eq=False)
class FailureModel(Result):
    """Logistic regression of failure, from :func:`traceana.failure_model`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> status = ["completed"] * 3 + ["failed"]
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8] * 10, "status": status * 9 + status[::-1]})
    >>> traceana.failure_model(jobs, features="gpus").fit["failures"].item()
    10
    """

    odds_ratios: Annotated[pl.DataFrame, OddsRatios]
    """One row per numeric feature and per level of a categorical one."""
    calibration: Annotated[pl.DataFrame, Calibration]
    """One row per tenth of the rows, by predicted probability of failure."""
    fit: Annotated[pl.DataFrame, ModelFit]
    """One row with the rows of the fit, and how well it predicts held-out rows."""
    joint: Annotated[pl.DataFrame, JointTests]
    """One row per set of collinear features, tested together."""
    drawn_by = "plot_failure_odds"
    summarized = (
        (
            "odds_ratios",
            "feature",
            "level",
            "reference",
            "n",
            "odds_ratio",
            "ci_low",
            "ci_high",
            "note",
        ),
        ("fit", "n", "failures", "n_excluded", "auc", "brier", "brier_of_rate", "errors"),
    )


class FailureOutliers(ResultTable):
    """Groups compared with all other rows of the same strata."""

    n = count("Ended", "successes and failures of the group")
    failures = count("Failures")
    expected = ratio("Expected", "failures at the rate of all rows of the same strata")
    odds_ratio = number("Odds ratio", "Mantel-Haenszel, against all other rows")
    ci_low, ci_high = ci("Robins, Breslow and Greenland's interval")
    pvalue = number("p", "Cochran-Mantel-Haenszel test", display="pvalue")
    pvalue_adjusted = number("Adjusted p", "Holm's, over the groups tested", display="pvalue")
    note = text("Note", "why a value is null")


class HazardByRuntime(ResultTable):
    """Rate of an event while rows run, by interval of runtime."""

    event = text("Event", "status value that is the event")
    from_s = seconds("From", "runtime from which the interval counts")
    to_s = seconds("To", "runtime before which it ends; null: no end")
    n_at_risk = count("Running", "rows that ran in the interval")
    n_events = count("Events", "rows with the event in the interval")
    run_hours = hours("Hours", "hours that rows ran in the interval")
    hazard_per_h = number("Per hour", "events over run_hours", unit="1/h")
    ci_low, ci_high = interval(description="of hazard_per_h")
    ratio = number("Ratio", "hazard over that of all runtimes")
    note = text("Note", "that the rows are likely not independent", optional=True)


class TimeLimitEnds(ResultTable):
    """Jobs that reach their time limit."""

    n = count("Jobs", "jobs with a runtime and a time limit")
    n_missing = count("Without", "jobs without a runtime or a time limit")
    at_limit = count("At limit", "jobs that ran as long as their limit or longer")
    fraction_at_limit = fraction("Fraction", "at_limit over n")
    hours = number("GPU-hours", "of the jobs at the limit", display="hours", unit="h")
    fraction_hours = fraction("Fraction of the GPU-hours", "hours over those of all n")
    p25, median, p75 = quantiles("quantile of runtime over limit", 25, 50, 75, display="percent")


class Goodput(ResultTable):
    """GPU-hours by what became of them."""

    kind = text("GPU-hours that are", "useful, repeated, lost or unfinished")
    n = count("Runs", "runs with a runtime and GPUs")
    n_missing = count("Without", "runs without a runtime or GPUs")
    gpu_hours = hours("GPU-hours", "GPUs times runtime")
    fraction_of_all = fraction("Fraction", "of the GPU-hours of all kinds")


class RuntimeMeans(ResultTable):
    """Means of runtimes that a heavy tail does not decide."""

    n = count("Runtimes", "rows with a runtime")
    geometric_mean_s = seconds("Geometric mean", "of the runtimes above 0")
    geometric_ci_low, geometric_ci_high = ci(display="duration", unit="s")
    trimmed_mean_s = seconds("Trimmed mean", "mean without the shortest and longest")
    trimmed_ci_low, trimmed_ci_high = ci(display="duration", unit="s")
    n_zero = count("Runtimes of 0", "runtimes of 0 s, without a logarithm")
    n_missing = count("Without runtime", "rows without a runtime (null or NaN)")
    n_clusters = count("Clusters", "clusters among the rows, only with `cluster`", optional=True)
    note = text("Note", "why there is no interval")


class VarianceBetween(ResultTable):
    """Fraction of the variance between clusters."""

    intraclass_correlation = ratio("Between clusters", "intraclass correlation, at least 0")
    ci_low, ci_high = ci("its interval; null below 20 clusters", display="ratio")
    n = count("Rows", "rows with a value")
    n_clusters = count("Clusters", "clusters among these rows")
    n_missing = count("Excluded", "rows without a value")
    note = text("Note", "why a value is null")


class NodeFailures(ResultTable):
    """Failures of each node, compared with comparable jobs on other nodes."""

    n = count("Completed or failed", "jobs on the node with comparable jobs on other nodes")
    failures = count("Failures", "failed jobs, without user limits such as the time limit")
    expected = number("Expected", "failures at the rate of comparable jobs on other nodes")
    ratio = number("Ratio", "failures over expected failures")
    ci_low, ci_high = ci("interval of the ratio for another such period")
    lost_gpu_hours = hours(
        "GPU-hours lost", "GPU-hours in failed jobs beyond the expected failures"
    )
    pvalue = number("p", "of at least as many failures, one-sided", display="pvalue")
    pvalue_adjusted = number("Adjusted p", "Holm's, over the nodes", display="pvalue")
    note = text("Note", "why a value is null")
