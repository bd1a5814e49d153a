"""Adjustment of the p-values of a family of tests."""

from __future__ import annotations

from typing import Final

import numpy as np
import scipy  # scipy.stats is slow to import and loaded when used
from numpy.typing import ArrayLike

from traceana.errors import DataError
from traceana.stats.arguments import check_choice
from traceana.stats.arrays import Floats

ADJUSTMENTS: Final = ("none", "bonferroni", "holm", "fdr_bh", "fdr_by")
"""Methods of :func:`adjust_pvalues`."""


def adjust_pvalues(pvalues: ArrayLike, /, *, method: str = "fdr_bh") -> Floats:
    """Adjust the p-values of a family of tests; NaN stays.

    `bonferroni` and `holm` control the family-wise error rate, `fdr_bh` and `fdr_by`
    (:func:`scipy.stats.false_discovery_control`) the false discovery rate.
    """
    check_choice("adjust", method, ADJUSTMENTS)
    values = np.asarray(pvalues, dtype=float)
    tested = ~np.isnan(values)
    p = values[tested]
    if np.any((p < 0) | (p > 1)):
        raise DataError("p-values must lie from 0 to 1")
    if method.startswith("fdr_") and len(p):
        p = scipy.stats.false_discovery_control(p, method=method.removeprefix("fdr_"))
    elif method == "bonferroni":
        p = len(p) * p
    elif method == "holm":
        order = np.argsort(p, kind="stable")
        p[order] = np.maximum.accumulate(np.arange(len(p), 0, -1) * p[order])
    adjusted = np.full(values.shape, np.nan)
    adjusted[tested] = np.minimum(p, 1)
    return adjusted
