"""Fits to values in clusters: robust covariance, and goodness of fit by a multiplier bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceana.stats.arrays import Floats, Integers
    from traceana.stats.distributions.likelihood import Fit


_MOST_TIMES: Final = 500


def cluster_scores(
    fit: Fit, y: Floats, cut: NDArray[np.bool_], low: Floats, cluster: Integers, /
) -> Floats:
    """Return the gradients of ln L summed over the rows of each cluster (cluster x parameter)."""
    gradient = np.where(
        cut, fit.family.survival(y, fit.theta)[1], fit.family.density(y, fit.theta)[1]
    )
    bounded = low > -np.inf
    if bounded.any():
        gradient[:, bounded] -= fit.family.survival(low[bounded], fit.theta)[1]
    return np.stack([np.bincount(cluster, part) for part in gradient], axis=1)


def cluster_covariance_of_fit(fit: Fit, scores: Floats, cluster: Integers, /) -> Floats:
    """Return the sandwich covariance C (sum of s_c s_c' / (1 - f_c)^2) C.

    C is the inverse of the observed information (White, Econometrica 50, 1982), f_c the fraction of
    the rows in cluster c: without it large clusters make intervals too narrow.
    """
    fraction = np.bincount(cluster) / len(cluster)
    moved = scores @ _covariance(fit) / (1 - fraction)[:, None]
    result: Floats = moved.T @ moved
    return result


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
