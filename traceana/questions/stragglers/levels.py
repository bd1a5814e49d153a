"""Levels of workers over the whole job: interval, and whether a level lasts all along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.linalg import hadamard
from scipy.special import stdtr, stdtrit

from traceana.stats.order import median_present, peers_median

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceana.questions.stragglers.reports import Floats


BLOCKS: Final = 8
"""Minimum blocks of consecutive times that a job is cut into, if it has as many times."""

_SIGNS: Final = hadamard(32)[:, 1:].astype(float)  # 31 orthogonal columns, balanced
_SMALLEST_P: Final = 1e-12
_RANGE: Final = 4.3
"""95 % quantile of the range of eight standard normal numbers."""


class Levels(NamedTuple):
    """(job, worker): median, its ratio to the peers' with interval and p, and whether it changes.

    NaN if undefined.
    """

    median: Floats
    ratio_to_peers: Floats
    ci_low: Floats
    ci_high: Floats
    pvalue: Floats
    changes: NDArray[np.bool_]


def measure_levels(calm: Floats, slow_level: float, /) -> Levels:
    """Return the median of each worker, and its ratio to the median of the others' medians.

    The 95 % interval is from the medians of blocks of consecutive times, by balanced repeated
    replication with t quantiles; p is two-sided. A level changes if the slowest block is above
    `slow_level`, and the fastest is less than half as far above 1, by more than chance. `calm` is
    (job, worker, time), NaN if missing or in an episode.
    """
    n_jobs, n_workers, n_times = calm.shape
    median = median_present(calm)
    ratio = _ratio(median)
    length = max(n_times // BLOCKS, 1)
    n_blocks = min(n_times // length, _SIGNS.shape[1])
    blocks = calm[..., : n_blocks * length].reshape(n_jobs, n_workers, n_blocks, length)
    few = 2 * np.count_nonzero(~np.isnan(blocks), axis=-1) < length
    of_block = np.where(few, np.nan, median_present(blocks))
    with np.errstate(divide="ignore"):
        logarithm = np.log(np.where(of_block > 0, of_block, np.nan))
        log_median = np.log(np.where(median > 0, median, np.nan))
    known = ~np.isnan(logarithm)
    n = np.maximum(np.count_nonzero(known, axis=-1), 1)
    mean = np.nansum(logarithm, axis=-1) / n
    deviation = np.where(known, logarithm - mean[..., None], 0) / n[..., None]
    replicates = deviation @ _SIGNS[:, :n_blocks].T + log_median[..., None]
    apart = np.ascontiguousarray(replicates.swapaxes(1, 2))  # (job, replicate, worker)
    apart -= peers_median(apart)
    log_ratio = np.log(np.where(ratio > 0, ratio, np.nan))
    variance = np.mean((apart - log_ratio[:, None]) ** 2, axis=1) * n / np.maximum(n - 1, 1)
    quantile = np.where(n > 2, stdtrit(np.maximum(n - 1, 1), 0.975), np.nan)
    error = np.sqrt(variance)
    margin = np.exp(quantile * error)
    with np.errstate(divide="ignore", invalid="ignore"):
        pvalue = 2 * stdtr(np.maximum(n - 1, 1), -np.abs(log_ratio) / error)
    pvalue = np.where(n > 2, np.maximum(pvalue, _SMALLEST_P), np.nan)
    changes = _changes(np.ascontiguousarray(logarithm.swapaxes(1, 2)), slow_level)
    return Levels(median, ratio, ratio / margin, ratio * margin, pvalue, changes)


def _ratio(median: Floats) -> Floats:
    peers = peers_median(median)
    return np.divide(median, peers, out=np.full_like(median, np.nan), where=peers > 0)


def _changes(logarithm: Floats, slow_level: float) -> NDArray[np.bool_]:
    """Return whether a worker's ratio to its peers differs between blocks of the job.

    logarithm: (job, block, worker), of the medians.
    """
    over_time = (logarithm - peers_median(logarithm)).swapaxes(1, 2)
    low, high = np.fmin.reduce(over_time, axis=2), np.fmax.reduce(over_time, axis=2)
    # a drift does not show in second differences, and a step in two of them
    noise = median_present(np.abs(np.diff(over_time, n=2, axis=-1))) / (0.6745 * np.sqrt(6))
    noise = np.fmax(noise, median_present(noise)[:, None])
    changes: NDArray[np.bool_] = (
        (high > np.log(slow_level))
        & (np.expm1(low) < np.expm1(high) / 2)
        & (high - low > _RANGE * noise)
    )
    return changes


TRIPLES: Final = 32
"""Maximum triples of consecutive times from each third of the job."""

FEWEST: Final = 10
"""Minimum times of a third; a shorter job is taken as a whole."""

SYNCHRONIZED: Final = 0.25
"""Ratio of the workers' own to their common variation below which they move as one."""

SAME_LEVEL: Final = 1.05
"""Ratio of the slowest to the fastest level below which workers have one level."""

_LEAST: Final = 1e-9


def measure_noise(calm: Floats, /) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the slowdown expected from noise alone, and whether the workers move as one.

    The noise is what is left of the values in a third of the job without the workers' levels in it
    and without the variation that they share. With F its distribution over all workers, the largest
    of n independent values has the distribution F^n; its mean is a sum over the order statistics.
    Workers move as one if this noise is small compared with the variation that they share from one
    time to the next, as second differences show it: a slow change of the whole job does not. `calm`
    is (job, worker, time), NaN if missing or in an episode.
    """
    n_jobs, _, n_times = calm.shape
    n_thirds = 3 if n_times >= 3 * FEWEST else 1
    length = n_times // n_thirds
    first = np.arange(0, length - 2, 3)
    if len(first) > TRIPLES:
        first = np.linspace(0, length - 3, TRIPLES).astype(np.intp)
    times = np.arange(n_thirds)[:, None] * length + (first[:, None] + np.arange(3)).ravel()
    x = calm[..., times]  # (job, worker, third, time)
    level = _mean(x, (2, 3))
    x = _over(x, _mean(x, 3)[..., None])
    relative = _over(x, _mean(x, 1)[:, None]) - 1
    per_window, per_time = (_mean_count(x, axis) for axis in (3, 1))
    # means of n values are part of the deviations from them: n - 1 degrees of freedom
    freedom = (1 - 1 / np.maximum(per_window, 1)) * (1 - 1 / np.maximum(per_time, 1))
    pooled = np.sort(relative.reshape(n_jobs, -1), axis=1)
    n = np.count_nonzero(~np.isnan(pooled), axis=1)[:, None]
    rank = np.minimum(np.arange(pooled.shape[1] + 1) / np.maximum(n, 1), 1)
    weight = np.diff(rank ** np.maximum(per_time, 1)[:, None], axis=1)
    largest = np.nansum(pooled * weight, axis=1)
    slowdown = np.where(
        (freedom > 0) & (n[:, 0] > 0), 1 + largest / np.sqrt(np.maximum(freedom, _LEAST)), np.nan
    )
    common = _mean(np.diff(x, n=2, axis=-1)[..., ::3], 1).reshape(n_jobs, -1)
    shared = median_present(np.abs(common)) / np.sqrt(6)
    own = np.nansum(np.abs(relative), axis=(1, 2, 3)) / np.maximum(n[:, 0], 1)
    high, low = np.fmax.reduce(level, axis=1), np.fmin.reduce(level, axis=1)
    as_one = (shared > _LEAST) & (own < SYNCHRONIZED * shared) & (high < SAME_LEVEL * low)
    return slowdown, as_one & (per_time > 1)


def _mean(values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Return the mean of the present values; NaN if there is none."""
    total = np.nansum(values, axis=axis)
    return _over(total, np.count_nonzero(~np.isnan(values), axis=axis).astype(float))


def _mean_count(values: Floats, axis: int) -> Floats:
    """Return the mean number of present values along an axis, of each job, where there is any."""
    n = np.count_nonzero(~np.isnan(values), axis=axis).reshape(len(values), -1)
    mean: Floats = n.sum(axis=1) / np.maximum(np.count_nonzero(n, axis=1), 1)
    return mean


def _over(above: Floats, below: Floats) -> Floats:
    below = np.broadcast_to(below, above.shape)
    ratio: Floats = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
    return ratio
