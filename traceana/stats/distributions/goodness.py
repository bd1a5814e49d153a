"""Kolmogorov-Smirnov distance of a fit, with p-values from simulated re-fits.

The tables of the KS test do not apply to parameters estimated from the same values (Lilliefors,
JASA 62, 1967; Stute, Gonzalez Manteiga and Presedo Quindimil, Metrika 40, 1993).
"""

from __future__ import annotations

import numpy as np

from traceana.stats.arrays import Floats
from traceana.stats.distributions.families import Family
from traceana.stats.distributions.likelihood import Fit, fit_family
from traceana.stats.distributions.sample import Sample, make_sample
from traceana.stats.survival import product_limit


def ks_distance(fit: Fit, sample: Sample, /) -> float:
    """Return the largest distance of the fitted distribution from the Kaplan-Meier estimate.

    Above the bound, before and at every uncensored value.
    """
    y, ends, cuts, late = sample.steps
    longer = fit.family.survival(y, fit.theta)[0] - fit.log_fraction_above(sample.bound)
    observed = product_limit(ends, cuts, late)
    before = np.concatenate([[1.0], observed[:-1]])
    fitted, is_end = np.exp(longer), ends > 0
    gaps = np.maximum(np.abs(fitted - observed), np.abs(fitted - before))
    return float(gaps[is_end].max())


def ks_distances_of_refits(
    family: Family,
    fit: Fit,
    sample: Sample,
    /,
    *,
    resamples: int,
    bound_is_least: bool,
    rng: np.random.Generator,
    step: float | None = None,
) -> Floats:
    """Return the KS distances of samples of the fit, each with the family fitted anew.

    Values are drawn from the fit above their bound or entry, censoring times from their
    Kaplan-Meier estimate (Efron, JASA 76, 1981). A sample without two distinct uncensored values
    has no distance. `step`: values are rounded to its multiples, as the observed ones are.
    """
    distances = []
    bound = "min" if bound_is_least else sample.bound
    low = np.repeat(sample.low, (sample.ends + sample.cuts).astype(np.intp))
    entered = low > (-np.inf if sample.bound is None else sample.bound)
    # hazards accumulate from the entry on
    share = np.zeros(sample.n)
    above = np.isfinite(low)
    share[above] = fit.family.survival(low[above], fit.theta)[0]
    for _ in range(resamples):
        y = np.maximum(fit.family.quantile(share - rng.exponential(size=sample.n), fit.theta), low)
        cut = np.zeros(sample.n, dtype=bool)
        if sample.cuts.any():
            limit = _draw_cuts(sample, np.where(entered, low, -np.inf), rng)
            cut = limit < y
            y = np.minimum(y, limit)
        if step is not None:
            unit = np.log(step) - sample.center
            y = np.maximum(unit + np.log(np.maximum(np.round(np.exp(y - unit)), 1)), low)
        drawn = make_sample(y, cut, bound, low if entered.any() else None)
        if np.count_nonzero(drawn.ends) < 2:
            continue
        start = None
        if fit.family is family:
            start = fit.theta.copy()
            start[0] -= drawn.center
        again = fit_family(family, drawn, start=start)
        distances.append(ks_distance(again, drawn))
    return np.array(distances)


def _draw_cuts(sample: Sample, low: Floats, rng: np.random.Generator) -> Floats:
    """Return a censoring time above each entry, infinite beyond the last observed one."""
    y, ends, cuts, late = sample.steps
    # events come first
    at_risk = np.cumsum((ends + cuts - late)[::-1])[::-1] - ends
    is_cut = cuts > 0
    uncut = np.cumprod(1 - cuts[is_cut] / np.maximum(at_risk[is_cut], cuts[is_cut]))
    times = np.concatenate([y[is_cut], [np.inf]])
    already = np.concatenate([[1.0], uncut])[np.searchsorted(y[is_cut], low, side="right")]
    drawn = times[np.searchsorted(-uncut, -rng.random(sample.n) * already, side="left")]
    limits: Floats = np.maximum(drawn, np.nextafter(low, np.inf))
    return limits
