"""Results of the analyses of distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from traceana.errors import DataError
from traceana.tables.declare import ResultTable, any_key, count, fraction, interval, number, text
from traceana.tables.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl


_CI = "95 % CI"


class RuntimeOverview(ResultTable):
    """One row per trace: quantiles of runtime and the best family."""

    trace = text("Trace")
    n = count("n", "runtimes above 0")
    median_s = number("Median (s)", display="seconds", unit="s")
    ci_low = number(_CI, "of the median", display="seconds")
    ci_high = number(_CI, "upper end of the interval", display="seconds")
    best = text("Best family", "smallest BIC")
    ks_statistic = number("KS distance", "of the best family", display="ratio")
    tail_index = number("Tail index", "of the square root of n largest runtimes", display="ratio")


class RuntimeSensitivity(ResultTable):
    """Estimates by treatment of left-truncated and censored rows."""

    treatment = text("Truncated and censored rows", "how they are treated")
    n = count("n", "runtimes")
    median_s = number("Median (s)", "Kaplan-Meier median", display="seconds", unit="s")
    restricted_mean_s = number(
        "7-day restricted mean (s)", "mean of min(runtime, 7 days)", display="seconds", unit="s"
    )
    mean_s = number("Mean (s)", "null if not estimable", display="seconds", unit="s")
    tail_index = number("Tail index", "of the square root of n largest runtimes")
    best = text("Best family", "smallest BIC")


class FittedFamilies(ResultTable):
    """Families fitted to the same values, the best first."""

    family = text("Family", "name of the family")
    n = count("n", "values, censored ones included")
    params = any_key("Parameters", "list of (name, value); null if there is no maximum inside")
    log_likelihood = number("Log-likelihood", "at the maximum")
    aic = number("AIC", "2 k - 2 ln L with k parameters", display="count")
    bic = number("BIC", "k ln n - 2 ln L", display="count")
    ks_statistic = number(
        "KS distance",
        "largest distance of the fitted distribution function from the Kaplan-Meier estimate, "
        "above the bound",
        display="ratio",
    )
    ks_pvalue = number(
        "p of the KS distance",
        "(1 + simulated samples with a distance at least as large) / (1 + `resamples`); each "
        "sample is drawn from the fit and fitted anew",
        display="pvalue",
    )
    delta = number("Delta", "criterion minus its smallest value")
    n_censored = count("Censored", "values that are lower bounds")
    n_truncated = count("Left-truncated", "values observed from an entry above 0")
    truncated_below = number("Bound", "values below are not in the data")
    share_above_bound = number(
        "Fraction above the bound", "of the fitted distribution", display="percent"
    )
    resamples = count("Resamples", "simulated samples with a fit")
    note = text("Note", "why a value is null")


class FamilyParameters(ResultTable):
    """Parameters of the fitted families."""

    family = text("Family", "name of the family")
    parameter = text("Parameter", "name of the parameter")
    estimate = number("Estimate", "maximum-likelihood estimate")
    ci_low = number(_CI, "Wald interval on the scale of the logarithm (of mu as it is)")
    ci_high = number(_CI, "upper end of the interval")


class FamilyComparisons(ResultTable):
    """Likelihood-ratio tests of each family against the best."""

    best = text("Best", "the best family")
    family = text("Family", "the family that it is compared with")
    test = text("Test", "`vuong`, or `nested` (chi-squared)")
    log_likelihood_ratio = number("Log-likelihood ratio", "sum over all values")
    mean_ratio = number("Mean log-likelihood ratio", "per value")
    ci_low = number(_CI, "normal interval of the mean ratio; null if nested")
    ci_high = number(_CI, "upper end of the interval")
    statistic = number("Statistic", "z, or twice the log-likelihood ratio")
    pvalue = number("p", "two-sided", display="pvalue")
    pvalue_adjusted = number(
        "Adjusted p", "Benjamini-Hochberg adjustment over the rows", display="pvalue"
    )
    note = text("Note", "limits of the test")


class FamilyRanking(FittedFamilies):
    """Fitted families with their comparison to the best."""

    parameters = text("Parameters (scale in s)", "estimates of the parameters")
    mean_ratio = number("Mean log-likelihood ratio", "of the best family, per value")
    ci_low = number(_CI, "normal interval of the mean ratio; null if nested")
    ci_high = number(_CI, "upper end of the interval")
    pvalue_adjusted = number("Adjusted p", "of the comparison with the best", display="pvalue")


class BestFamilies(ResultTable):
    """Best family of each group."""

    n = count("n", "values")
    best = text("Best by BIC", "family with the smallest BIC")
    ks_statistic = number("KS distance", "of the best family", display="ratio")
    second = text("Second", "family with the next BIC")
    delta = number("Delta BIC", "BIC of the second minus BIC of the best")
    pvalue_adjusted = number("Adjusted p", "of the best against the second", display="pvalue")
    note = text("Note", "why a value is null")


class EmpiricalDistribution(ResultTable):
    """Quantiles of a column by group."""

    n = count("n", "values of the group")
    share_below = number("Fraction", "fraction of values up to `value`", display="percent")
    value = number("Value", "the quantile")


class FittedQuantiles(ResultTable):
    """Quantiles of values beside the quantiles of the fitted families."""

    n = count("n", "values")
    share_below = number("Fraction at or below", "probability of the quantile", display="percent")
    value = number("Value", "smallest value with at least this fraction at or below it")
    ci_low = number(_CI, "interval between order statistics; null beyond the data")
    ci_high = number(_CI, "upper end of the interval")
    lognormal = number("Lognormal", "quantile above the bound, if fitted", optional=True)
    gamma = number("Gamma", "quantile above the bound, if fitted", optional=True)
    weibull = number("Weibull", "quantile above the bound, if fitted", optional=True)
    exponential = number("Exponential", "quantile above the bound, if fitted", optional=True)
    lomax = number("Lomax", "quantile above the bound, if fitted", optional=True)
    loglogistic = number("Loglogistic", "quantile above the bound, if fitted", optional=True)


class TailIndex(ResultTable):
    """Hill's estimate of the tail index."""

    n = count("n", "values")
    k = count("Largest values", "values above the threshold; fewer than requested with ties")
    threshold = number("Threshold", "the next largest value", display="seconds")
    tail_index = number("Tail index", "Hill's estimate", display="ratio")
    ci_low = number(
        _CI,
        "exact for a Pareto tail (chi-squared with 2 k df); with `cluster`, by the jackknife",
        display="ratio",
    )
    ci_high = number(_CI, "upper end of the interval", display="ratio")
    n_missing = count("Missing", "values that are null or NaN")
    note = text("Note", "why a value is null")


class DistributionPairs(ResultTable):
    """Pairwise comparisons of distributions."""

    n = count("n of first", "values of the first group")
    n_other = count("n of second", "values of the second group")
    n_missing = count("Missing in first", "rows of the first group without a value")
    n_missing_other = count("Missing in second", "rows of the second group without a value")
    ks_distance = number(
        "KS distance", "largest difference of the distribution functions", display="ratio"
    )
    ks_low = number(_CI, "conservative bootstrap interval of the KS distance", display="ratio")
    ks_high = number(_CI, "upper end of the interval", display="ratio")
    superiority = number(
        "P(first is larger)",
        "probability that a value of the first group is larger, ties counted half",
        display="ratio",
    )
    superiority_low = number(_CI, "its interval (Brunner and Munzel)", display="ratio")
    superiority_high = number(_CI, "upper end of the interval", display="ratio")
    cliffs_delta = number("Cliff's delta", "`2 * superiority - 1`", display="ratio")
    ks_pvalue = number("p of KS", "two-sample Kolmogorov-Smirnov test", display="pvalue")
    ks_pvalue_adjusted = number(
        "Adjusted p of KS", "adjusted over both tests of all pairs", display="pvalue"
    )
    superiority_pvalue = number("p of superiority", "Brunner and Munzel's test", display="pvalue")
    superiority_pvalue_adjusted = number(
        "Adjusted p of superiority", "adjusted over both tests of all pairs", display="pvalue"
    )
    note = text("Note", "why a value is null")


@dataclass(frozen=True, repr=False, eq=False)
class DistributionFits(Result):
    """Families fitted to the same values, from :func:`traceana.fit_distributions`."""

    table: pl.DataFrame
    """One row per family, the best by `criterion` first."""
    parameters: pl.DataFrame
    """One row per parameter."""
    comparisons: pl.DataFrame
    """One row per family other than the best."""
    quantiles: pl.DataFrame | None
    """Quantiles of the values and of the families; None if values are censored or fewer than
    two."""
    criterion: str
    """"aic" or "bic"."""
    n_missing: int
    """Values that were null or NaN, excluded."""
    confidence: float
    """Coverage of all intervals."""
    tables: ClassVar[Mapping[str, type[ResultTable]]] = {
        "table": FittedFamilies,
        "parameters": FamilyParameters,
        "comparisons": FamilyComparisons,
        "quantiles": FittedQuantiles,
    }
    drawn_by: ClassVar[str] = "plot_distribution_fit"

    @property
    def best(self) -> str | None:
        """The family with the smallest criterion; None if nothing could be fitted."""
        first = self.table.row(0, named=True)
        return None if first[self.criterion] is None else str(first["family"])

    def params(self, family: str, /) -> dict[str, float]:
        """Return the parameters of one family by name; empty if it has no maximum.

        Raises a DataError if the family was not fitted.
        """
        if family not in self.table["family"]:
            raise DataError(
                f"family {family!r} was not fitted; fitted are {', '.join(self.table['family'])}"
            )
        rows = self.parameters.filter(family=family).drop_nulls("estimate")
        return dict(rows.select("parameter", "estimate").iter_rows())

    def summary(self) -> str:
        """Return a short text on the result."""
        first = self.table.row(0, named=True)
        bound = first["truncated_below"]
        lines = [
            f"{first['n']:,} values, {first['n_censored']:,} censored, {self.n_missing:,} missing"
            + ("" if bound is None else f"; left-truncated at {bound:g}")
        ]
        for row in self.table.iter_rows(named=True):
            line = f"{row['family']:12}"
            if row["log_likelihood"] is not None:
                values = ", ".join(f"{k} {v:.4g}" for k, v in self.params(row["family"]).items())
                line += f" {self.criterion} +{row['delta']:<10,.1f} ks {row['ks_statistic']:.4f}"
                if row["ks_pvalue"] is not None:
                    line += f" (p {row['ks_pvalue']:.3g})"
                line += f"  {values}"
            if row["note"] is not None:
                line += f"  [{row['note']}]"
            lines.append(line)
        return "\n".join(lines)


class RuntimePredictions(ResultTable):
    """Scores of predicted runtimes, one row per predictor and quantile."""

    predictor = text("Predictor", "all, last, mean or quantile")
    quantile = number("Quantile", "quantile of the runtime that is predicted", display="plain")
    n = count("Jobs", "jobs submitted after the split")
    n_excluded = count("Excluded", "jobs without a submission, an end or a runtime")
    with_history = fraction("With history", "jobs of which the same job had ended before")
    pinball_s = number("Pinball loss (s)", "mean over jobs", display="seconds", unit="s")
    coverage = fraction("Below", "jobs that ran at most as long as predicted")
    skill = number("Skill", "1 - loss over that of predictor all", display="percent")
    ci_low, ci_high = interval(description="of skill", display="percent")
