"""Bootstrap of the Kolmogorov-Smirnov distance of two samples."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import kolmogi

from traceana.stats.arrays import Floats, Integers
from traceana.stats.wild_bootstrap import effective_clusters, too_few_clusters

_AT_ONCE: Final = 2_000_000  # counts in memory
_MOST_TIMES: Final = 500


def ks_interval(
    x: Floats, y: Floats, /, *, confidence: float, resamples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Return a bootstrap interval of the Kolmogorov-Smirnov distance of two distributions.

    Distance -+ the quantile of the largest change of the difference in resamples (Bickel and
    Freedman, Annals of Statistics 9, 1981), not below Kolmogorov's; cut to [0, 1], and
    conservative.
    """
    both = np.concatenate([x, y])
    order = np.argsort(both, kind="stable")
    steps = np.concatenate([np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))])
    is_last = np.append(np.diff(both[order]) > 0, True)
    gaps = steps[order].cumsum()[is_last]
    n, m = len(x), len(y)
    at_once = max(1, _AT_ONCE // (n + m))
    largest = []
    for done in range(0, resamples, at_once):
        size = min(at_once, resamples - done)
        change = np.concatenate(
            [
                rng.multinomial(n, np.full(n, 1 / n), size=size) / n,
                rng.multinomial(m, np.full(m, 1 / m), size=size) / -m,
            ],
            axis=1,
        )[:, order].cumsum(axis=1)[:, is_last]
        largest.append(np.abs(change - gaps).max(axis=1))
    reach = float(np.quantile(np.concatenate(largest), confidence))
    reach = max(reach, float(kolmogi(1 - confidence)) * (1 / n + 1 / m) ** 0.5)
    distance = float(np.abs(gaps).max())
    return max(0.0, distance - reach), min(1.0, distance + reach)


def clustered_ks(
    x: Floats,
    y: Floats,
    cluster: Integers,
    /,
    *,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """Return p and interval of the Kolmogorov-Smirnov distance of two samples in clusters.

    The wild bootstrap of whole clusters, around the common distribution function for p and around
    each sample's own for the interval, deviations divided by 1 - the cluster's fraction. NaN with
    too few effective clusters.
    """
    if too_few_clusters(effective_clusters(np.ones(len(cluster)), cluster)):
        return np.nan, np.nan, np.nan
    both, m = np.concatenate([x, y]), int(cluster.max()) + 1
    times = np.unique(both)
    if len(times) > _MOST_TIMES:
        times = np.unique(np.quantile(both, np.linspace(0, 1, _MOST_TIMES), method="nearest"))
    at = np.minimum(np.searchsorted(times, both), len(times) - 1)
    below, size = [], []
    for rows in (slice(0, len(x)), slice(len(x), None)):
        counts = np.zeros((m, len(times)))
        np.add.at(counts, (cluster[rows], at[rows]), 1)
        below.append(counts.cumsum(axis=1))
        size.append(below[-1][:, -1:])
    common = (below[0] + below[1]).sum(axis=0) / len(both)
    functions = [part.sum(axis=0) / part[:, -1].sum() for part in below]
    distance = float(np.abs(functions[0] - functions[1]).max())
    null, influence = np.zeros((m, len(times))), np.zeros((m, len(times)))
    for sign, part, n, function in zip((1, -1), below, size, functions, strict=True):
        total = n.sum()
        null += sign * (part - n * common) / total
        # a sample of one cluster deviates from the common function
        alone = bool((n == total).any())
        away = part - n * (common if alone else function)
        influence += sign * away / total / (1 if alone else 1 - n / total)
    signs = rng.integers(0, 2, (resamples, m)) * 2.0 - 1
    as_large = int((np.abs(signs @ null).max(axis=1) >= distance * (1 - 1e-9)).sum())
    reach = float(np.quantile(np.abs(signs @ influence).max(axis=1), confidence))
    return (1 + as_large) / (1 + resamples), max(0.0, distance - reach), min(1.0, distance + reach)
