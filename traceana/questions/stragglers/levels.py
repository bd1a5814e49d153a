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
