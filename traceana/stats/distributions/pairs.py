"""Likelihood-ratio tests of two fits to the same values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from traceana.stats.arrays import Floats
from traceana.stats.distributions.likelihood import Fit, survival_where, terms_of
from traceana.stats.distributions.sample import Sample

# larger family: whether the exponential lies on the boundary of its parameters
_HOLDS_EXPONENTIAL: Final = {"gamma": False, "weibull": False, "lomax": True}


@dataclass(frozen=True)
class PairTest:
    """A likelihood-ratio test of two fits; `mean_ratio` is per value."""

    test: str
    log_likelihood_ratio: float
    mean_ratio: float
    ci_low: float | None
    ci_high: float | None
    statistic: float | None
    pvalue: float | None
    note: str | None


def vuong_test(
    better: Fit, other: Fit, sample: Sample, /, *, names: tuple[str, str], confidence: float
) -> PairTest:
    """Test two fits against each other: nested ones by the likelihood ratio, others by Vuong.

    Vuong (Econometrica 57, 1989) with z = sum of (d - dq) / (w sqrt(n)): d the differences of the
    log-likelihoods, q = g' C g / 2 Takeuchi's correction, w the standard deviation of d - 2 dq
    (Stone, JRSS B 39, 1977). A `note` if n < 25 skewness^2 of d (Cochran, 1977, 2.15). The
    exponential is nested in gamma and Weibull, and on the boundary of Lomax (Self and Liang, JASA
    82, 1987).
    """
    weight = np.stack([sample.ends, sample.cuts])
    present = weight > 0
    w = weight[present]
    (d, of_fit), (d_other, of_other) = (
        (terms_of(fit.family, sample, fit.theta)[present], _followed(fit, sample)[present])
        for fit in (better, other)
    )
    d, q = d - d_other, of_fit - of_other
    n = float(w.sum())
    ratio = float(w @ d)
    mean, corrected = ratio / n, float(w @ (d - q)) / n
    left_out = d - 2 * q
    std = float(np.sqrt(w @ (left_out - w @ left_out / n) ** 2 / (n - 1)))
    half = float(ndtri((1 + confidence) / 2)) * std / np.sqrt(n)
    ends = (corrected - half, corrected + half)
    larger = set(names) - {"exponential"}
    if "exponential" in names and larger <= set(_HOLDS_EXPONENTIAL):
        edge = _HOLDS_EXPONENTIAL[larger.pop()]
        # the larger family has the larger ln L, whichever is better by its criterion
        doubled = 2 * abs(ratio)
        pvalue = float(chdtrc(1, doubled)) * (0.5 if edge and doubled > 0 else 1.0)
        note = "the exponential lies on the boundary of the other" if edge else None
        return PairTest("nested", ratio, mean, None, None, doubled, pvalue, note)
    if std < 1e-12:
        note = "the two fits are the same distribution"
        return PairTest("vuong", ratio, mean, *ends, None, None, note)
    z = corrected * np.sqrt(n) / std
    notes = []
    if set(names) <= set(_HOLDS_EXPONENTIAL):
        notes.append(
            "both contain the exponential: if it is the true distribution, z is not normal"
        )
    skewness = float(w @ (d - mean) ** 3 / n) / (float(w @ (d - mean) ** 2) / n) ** 1.5
    if n < 25 * skewness**2:
        notes.append(
            f"a few values dominate the difference (skewness {skewness:.1f}): p is too small"
        )
    pvalue = float(2 * ndtr(-abs(z)))
    return PairTest("vuong", ratio, mean, *ends, z, pvalue, "; ".join(notes) or None)


def _followed(fit: Fit, sample: Sample) -> Floats:
    """Return g' C g / 2 of an exact and of a censored value at each distinct value."""
    if fit.covariance is None:
        return np.zeros((2, len(sample.y)))
    part = (fit.family, sample.y, fit.theta)
    gradients = (fit.family.density(*part[1:])[1], survival_where(sample.cuts > 0, *part)[1:])
    bound = survival_where(sample.low > -np.inf, fit.family, sample.low, fit.theta)[1:]
    return np.stack(
        [np.einsum("in,ij,jn->n", g - bound, fit.covariance, g - bound) / 2 for g in gradients]
    )
