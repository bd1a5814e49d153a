"""Goodness of fits, their intervals for values in clusters, and the tail index.

The tables of the KS test do not apply to parameters estimated from the same values (Lilliefors,
JASA 62, 1967; Stute, Gonzalez Manteiga and Presedo Quindimil, Metrika 40, 1993).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import chdtri, stdtrit

from traceana.errors import DataError
from traceana.stats.arrays import Booleans, Floats, Integers
from traceana.stats.distributions.families import Family
from traceana.stats.distributions.likelihood import Fit, Sample, fit_family, make_sample
from traceana.stats.intervals import FEWEST_CLUSTERS
from traceana.stats.permutation import effective_clusters
from traceana.stats.survival import product_limit


def ks_distance(fit: Fit, sample: Sample, /, step: float | None = None) -> float:
    """Return the largest distance of the fitted distribution from the Kaplan-Meier estimate.

    Of values rounded to a step, the least possible: the fraction up to v is F(v) to F(v + step).
    """
    y, ends, cuts, late = sample.steps
    is_end, above = ends > 0, fit.log_fraction_above(sample.bound)
    fitted = np.exp(fit.family.survival(y, fit.theta)[0] - above)
    observed = product_limit(ends, cuts, late)
    if step is None:
        before = np.concatenate([[1.0], observed[:-1]])
        gaps = np.maximum(np.abs(fitted - observed), np.abs(fitted - before))
    else:
        later = np.exp(fit.family.survival(_after(y, step, sample.center), fit.theta)[0] - above)
        gaps = np.maximum(np.maximum(observed - fitted, later - observed), 0)
    return float(gaps[is_end].max())


def _after(y: Floats, step: float, center: float) -> Floats:
    """Return the logarithms, less the center, of values that are larger by a step."""
    return np.logaddexp(y, np.log(step) - center)


def ks_distances_of_refits(
    family: Family,
    fit: Fit,
    sample: Sample,
    /,
    *,
    resamples: int,
    bound_is_least: bool,
    rng: np.random.Generator,
) -> Floats:
    """Return the KS distances of samples of the fit, each with the family fitted anew.

    Censoring times are drawn from their Kaplan-Meier estimate (Efron, JASA 76, 1981).
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
    return np.maximum(drawn, np.nextafter(low, np.inf))


_MOST_TIMES: Final = 500
_MOST_CLUSTERS: Final = 4096  # at once, each with all times
_LEAST_SKEWED: Final = 0.25


@dataclass(frozen=True)
class ClusterTerms:
    """Derivatives of ln L in the parameters, summed over the rows of each cluster."""

    scores: Floats
    """Gradients (cluster x parameter)."""
    curvature: Floats
    """Second derivatives (cluster x parameter x parameter)."""
    fraction: Floats
    """Fraction of the rows."""


def cluster_terms(
    fit: Fit, y: Floats, cut: Booleans, low: Floats, cluster: Integers, /
) -> ClusterTerms:
    """Return the derivatives of ln L in each cluster."""
    parts = fit.family.density(y, fit.theta)[1:], fit.family.survival(y, fit.theta)[1:]
    first, second = (np.where(cut, *reversed(pair)) for pair in zip(*parts, strict=True))
    bounded = low > -np.inf
    if bounded.any():
        _, of_first, of_second = fit.family.survival(low[bounded], fit.theta)
        first[:, bounded] -= of_first
        second[:, bounded] -= of_second
    sums: Floats = np.stack([np.bincount(cluster, part) for part in second])
    place = [[0, 1], [1, 2]] if len(first) > 1 else [[0]]
    return ClusterTerms(
        scores=np.stack([np.bincount(cluster, part) for part in first], axis=1),
        curvature=sums[place].transpose(2, 0, 1),
        fraction=np.bincount(cluster) / len(cluster),
    )


def cluster_interval_of_fit(
    fit: Fit, terms: ClusterTerms, /, *, confidence: float
) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of the parameters, by a jackknife over clusters.

    One Newton step without each cluster; the center is that of unequal clusters (Busing, Meijer and
    van der Leeden, Statistics and Computing 9, 1999), t has Satterthwaite's degrees of freedom, at
    most Kish's effective clusters less one. An end is the farther of center +- t se and of that
    with the skewness of the steps (DiCiccio and Efron, Statistical Science 11, 1996).
    """
    others = terms.curvature - terms.curvature.sum(axis=0)
    try:
        moved = np.linalg.solve(others, terms.scores[..., None])[..., 0]
    except np.linalg.LinAlgError:  # one cluster alone decides a parameter
        none = np.full_like(fit.theta, np.nan)
        return none, none
    squares = (moved**2).sum(axis=0)
    center = fit.theta + (1 - terms.fraction) @ moved
    error = np.sqrt((1 - 1 / len(moved)) * squares)
    spread = np.maximum((moved**4).sum(axis=0) - squares**2 / len(moved), 1e-300)
    kish = 1 / (terms.fraction**2).sum()
    t = stdtrit(np.minimum(2 * squares**2 / spread, kish - 1), (1 + confidence) / 2)
    skewness = (moved**3).sum(axis=0) / (6 * squares**1.5 + 1e-300)
    reach = [w / np.maximum(1 - skewness * w, _LEAST_SKEWED) ** 2 for w in (-t, t)]
    return (
        center + error * np.minimum(reach[0], -t),
        center + error * np.maximum(reach[1], t),
    )


def multiplier_pvalue(
    fit: Fit,
    y: Floats,
    scores: Floats,
    cluster: Integers,
    /,
    *,
    distance: float,
    resamples: int,
    rng: np.random.Generator,
) -> float:
    """Return p of a KS distance in clusters (Kojadinovic and Yan, Can. J. Statistics 40, 2012)."""
    if fit.covariance is None:
        raise DataError(f"the {fit.family.name} fit has no maximum: {fit.note}")
    times = np.unique(y)
    if len(times) > _MOST_TIMES:
        times = np.unique(np.quantile(y, np.linspace(0, 1, _MOST_TIMES), method="nearest"))
    log_longer, of_theta, _ = fit.family.survival(times, fit.theta)
    longer = np.exp(log_longer)
    place = np.minimum(np.searchsorted(times, y), len(times) - 1)
    drawn = np.zeros((resamples, len(times)))
    for begin in range(0, len(scores), _MOST_CLUSTERS):
        part = scores[begin : begin + _MOST_CLUSTERS]
        within = (cluster >= begin) & (cluster < begin + len(part))
        counts = np.zeros((len(part), len(times)))
        np.add.at(counts, (cluster[within] - begin, place[within]), 1)
        sizes = counts.sum(axis=1, keepdims=True)
        below = counts.cumsum(axis=1)
        process = (below - sizes * (1 - longer)) / len(y)
        process += part @ fit.covariance @ (longer * of_theta)
        drawn += (rng.integers(0, 2, (resamples, len(part))) * 2.0 - 1) @ process
    larger = np.abs(drawn).max(axis=1) >= distance
    return float((1 + larger.sum()) / (1 + resamples))


@dataclass(frozen=True)
class Tail:
    """Hill's estimate from the k values above a threshold, with its interval."""

    k: int
    threshold: float
    index: float
    low: float
    high: float


def hill(
    values: Floats,
    k: int,
    /,
    *,
    entry: Floats | None = None,
    observed: Booleans | None = None,
    cluster: Integers | None = None,
    confidence: float,
) -> Tail | None:
    """Return Hill's estimate (Annals of Statistics 3, 1975), k over the sum of ln(x / threshold).

    With delayed entry or censoring: exact values over the sum of ln(x / max(threshold, entry))
    (Beirlant and others, Extremes 10, 2007). None without an exact value above the threshold.
    """
    order = np.argsort(-values, kind="stable")
    threshold = values[order[k]]
    top = order[:k][values[order[:k]] > threshold]
    ends = len(top) if observed is None else int(observed[top].sum())
    if not ends:
        return None
    above, n = values[top], ends
    low = threshold if entry is None else np.maximum(threshold, entry[top])
    logs = np.log(above / low)
    index = n / float(logs.sum())
    if cluster is not None:
        exact = np.ones(len(top)) if observed is None else observed[top].astype(float)
        reach = np.exp(_reach(exact, logs, cluster[top], confidence))
        return Tail(len(top), float(threshold), index, index / reach, index * reach)
    tail = (1 - confidence) / 2
    low, high = (index * float(chdtri(2 * n, p)) / (2 * n) for p in (1 - tail, tail))
    return Tail(len(top), float(threshold), index, low, high)


_WIDEST: Final = 20.0
"""Half of an interval of a logarithm that is none: half a billion times the index, or as little."""


def _reach(exact: Floats, logs: Floats, cluster: Integers, confidence: float) -> float:
    """Return half the length of the interval of the logarithm of sum(exact) / sum(logs)."""
    _, of = np.unique(cluster, return_inverse=True)
    ends, sums = np.bincount(of, exact), np.bincount(of, logs)
    m, effective = len(ends), effective_clusters(np.ones(len(of)), of)
    if effective < FEWEST_CLUSTERS:
        return float("nan")
    fraction = sums / sums.sum()
    moved = (ends / ends.sum() - fraction) / (1 - fraction)
    error = np.sqrt((m - 1) / m * (moved @ moved))
    half = float(stdtrit(effective - 1, (1 + confidence) / 2) * error)
    return half if half < _WIDEST else float("nan")
