"""Confidence interval of a quantile with dependent rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from traceana.stats.arguments import check_confidence

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def woodruff_interval(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    /,
    *,
    quantile: float = 0.5,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return Woodruff's interval of a quantile (JASA 47, 1952, 635-646).

    The fraction of values at or below the sample quantile has a standard error s (with clusters,
    of the sums over clusters: linearization with the factor m / (m - 1)); the limits are the
    sample quantiles at quantile -+ t s, with t of k - 1 degrees of freedom, where k is Kish's
    effective number of clusters, n^2 / sum(size^2): few large clusters carry most rows.

    Parameters
    ----------
    values
        The values, without missing ones.
    clusters
        Whole numbers: the independent unit of each value; None: values are independent.
    quantile
        The quantile, in (0, 1).
    confidence
        Coverage, in (0, 1).

    Returns
    -------
    (ci_low, ci_high)
        NaN where a limit would lie outside the data, or there are fewer than two units.
    """
    check_confidence(confidence)
    ordered = np.sort(x := np.asarray(values, dtype=float))
    units = np.arange(x.size) if clusters is None else np.asarray(clusters)
    if x.size < 2:
        return np.nan, np.nan
    below = x <= np.quantile(ordered, quantile, method="inverted_cdf")
    sums = np.bincount(units, weights=below - below.mean())
    m = np.count_nonzero(np.bincount(units))
    if m < 2:
        return np.nan, np.nan
    error = np.sqrt(m / (m - 1) * np.sum(sums**2)) / x.size
    sizes = np.bincount(units)
    effective = x.size**2 / np.sum(sizes.astype(float) ** 2)
    half = stdtrit(max(effective - 1, 1), (1 + confidence) / 2) * error
    low, high = np.round((quantile - half) * x.size), np.round((quantile + half) * x.size) + 1
    return (
        float(ordered[int(low) - 1]) if low >= 1 else np.nan,
        float(ordered[int(high) - 1]) if high <= x.size else np.nan,
    )
