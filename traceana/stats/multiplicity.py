"""p-values of a family of tests, adjusted for how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

ADJUSTMENTS: Final = ("none", "bonferroni", "holm", "fdr_bh", "fdr_by")
"""What :func:`adjust_pvalues` knows."""


def adjust_pvalues(pvalues: ArrayLike, /, *, method: str = "fdr_bh") -> NDArray[np.float64]:
    """Adjust the p-values of a family of tests.

    With m tests and p in rising order, p(1) to p(m): `bonferroni` is m p and `holm` (Scandinavian
    Journal of Statistics 6, 1979) the running maximum of (m - i + 1) p(i); both hold the chance of
    any false rejection. `fdr_bh` (Benjamini and Hochberg, JRSS B 57, 1995) is the running minimum
    from above of m p(i) / i, and holds the expected share of false rejections among all, for
    independent or positively dependent tests; `fdr_by` (Benjamini and Yekutieli, Annals of
    Statistics 29, 2001) is m p(i) / i (1 + 1/2 + ... + 1/m), and holds it for any tests.

    Parameters
    ----------
    pvalues
        Each in [0, 1]; NaN is a test that was not made, and no part of the family.
    method
        One of :data:`ADJUSTMENTS`.

    Returns
    -------
    array
        One entry a test, at most 1; NaN where the p-value is.

    Raises
    ------
    DataError
        If the method is not known or a p-value is not in [0, 1].
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
