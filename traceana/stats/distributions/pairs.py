"""Two fits of the same values: is one closer to what made them by more than chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from traceana.stats.distributions.likelihood import terms_of

if TYPE_CHECKING:
    from traceana.stats.distributions.likelihood import Fit
    from traceana.stats.distributions.sample import Sample

# the larger family, and whether the exponential lies on the edge of it
_HOLDS_EXPONENTIAL: Final = {"gamma": False, "weibull": False, "lomax": True}


@dataclass(frozen=True)
class PairTest:
    """A likelihood-ratio test of two fits; `mean_ratio` is the gain in ln L a value."""

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
    """Test two fits against each other, the nested by the plain ratio and all others by Vuong.

    Vuong (Econometrica 57, 1989): with d the difference of the two logarithms of likelihood of
    each value, and w its standard deviation (ddof 0), z = (sum d - c) / (w sqrt(n)) is standard
    normal where both are equally close to the truth; c = (k1 - k2) / 2 ln n is Schwarz's
    correction for the numbers of parameters. Two-sided.

    The exponential lies within gamma and Weibull (twice the ratio is chi-squared of one degree)
    and on the edge of Lomax (half the time it is 0; Self and Liang, JASA 82, 1987).
    """
    difference = terms_of(better.family, sample, better.theta) - terms_of(
        other.family, sample, other.theta
    )
    weight = np.stack([sample.ends, sample.cuts])
    present = weight > 0
    d, w = difference[present], weight[present]
    n = float(w.sum())
    ratio = float(w @ d)
    mean = ratio / n
    std = float(np.sqrt(w @ (d - mean) ** 2 / n))
    half = float(ndtri((1 + confidence) / 2)) * std / np.sqrt(n)
    ends = (mean - half, mean + half)
    larger = set(names) - {"exponential"}
    if "exponential" in names and larger <= set(_HOLDS_EXPONENTIAL):
        edge = _HOLDS_EXPONENTIAL[larger.pop()]
        # whichever of the two is the better by its criterion, the larger has the larger ln L
        doubled = 2 * abs(ratio)
        pvalue = float(chdtrc(1, doubled)) * (0.5 if edge and doubled > 0 else 1.0)
        note = "the exponential lies on the edge of the other" if edge else None
        return PairTest("nested", ratio, mean, None, None, doubled, pvalue, note)
    if std < 1e-12:
        note = "the two fits are the same distribution"
        return PairTest("vuong", ratio, mean, *ends, None, None, note)
    parameters = {name: 1 if name == "exponential" else 2 for name in names}
    correction = (parameters[names[0]] - parameters[names[1]]) / 2 * np.log(n)
    z = float((ratio - correction) / (std * np.sqrt(n)))
    both = set(names) <= set(_HOLDS_EXPONENTIAL)
    note = "both hold the exponential: were that the truth, z would not be normal" if both else None
    return PairTest("vuong", ratio, mean, *ends, z, float(2 * ndtr(-abs(z))), note)
