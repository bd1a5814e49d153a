"""Order statistics of arrays with missing values, and intervals of quantiles."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats
from traceana.stats.permutation import effective_clusters
from traceana.stats.time_blocks import effective_sample_size

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
    """Return Woodruff's interval of a quantile (JASA 47, 1952, 635-646); NaN outside the data.

    The sample quantiles at quantile -+ t s: s is binomial, or linearized over clusters if larger,
    with Kish's effective clusters; of a series, with its effective sample size.
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
        of = np.asarray(clusters)
        sums, m = np.bincount(of, weights=below - below.mean()), np.unique(of).size
        error = np.sqrt(m / max(m - 1, 1) * np.sum(sums**2)) / n
        k = effective_clusters(np.ones(n), of)
    if not k * min(quantile, 1 - quantile) >= FEWEST_BEYOND:
        return np.nan, np.nan
    # ties at the quantile hide variance
    error = max(error, np.sqrt(quantile * (1 - quantile) / n))
    half = stdtrit(k - 1, (1 + confidence) / 2) * error
    low, high = np.round((quantile - half) * n), np.round((quantile + half) * n) + 1
    if not (low >= 1 and high <= n):
        return np.nan, np.nan
    return float(ordered[int(low) - 1]), float(ordered[int(high) - 1])


def _of_series(x: Floats, below: Floats) -> tuple[float, float]:
    """Return the error of the mean and the effective sample size."""
    k = effective_sample_size(below)
    k = min(effective_sample_size(x) if np.isnan(k) else k, x.size)
    return (below.std() / np.sqrt(k - 1), k) if k >= MIN_EFFECTIVE else (np.nan, np.nan)


def median_present(values: Floats, /) -> Floats:
    """Median of the present values along the last axis (fast, where numpy is slow with NaN)."""
    ordered = np.sort(values, axis=-1)  # NaN comes last
    return middle_of(ordered, np.count_nonzero(~np.isnan(ordered), axis=-1))


def middle_of(ordered: Floats, n: NDArray[np.intp], /) -> Floats:
    """Median of the first n of values that are in order along the last axis; NaN for none."""
    if not ordered.shape[-1]:
        return np.full(ordered.shape[:-1], np.nan)
    # halves are summed, for the sum of two large values may not be a number
    return 0.5 * pick(ordered, (n - 1) // 2) + 0.5 * pick(ordered, n // 2)


def pick(ordered: Floats, rank: NDArray[np.intp], /) -> Floats:
    """Value at a rank (0 the first) along the last axis."""
    return np.take_along_axis(ordered, rank[..., None], axis=-1)[..., 0]


def peers_at_rank(values: Floats, ordered: Floats, rank: NDArray[np.intp], /) -> Floats:
    """For each value along the last axis, the value at a rank among all the others."""
    at = pick(ordered, rank)[..., None]
    after = pick(ordered, np.minimum(rank + 1, ordered.shape[-1] - 1))[..., None]
    # without a value that is not above the one at the rank, the next takes its place
    return np.where(values > at, at, after)


def peers_median(values: Floats, /) -> Floats:
    """For each value along the last axis, the median of the others; NaN without another."""
    ordered = np.sort(values, axis=-1)
    n = np.count_nonzero(~np.isnan(ordered), axis=-1)
    others = np.maximum(n - 1, 1)
    low = peers_at_rank(values, ordered, (others - 1) // 2)
    high = peers_at_rank(values, ordered, others // 2)
    present = ~np.isnan(values)
    among_others = np.where((n >= 2)[..., None], 0.5 * low + 0.5 * high, np.nan)
    return np.where(present, among_others, middle_of(ordered, n)[..., None])
