"""Bootstrap intervals of quantiles of values in clusters.

A resample is represented by the count of each value, so that one sort serves all resamples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.errors import DataError
from traceana.stats.arguments import as_generator, check_confidence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Counts = NDArray[np.int64]

RESAMPLES: Final = 1000
"""Resamples per interval."""

_AT_ONCE: Final = 100_000  # counts in memory, within the processor's cache


def cluster_quantile_intervals(
    values: ArrayLike,
    clusters: ArrayLike,
    quantiles: Sequence[float],
    /,
    *,
    confidence: float = 0.95,
    rng: int | np.random.Generator = 1,
) -> tuple[Floats, Floats]:
    """Return intervals of the quantiles of pooled values by the cluster bootstrap.

    Percentile intervals (Davison and Hinkley, Bootstrap Methods and their Application, 1997,
    section 3.8): whole clusters are drawn with replacement.

    Parameters
    ----------
    values
        Without missing values.
    clusters
        Code of the cluster of each value, from 0.
    quantiles
        Each in [0, 1]; linear between order statistics (type 7 of Hyndman and Fan, 1996).
    confidence
        Coverage, in (0, 1).
    rng
        Seed or generator.

    Returns
    -------
    (low, high)
        One entry per quantile; NaN for a single cluster.

    Raises
    ------
    DataError
        If `confidence` is out of range, or there is no value.
    """
    x, of = np.asarray(values, dtype=float), np.asarray(clusters, dtype=np.int64)
    random = as_generator(rng)
    order = np.argsort(x, kind="stable")
    n_clusters = int(of.max(initial=-1)) + 1
    of = of[order]
    if n_clusters == 1:
        undefined = np.full(len(quantiles), np.nan)
        return undefined, undefined

    def draw(resamples: int) -> Counts:
        drawn = random.multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), size=resamples)
        return drawn[:, of]

    return _intervals(x[order], quantiles, draw, confidence)


def _intervals(
    ordered: Floats,
    quantiles: Sequence[float],
    draw: Callable[[int], Counts],
    confidence: float,
) -> tuple[Floats, Floats]:
    check_confidence(confidence)
    if not len(ordered):
        raise DataError("quantiles need at least one value")
    at_once = max(1, _AT_ONCE // len(ordered))
    found = [
        _quantiles_of_counts(ordered, draw(min(at_once, RESAMPLES - done)), quantiles)
        for done in range(0, RESAMPLES, at_once)
    ]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail], axis=0)
    return low, high


def _quantiles_of_counts(ordered: Floats, counts: Counts, quantiles: Sequence[float]) -> Floats:
    """Return type 7 quantiles of ordered values with counts, one row per resample."""
    # one cumulative sum over all rows, so that one search serves all of them
    upto = counts.cumsum()
    ends = upto[counts.shape[1] - 1 :: counts.shape[1]][:, None]
    sizes = np.diff(ends, axis=0, prepend=0)
    before = ends - sizes
    row = np.arange(len(counts))[:, None] * counts.shape[1]
    place = (sizes - 1) * np.asarray(quantiles)
    below = np.floor(place)
    low, high = (
        ordered[np.searchsorted(upto, before + at.astype(np.int64), side="right") - row]
        for at in (below, np.ceil(place))
    )
    result: Floats = low + (place - below) * (high - low)
    return result
