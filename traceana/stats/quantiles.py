"""Confidence interval of a quantile with dependent rows: clusters or a time series."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats, Integers
from traceana.stats.dependence import effective_sample_size
from traceana.stats.wild_bootstrap import effective_clusters

MIN_EFFECTIVE: Final = 20
"""Effective values of a series below which it has no interval."""
FEWEST_BEYOND: Final = 1.5
"""Effective units on either side of a quantile below which it has no interval."""


def woodruff_interval(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    /,
    *,
    quantile: float = 0.5,
    serial: bool = False,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return Woodruff's interval of a quantile (JASA 47, 1952, 635-646).

    The sample quantiles at quantile -+ t s, s the standard error of the fraction of values up to
    the quantile. Independent values: binomial. Clusters: the larger of this and the linearized
    error, t(k - 1) with Kish's effective clusters k. Series: k is the effective sample size of the
    indicator. NaN where a limit lies outside the data, or k is too small.
    """
    check_confidence(confidence)
    ordered = np.sort(x := np.asarray(values, dtype=float))
    n = x.size
    if n < 2:
        return np.nan, np.nan
    below = (x <= np.quantile(ordered, quantile, method="inverted_cdf")).astype(float)
    # independent rows: the variance is that of the binomial distribution, and known
    error, k = 0.0, np.inf
    if serial:
        error, k = _of_series(x, below)
    elif clusters is not None:
        error, k = _of_clusters(below, np.asarray(clusters))
    if not k * min(quantile, 1 - quantile) >= FEWEST_BEYOND:
        return np.nan, np.nan
    # ties at the quantile hide variance
    error = max(error, np.sqrt(quantile * (1 - quantile) / n))
    half = stdtrit(k - 1, (1 + confidence) / 2) * error
    low, high = np.round((quantile - half) * n), np.round((quantile + half) * n) + 1
    if not (low >= 1 and high <= n):
        return np.nan, np.nan
    return float(ordered[int(low) - 1]), float(ordered[int(high) - 1])


def _of_clusters(below: Floats, clusters: Integers) -> tuple[float, float]:
    """Return the error of the mean and the effective number of clusters."""
    sums = np.bincount(clusters, weights=below - below.mean())
    m = np.unique(clusters).size
    error = np.sqrt(m / max(m - 1, 1) * np.sum(sums**2)) / below.size
    return error, effective_clusters(np.ones(below.size), clusters)


def _of_series(x: Floats, below: Floats) -> tuple[float, float]:
    """Return the error of the mean and the effective sample size."""
    k = effective_sample_size(below)
    k = min(effective_sample_size(x) if np.isnan(k) else k, x.size)
    return (below.std() / np.sqrt(k - 1), k) if k >= MIN_EFFECTIVE else (np.nan, np.nan)
