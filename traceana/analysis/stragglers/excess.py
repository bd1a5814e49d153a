"""Excess of each worker over its usual value and its peers, and the evidence of a report.

The method and its limits: docs/explanation/stragglers.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.stats.order import median_present, peers_at_rank, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceana.analysis.stragglers.reports import Floats

QUICK_PEER: Final = 0.25
"""Quantile of the peers that represents them at a time."""

FASTEST: Final = 1 / 32
"""Lower bound of the ratio to the usual value, because zero has no logarithm."""

LEAST_NOISE: Final = 0.005
"""Lower bound of a worker's noise, relative to its usual value."""

FOLLOWS: Final = 0.9
"""A worker follows its job if that reduces its variation below this fraction."""

ALLOWANCE: Final = 0.75
"""Excess, in units of a worker's noise, with zero evidence."""

BLOCKS: Final = (1, 4, 16)
"""Reports per block: autocorrelated noise does not average out over it."""

FEWEST_BLOCKS: Final = 5
"""Minimum number of blocks to estimate a standard deviation."""

TAILS: Final = ((0.95, 1.645), (0.98, 2.054))
"""Quantiles of the normal reports, and those of the standard normal distribution."""


def log_ratio(value: Floats, usual: Floats, /) -> Floats:
    """Return the log ratio of each value (..., time) to the usual (...); NaN if that is 0."""
    level = usual[..., None]
    ratio = np.divide(value, level, out=np.full_like(value, np.nan), where=level > 0)
    logarithm: Floats = np.log(np.maximum(ratio, FASTEST))
    return logarithm


def excess_over_peers(
    own: Floats, as_peer: Floats, calm: NDArray[np.bool_], /
) -> tuple[Floats, Floats]:
    """Return the log ratio of a worker to its usual value, and its excess over the peers'.

    A low quantile represents the peers, not the median: half of the workers may be slow together
    without looking like a slowdown of the whole job. Peers that are faster than usual make no
    worker slow, unless it usually follows them: then its usual value moves with the job.

    Parameters
    ----------
    own, as_peer
        (job, worker, time): log ratio to the usual value, and the same in the role of a peer.
    calm
        Samples that count as usual.

    Returns
    -------
    (severity, excess)
        (job, worker, time); NaN without a value, and the excess also without a peer.
    """
    across = np.ascontiguousarray(as_peer.swapaxes(1, 2))
    ordered = np.sort(across, axis=-1)
    others = np.count_nonzero(~np.isnan(ordered), axis=-1) - 1
    rank = (QUICK_PEER * np.maximum(others - 1, 0)).astype(np.intp)
    peers = np.ascontiguousarray(peers_at_rank(across, ordered, rank).swapaxes(1, 2))
    peers[np.isnan(own) | (others < 1)[:, None]] = np.nan
    # a low quantile is below the usual value; subtract its own median
    centre = _usual(peers, calm)
    moved = own - (peers - centre)
    excess = own - np.maximum(peers - centre, 0)
    # recompute the usual value of a worker that follows the job
    moved -= _usual(moved, calm)
    follows = (_size(moved, calm) < FOLLOWS * _size(excess, calm))[..., None]
    return np.where(follows, moved, own), np.where(follows, moved, excess)


def noise_of_reports(mean: Floats, calm: Floats, /, *, n_workers: int) -> Floats:
    """Return the noise of a worker's reports, including autocorrelated noise.

    It is the standard deviation of the differences between successive reports, which an episode
    hardly changes, times a factor for autocorrelation: the maximum, over blocks of 1, 4 and 16
    reports, of the standard deviation of block means times sqrt(reports). Each is the lower median
    over a job's workers, half of which may have long episodes. Standard deviations are
    1.4826 * median absolute deviation. After a first pass the noise is at least what the upper
    tail of a worker's normal reports implies: frequent spikes are usual.

    Parameters
    ----------
    mean, calm
        (worker of a job, report): excess, and the same with known episodes as NaN.
    n_workers
        Workers per job.
    """
    n = np.count_nonzero(~np.isnan(mean), axis=1)
    n_calm = np.count_nonzero(~np.isnan(calm), axis=1)
    centre = median_present(calm)[:, None]
    step = _spread(np.diff(mean, axis=1)) / np.sqrt(2)
    step = np.fmax(step, LEAST_NOISE)
    relative = (mean - centre) / step[:, None]
    factor = np.ones(len(mean) // n_workers)
    for size in BLOCKS:
        n_blocks = mean.shape[1] // size
        blocks = relative[:, : n_blocks * size].reshape(len(mean), n_blocks, size).mean(axis=2)
        spread = np.where(n >= FEWEST_BLOCKS * size, _spread(blocks), np.nan)
        ordered = np.sort(spread.reshape(-1, n_workers), axis=1)
        known = np.count_nonzero(~np.isnan(ordered), axis=1)
        middle = pick(ordered, np.maximum(known - 1, 0) // 2)
        factor = np.fmax(factor, middle * np.sqrt(size))
    noise = step * np.repeat(factor, n_workers)
    if (n_calm < n).any():
        ordered = np.sort(calm, axis=1)
        for share, sigmas in TAILS:
            # a single value is no tail
            at = np.maximum(np.minimum((share * n_calm).astype(np.intp), n_calm - 2), 0)
            tail = np.take_along_axis(ordered, at[:, None], axis=1)[:, 0]
            noise = np.fmax(noise, (tail - centre[:, 0]) / sigmas)
    # few reports estimate it poorly
    wider: Floats = noise * (1 + 1 / np.sqrt(np.maximum(n, 1)))
    return wider


def evidence_of_reports(mean: Floats, noise: Floats, /, *, least: float) -> Floats:
    """Return the log likelihood ratio of each report: slow by 2a versus not slow.

    Of a normal distribution with the worker's noise s: 2 a (e - a) / s^2, with e the report's
    excess and a = max(least / 2, ALLOWANCE * s).
    """
    s = noise[:, None]
    allowance = np.maximum(least / 2, ALLOWANCE * s)
    evidence: Floats = 2 * allowance * (mean - allowance) / s**2
    return evidence


def _usual(values: Floats, calm: NDArray[np.bool_]) -> Floats:
    """Return the median of the usual samples of each worker (..., 1)."""
    return median_present(values if calm.all() else np.where(calm, values, np.nan))[..., None]


def _size(excess: Floats, calm: NDArray[np.bool_]) -> Floats:
    """Return the sum of the absolute values of usual samples."""
    size: Floats = np.abs(excess).sum(axis=-1, where=calm & ~np.isnan(excess))
    return size


def _spread(deviation: Floats) -> Floats:
    return 1.4826 * median_present(np.abs(deviation))
