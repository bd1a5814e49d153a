"""Sign-flip test of a correlation whose rows are dependent within clusters."""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np
from scipy.special import ndtr

from traceana.stats.arrays import Floats, Integers
from traceana.stats.correlation import SMALLEST_P

MIN_EFFECTIVE: Final = 10
"""With fewer effective clusters a correlation and the rank ANOVA have no test and no interval.

Their tests reject a true hypothesis too often then, the rank ANOVA at 0.05 in 0.10 to 0.12. Chi-
squared tests, comparisons of pairs and the logistic model keep their level (0.02 to 0.07), since
they have the degrees of freedom of the effective clusters.
"""
_RESAMPLES: Final = 9999
_ENUMERATED: Final = 13
_NORMAL: Final = 2000  # effective scores at which the excess kurtosis of their sum is below .001
_AT_ONCE: Final = 2_000_000  # signs in memory


def effective_clusters(weight: Floats, clusters: Integers, /) -> float:
    """Kish's effective number of clusters, (sum of w)^2 / sum of w^2, of the clusters' weights."""
    total = np.bincount(clusters, weight)
    return float(total.sum() ** 2 / (total**2).sum())


def too_few_clusters(effective: float, /) -> str | None:
    """Return why there is no test; None from :data:`MIN_EFFECTIVE` effective clusters on."""
    if effective >= MIN_EFFECTIVE:
        return None
    # rounded down: 9.97 are fewer than 10
    alike = np.floor(10 * effective) / 10
    return f"equivalent to {alike:.1f} units of equal size; {MIN_EFFECTIVE} are needed"


def leverage(x: Floats, y: Floats, level: str, method: str, /) -> tuple[Floats, Floats] | None:
    """Return d and u with sum(d u) proportional to the coefficient; None if it is not linear in y.

    Over group means d is (x - mean of the groups' x) / size of the group.
    """
    if level == "group_mean" and method == "pearson":
        values, group, size = np.unique(x, return_inverse=True, return_counts=True)
        return ((values - values.mean()) / size)[group], y - y.mean()
    if method == "pearson":  # weighted group means have the numerator of rows
        return x - x.mean(), y - y.mean()
    return None


def sign_flip_pvalue(
    d: Floats, u: Floats, clusters: Integers, /, *, rng: np.random.Generator
) -> float:
    """Two-sided p-value of no correlation: the wild cluster bootstrap of the score |sum of d u|.

    Residuals change sign by whole clusters (Cameron, Gelbach and Miller, Review of Economics and
    Statistics 90, 2008): all sign changes of up to 13 clusters, else 9,999; sums of 2,000 or more
    effective scores from the normal limit.
    """
    scores = np.bincount(clusters, d * u)
    scores = scores[np.bincount(clusters) > 0]
    squares = float(scores @ scores)
    if squares**2 >= _NORMAL * float((scores**4).sum()) > 0:
        return max(float(2 * ndtr(-abs(scores.sum()) / np.sqrt(squares))), SMALLEST_P)
    observed, n = abs(scores.sum()) * (1 - 1e-9), len(scores)
    if n <= _ENUMERATED:
        signs = np.array(list(product((-1, 1), repeat=n)))
        return float(np.mean(np.abs(signs @ scores) >= observed))
    scores = scores[np.argsort(np.abs(scores))]
    squared = np.cumsum(scores**2)
    normal = np.flatnonzero(squared**2 >= _NORMAL * np.cumsum(scores**4))
    n_normal = int(normal[-1]) + 1 if len(normal) and squared[-1] > 0 else 0
    deviation = np.sqrt(squared[n_normal - 1]) if n_normal else 0.0
    largest = scores[n_normal:]
    count, at_once = 1, max(_AT_ONCE // len(largest), 1)
    for done in range(0, _RESAMPLES, at_once):
        drawn = rng.integers(0, 2, (min(at_once, _RESAMPLES - done), len(largest)), dtype=np.int8)
        sums = 2 * (drawn.astype(float) @ largest) - largest.sum()
        if n_normal:
            sums += deviation * rng.standard_normal(len(sums))
        count += int(np.sum(np.abs(sums) >= observed))
    return count / (_RESAMPLES + 1)
