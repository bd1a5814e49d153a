"""Bootstrap intervals of quantiles where values are not independent.

A resample is told by how often it has each value. Quantiles then come from one sort of the
values, however many resamples there are.
"""

from __future__ import annotations

import math
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
"""Resamples behind an interval."""

_AT_ONCE: Final = 100_000  # counts held at a time: they stay in the processor's cache


def block_quantile_intervals(
    values: ArrayLike,
    quantiles: Sequence[float],
    /,
    *,
    block: int,
    confidence: float = 0.95,
    rng: int | np.random.Generator,
) -> tuple[Floats, Floats]:
    """Percentile intervals of a series' quantiles by the moving-block bootstrap (Kuensch, 1989).

    A resample is put together of blocks of consecutive values, whose starts are drawn from all
    n - block + 1 there are, until it has n values; so it keeps the dependence within a block.

    Parameters
    ----------
    values
        The series in its order, without missing values.
    quantiles
        Each in [0, 1]; linear between order statistics (type 7 of Hyndman and Fan, 1996).
    block
        Length of a block, from 1 (independent values) to n.
    confidence
        Coverage, in (0, 1).
    rng
        Seed or generator.

    Returns
    -------
    (low, high)
        One entry a quantile.

    Raises
    ------
    DataError
        If `block` or `confidence` is out of range, or there is no value.
    """
    x = np.asarray(values, dtype=float)
    n = len(x)
    if not 1 <= block <= n:
        raise DataError(f"block must lie from 1 to the {n} values there are; it is {block!r}")
    random = as_generator(rng)
    order = np.argsort(x, kind="stable")

    def draw(resamples: int) -> Counts:
        needed = math.ceil(n / block)
        starts = random.integers(0, n - block + 1, size=(resamples, needed))
        steps = np.zeros((resamples, n + 1), dtype=np.int64)
        # the last block is cut to what is still lacking
        lengths = np.full(needed, block)
        lengths[-1] = n - block * (needed - 1)
        row = np.arange(resamples)[:, None]
        np.add.at(steps, (row, starts), 1)
        np.add.at(steps, (row, starts + lengths), -1)
        return steps.cumsum(axis=1)[:, :n][:, order]

    return _intervals(x[order], quantiles, draw, confidence)


def cluster_quantile_intervals(
    values: ArrayLike,
    clusters: ArrayLike,
    quantiles: Sequence[float],
    /,
    *,
    confidence: float = 0.95,
    rng: int | np.random.Generator,
) -> tuple[Floats, Floats]:
    """Percentile intervals of pooled values' quantiles, drawing whole clusters with replacement.

    As many clusters are drawn as there are, each with all its values: what is independent is the
    cluster, not the value. The number of values differs between resamples.

    Parameters
    ----------
    values
        Without missing values.
    clusters
        Whose each value is: whole numbers from 0 on.
    quantiles, confidence, rng
        As for :func:`block_quantile_intervals`.

    Returns
    -------
    (low, high)
        One entry a quantile; NaN where there is a single cluster.

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


def autoregressive_block(n: int, effective_n: float, /) -> int:
    """Return the length of block that suits n values worth `effective_n` independent ones.

    (3/2 (2a / (1 - a^2))^2 n)^(1/3), the best for the variance of a mean of an AR(1) series
    (Politis and White, Econometric Reviews 23, 2004), with `a` taken from n / effective_n =
    (1 + a) / (1 - a). At most a third of the series, so that blocks differ; at least 1.
    """
    time = max(n / effective_n, 1.0)
    ratio = (time - 1 / time) / 2  # 2a / (1 - a^2)
    return max(1, min(math.ceil(math.cbrt(1.5 * ratio**2 * n)), n // 3))


def _intervals(
    ordered: Floats,
    quantiles: Sequence[float],
    draw: Callable[[int], Counts],
    confidence: float,
) -> tuple[Floats, Floats]:
    check_confidence(confidence)
    if not len(ordered):
        raise DataError("there is no value to take quantiles of")
    at_once = max(1, _AT_ONCE // len(ordered))
    found = [
        _quantiles_of_counts(ordered, draw(min(at_once, RESAMPLES - done)), quantiles)
        for done in range(0, RESAMPLES, at_once)
    ]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail], axis=0)
    return low, high


def _quantiles_of_counts(ordered: Floats, counts: Counts, quantiles: Sequence[float]) -> Floats:
    """Type 7 quantiles of rows that have each ordered value as often as its count says."""
    # one running sum through all the rows, so that one search finds the places of all of them
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
