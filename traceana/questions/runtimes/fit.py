"""Fit distributions to runtimes, with left truncation and right censoring, and to a trace's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from scipy.special import ndtri

from traceana.cohorts.cohort import MOST_NOT_ENDED, SEEN, Cohort, count_cut, form_cohort
from traceana.errors import DataError
from traceana.questions.failures.curves import kaplan_meier
from traceana.questions.runtimes.distributions import (
    Flags,
    Values,
    fitted_quantiles,
    read_clusters,
    read_values,
    tail_index,
)
from traceana.questions.runtimes.tables import (
    DistributionFits,
    FamilyComparisons,
    FamilyParameters,
    FittedFamilies,
    RuntimeSensitivity,
)
from traceana.stats.arguments import (
    MOST_RESAMPLES,
    as_generator,
    check_choice,
    check_confidence,
    check_count,
    is_number,
)
from traceana.stats.arrays import Booleans, Floats, Integers
from traceana.stats.distributions.families import FAMILIES
from traceana.stats.distributions.goodness import (
    ClusterTerms,
    cluster_interval_of_fit,
    cluster_terms,
    ks_distance,
    ks_distances_of_refits,
    multiplier_pvalue,
)
from traceana.stats.distributions.likelihood import (
    Fit,
    Sample,
    fit_family,
    make_sample,
    resolution,
    vuong_test,
)
from traceana.stats.multiplicity import adjust_pvalues
from traceana.store import Trace
from traceana.store.frames import as_names
from traceana.tables.declare import declared, schema_of

_SIMULATED_UP_TO: Final = 5000  # values, where `resamples` is not given
_UNTESTED: Final[dict[str, Any]] = {
    **dict.fromkeys(("ci_low", "ci_high", "statistic", "pvalue", "pvalue_adjusted")),
    "note": "rows in clusters: no test",
}
_NO_P: Final = "no p: pass resamples; in clusters, of complete values only"
_NUMBERS: Final = ("estimate", "ci_low", "ci_high")
PValue: TypeAlias = tuple[float | None, int]
"""A p-value and the number of its samples."""


def _family_row(
    name: str, fit: Fit | None, sample: Sample | None, pvalue: PValue, note: str
) -> dict[str, Any]:
    """Return the row of one family; the note is why there is no fit."""
    row: dict[str, Any] = dict.fromkeys(FittedFamilies.columns()) | {"family": name}
    if fit is None or sample is None:
        return row | {"note": note}
    if math.isnan(fit.log_likelihood):
        return row | {"note": fit.note}
    names, bound = FAMILIES[name].parameters, sample.bound
    p, count = pvalue
    return row | {
        "log_likelihood": fit.log_likelihood,
        "aic": 2 * len(names) - 2 * fit.log_likelihood,
        "bic": len(names) * math.log(sample.n) - 2 * fit.log_likelihood,
        "ks_statistic": ks_distance(fit, sample),
        "ks_pvalue": p,
        "fraction_above_bound": None if bound is None else math.exp(fit.log_fraction_above(bound)),
        "resamples": count,
        "note": "; ".join(filter(None, (fit.note, None if count else _NO_P))) or None,
    }


def _parameters(
    ordered: Sequence[str],
    fits: Mapping[str, Fit],
    sample: Sample | None,
    confidence: float,
    clusters: _Clusters | None,
) -> pl.DataFrame:
    """Return the parameters of the families with Wald intervals, null if there is no maximum."""
    rows: list[dict[str, Any]] = []
    for name in ordered:
        names, fit = FAMILIES[name].parameters, fits.get(name)
        if fit is None or sample is None or fit.covariance is None:
            rows += [{"family": name, "parameter": parameter} for parameter in names]
            continue
        half = float(ndtri((1 + confidence) / 2)) * np.sqrt(np.diag(fit.covariance))
        ends: Sequence[Floats] = (fit.theta - half, fit.theta + half)
        if clusters is not None:
            ends = cluster_interval_of_fit(fit, clusters.terms(fit), confidence=confidence)
        shown = [_natural(name, sample, theta) for theta in (fit.theta, *ends)]
        # a shape that is one over the width falls where the width rises
        rows += [
            {"family": name, "parameter": parameter, "estimate": estimate}
            | {"ci_low": min(both), "ci_high": max(both)}
            for parameter, estimate, *both in zip(names, *shown, strict=True)
        ]
    # the interval of very few values may end beyond all numbers
    finite = [pl.when(pl.col(name).is_finite()).then(name) for name in _NUMBERS]
    return pl.DataFrame(rows, schema=schema_of(FamilyParameters)).with_columns(finite)


def _comparison_rows(
    ordered: Sequence[str],
    fits: Mapping[str, Fit],
    sample: Sample | None,
    confidence: float,
    clusters: _Clusters | None,
) -> list[dict[str, Any]]:
    best = ordered[0]
    if sample is None or math.isnan(fits[best].log_likelihood):
        return []
    rows: list[dict[str, Any]] = []
    for name in ordered[1:]:
        fit, names = fits[name], (best, name)
        if not math.isnan(fit.log_likelihood):
            test = vuong_test(fits[best], fit, sample, names=names, confidence=confidence)
            rows.append({"best": best, "family": name, **vars(test)})
    pvalues = [np.nan if row["pvalue"] is None else row["pvalue"] for row in rows]
    for row, adjusted in zip(rows, adjust_pvalues(pvalues), strict=True):
        row["pvalue_adjusted"] = None if np.isnan(adjusted) else float(adjusted)
    return rows if clusters is None else [row | _UNTESTED for row in rows]


def _natural(name: str, sample: Sample, theta: np.ndarray[Any, Any]) -> list[float]:
    family = FAMILIES[name]
    location = float(theta[0]) + sample.center
    first = location if family.parameters[0] == "mu" else float(np.exp(location))
    return [first, *(float(np.exp(family.sign * part)) for part in theta[1:])]


def fit_distributions(
    values: Values,
    /,
    *,
    families: Sequence[str] = tuple(FAMILIES),
    criterion: str = "aic",
    truncated_below: float | str | None = None,
    entry: Values | None = None,
    observed: Flags | None = None,
    cluster: Values | Sequence[str] | None = None,
    resamples: int | None = None,
    confidence: float = 0.95,
    rng: int | np.random.Generator = 1,
) -> DistributionFits:
    """Fit distributions to runtimes by maximum likelihood and compare their fit.

    ln L = sum over exact values of ln f(x) + sum over censored values of ln S(x) - sum over all of
    ln S(bound), where f is the density of a family and S its survival function (Cohen, Truncated
    and Censored Samples, 1991). Values are treated as continuous: rounding and ties enlarge the KS
    distance. Its p is of the least distance that is possible if the values were rounded, up, down
    or to the nearest, to the step of which they are multiples.

    Parameters
    ----------
    values
        Positive numbers in any unit; null and NaN are missing and excluded.
    families
        Any of lognormal (mu, sigma of ln x), gamma (scale, shape), weibull (scale, shape),
        exponential (scale, its mean), lomax (scale, shape; S = (1 + x / scale)^-shape) and
        loglogistic (scale, shape; S = 1 / (1 + (x / scale)^shape)).
    criterion
        "aic" or "bic": orders the families. The bound does not count as a parameter, and n is the
        number of all values, censored ones included.
    truncated_below
        Left truncation: values below are not in the data. A number in the unit of the values;
        "min", the smallest value, which is the maximum-likelihood estimate of an unknown bound; or
        None.
    entry
        Value from which each was observed (delayed entry): 0 where its start was seen. It is the
        left-truncation bound of this value where it exceeds that of all.
    observed
        False where a value is a lower bound (right censoring, independent of the value). None:
        all values are exact.
    cluster
        Independent unit of each value, such as its user; None: values are independent. With
        clusters, intervals are by a jackknife over clusters, with Student's t and a correction for
        skewness (of a sigma 95 to 98 % cover, from 5 clusters on; more if rows of a cluster are not
        alike). p is by the multiplier bootstrap of
        Kojadinovic and Yan (Canadian Journal of Statistics 40, 2012), for complete values only.
        Comparisons of families have no test then.
    resamples, rng
        Simulated samples for each p-value of the KS distance, and their seed or generator; 0 for
        none. None: 199 for up to 5,000 values, else none.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DistributionFits
        ``.table``, ``.parameters``, ``.comparisons`` and ``.quantiles``.

        - If ln L has no maximum inside (Lomax tends to the exponential; or less than 1 in 10,000
          of the fitted distribution lies above the bound), parameters are null, `note` gives the
          reason, and the other values are those where the search stopped. With fewer than two
          distinct exact values all are null.
        - Simulated samples are censored by times drawn from the Kaplan-Meier estimate of the
          censoring times. The p-values are not adjusted.
        - Comparisons are :func:`traceana.stats.distributions.vuong_test`. The best family is
          chosen by the same values, so it looks slightly better than it is.

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> runtimes = np.random.default_rng(1).lognormal(5, 1, size=200)
    >>> fits = traceana.fit_distributions(runtimes, families=["lognormal", "exponential"])
    >>> fits.table.select("family", pl.col("aic").round(0)).rows()
    [('lognormal', 2511.0), ('exponential', 2547.0)]
    """
    x, cut, entered, _ = read_values(values, observed, entry)
    of = None if cluster is None else read_clusters(cluster, values)
    if resamples is None:
        resamples = 199 if len(x) <= _SIMULATED_UP_TO else 0
    _check(families, criterion, truncated_below, resamples, confidence)
    bound = _bound(x, truncated_below)
    with np.errstate(all="ignore"):
        fits, sample, note = _fit_all(x, cut, entered, bound, families)
        clusters = None if of is None or sample is None else _Clusters(x, cut, entered, of, sample)
        is_least = truncated_below == "min"
        pvalues = _pvalues(
            x, fits, sample, clusters, resamples=resamples, rng=rng, is_least=is_least
        )
        rows = [
            _family_row(name, fits.get(name), sample, pvalues.get(name, (None, 0)), note)
            for name in families
        ]
        rows.sort(key=lambda row: math.inf if row[criterion] is None else row[criterion])
        ordered = [row["family"] for row in rows]
        comparisons = _comparison_rows(ordered, fits, sample, confidence, clusters)
        parameters = _parameters(ordered, fits, sample, confidence, clusters)
    shared = {
        "n": len(x),
        "n_censored": int(cut.sum()),
        "n_truncated": 0 if entered is None else int((entered > 0).sum()),
        "truncated_below": bound,
    }
    table = pl.DataFrame([row | shared for row in rows], schema=schema_of(FittedFamilies))
    fitted = DistributionFits(
        table=table.with_columns(delta=pl.col(criterion) - pl.col(criterion).min()),
        parameters=parameters,
        comparisons=pl.DataFrame(comparisons, schema=schema_of(FamilyComparisons)),
        quantiles=None,
        criterion=criterion,
        confidence=confidence,
    )
    if cut.all() or len(x) < 2:
        return fitted
    with np.errstate(all="ignore"):
        quantiles = fitted_quantiles(x, fitted, entry=entered, observed=~cut, confidence=confidence)
        return replace(fitted, quantiles=quantiles if quantiles.height else None)


def _check(
    families: Sequence[str],
    criterion: str,
    truncated_below: float | str | None,
    resamples: int,
    confidence: float,
) -> None:
    names = set() if isinstance(families, str) else {*as_names(families)}
    if not names <= FAMILIES.keys() or not names or len(names) < len(families):
        raise DataError(f"families must be some of {', '.join(FAMILIES)}; found {families!r}")
    check_choice("criterion", criterion, ("aic", "bic"))
    bound: Any = truncated_below
    is_known = bound is None or (isinstance(bound, str) and bound == "min")
    if not (is_known or (is_number(bound) and 0 < bound < math.inf)):
        raise DataError(
            f"truncated_below must be a positive number, 'min' or None; it is {truncated_below!r}"
        )
    check_count("resamples", resamples, least=0, most=MOST_RESAMPLES)
    check_confidence(confidence)


def _bound(x: Floats, truncated_below: float | str | None) -> float | None:
    if truncated_below is None or not len(x):
        return None
    least = float(x.min())
    if isinstance(truncated_below, str):
        return least
    if least < truncated_below:
        raise DataError(
            f"{int((x < truncated_below).sum())} of {len(x)} values are below truncated_below = "
            f"{truncated_below:g}, down to {least:g}; drop them, or lower the bound"
        )
    return float(truncated_below)


def _fit_all(
    x: Floats, cut: Booleans, entered: Floats | None, bound: float | None, families: Sequence[str]
) -> tuple[dict[str, Fit], Sample | None, str]:
    if len(np.unique(x[~cut])) < 2:
        why = "all values are censored" if cut.all() else "one distinct uncensored value"
        why = why if len(x) else "no value"
        return {}, None, f"{why}: at least two distinct uncensored values are needed"
    low = None if entered is None else np.log(entered)
    sample = make_sample(np.log(x), cut, None if bound is None else math.log(bound), low)
    return {name: fit_family(FAMILIES[name], sample) for name in families}, sample, ""


def _pvalues(
    x: Floats,
    fits: dict[str, Fit],
    sample: Sample | None,
    clusters: _Clusters | None,
    *,
    resamples: int,
    rng: int | np.random.Generator,
    is_least: bool,
) -> dict[str, PValue]:
    """Return the p-value of the KS distance of each family."""
    pvalues: dict[str, PValue] = {}
    if not resamples or sample is None:
        return pvalues
    # each family has its own stream, whichever others are fitted
    streams = dict(zip(FAMILIES, as_generator(rng).spawn(len(FAMILIES)), strict=True))
    step = resolution(x)
    distances = {
        name: ks_distance(fit, sample, step)
        for name, fit in fits.items()
        if not math.isnan(fit.log_likelihood)
    }
    for name, distance in distances.items():
        fit = fits[name]
        options: dict[str, Any] = {"resamples": resamples, "rng": streams[name]}
        if clusters is None:
            refit = (FAMILIES[name], fit, sample)
            of_refits = ks_distances_of_refits(*refit, bound_is_least=is_least, **options)
            beyond, count = int((of_refits >= distance).sum()), len(of_refits)
            pvalues[name] = ((1 + beyond) / (1 + count) if count else None, count)
        elif clusters.is_complete and fit.covariance is not None:
            of_fit = (fit, clusters.y, clusters.terms(fit).scores, clusters.cluster)
            pvalues[name] = (multiplier_pvalue(*of_fit, distance=distance, **options), resamples)
    return pvalues


class _Clusters:
    def __init__(
        self, x: Floats, cut: Booleans, entered: Floats | None, cluster: Integers, sample: Sample
    ) -> None:
        bound = -np.inf if sample.bound is None else sample.bound
        entry = np.full(len(x), -np.inf) if entered is None else np.log(entered) - sample.center
        self.y, self.cut, self.cluster = np.log(x) - sample.center, cut, cluster
        self.low = np.maximum(entry, bound)
        self.is_complete = not (cut.any() or (self.low > -np.inf).any())

    def terms(self, fit: Fit) -> ClusterTerms:
        """Return the derivatives of ln L in each cluster."""
        return cluster_terms(fit, self.y, self.cut, self.low, self.cluster)


Median: TypeAlias = tuple[float | None, float | None, float | None]
REFITS: Final = 199  # resamples for the p-value of the best family
SEED: Final = 1
MOST_ROWS: Final = 200_000  # more runtimes are sampled at random


@dataclass(frozen=True)
class RuntimeDistributions:
    """Distributions of runtimes, overall and by group."""

    n: int
    n_timed: int
    n_positive: int
    n_used: int
    """Rows, those with a runtime (or still running), of these those above 0, and those that were
    analyzed."""
    bound: float | None  # smallest runtime, if the trace is left-truncated
    median: Median
    """Of all rows, that of Kaplan-Meier if some are truncated or censored: without an interval if
    the log is complete and few jobs still run, else with one over independent units, if any."""
    fits: DistributionFits | None = None
    pvalue: float | None = None
    """The families (None for fewer than two distinct runtimes), and p of the best."""
    tail: pl.DataFrame | None = None  # tail index for several numbers of largest runtimes
    sensitivity: pl.DataFrame | None = None
    """Estimates with truncation and censoring, ignoring both, and without these rows; None if no
    row is truncated or censored."""


def analyze_runtime_distributions(trace: Trace, /) -> RuntimeDistributions:
    """Fit distributions to the runtimes of a trace, and compare its groups."""
    cohort = form_cohort(trace)
    table = trace.manifest.tables["tasks" if cohort.from_tasks else "jobs"]
    columns = {"duration_s", "entry_s", "observed", *cohort.unit_columns}
    timed = cohort.rows.select(columns).drop_nulls("duration_s")
    positive = rows = timed.filter(pl.col("duration_s") > 0)
    if rows.height > MOST_ROWS:
        rows = rows.sample(MOST_ROWS, seed=SEED)
    runtimes = rows["duration_s"]
    bound = float(min(runtimes)) if table.left_truncated and len(runtimes) else None
    n_rows = (cohort.rows.height, timed.height, positive.height, rows.height)
    counts = (*n_rows, bound, _median(timed, cohort))
    if runtimes.n_unique() < 2:
        return RuntimeDistributions(*counts)
    truncated = None if bound is None else "min"
    unit = _codes(rows, cohort.cluster)
    fits = _fit(rows, truncated, cluster=unit)
    pvalue = None
    if fits.best is not None:
        resamples = None if unit is None else REFITS
        of_best = {"families": [fits.best], "resamples": resamples, "rng": SEED}
        pvalue = _fit(rows, truncated, cluster=unit, **of_best).table["ks_pvalue"].item()
    n = len(runtimes)
    largest = sorted({k for k in (int(n**0.5), n // 50, n // 20, n // 10) if 1 <= k < n})

    def tails(rows: pl.DataFrame, cluster: str | None) -> pl.DataFrame:
        options = _seen(rows) | {"cluster": _codes(rows, cluster)}
        return tail_index(runtimes, k=largest or None, **options)

    tail = cohort.over_units(tails, rows)
    return RuntimeDistributions(*counts, fits, pvalue, tail, _sensitivity(rows, truncated))


def _seen(rows: pl.DataFrame) -> dict[str, Any]:
    return {"entry": rows["entry_s"], "observed": rows["observed"]}


def _fit(rows: pl.DataFrame, bound: float | str | None, **options: object) -> DistributionFits:
    chosen: dict[str, Any] = {"criterion": "bic", "resamples": 0, **_seen(rows), **options}
    return fit_distributions(rows["duration_s"], truncated_below=bound, **chosen)


def _codes(rows: pl.DataFrame, unit: str | None) -> pl.Series | None:
    if unit is None or rows[unit].n_unique() < 2:
        return None
    return rows[unit].rank("dense").cast(pl.Int64)


def _median(rows: pl.DataFrame, cohort: Cohort) -> Median:
    """Return the median of all rows; that of a log in which few still run has no interval."""
    if rows.is_empty():
        return None, None, None
    cut, is_census = count_cut(rows), cohort.observation is not None and not cohort.sampled
    if not cut:
        median = rows["duration_s"].quantile(0.5, "linear")
        if is_census:
            return median, None, None
        low, high = cohort.median_interval(rows, rows["duration_s"])
        return (median, None, None) if math.isnan(low) else (median, low, high)
    curve = cohort.over_units(kaplan_meier, rows, quantiles=(0.5,), status=None, **SEEN)
    low, middle, high = curve.quantiles.select("ci_low", "time_s", "ci_high").row(0)
    if cut <= MOST_NOT_ENDED * rows.height and is_census:
        return middle, None, None
    return middle, low, high


def _sensitivity(rows: pl.DataFrame, truncated: str | None) -> pl.DataFrame | None:
    whole = pl.col("observed") & (pl.col("entry_s") == 0)
    if rows.select(whole.all()).item():
        return None
    ignored = rows.with_columns(entry_s=pl.lit(0.0), observed=pl.lit(value=True))
    treatments: list[dict[str, Any]] = []
    for name, treated in (
        ("delayed entry and censoring", rows),
        ("ignored", ignored),
        ("rows dropped", rows.filter(whole)),
    ):
        horizon_s = treatments[0]["horizon_s"] if treatments else None
        survival = kaplan_meier(treated, horizon_s=horizon_s, status=None, **SEEN)
        fits = _fit(treated, truncated)
        tail = tail_index(treated["duration_s"], **_seen(treated))
        row = survival.groups.select("n", "median_s", "restricted_mean_s").row(0, named=True)
        row |= {"treatment": name, "horizon_s": survival.horizon_s, "best": fits.best}
        row["mean_s"] = None if count_cut(treated) else treated["duration_s"].mean()
        row["tail_index"] = tail["tail_index"].item()
        treatments.append(row)
    return declared(pl.DataFrame(treatments), RuntimeSensitivity)
