"""Intervals of means, rates, variance and counts of events; an undefined bound is NaN."""

from __future__ import annotations

import math
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import scipy  # scipy.stats and scipy.optimize are slow to import and loaded when used
from numpy.typing import ArrayLike
from scipy.special import chdtri, expit, gammaln, logit, ndtr, ndtri, stdtrit, xlogy

from traceana.errors import DataError
from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats

Bounds: TypeAlias = tuple[Floats, Floats]


FEWEST_CLUSTERS: Final = 2
"""Effective number of clusters below which there is no interval."""


def mean_interval(
    mean: ArrayLike, std: ArrayLike, n: ArrayLike, /, *, confidence: float = 0.95
) -> Bounds:
    """Return Student's t interval of means: mean -+ t(n - 1) std / sqrt(n); NaN for n < 2."""
    m, s, count = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (mean, std, n))
    half = _t_quantiles(count, confidence) * s / np.sqrt(np.where(count > 0, count, np.nan))
    return m - half, m + half


def ratio_interval(sums: ArrayLike, /, *, confidence: float = 0.95) -> Bounds:
    """Return the interval of ratios r = sum(y) / sum(x) over independent units, by linearization.

    Cochran, Sampling Techniques, 1977, 6.4; t with sum(x)^2 / sum(x^2) - 1 degrees of freedom.
    """
    tail = _upper_tail(confidence)
    every = np.asarray(sums, dtype=float)
    low, high = np.full(every.shape[1], np.nan), np.full(every.shape[1], np.nan)
    some = (every[5] >= 2) & (every[0] > 0)
    sx, sy, sxx, sxy, syy, count = every[:, some]
    with np.errstate(all="ignore"):  # of sums near the smallest number
        r = sy / sx
        squares = np.maximum(syy - 2 * r * sxy + r**2 * sxx, 0)
        half = stdtrit(np.maximum(sx**2 / sxx - 1, 1), tail) * (
            np.sqrt(count / (count - 1) * squares) / sx
        )
    low[some], high[some] = r - half, r + half
    return low, high


def clustered_mean_interval(
    mean: ArrayLike, variance: ArrayLike, clusters: ArrayLike, /, *, confidence: float = 0.95
) -> Bounds:
    """Return the interval of means of rows in clusters: mean -+ t(clusters - 1) sqrt(variance)."""
    m, v = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (mean, variance))
    half = _t_quantiles(clusters, confidence) * np.sqrt(v)
    return m - half, m + half


def clustered_wilson_interval(
    rate: ArrayLike, effective_n: ArrayLike, clusters: ArrayLike, /, *, confidence: float = 0.95
) -> Bounds:
    """Return Wilson's interval in clusters (Korn and Graubard, Survey Methodology 24, 1998)."""
    p, n = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (rate, effective_n))
    return _score_interval(p * n, n, _t_quantiles(clusters, confidence))


def wilson_interval(successes: ArrayLike, n: ArrayLike, /, *, confidence: float = 0.95) -> Bounds:
    """Return Wilson's score interval of rates (JASA 22, 1927); NaN without a trial."""
    z = ndtri(_upper_tail(confidence))
    k, trials = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (successes, n))
    if not np.all((k >= 0) & (k <= trials)):
        raise DataError("successes must be from 0 to n, the number of trials")
    return _score_interval(k, trials, z)


def _score_interval(k: Floats, n: Floats, quantile: Floats | float) -> Bounds:
    trials = np.where(n > 0, n, np.nan)
    square = quantile**2
    half = quantile * np.sqrt(k * (trials - k) / trials + square / 4)
    low, high = ((k + square / 2 + side) / (trials + square) for side in (-half, half))
    # if k is 0 or n one bound is the rate itself, whatever the rounding
    return np.clip(low, 0, k / trials), np.clip(high, k / trials, 1)


def _t_quantiles(clusters: ArrayLike, confidence: float) -> Floats:
    tail, count = _upper_tail(confidence), np.atleast_1d(np.asarray(clusters, dtype=float))
    quantiles = np.full(count.shape, np.nan)
    enough = count >= FEWEST_CLUSTERS
    quantiles[enough] = stdtrit(count[enough] - 1, tail)
    return quantiles


def _upper_tail(confidence: float) -> float:
    check_confidence(confidence)
    return (1 + confidence) / 2


_SCALES: Final = (
    (0.0, 1.0, logit, expit),
    (-1.0, 1.0, np.arctanh, np.tanh),
    (0.0, math.inf, np.log, np.exp),
    (-math.inf, math.inf, np.positive, np.positive),
)
"""Least and largest value, and the scale on which intervals between them are widened."""


def two_way_interval(ends: ArrayLike, /) -> Bounds:
    """Return intervals over two crossed units, such as users and days, from one-way intervals.

    `ends` are those over either unit and over their combinations (3 x 2 x n). Squared widths are
    added and subtracted (Cameron, Gelbach and Miller, JBES 29, 2011), on the scale of the logit,
    artanh or logarithm where all ends lie within 0 to 1, within -1 to 1, or above 0.
    """
    every = np.asarray(ends, dtype=float)
    least, most, scale, back = next(
        of for of in _SCALES if not ((every < of[0]) | (every > of[1])).any()
    )
    with np.errstate(all="ignore"):
        scaled = scale(every)
        usable = np.isfinite(scaled).all(axis=(0, 1))  # not at an end of the scale
        scaled = np.where(usable, scaled, every)
        first, second, both = (scaled[:, 1] - scaled[:, 0]) ** 2
        wide, total = np.maximum(first, second), first + second - np.nan_to_num(both)
        low, high = np.where(second > first, scaled[1], scaled[0])
        further = (high - low) / 2 * (np.sqrt(np.fmax(total / wide, 1)) - 1)
        widened = np.stack([low - further, high + further])
        widened = np.where(usable, back(widened), np.clip(widened, least, most))
    combined = np.where(total > wide, widened, np.where(second > first, every[1], every[0]))
    # a side without an end leaves the other the farther one
    outer = np.stack([np.minimum(*every[:2, 0]), np.maximum(*every[:2, 1])])
    low, high = np.where(np.isnan(wide), outer, combined)
    return low, high


def two_way_pvalue(pvalues: ArrayLike, /) -> Floats:
    """Return p over two crossed units, from p over either and over their combinations (3 x n).

    1 / z^2 of p's normal quantiles z are added and subtracted: exact for an estimate over its
    error.
    """
    p = np.asarray(pvalues, dtype=float)
    with np.errstate(all="ignore"):
        first, second, both = 1 / ndtri(p / 2) ** 2
        total = first + second - np.nan_to_num(both, posinf=np.inf)
        wider: Floats = 2 * ndtr(-1 / np.sqrt(total))
    return np.where(total > np.maximum(first, second), wider, np.maximum(*p[:2]))


FEWEST: Final = 20
"""Minimum clusters for an interval."""


class VarianceFraction(NamedTuple):
    """Fraction of the variance between clusters with its interval; NaN where unknown."""

    fraction: float
    ci_low: float
    ci_high: float
    n: int
    n_clusters: int


def variance_fraction(
    values: ArrayLike, clusters: ArrayLike, /, *, confidence: float = 0.95
) -> VarianceFraction:
    """Return the fraction of the variance of values that is between clusters.

    (F - 1) / (F + n0 - 1), F = MSB / MSW, n0 = (N - sum n_c^2 / N) / (k - 1), at least 0 (Donner,
    International Statistical Review 54, 1986); the interval is that of log F by the jackknife.
    """
    check_confidence(confidence)
    y = np.asarray(values, dtype=float)
    _, code = np.unique(np.asarray(clusters), return_inverse=True)
    n_c = np.bincount(code).astype(float)
    y = y - y.mean() if len(y) else y
    total = np.bincount(code, y)
    sums = np.stack(
        [n_c, np.bincount(code, y**2), total**2 / n_c, total, n_c**2, np.ones(len(n_c))]
    )
    whole = sums.sum(axis=1)
    log_f, n0 = _log_f(whole[:, None])
    result = VarianceFraction(math.nan, math.nan, math.nan, len(y), len(n_c))
    if not np.isfinite(log_f[0]):
        return result
    result = result._replace(fraction=_fraction(log_f[0], n0[0]))
    without, _ = _log_f(whole[:, None] - sums)
    k = len(n_c)
    if k < FEWEST or not np.isfinite(without).all():
        return result
    error = math.sqrt((k - 1) / k * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(k - 1, (1 + confidence) / 2)) * error
    return result._replace(
        ci_low=_fraction(log_f[0] - half, n0[0]), ci_high=_fraction(log_f[0] + half, n0[0])
    )


def _log_f(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, squares, between, total, sizes, k = sums
    with np.errstate(all="ignore"):
        msb = (between - total**2 / n) / (k - 1)
        msw = (squares - between) / (n - k)
        return np.log(msb / msw), (n - sizes / n) / (k - 1)


def _fraction(log_f: float, n0: float) -> float:
    f = math.exp(log_f)
    return max(0.0, (f - 1) / (f + n0 - 1))


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
    """Return Garwood's exact interval of rates (Biometrika 28, 1936), scaled for overdispersion."""
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
    """Return the one-sided p of a dispersion index against the Poisson distribution."""
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
    """Return (a, p) of variance m + a m^2 by maximum likelihood; p tests a = 0."""
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
    return chance.sf(x - 1)
