"""Confidence interval of a quantile with dependent rows: clusters or a time series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import stdtrit

from traceana.stats.arguments import check_confidence
from traceana.stats.dependence import effective_sample_size

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MIN_EFFECTIVE: Final = 20
"""Effective values of a series below which it has no interval."""


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

    The fraction of values at or below the sample quantile has a standard error s; the limits are
    the sample quantiles at quantile -+ t s. With clusters, s is the error of the sums over
    clusters (linearization with the factor m / (m - 1)), and t has k - 1 degrees of freedom, where
    k is Kish's effective number of clusters, n^2 / sum(size^2): few large clusters carry most
    rows. Of a time series, s is the error of k independent values, where k is the effective
    sample size (:func:`~traceana.stats.dependence.effective_sample_size`) of the indicator of
    values up to the quantile.

    Parameters
    ----------
    values
        The values, without missing ones.
    clusters
        Whole numbers: the independent unit of each value; None: values are independent.
    quantile
        The quantile, in (0, 1).
    serial
        Whether the values are a stationary series in the order of time; then without clusters.
    confidence
        Coverage, in (0, 1).

    Returns
    -------
    (ci_low, ci_high)
        NaN where a limit would lie outside the data, there are fewer than two units, or a series
        has fewer than :data:`MIN_EFFECTIVE` effective values.
    """
    check_confidence(confidence)
    ordered = np.sort(x := np.asarray(values, dtype=float))
    if x.size < 2:
        return np.nan, np.nan
    below = (x <= np.quantile(ordered, quantile, method="inverted_cdf")).astype(float)
    error, k = _of_series(x, below) if serial else _of_clusters(below, clusters)
    half = stdtrit(max(k - 1, 1), (1 + confidence) / 2) * error
    low, high = np.round((quantile - half) * x.size), np.round((quantile + half) * x.size) + 1
    if not (low >= 1 and high <= x.size):
        return np.nan, np.nan
    return float(ordered[int(low) - 1]), float(ordered[int(high) - 1])


def _of_clusters(below: NDArray[np.float64], clusters: ArrayLike | None) -> tuple[float, float]:
    """Return the error of the mean and the effective number of clusters."""
    units = np.arange(below.size) if clusters is None else np.asarray(clusters)
    sizes = np.bincount(units).astype(float)
    m = np.count_nonzero(sizes)
    if m < 2:
        return np.nan, np.nan
    sums = np.bincount(units, weights=below - below.mean())
    error = np.sqrt(m / (m - 1) * np.sum(sums**2)) / below.size
    return error, below.size**2 / np.sum(sizes**2)


def _of_series(x: NDArray[np.float64], below: NDArray[np.float64]) -> tuple[float, float]:
    """Return the error of the mean and the effective sample size."""
    k = effective_sample_size(below)
    k = min(effective_sample_size(x) if np.isnan(k) else k, x.size)
    return (below.std() / np.sqrt(k - 1), k) if k >= MIN_EFFECTIVE else (np.nan, np.nan)
