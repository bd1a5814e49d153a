"""Maximum likelihood by Newton's method, with left truncation and right censoring.

ln L = sum over exact values of ln f(x) + sum over censored values of ln S(x) - sum of ln S(bound
or entry), with exact derivatives (except gamma's survival in its shape). scipy.stats fits have no
left truncation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceana.stats.distributions.families import FAMILIES, Family

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from traceana.stats.arrays import Floats
    from traceana.stats.distributions.families import Terms
    from traceana.stats.distributions.sample import Sample


_STEPS: Final = 200
_LONGEST: Final = 1.5  # of a step, in logarithms
_FAR: Final = 30.0  # log distance from the start beyond which there is no maximum
_LEAST_SHARE: Final = 1e-4  # smallest fraction of a fit above the bound
_GAIN: Final = 1e-9  # of ln L from one more step


@dataclass(frozen=True)
class Fit:
    """Parameters at the maximum; `note` states why there is none.

    `log_likelihood` is NaN if the search failed.
    """

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
    terms: Floats = np.stack([ends, cuts]) - share
    return terms


def survival_where(chosen: NDArray[np.bool_], family: Family, y: Floats, theta: Floats) -> Floats:
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
        for _halving in range(40):
            trial = _likelihood(family, sample, theta + step)
            if trial[0] >= value + 1e-4 * float(gradient @ step):
                break
            step /= 2
        else:
            # the remaining gain is below the rounding of the sum
            note = None if gain < 1e-6 and roots.max() < 0 else note
            break
        theta = theta + step
        value, gradient, curvature = trial
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
