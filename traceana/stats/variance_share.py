"""Fraction of the variance between clusters, such as users."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from traceana.stats.arguments import check_confidence

FEWEST: Final = 20
"""Minimum clusters for an interval."""


class VarianceShare(NamedTuple):
    """Fraction of the variance between clusters with its interval; NaN where unknown."""

    share: float
    ci_low: float
    ci_high: float
    n: int
    n_clusters: int


def variance_share(
    values: ArrayLike, clusters: ArrayLike, /, *, confidence: float = 0.95
) -> VarianceShare:
    """Return the fraction of the variance of values that is between clusters.

    (F - 1) / (F + n0 - 1) with F = MSB / MSW and n0 = (N - sum n_c^2 / N) / (k - 1), at least 0
    (Donner, International Statistical Review 54, 1986); the interval is that of log F by the
    jackknife with t(k - 1), none below 20 clusters.
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
    result = VarianceShare(math.nan, math.nan, math.nan, len(y), len(n_c))
    if not np.isfinite(log_f[0]):
        return result
    result = result._replace(share=_share(log_f[0], n0[0]))
    without, _ = _log_f(whole[:, None] - sums)
    k = len(n_c)
    if k < FEWEST or not np.isfinite(without).all():
        return result
    error = math.sqrt((k - 1) / k * float(((without - without.mean()) ** 2).sum()))
    half = float(stdtrit(k - 1, (1 + confidence) / 2)) * error
    return result._replace(
        ci_low=_share(log_f[0] - half, n0[0]), ci_high=_share(log_f[0] + half, n0[0])
    )


def _log_f(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, squares, between, total, sizes, k = sums
    with np.errstate(all="ignore"):
        msb = (between - total**2 / n) / (k - 1)
        msw = (squares - between) / (n - k)
        return np.log(msb / msw), (n - sizes / n) / (k - 1)


def _share(log_f: float, n0: float) -> float:
    f = math.exp(log_f)
    return max(0.0, (f - 1) / (f + n0 - 1))
