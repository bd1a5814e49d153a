"""Distributions of runtimes, where short ones may be unseen and long ones cut."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.analysis.distributions.result import DistributionFits
from traceana.analysis.distributions.rows import (
    COMPARISONS,
    PARAMETERS,
    TABLE,
    comparison_rows,
    fit_row,
    parameter_rows,
)
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
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceana.analysis.distributions.values import Flags, Values

    Floats = NDArray[np.float64]


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
        - Where ln L has no maximum inside (Lomax goes to the exponential; or all goes below the
          bound, down to less than 1 in 10,000, and what is left is close to a power law), params is
          null, `note` says so, and the rest is of where the search stopped. Where the search
          failed, and with fewer than two distinct ends, all is null.

        `.parameters`: [family, parameter, estimate, ci_low, ci_high]; intervals of Wald, by the
        second derivatives of ln L, on the scale of ln (of mu as it is). A bound of "min" is taken
        as known by them.

        `.comparisons`: [best, family, test, log_likelihood_ratio, mean_ratio, ci_low, ci_high,
        statistic, pvalue, pvalue_adjusted, note], each family against the best. mean_ratio is
        the ratio a value, with its interval (normal; null where nested). test is "vuong" (z,
        of values left out of the fit) or "nested" (chi-squared): see
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
    with np.errstate(all="ignore"):
        fits, sample, note = _fit_all(x, cut, bound, families)
        pvalues = (
            {}
            if sample is None or rng is None
            else _simulate(fits, sample, resamples, rng, bound_is_least=truncated_below == "min")
        )
        rows = [fit_row(name, fits.get(name), sample, pvalues.get(name), note) for name in families]
        rows.sort(key=lambda row: math.inf if row[criterion] is None else row[criterion])
        ordered = [row["family"] for row in rows]
        comparisons = comparison_rows(ordered, fits, sample, confidence)
        parameters = [
            row for name in ordered for row in parameter_rows(name, fits, sample, confidence)
        ]
    told = {"n": len(x), "n_censored": int(cut.sum()), "truncated_below": bound}
    table = pl.DataFrame([row | told for row in rows], schema=TABLE)
    return DistributionFits(
        table=table.with_columns(delta=pl.col(criterion) - pl.col(criterion).min()),
        parameters=pl.DataFrame(parameters, schema=PARAMETERS).with_columns(
            # an interval of so few values that its end is beyond all numbers
            pl.when(pl.col(name).is_finite()).then(name)
            for name in ("estimate", "ci_low", "ci_high")
        ),
        comparisons=pl.DataFrame(comparisons, schema=COMPARISONS),
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


def _bound(x: Floats, truncated_below: float | str | None) -> float | None:
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
    x: Floats, cut: NDArray[np.bool_], bound: float | None, families: Sequence[str]
) -> tuple[dict[str, Fit], Sample | None, str | None]:
    if len(np.unique(x[~cut])) < 2:
        why = (
            "no value" if not len(x) else "all values are cut" if cut.all() else "one distinct end"
        )
        return {}, None, f"{why}: two distinct values that are no lower bounds are needed"
    sample = make_sample(np.log(x), cut, None if bound is None else math.log(bound))
    return {name: fit_family(FAMILIES[name], sample) for name in families}, sample, None


def _simulate(
    fits: dict[str, Fit],
    sample: Sample,
    resamples: int,
    rng: int | np.random.Generator,
    *,
    bound_is_least: bool,
) -> dict[str, tuple[float | None, int]]:
    """Return the p of each family's distance, and from how many samples it is."""
    # a family's stream is its own, whichever others are asked for
    streams = dict(zip(FAMILIES, np.random.default_rng(rng).spawn(len(FAMILIES)), strict=True))
    pvalues: dict[str, tuple[float | None, int]] = {}
    for name, fit in fits.items():
        if math.isnan(fit.log_likelihood):
            continue
        distances = ks_distances_of_refits(
            FAMILIES[name],
            fit,
            sample,
            resamples=resamples,
            bound_is_least=bound_is_least,
            rng=streams[name],
        )
        beyond = int((distances >= ks_distance(fit, sample)).sum())
        count = len(distances)
        pvalues[name] = ((1 + beyond) / (1 + count) if count else None, count)
    return pvalues
