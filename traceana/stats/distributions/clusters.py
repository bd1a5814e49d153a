"""Fits to values in clusters: intervals by a jackknife, goodness of fit by a bootstrap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import stdtrit

from traceana.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceana.stats.arrays import Floats, Integers
    from traceana.stats.distributions.likelihood import Fit


_MOST_TIMES: Final = 500
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
    fit: Fit, y: Floats, cut: NDArray[np.bool_], low: Floats, cluster: Integers, /
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

    Without cluster c the parameters are theta - d_c, by one Newton step: d_c = J_c^-1 s_c with its
    scores s_c and the information J_c of the other clusters. The center is the jackknife estimate
    for unequal clusters (Busing, Meijer and van der Leeden, Statistics and Computing 9, 1999), the
    variance (G - 1) / G sum of d_c^2, and t the quantile of Student's t with Satterthwaite's
    degrees of freedom of that sum, at most Kish's effective clusters less one. An end is the
    farther of center +- t se and of that with the skewness of d_c, center + se w / (1 - a w)^2 with
    w = +-t and a = sum of d_c^3 / (6 (sum of d_c^2)^1.5) (DiCiccio and Efron, Statistical Science
    11, 1996): the first alone is too short where widths are skewed, and few clusters hide skewness.
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
    resamples: int,
    rng: np.random.Generator,
) -> float:
    """Return the p-value of the KS distance of a fit to complete values in clusters.

    The weighted bootstrap of Kojadinovic and Yan (Canadian Journal of Statistics 40, 2012) with one
    sign per cluster.
    """
    n, m = len(y), len(scores)
    times = np.unique(y)
    if len(times) > _MOST_TIMES:
        times = np.unique(np.quantile(y, np.linspace(0, 1, _MOST_TIMES), method="nearest"))
    log_longer, of_theta, _ = fit.family.survival(times, fit.theta)
    longer = np.exp(log_longer)
    counts = np.zeros((m, len(times)))
    np.add.at(counts, (cluster, np.minimum(np.searchsorted(times, y), len(times) - 1)), 1)
    sizes = counts.sum(axis=1, keepdims=True)
    below = counts.cumsum(axis=1)
    process = (below - sizes * (1 - longer)) / n
    distance = np.abs(process.sum(axis=0)).max()
    process += scores @ _covariance(fit) @ (longer * of_theta)
    signs = rng.integers(0, 2, (resamples, m)) * 2.0 - 1
    drawn = np.abs(signs @ process).max(axis=1)
    return float((1 + (drawn >= distance).sum()) / (1 + resamples))


def _covariance(fit: Fit) -> Floats:
    if fit.covariance is None:
        raise DataError(f"the {fit.family.name} fit has no maximum: {fit.note}")
    return fit.covariance
