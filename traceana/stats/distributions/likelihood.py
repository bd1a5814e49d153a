"""Maximum likelihood by Newton's method, with left truncation and right censoring.

ln L = sum over exact values of ln f(x) + sum over censored values of ln S(x) - sum of ln S(bound
or entry), with exact derivatives (except gamma's survival in its shape). scipy.stats fits have no
left truncation. Two fits to the same values are tested by the ratio of their likelihoods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from traceana.stats.arrays import Booleans, Floats
from traceana.stats.distributions.families import FAMILIES, Family, Terms

_STEPS: Final = 200
_LONGEST: Final = 1.5  # of a step, in logarithms
_FAR: Final = 30.0  # log distance from the start beyond which there is no maximum
_LEAST_SHARE: Final = 1e-4  # smallest fraction of a fit above the bound
_GAIN: Final = 1e-9  # of ln L from one more step


@dataclass(frozen=True)
class Fit:
    """Parameters at the maximum; `note` states why there is none (then ln L may be NaN)."""

    family: Family
    theta: Floats
    log_likelihood: float
    covariance: Floats | None
    note: str | None

    def log_fraction_above(self, bound: float | None) -> float:
        """Return the log of the fraction of the fitted distribution above a bound."""
        if bound is None:
            return 0.0
        return float(self.family.survival(np.array([bound]), self.theta)[0][0])


def fit_family(family: Family, sample: Sample, /, *, start: Floats | None = None) -> Fit:
    """Fit one family; `start` None: from the moments of ln x."""
    if family.name == "exponential":
        return _fit_exponential(family, sample)
    if family.name == "lomax" and _is_exponential(sample):
        limit = _fit_exponential(FAMILIES["exponential"], sample)
        note = (
            "no maximum inside: the likelihood increases towards the exponential (infinite shape)"
        )
        return Fit(limit.family, limit.theta, limit.log_likelihood, None, note)
    if start is None:
        weight = sample.ends
        mean = float(weight @ sample.y / weight.sum())
        std = float(np.sqrt(weight @ (sample.y - mean) ** 2 / weight.sum()))
        start = np.array(family.start(mean, std))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        return _climb(family, sample, start)


def terms_of(family: Family, sample: Sample, theta: Floats, /) -> Floats:
    """Return the log-likelihood of an exact and of a censored value at each distinct value."""
    ends = family.density(sample.y, theta)[0] - sample.y - sample.center
    cuts = survival_where(sample.cuts > 0, family, sample.y, theta)[0]
    share = survival_where(sample.low > -np.inf, family, sample.low, theta)[0]
    return np.stack([ends, cuts]) - share


def survival_where(chosen: Booleans, family: Family, y: Floats, theta: Floats) -> Floats:
    """Return the log survival at chosen values, and below it its gradient; 0 elsewhere."""
    survival = np.zeros((1 + len(theta), len(y)))
    if chosen.any():
        values, of = np.unique(y[chosen], return_inverse=True)
        value, first, _ = family.survival(values, theta)
        survival[:, chosen] = np.vstack([value, first])[:, of]
    return survival


def _likelihood(family: Family, sample: Sample, theta: Floats) -> tuple[float, Floats, Floats]:
    """Return ln L of ln x, its gradient, and its matrix of second derivatives."""
    value, first, second = 0.0, np.zeros(2), np.zeros(3)
    cut = sample.cuts > 0
    parts: list[tuple[Callable[..., Terms], Floats, Any]] = [
        (family.density, sample.y, sample.ends)
    ]
    if cut.any():
        parts.append((family.survival, sample.y[cut], sample.cuts[cut]))
    bounded = sample.low > -np.inf
    if bounded.any():
        lows, of = np.unique(sample.low[bounded], return_inverse=True)
        entering = np.bincount(of, (sample.ends + sample.cuts)[bounded])
        parts.append((family.survival, lows, -entering))
    for function, y, weight in parts:
        values, firsts, seconds = function(y, theta)
        value += float(values @ weight)
        first += firsts @ weight
        second += seconds @ weight
    return value, first, np.array([[second[0], second[1]], [second[1], second[2]]])


def _climb(family: Family, sample: Sample, start: Floats) -> Fit:
    theta = start
    value, gradient, curvature = _likelihood(family, sample, theta)
    note: str | None = "the search for the maximum did not converge"
    runs_away = False
    for _ in range(_STEPS):
        if not (np.isfinite(curvature).all() and np.isfinite(value)):
            break
        roots, axes = np.linalg.eigh(curvature)
        # ascent along every axis, also where the likelihood is convex
        along = axes.T @ gradient
        step = axes @ (along / np.maximum(np.abs(roots), 1e-12 * np.abs(roots).max() + 1e-300))
        gain = float(gradient @ step) / 2
        if gain < _GAIN and roots.max() < 0:
            note = None
            break
        step *= min(1.0, _LONGEST / np.abs(step).max())
        ascent = _ascend(partial(_likelihood, family, sample), theta, step, value, gradient)
        if ascent is None:
            # the remaining gain is below the rounding of the sum
            note = None if gain < 1e-6 and roots.max() < 0 else note
            break
        theta, (value, gradient, curvature) = ascent
        runs_away = bool(np.abs(theta - start).max() > _FAR * (1 + np.ptp(sample.y) / 10))
        if runs_away:
            break
    away = float(sample.y @ sample.ends) + sample.center * sample.n_ends
    fit = Fit(family, theta, value - away if note is None else float("nan"), None, note)
    if sample.bound is not None and (
        runs_away or fit.log_fraction_above(sample.bound) < np.log(_LEAST_SHARE)
    ):
        note = "no maximum inside: the likelihood increases as the whole fit moves below the bound"
        return Fit(family, theta, value - away, None, note)
    if note is not None:
        return fit
    return replace(fit, covariance=np.asarray(np.linalg.inv(-curvature), dtype=np.float64))


def _ascend(
    likelihood: Callable[[Floats], tuple[float, Floats, Floats]],
    theta: Floats,
    step: Floats,
    value: float,
    gradient: Floats,
) -> tuple[Floats, tuple[float, Floats, Floats]] | None:
    """Return the parameters after a step, halved until ln L increases, or None; and their ln L."""
    for _ in range(40):
        trial = likelihood(theta + step)
        if trial[0] >= value + 1e-4 * float(gradient @ step):
            return theta + step, trial
        step = step / 2
    return None


def _fit_exponential(family: Family, sample: Sample) -> Fit:
    """Return the closed form: events over time at risk."""
    y, low = sample.y, np.exp(sample.low)
    at_risk = float((sample.ends + sample.cuts) @ (np.exp(y) - low))
    n = sample.n_ends
    location = float(np.log(at_risk / n))
    away = float(sample.ends @ y) + sample.center * n
    value = -n * location - n + float(sample.ends @ y) - away
    return Fit(family, np.array([location]), value, np.array([[1 / n]]), None)


def _is_exponential(sample: Sample) -> bool:
    """Return whether ln L decreases as one over the shape of Lomax leaves 0."""
    exponential = _fit_exponential(FAMILIES["exponential"], sample)
    u = np.exp(sample.y - exponential.theta[0])
    low = np.exp(sample.low - exponential.theta[0])
    weight = sample.ends + sample.cuts
    score = sample.ends @ (u**2 / 2 - u) + sample.cuts @ (u**2 / 2) - weight @ low**2 / 2
    return bool(score <= 0)


@dataclass(frozen=True)
class Sample:
    """Distinct log values, ascending, with counts of exact (`ends`) and censored ones (`cuts`)."""

    y: Floats
    ends: Floats
    cuts: Floats
    bound: float | None
    """Left-truncation bound of all values."""
    center: float
    low: Floats
    """Bound or later entry of each row; minus infinity without either."""

    @property
    def steps(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Times in ascending order with ends, cuts and rows that enter after each, if later."""
        enters = self.low > (-np.inf if self.bound is None else self.bound)
        if not enters.any():
            return self.y, self.ends, self.cuts, np.zeros(len(self.y))
        weight = (self.ends + self.cuts)[enters]
        # a row that ends at its entry enters just before its end
        entry = np.minimum(self.low[enters], np.nextafter(self.y[enters], -np.inf))
        times, place = np.unique(np.concatenate([self.y, entry]), return_inverse=True)
        zeros, none = np.zeros(len(entry)), np.zeros(len(self.y))
        columns = ((self.ends, zeros), (self.cuts, zeros), (none, weight))
        ends, cuts, entering = (
            np.bincount(place, np.concatenate(pair), len(times)).astype(float) for pair in columns
        )
        return times, ends, cuts, entering

    @property
    def n(self) -> int:
        """Number of values."""
        return int(self.ends.sum() + self.cuts.sum())

    @property
    def n_ends(self) -> int:
        """Number of uncensored values."""
        return int(self.ends.sum())


def resolution(values: Floats, /) -> float | None:
    """Return the step, to 3 digits, of which all values are multiples; None without one or ties."""
    if len(np.unique(values)) == len(values):
        return None
    for scale in (1, 10, 100, 1000):
        scaled = values * scale
        if scaled.max() < 2**53 and (np.abs(scaled - np.round(scaled)) < 1e-6).all():
            step = int(np.gcd.reduce(np.round(scaled).astype(np.int64)))
            return step / scale if step else None
    return None


def make_sample(
    y: Floats, cut: Booleans, bound: float | str | None, /, entry: Floats | None = None
) -> Sample:
    """Return a sample of logarithms; a bound of "min" is the smallest, `entry` that of each."""
    least = float(y.min()) if bound == "min" else bound
    if entry is not None and (entry > -np.inf).any():
        floor = -np.inf if least is None else float(least)
        pairs = np.stack([y, np.maximum(entry, floor)])
        (distinct, lows), of = np.unique(pairs, axis=1, return_inverse=True)
        of = of.ravel()
        cuts = np.bincount(of[cut], minlength=len(distinct)).astype(float)
        ends = np.bincount(of[~cut], minlength=len(distinct)).astype(float)
        center = float(y.mean())
        return Sample(
            distinct - center,
            ends,
            cuts,
            None if least is None else float(least) - center,
            center,
            lows - center,
        )
    if cut.any():
        distinct, of = np.unique(y, return_inverse=True)
        cuts = np.bincount(of[cut], minlength=len(distinct)).astype(float)
        ends = np.bincount(of[~cut], minlength=len(distinct)).astype(float)
    else:
        distinct, counts = np.unique(y, return_counts=True)
        ends, cuts = counts.astype(float), np.zeros(len(distinct))
    center = float(distinct @ (ends + cuts) / len(y))
    low = None if least is None else float(least) - center
    return Sample(
        distinct - center,
        ends,
        cuts,
        low,
        center,
        np.full(len(distinct), -np.inf if low is None else low),
    )


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

    Vuong (Econometrica 57, 1989) with Takeuchi's correction (Stone, JRSS B 39, 1977); a `note` if n
    < 25 skewness^2 of the differences (Cochran, 1977, 2.15). The exponential is nested in gamma and
    Weibull, and on the boundary of Lomax (Self and Liang, JASA 82, 1987).
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
