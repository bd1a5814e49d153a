"""P-values of a family of tests, adjusted for their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import false_discovery_control

from traceana.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def adjust_pvalues(pvalues: ArrayLike, /, method: Literal["holm", "fdr_bh"]) -> NDArray[np.float64]:
    """Adjust p-values over the family that they are.

    Parameters
    ----------
    pvalues
        Of all tests that were made; NaN where a test could not be made, which is none.
    method
        "holm" (Scandinavian Journal of Statistics 6, 1979): chance of any false rejection;
        "fdr_bh" (Benjamini and Hochberg, JRSS B 57, 1995): share of false ones among them.

    Raises
    ------
    DataError
        If there is no such method.
    """
    if method not in ("holm", "fdr_bh"):
        raise DataError(f"adjust must be holm or fdr_bh; it is {method!r}")
    p = np.asarray(pvalues, dtype=float)
    adjusted, made = np.full(p.shape, np.nan), np.isfinite(p)
    known = p[made]
    if not known.size:
        return adjusted
    if method == "fdr_bh":
        adjusted[made] = false_discovery_control(known)
        return adjusted
    order = np.argsort(known)
    steps = np.maximum.accumulate(known[order] * np.arange(known.size, 0, -1))
    result = np.empty(known.size)
    result[order] = steps.clip(max=1)
    adjusted[made] = result
    return adjusted
