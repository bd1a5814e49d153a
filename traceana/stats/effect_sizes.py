"""Magnitude of effect sizes, and what a test and an interval allow to conclude."""

from __future__ import annotations

import math
from typing import Final

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

    Returns "negligible" if the whole interval is below a small effect, or the effect is; else
    "inconclusive" unless p is below `alpha`; else "small", "medium" or "large".
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
