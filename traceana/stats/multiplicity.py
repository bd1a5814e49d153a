"""Adjustment of p-values, and what a test and an effect size allow to conclude."""

from __future__ import annotations

import math
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
    """Adjust the p-values of a family of tests for its error or false discovery rate; NaN stays."""
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


THRESHOLDS: Final = {
    "cramers_v": (0.1, 0.3, 0.5),
    "epsilon_squared": (0.01, 0.06, 0.14),
    "cliffs_delta": (0.147, 0.33, 0.474),
    "correlation": (0.1, 0.3, 0.5),
}
"""Smallest effect that is called small, medium and large.

Cohen (Statistical Power Analysis for the Behavioral Sciences, 1988) for Cramér's V of an outcome
with two values, the fraction of variance between groups, and correlations; Romano et al. (Annual
Meeting of the Florida Association of Institutional Research, 2006) for Cliff's delta.
"""
INCONCLUSIVE: Final = "inconclusive"
NEGLIGIBLE: Final = "negligible"


def conclude(
    name: str,
    effect: float | None,
    ci_low: float | None,
    ci_high: float | None,
    pvalue: float | None,
    /,
    *,
    alpha: float = 0.05,
) -> str:
    """Return what an effect size, its interval and an adjusted p-value allow to conclude.

    "negligible" if the interval or the effect is; else "inconclusive", or the size of the effect.
    """
    if effect is None or math.isnan(effect):
        return INCONCLUSIVE
    least = THRESHOLDS[name][0]
    if ci_low is not None and ci_high is not None and max(-ci_low, ci_high) < least:
        return NEGLIGIBLE
    if pvalue is None or not pvalue < alpha:
        return INCONCLUSIVE
    words = (NEGLIGIBLE, "small", "medium", "large")
    return words[sum(abs(effect) >= threshold for threshold in THRESHOLDS[name])]
