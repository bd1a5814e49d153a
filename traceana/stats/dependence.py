"""How far the values of a series depend on those before them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from traceana.errors import DataError
from traceana.stats.arguments import check_count
from traceana.stats.arrays import Floats

MOST_LAGS: Final = 100_000


def autocorrelation(values: ArrayLike, /, *, lags: int) -> Floats:
    """Autocorrelation of a series at lags 1 to `lags`; NaN where a lag is not below n.

    r(k) = sum_t (x_t - m)(x_(t+k) - m) / sum_t (x_t - m)^2 (Box and Jenkins, 1970).
    """
    check_count("lags", lags, most=MOST_LAGS)
    x = _series(values)
    correlations = _correlations(x)[1 : lags + 1]
    return np.concatenate([correlations, np.full(lags - len(correlations), np.nan)])


def effective_sample_size(values: ArrayLike, /) -> float:
    """Number of independent values whose mean would be as certain as this series' mean.

    n / t with t = 1 + 2 sum_k r(k), cut off by Geyer's initial positive sequence (Statistical
    Science 7, 1992); at most n^2 / 2. NaN for fewer than four values or if all are equal.
    """
    x = _series(values)
    r = _correlations(x)
    if len(x) < 4 or np.isnan(r[0]):
        return float("nan")
    pairs = r[: len(r) // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = np.minimum.accumulate(pairs > 0)
    time = 2 * pairs[positive].sum() - 1
    # an alternating series has a sum near -1 + 1: no time is shorter than that of two values
    return float(len(x) / max(time, 2 / len(x)))


def _series(values: ArrayLike) -> Floats:
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise DataError("a series of finite values is needed; leave missing ones out first")
    return x


def _correlations(x: Floats) -> Floats:
    """Autocorrelations at lags 0 to n - 1, by way of the power spectrum."""
    # equal values differ from their mean by its rounding: none of that is variation
    if not len(x) or x.min() == x.max():
        return np.full(len(x), np.nan)
    away = (x - x[0]) / np.ptp(x)
    away -= away.mean()
    size = 2 ** (2 * len(x)).bit_length()
    products: Floats = np.fft.irfft(np.abs(np.fft.rfft(away, size)) ** 2, size)[: len(x)]
    r: Floats = products / products[0]
    return r
