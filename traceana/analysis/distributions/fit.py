"""Distributions of runtimes, where short ones may be unseen and long ones cut."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from scipy.special import ndtri
from scipy.stats import false_discovery_control

from traceana.analysis.distributions.result import DistributionFits
from traceana.analysis.distributions.values import read_values
from traceana.errors import DataError
from traceana.stats.distributions import (
    FAMILIES,
    Fit,
    Sample,
    fit_family,
    ks_distance,
    ks_distances_of_refits,
    make_sample,
    vuong_test,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.analysis.distributions.values import Flags, Values

_TABLE: Final = {
    "family": pl.String,
    "n": pl.Int64,
    "params": pl.List(pl.Struct({"name": pl.String, "value": pl.Float64})),
    "log_likelihood": pl.Float64,
    "aic": pl.Float64,
    "bic": pl.Float64,
    "ks_statistic": pl.Float64,
    "ks_pvalue": pl.Float64,
    "delta": pl.Float64,
    "n_censored": pl.Int64,
    "truncated_below": pl.Float64,
    "share_above_bound": pl.Float64,
    "resamples": pl.Int64,
    "note": pl.String,
}
_PARAMETERS: Final = {
    "family": pl.String,
    "parameter": pl.String,
    **dict.fromkeys(("estimate", "ci_low", "ci_high"), pl.Float64),
}
_COMPARISONS: Final = {
    **dict.fromkeys(("best", "family", "test"), pl.String),
    **dict.fromkeys(
        (
            *("log_likelihood_ratio", "mean_ratio", "ci_low", "ci_high"),
            *("statistic", "pvalue", "pvalue_adjusted"),
        ),
        pl.Float64,
    ),
    "note": pl.String,
}


def fit_distributions(
    values: Values,
    /,
    *,
    families: Sequence[str] = tuple(FAMILIES),
    criterion: str = "aic",
    truncated_below: float | str | None = None,
    censored: Flags | None = None,
    resamples: int = 199,
    confidence: float = 0.95,
    rng: int | np.random.Generator | None = None,
) -> DistributionFits:
    """Fit distributions to runtimes by maximum likelihood, compare them and judge their fit.

    ln L = sum over ends of ln f(x) + sum over lower bounds of ln S(x) - n ln S(bound), where f is
    a family's density and S its share of longer values. Values are taken as independent and
    continuous.

    Parameters
    ----------
    values
        Positive numbers in any unit; null and NaN are missing and left out.
    families
        Of lognormal (mu, sigma of ln x), gamma (scale, shape), weibull (scale, shape),
        exponential (scale, its mean), lomax (scale, shape; S = (1 + x / scale)^-shape) and
        loglogistic (scale, shape; S = 1 / (1 + (x / scale)^shape)).
    criterion
        "aic" (2 k - 2 ln L) or "bic" (k ln n - 2 ln L): by which they are put in order. k is the
        number of parameters, the bound not among them, n that of all values, cut ones included.
    truncated_below
        Nothing below is in the data, whatever it was: a number in the unit of the values; "min",
        the least value, which is the maximum-likelihood estimate of an unknown bound (too high by
        about one gap between the least values); or None, where short values would be seen.
    censored
        True where a value is a lower bound: it was cut, and the cut had nothing to do with it.
    resamples
        Simulated samples behind each p of `ks_statistic`; 0 for none.
    confidence
        Coverage of the intervals.
    rng
        Seed or generator of the simulations. None: there are none, and `ks_pvalue` is null.

    Returns
    -------
    DistributionFits
        `.table`, the best first: [family, n, params, log_likelihood, aic, bic, ks_statistic,
        ks_pvalue, delta, n_censored, truncated_below, share_above_bound, resamples, note].

        - n counts all values, n_censored the lower bounds among them; params is a list of (name,
          value); delta is the criterion less its least. share_above_bound is what share of the
          fitted distribution lies above the bound: the less, the more the fit tells of values
          that nobody saw.
        - ks_statistic is the largest distance between the fitted distribution above the bound and
          the product-limit estimate (Kaplan and Meier) at the ends. ks_pvalue is (1 + those at
          least as large) / (1 + resamples) in samples of the fit as large as the data, each with
          the family fitted anew (a bound of "min" too), and cut by times drawn from the
          product-limit estimate of the cuts. It is not adjusted: each asks of one family whether
          it holds. resamples counts the samples that had a fit.
        - Where ln L has no maximum inside, params is null, `note` says why, and the rest is of
          where the search stopped. With fewer than two distinct ends all is null.

        `.parameters`: [family, parameter, estimate, ci_low, ci_high]; intervals of Wald, by the
        second derivatives of ln L, on the scale of ln (of mu as it is). A bound of "min" is taken
        as known by them.

        `.comparisons`: [best, family, test, log_likelihood_ratio, mean_ratio, ci_low, ci_high,
        statistic, pvalue, pvalue_adjusted, note], each family against the best. mean_ratio is
        the ratio a value, with its interval (normal; null where nested). test is "vuong" (z,
        with Schwarz's correction) or "nested" (chi-squared): see
        :func:`traceana.stats.distributions.vuong_test`. pvalue_adjusted is Benjamini and
        Hochberg's over the rows. The best is chosen by the same values, so that it looks a
        little better than it is.

    Raises
    ------
    DataError
        If a value is not positive or is below the bound, or an argument is out of range.

    Notes
    -----
    Whole seconds are taken as continuous; where many values are equal, ks_statistic is larger
    than the samples' for that alone. Bounded below: Cohen (1991), Truncated and Censored Samples.
    """
    _check(families, criterion, truncated_below, resamples, confidence)
    x, cut, n_missing = read_values(values, censored)
    bound = _bound(x, truncated_below)
    base = {"n": len(x), "n_censored": int(cut.sum()), "truncated_below": bound}
    with np.errstate(all="ignore"):
        rows, fits, sample = _fit_all(x, cut, truncated_below, families)
        if sample is not None and rng is not None and resamples:
            _add_pvalues(rows, fits, sample, resamples, truncated_below == "min", rng)
        elif sample is not None:
            for row in rows:
                row["note"] = _join(row["note"], "no p: it takes rng and resamples")
        ordered = [row["family"] for row in sorted(rows, key=lambda row: _rank(row[criterion]))]
        comparisons = _compare(ordered, fits, sample, confidence)
    least = min((row[criterion] for row in rows if row[criterion] is not None), default=None)
    for row in rows:
        row |= base
        row["delta"] = None if least is None else row[criterion] - least
    parameters = [
        part for name in ordered for part in _parameters(name, fits.get(name), sample, confidence)
    ]
    by_name = {row["family"]: row for row in rows}
    for name in ordered:
        told = [p for p in parameters if p["family"] == name and p["estimate"] is not None]
        by_name[name]["params"] = [
            {"name": p["parameter"], "value": p["estimate"]} for p in told
        ] or None
    return DistributionFits(
        table=pl.DataFrame([by_name[name] for name in ordered], schema=_TABLE),
        parameters=pl.DataFrame(parameters, schema=_PARAMETERS),
        comparisons=comparisons,
        criterion=criterion,
        n_missing=n_missing,
        confidence=confidence,
    )


def _check(
    families: Sequence[str],
    criterion: str,
    truncated_below: float | str | None,
    resamples: int,
    confidence: float,
) -> None:
    unknown = [name for name in families if name not in FAMILIES]
    if unknown or isinstance(families, str) or not families or len({*families}) < len(families):
        raise DataError(f"families must be some of {', '.join(FAMILIES)}; found {families!r}")
    if criterion not in {"aic", "bic"}:
        raise DataError(f"criterion must be aic or bic; it is {criterion!r}")
    if isinstance(truncated_below, str):
        fine = truncated_below == "min"
    else:
        fine = truncated_below is None or 0 < truncated_below < math.inf
    if not fine:
        raise DataError(
            f"truncated_below must be a positive number, 'min' or None; it is {truncated_below!r}"
        )
    if resamples < 0:
        raise DataError(f"resamples must be at least 0; it is {resamples!r}")
    if not 0 < confidence < 1:
        raise DataError(f"confidence must lie between 0 and 1, such as 0.95; it is {confidence!r}")


def _bound(x: np.ndarray[Any, Any], truncated_below: float | str | None) -> float | None:
    if truncated_below is None or not len(x):
        return None
    least = float(x.min())
    if isinstance(truncated_below, str):
        return least
    if least < truncated_below:
        raise DataError(
            f"{int((x < truncated_below).sum())} of {len(x)} values are below truncated_below = "
            f"{truncated_below:g}, down to {least:g}: leave them out, or lower the bound"
        )
    return float(truncated_below)


def _fit_all(
    x: np.ndarray[Any, Any],
    cut: np.ndarray[Any, Any],
    truncated_below: float | str | None,
    families: Sequence[str],
) -> tuple[list[dict[str, Any]], dict[str, Fit], Sample | None]:
    empty = dict.fromkeys(_TABLE, None)
    if len(np.unique(x[~cut])) < 2:
        why = "no value" if not len(x) else "all values are cut" if cut.all() else "one distinct end"
        note = f"{why}: two distinct values that are no lower bounds are needed"
        return [empty | {"family": name, "note": note} for name in families], {}, None
    low = truncated_below
    sample = make_sample(np.log(x), cut, math.log(low) if isinstance(low, float | int) else low)
    fits = {name: fit_family(FAMILIES[name], sample) for name in families}
    rows = []
    for name, fit in fits.items():
        k = len(FAMILIES[name].parameters)
        share = None if truncated_below is None else math.exp(fit.log_share_above(sample.bound))
        rows.append(
            empty
            | {
                "family": name,
                "log_likelihood": fit.log_likelihood,
                "aic": 2 * k - 2 * fit.log_likelihood,
                "bic": k * math.log(sample.n) - 2 * fit.log_likelihood,
                "ks_statistic": ks_distance(fit, sample),
                "share_above_bound": share,
                "resamples": 0,
                "note": fit.note,
            }
        )
    return rows, fits, sample


def _add_pvalues(
    rows: list[dict[str, Any]],
    fits: dict[str, Fit],
    sample: Sample,
    resamples: int,
    bound_is_least: bool,  # noqa: FBT001
    rng: int | np.random.Generator,
) -> None:
    # a family's stream is its own, whichever others are asked for
    streams = dict(zip(FAMILIES, np.random.default_rng(rng).spawn(len(FAMILIES)), strict=True))
    for row in rows:
        name = row["family"]
        distances = ks_distances_of_refits(
            FAMILIES[name],
            fits[name],
            sample,
            resamples=resamples,
            bound_is_least=bound_is_least,
            rng=streams[name],
        )
        row["resamples"] = len(distances)
        if len(distances):
            beyond = int((distances >= row["ks_statistic"]).sum())
            row["ks_pvalue"] = (1 + beyond) / (1 + len(distances))
        else:
            row["note"] = _join(row["note"], "no p: no simulated sample had two distinct ends")


def _compare(
    ordered: list[str], fits: dict[str, Fit], sample: Sample | None, confidence: float
) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    if sample is not None:
        best = ordered[0]
        for name in ordered[1:]:
            test = vuong_test(
                fits[best], fits[name], sample, names=(best, name), confidence=confidence
            )
            rows.append({"best": best, "family": name, **vars(test)})
    known = [row for row in rows if row["pvalue"] is not None]
    if known:
        adjusted = false_discovery_control([row["pvalue"] for row in known])
        for row, pvalue in zip(known, adjusted, strict=True):
            row["pvalue_adjusted"] = float(pvalue)
    return pl.DataFrame(rows, schema=_COMPARISONS)


def _parameters(
    name: str, fit: Fit | None, sample: Sample | None, confidence: float
) -> list[dict[str, Any]]:
    family = FAMILIES[name]
    rows: list[dict[str, Any]] = [
        {"family": name, "parameter": parameter, "estimate": None, "ci_low": None, "ci_high": None}
        for parameter in family.parameters
    ]
    if fit is None or sample is None or fit.covariance is None:
        return rows
    half = float(ndtri((1 + confidence) / 2)) * np.sqrt(np.diag(fit.covariance))
    theta = fit.theta + np.array([sample.centre, 0.0])[: len(fit.theta)]
    for i, row in enumerate(rows):
        sign = family.sign if i else 1
        ends = sign * (theta[i] + np.array([0, -sign, sign]) * half[i])
        told = ends if row["parameter"] == "mu" else np.exp(ends)
        row |= zip(("estimate", "ci_low", "ci_high"), map(float, told), strict=True)
    return rows


def _rank(criterion: float | None) -> float:
    return math.inf if criterion is None else criterion


def _join(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None
