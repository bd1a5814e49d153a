"""Confidence intervals of means and rates; an undefined bound is NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from scipy.special import ndtri, stdtrit

from traceana.errors import DataError
from traceana.stats.arguments import check_confidence

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from traceana.stats.arrays import Floats

    Bounds: TypeAlias = tuple[Floats, Floats]

FEWEST_CLUSTERS: Final = 2
"""Effective number of clusters below which there is no interval."""


def mean_interval(
    mean: ArrayLike, std: ArrayLike, n: ArrayLike, /, *, confidence: float = 0.95
) -> Bounds:
    """Return Student's t interval of means: mean -+ t(n - 1) std / sqrt(n); NaN for n < 2."""
    tail = _upper_tail(confidence)
    m, s, count = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (mean, std, n))
    enough = count >= 2
    half = np.full(count.shape, np.nan)
    half[enough] = stdtrit(count[enough] - 1, tail) * s[enough] / np.sqrt(count[enough])
    return m - half, m + half


def ratio_interval(sums: ArrayLike, /, *, confidence: float = 0.95) -> Bounds:
    """Return the interval of ratios r = sum(y) / sum(x) over independent units, by linearization.

    Error sqrt(n / (n - 1) sum((y - r x)^2)) / sum(x) (Cochran, Sampling Techniques, 1977, section
    6.4), t with k - 1 degrees of freedom, k = sum(x)^2 / sum(x^2). NaN for fewer than two units.
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
    """Return the interval of means of rows in clusters: mean -+ t(clusters - 1) sqrt(variance).

    NaN for fewer than :data:`FEWEST_CLUSTERS` effective clusters.
    """
    m, v = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (mean, variance))
    half = _t_quantiles(clusters, confidence) * np.sqrt(v)
    return m - half, m + half


def clustered_wilson_interval(
    rate: ArrayLike, effective_n: ArrayLike, clusters: ArrayLike, /, *, confidence: float = 0.95
) -> Bounds:
    """Return Wilson's interval of rates of rows in clusters.

    With rate * effective_n successes and t(clusters - 1) (after Korn and Graubard, Survey
    Methodology 24, 1998). NaN for fewer than :data:`FEWEST_CLUSTERS` effective clusters.
    """
    p, n = (np.atleast_1d(np.asarray(part, dtype=float)) for part in (rate, effective_n))
    return _score_interval(p * n, n, _t_quantiles(clusters, confidence))


def wilson_interval(successes: ArrayLike, n: ArrayLike, /, *, confidence: float = 0.95) -> Bounds:
    """Return Wilson's score interval of rates (JASA 22, 1927); NaN without a trial.

    (k + z^2 / 2 -+ z sqrt(k (n - k) / n + z^2 / 4)) / (n + z^2), as statsmodels without its import
    time.
    """
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
