"""Counts of events: rates with intervals, and dispersion against the Poisson distribution."""

from __future__ import annotations

import numpy as np
import scipy  # scipy.stats and scipy.optimize are slow to import and loaded when used
from numpy.typing import ArrayLike
from scipy.special import chdtri, gammaln, xlogy

from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats

_MANY = 5
"""Mean count from which chi-squared approximates the multinomial distribution well."""


def rate_interval(
    events: ArrayLike,
    exposure: ArrayLike,
    /,
    *,
    dispersion: ArrayLike = 1.0,
    confidence: float = 0.95,
) -> tuple[Floats, Floats]:
    """Return Garwood's exact interval of rates of events, scaled for overdispersion.

    Ends d / 2 times the chi-squared quantiles with 2 n / d and 2 n / d + 2 degrees of freedom, over
    the exposure (Garwood, Biometrika 28, 1936; McCullagh and Nelder, Generalized Linear Models,
    1989, section 6.2).
    """
    check_confidence(confidence)
    n, size, d = (np.asarray(part, dtype=float) for part in (events, exposure, dispersion))
    tail = (1 - confidence) / 2
    effective = n / d
    low = np.where(n > 0, chdtri(2 * np.maximum(effective, 1e-300), 1 - tail), 0.0)
    high = chdtri(2 * effective + 2, tail)
    return d * low / 2 / size, d * high / 2 / size


def dispersion_index(counts: ArrayLike, /) -> float:
    """Return the variance of counts over their mean; NaN for fewer than two, or without events."""
    x = np.asarray(counts, dtype=float)
    if len(x) < 2 or not x.any():
        return float("nan")
    return float(x.var(ddof=1) / x.mean())


def dispersion_pvalue(counts: ArrayLike, /, *, resamples: int, rng: np.random.Generator) -> float:
    """Return the one-sided p of a dispersion index against the Poisson distribution.

    Multinomial samples (Fisher, Thornton and MacKenzie, Annals of Applied Biology 9, 1922);
    chi-squared from a mean of 5 on. NaN where there is no index.
    """
    x = np.asarray(counts, dtype=np.int64)
    if np.isnan(dispersion_index(x)):
        return float("nan")
    if x.mean() >= _MANY:
        return float(scipy.stats.chi2.sf((len(x) - 1) * dispersion_index(x), len(x) - 1))
    n, squares = int(x.sum()), int((x**2).sum())
    drawn = (np.bincount(rng.integers(len(x), size=n)) for _ in range(resamples))
    above = sum(int((sample**2).sum()) >= squares for sample in drawn)
    return (above + 1) / (resamples + 1)


def fit_negative_binomial(counts: ArrayLike, /) -> tuple[float, float]:
    """Fit a negative binomial distribution (variance m + a m^2) by maximum likelihood.

    Returns (a, p), p of the likelihood-ratio test of a = 0 (Self and Liang, JASA 82, 1987); a is 0
    where the counts vary no more than Poisson counts. NaN for fewer than two counts, or without
    events.
    """
    x = np.asarray(counts, dtype=np.int64)
    if np.isnan(dispersion_index(x)):
        return float("nan"), float("nan")
    values, times = np.unique(x, return_counts=True)
    mean = float(x.mean())

    def loss(log_a: float) -> float:
        k = np.exp(-log_a)
        likelihood = (
            gammaln(values + k)
            - gammaln(k)
            + k * np.log(k / (k + mean))
            + xlogy(values, mean / (k + mean))
        )
        return -float((times * likelihood).sum())

    fit = scipy.optimize.minimize_scalar(loss, bounds=(-12.0, 8.0), method="bounded")
    poisson = float((times * (xlogy(values, mean) - mean)).sum())
    gain = -float(fit.fun) - poisson
    if gain <= 1e-6 or x.var() <= mean:
        return 0.0, 1.0
    return float(np.exp(fit.x)), 0.5 * float(scipy.stats.chi2.sf(2 * gain, 1))


def negative_binomial_tail(counts: ArrayLike, mean: float, alpha: float, /) -> Floats:
    """Return P(X >= count) of a negative binomial distribution; Poisson's where alpha is 0."""
    x = np.asarray(counts, dtype=float)
    k = 1 / alpha if alpha > 0 else None
    chance = scipy.stats.nbinom(k, k / (k + mean)) if k else scipy.stats.poisson(mean)
    tail: Floats = chance.sf(x - 1)
    return tail
