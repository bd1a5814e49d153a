"""Results of the analyses of distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import polars as pl

from traceana.errors import DataError
from traceana.tables.declare import (
    ResultTable,
    ci,
    count,
    fraction,
    interval,
    number,
    p_value,
    ratio,
    seconds,
    text,
)
from traceana.tables.result import Result


class RuntimeSensitivity(ResultTable):
    """Estimates by treatment of left-truncated and censored rows."""

    treatment = text("Truncated and censored rows", "how they are treated")
    n = count("n", "runtimes")
    median_s = seconds("Median", "Kaplan-Meier median")
    restricted_mean_s = seconds("Restricted mean", "mean of min(runtime, horizon)")
    horizon_s = seconds("Horizon", "of the restricted mean: the first row's largest estimable one")
    mean_s = seconds("Mean", "null if not estimable")
    tail_index = number("Tail index", "of the square root of n largest runtimes")
    best = text("Best family", "smallest BIC")


class FittedFamilies(ResultTable):
    """Families fitted to the same values, the best first."""

    family = text("Family", "name of the family")
    n = count("n", "values, censored ones included")
    log_likelihood = number("Log-likelihood", "at the maximum")
    aic = number("AIC", "2 k - 2 ln L with k parameters", display="count")
    bic = number("BIC", "k ln n - 2 ln L", display="count")
    ks_statistic = ratio(
        "KS distance",
        "largest distance of the fitted distribution function from the Kaplan-Meier estimate, "
        "above the bound",
    )
    ks_pvalue = p_value(
        "p of the KS distance",
        "(1 + simulated samples with a distance at least as large) / (1 + `resamples`); each "
        "sample is drawn from the fit and fitted anew",
    )
    delta = number("Delta", "criterion minus its smallest value")
    n_censored = count("Censored", "values that are lower bounds")
    n_truncated = count("Left-truncated", "values observed from an entry above 0")
    truncated_below = number("Bound", "values below are not in the data")
    fraction_above_bound = fraction("Fraction above the bound", "of the fitted distribution")
    resamples = count("Resamples", "simulated samples with a fit")
    note = text("Note", "why a value is null")


class FamilyParameters(ResultTable):
    """Parameters of the fitted families."""

    family = text("Family", "name of the family")
    parameter = text("Parameter", "name of the parameter")
    estimate = number("Estimate", "maximum-likelihood estimate")
    ci_low, ci_high = ci("Wald interval on the scale of the logarithm (of mu as it is)")


class FamilyComparisons(ResultTable):
    """Likelihood-ratio tests of each family against the best."""

    best = text("Best", "the best family")
    family = text("Family", "the family that it is compared with")
    test = text("Test", "`vuong`, or `nested` (chi-squared)")
    log_likelihood_ratio = number("Log-likelihood ratio", "sum over all values")
    mean_ratio = number("Mean log-likelihood ratio", "per value")
    ci_low, ci_high = ci("normal interval of the mean ratio; null if nested")
    statistic = number("Statistic", "z, or twice the log-likelihood ratio")
    pvalue = p_value("p", "two-sided")
    pvalue_adjusted = p_value("Adjusted p", "Benjamini-Hochberg adjustment over the rows")
    note = text("Note", "limits of the test")


class FamilyRanking(FittedFamilies):
    """Fitted families with their comparison to the best."""

    parameters = text("Parameters (scale in s)", "estimates of the parameters")
    mean_ratio = number("Mean log-likelihood ratio", "of the best family, per value")
    ci_low, ci_high = ci("normal interval of the mean ratio; null if nested")
    pvalue_adjusted = p_value("Adjusted p", "of the comparison with the best")


class EmpiricalDistribution(ResultTable):
    """Quantiles of a column by group."""

    n = count("n", "values of the group")
    fraction_below = fraction("Fraction", "fraction of values up to `value`")
    value = number("Value", "the quantile")


class FittedQuantiles(ResultTable):
    """Quantiles of values beside the quantiles of the fitted families."""

    n = count("n", "values")
    fraction_below = fraction("Fraction at or below", "probability of the quantile")
    value = number("Value", "smallest value with at least this fraction at or below it")
    ci_low, ci_high = ci("interval between order statistics; null beyond the data")
    lognormal, gamma, weibull, exponential, lomax, loglogistic = (
        number(family, "quantile above the bound, if fitted", optional=True)
        for family in ("Lognormal", "Gamma", "Weibull", "Exponential", "Lomax", "Loglogistic")
    )


class TailIndex(ResultTable):
    """Hill's estimate of the tail index."""

    n = count("n", "values")
    k = count("Largest values", "values above the threshold; fewer than requested with ties")
    threshold = number("Threshold", "the next largest value", display="seconds")
    tail_index = ratio("Tail index", "Hill's estimate")
    ci_low, ci_high = ci(
        "exact for a Pareto tail (chi-squared with 2 k df); with `cluster`, by the jackknife",
        display="ratio",
    )
    n_missing = count("Missing", "values that are null or NaN")
    note = text("Note", "why a value is null")


class DistributionPairs(ResultTable):
    """Pairwise comparisons of distributions."""

    n = count("n of first", "values of the first group")
    n_other = count("n of second", "values of the second group")
    n_missing = count("Missing in first", "rows of the first group without a value")
    n_missing_other = count("Missing in second", "rows of the second group without a value")
    ks_distance = ratio("KS distance", "largest difference of the distribution functions")
    ks_low, ks_high = ci("conservative bootstrap interval of the KS distance", display="ratio")
    ks_pvalue = p_value("p of KS", "two-sample Kolmogorov-Smirnov test")
    ks_pvalue_adjusted = p_value("Adjusted p of KS", "Benjamini and Hochberg's, over all pairs")
    note = text("Note", "why a value is null")


@dataclass(frozen=True, repr=False, eq=False)
class DistributionFits(Result):
    """Families fitted to the same values, from :func:`traceana.fit_distributions`.

    Examples
    --------
    >>> import numpy as np, traceana
    >>> runtimes = np.random.default_rng(1).lognormal(5, 1, size=200)
    >>> traceana.fit_distributions(runtimes, families=["lognormal", "exponential"]).best
    'lognormal'
    """

    table: Annotated[pl.DataFrame, FittedFamilies]
    """One row per family, the best by `criterion` first."""
    parameters: Annotated[pl.DataFrame, FamilyParameters]
    """One row per parameter."""
    comparisons: Annotated[pl.DataFrame, FamilyComparisons]
    """One row per family other than the best."""
    quantiles: Annotated[pl.DataFrame | None, FittedQuantiles]
    """Quantiles of the values and of the families; None if values are censored or fewer than
    two."""
    criterion: str
    """"aic" or "bic"."""
    confidence: float
    """Coverage of all intervals."""
    drawn_by = "plot_distribution_fit"

    @property
    def best(self) -> str | None:
        """The family with the smallest criterion; None if nothing could be fitted."""
        first = self.table.row(0, named=True)
        return None if first[self.criterion] is None else str(first["family"])

    @property
    def fitted(self) -> list[str]:
        """The families with parameters, the best first."""
        return [name for name in self.table["family"] if self.params(name)]

    def params(self, family: str, /) -> dict[str, float]:
        """Return the parameters of one family by name; empty if it has no maximum."""
        if family not in self.table["family"]:
            raise DataError(
                f"family {family!r} was not fitted; fitted are {', '.join(self.table['family'])}"
            )
        rows = self.parameters.filter(family=family).drop_nulls("estimate")
        return dict(rows.select("parameter", "estimate").iter_rows())

    summarized = (
        ("table", "family", "n", "delta", "ks_statistic", "ks_pvalue", "note"),
        ("parameters", "family", "parameter", "estimate", "ci_low", "ci_high"),
    )


class RuntimePredictions(ResultTable):
    """Scores of predicted runtimes, one row per predictor and quantile."""

    predictor = text("Predictor", "all, last, mean, quantile or model")
    quantile = number("Quantile", "quantile of the runtime that is predicted", display="plain")
    n = count("Jobs", "jobs submitted after the split")
    n_excluded = count("Excluded", "jobs without a submission, an end or a runtime")
    with_history = fraction("With history", "jobs of which the same job had ended before")
    pinball_s = seconds("Pinball loss", "mean over jobs")
    coverage = fraction("Below", "jobs that ran at most as long as predicted")
    skill = fraction("Skill", "1 - loss over that of predictor all")
    ci_low, ci_high = interval(description="of skill", display="percent")
    note = text("Note", "that the rows are likely not independent", optional=True)
