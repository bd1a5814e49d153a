"""Adjustment of p-values for multiple tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

ADJUSTMENTS: Final = ("none", "bonferroni", "holm", "fdr_bh", "fdr_by")
"""Methods of :func:`adjust_pvalues`."""


def adjust_pvalues(pvalues: ArrayLike, /, *, method: str = "fdr_bh") -> NDArray[np.float64]:
    """Adjust the p-values of a family of tests.

    The same values as ``statsmodels.stats.multitest.multipletests``, without its import time. For m
    tests with p in ascending order: `bonferroni` is m p, `holm` (Scandinavian Journal of Statistics
    6, 1979) the running maximum of (m - i + 1) p(i); both control the family-wise error rate.
    `fdr_bh` (Benjamini and Hochberg, JRSS B 57, 1995) is the running minimum from above of
    m p(i) / i and controls the false discovery rate of independent or positively dependent tests;
    `fdr_by` (Benjamini and Yekutieli, Annals of Statistics 29, 2001) multiplies it by
    1 + 1/2 + ... + 1/m and controls it for any tests.

    Parameters
    ----------
    pvalues
        Each in [0, 1]; NaN is no test and not part of the family.
    method
        One of :data:`ADJUSTMENTS`.

    Returns
    -------
    array
        One entry per test; NaN where the p-value is.

    Raises
    ------
    DataError
        If the method is unknown or a p-value is not in [0, 1].
    """
    if method not in ADJUSTMENTS:
        raise DataError(f"adjust must be one of {', '.join(ADJUSTMENTS)}; it is {method!r}")
    found = np.asarray(pvalues, dtype=float)
    tested = ~np.isnan(found)
    p = found[tested]
    if np.any((p < 0) | (p > 1)):
        raise DataError("p-values must lie from 0 to 1")
    order = np.argsort(p, kind="stable")
    m, ordered, rank = len(p), p[order], np.arange(1, len(p) + 1)
    if method == "bonferroni":
        ordered = m * ordered
    elif method == "holm":
        ordered = np.maximum.accumulate((m - rank + 1) * ordered)
    elif method != "none":
        penalty = np.sum(1 / rank) if method == "fdr_by" else 1.0
        ordered = np.minimum.accumulate((penalty * m / rank * ordered)[::-1])[::-1]
    adjusted = np.full(found.shape, np.nan)
    adjusted[np.flatnonzero(tested)[order]] = np.minimum(ordered, 1)
    return adjusted
