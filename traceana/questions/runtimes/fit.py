"""Fit distributions to runtimes, with left truncation and right censoring."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.questions.runtimes.fit_rows import TABLE, comparison_rows, fit_row, parameter_rows
from traceana.questions.runtimes.quantiles import fitted_quantiles
from traceana.questions.runtimes.tables import DistributionFits, FamilyComparisons, FamilyParameters
from traceana.questions.runtimes.values import read_values
from traceana.stats.arguments import (
    MOST_RESAMPLES,
    as_generator,
    check_choice,
    check_confidence,
    check_count,
    is_number,
)
from traceana.stats.distributions import (
    FAMILIES,
    Fit,
    Sample,
    fit_family,
    ks_distance,
    ks_distances_of_refits,
    make_sample,
)
from traceana.store.frames import as_names
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceana.questions.runtimes.values import Flags, Values

    Floats = NDArray[np.float64]


_SIMULATED_UP_TO: Final = 5000  # values, where `resamples` is not given


def fit_distributions(
    values: Values,
    /,
    *,
    families: Sequence[str] = tuple(FAMILIES),
    criterion: str = "aic",
    truncated_below: float | str | None = None,
    entry: Values | None = None,
    observed: Flags | None = None,
    resamples: int | None = None,
    confidence: float = 0.95,
    rng: int | np.random.Generator = 1,
) -> DistributionFits:
    """Fit distributions to runtimes by maximum likelihood and compare their fit.

    ln L = sum over exact values of ln f(x) + sum over censored values of ln S(x) - sum over all of
    ln S(bound), where f is the density of a family and S its survival function (Cohen, Truncated
    and Censored Samples, 1991). Values are treated as independent and continuous; ties enlarge the
    KS distance.

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
    resamples
        Simulated samples for each p-value of the KS distance; 0 for none. None: 199 for up to
        5,000 values, else none.
    confidence
        Coverage of the intervals, in (0, 1).
    rng
        Seed or generator of the simulations.

    Returns
    -------
    DistributionFits
        ``.table``, ``.parameters``, ``.comparisons`` and ``.quantiles``.

        - If ln L has no maximum inside (Lomax tends to the exponential; or less than 1 in 10,000
          of the fitted distribution lies above the bound), params is null, `note` gives the reason,
          and the other values are those where the search stopped. With fewer than two distinct
          exact values all are null.
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
    x, cut, entered, n_missing = read_values(values, observed, entry)
    if resamples is None:
        resamples = 199 if len(x) <= _SIMULATED_UP_TO else 0
    _check(families, criterion, truncated_below, resamples, confidence)
    bound = _bound(x, truncated_below)
    with np.errstate(all="ignore"):
        fits, sample, note = _fit_all(x, cut, entered, bound, families)
        pvalues = (
            {}
            if sample is None or not resamples
            else _simulate(fits, sample, resamples, rng, bound_is_least=truncated_below == "min")
        )
        rows = [fit_row(name, fits.get(name), sample, pvalues.get(name), note) for name in families]
        rows.sort(key=lambda row: math.inf if row[criterion] is None else row[criterion])
        ordered = [row["family"] for row in rows]
        comparisons = comparison_rows(ordered, fits, sample, confidence)
        parameters = [
            row for name in ordered for row in parameter_rows(name, fits, sample, confidence)
        ]
    shared = {
        "n": len(x),
        "n_censored": int(cut.sum()),
        "n_truncated": 0 if entered is None else int((entered > 0).sum()),
        "truncated_below": bound,
    }
    table = pl.DataFrame([row | shared for row in rows], schema=TABLE)
    found = DistributionFits(
        table=table.with_columns(delta=pl.col(criterion) - pl.col(criterion).min()),
        parameters=pl.DataFrame(parameters, schema=schema_of(FamilyParameters)).with_columns(
            # the interval of very few values may end beyond all numbers
            pl.when(pl.col(name).is_finite()).then(name)
            for name in ("estimate", "ci_low", "ci_high")
        ),
        comparisons=pl.DataFrame(comparisons, schema=schema_of(FamilyComparisons)),
        quantiles=None,
        criterion=criterion,
        n_missing=n_missing,
        confidence=confidence,
    )
    if cut.all() or len(x) < 2:
        return found
    with np.errstate(all="ignore"):
        quantiles = fitted_quantiles(x, found, entry=entered, observed=~cut, confidence=confidence)
        return replace(found, quantiles=quantiles if quantiles.height else None)


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
    if isinstance(truncated_below, str):
        fine = truncated_below == "min"
    else:
        fine = truncated_below is None or (
            is_number(truncated_below) and 0 < truncated_below < math.inf
        )
    if not fine:
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
    x: Floats,
    cut: NDArray[np.bool_],
    entered: Floats | None,
    bound: float | None,
    families: Sequence[str],
) -> tuple[dict[str, Fit], Sample | None, str | None]:
    if len(np.unique(x[~cut])) < 2:
        why = (
            "no value"
            if not len(x)
            else "all values are censored"
            if cut.all()
            else "one distinct uncensored value"
        )
        return {}, None, f"{why}: at least two distinct uncensored values are needed"
    low = None if entered is None else np.log(entered)
    sample = make_sample(np.log(x), cut, None if bound is None else math.log(bound), low)
    return {name: fit_family(FAMILIES[name], sample) for name in families}, sample, None


def _simulate(
    fits: dict[str, Fit],
    sample: Sample,
    resamples: int,
    rng: int | np.random.Generator,
    *,
    bound_is_least: bool,
) -> dict[str, tuple[float | None, int]]:
    """Return the p-value of the KS distance of each family, and its number of samples."""
    # each family has its own stream, whichever others are fitted
    streams = dict(zip(FAMILIES, as_generator(rng).spawn(len(FAMILIES)), strict=True))
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
