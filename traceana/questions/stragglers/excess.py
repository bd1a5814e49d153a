"""Excess of each worker over its usual value and its peers, and the evidence of a report.

The method and its limits: docs/explanation/stragglers.md.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.stats.order import median_present, middle_of, peers_at_rank, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceana.questions.stragglers.reports import Floats

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

IQR: Final = 1.349
"""Interquartile range of the standard normal distribution."""

FEWEST_BLOCKS: Final = 5
"""Minimum number of blocks to estimate a standard deviation."""

TINY: Final = 1e-9
"""Lower bound of a frequency, because zero has no logarithm."""

OUTLYING: Final = 3
"""Standard deviations beyond which a report is clipped, so that spikes are no lasting noise."""

TAILS: Final = (2, 3, 4)
"""Excess, in units of a worker's noise, above which the frequency of reports is counted."""


def log_ratio(value: Floats, usual: Floats, /) -> Floats:
    """Return the log ratio of each value (..., time) to the usual (...); NaN if that is 0."""
    level = usual[..., None]
    ratio = np.divide(value, level, out=np.full_like(value, np.nan), where=level > 0)
    logarithm: Floats = np.log(np.maximum(ratio, FASTEST))
    return logarithm


def excess_over_peers(
    own: Floats, as_peer: Floats, calm: NDArray[np.bool_], /
) -> tuple[Floats, Floats, Floats]:
    """Return the log ratio of a worker to its usual value, its excess over the peers', and theirs.

    A low quantile represents the peers, not the median: half of the workers may be slow together
    without looking like a slowdown of the whole job. Peers that are faster than usual make no
    worker slow, unless it usually follows them: then its usual value moves with the job. Returns
    (severity, excess, peers), each (job, worker, time); NaN without a value, and the last two also
    without a peer.
    """
    across = np.ascontiguousarray(as_peer.swapaxes(1, 2))
    ordered = np.sort(across, axis=-1)
    others = np.count_nonzero(~np.isnan(ordered), axis=-1) - 1
    rank = (QUICK_PEER * np.maximum(others - 1, 0)).astype(np.intp)
    peers = np.ascontiguousarray(peers_at_rank(across, ordered, rank).swapaxes(1, 2))
    peers[np.isnan(own) | (others < 1)[:, None]] = np.nan
    # a low quantile is below the usual value; subtract its own median
    peers -= _usual(peers, calm)
    moved = own - peers
    excess = own - np.maximum(peers, 0)
    # recompute the usual value of a worker that follows the job
    moved -= _usual(moved, calm)
    follows = (_size(moved, calm) < FOLLOWS * _size(excess, calm))[..., None]
    return np.where(follows, moved, own), np.where(follows, moved, excess), peers


def noise_of_reports(mean: Floats, calm: Floats, /, *, n_workers: int) -> Floats:
    """Return the noise of a worker's reports, including autocorrelated noise.

    It is the standard deviation of the differences between successive reports, which an episode
    changes little, times a factor for autocorrelation: the maximum, over blocks of 1, 4 and 16
    reports, of the standard deviation of block means times sqrt(reports). Each is the lower median
    over a job's workers, half of which may have long episodes. Standard deviations are
    1.4826 * median absolute deviation, and outlying reports are clipped before blocks are formed:
    a spike lasts one report.
    """
    if not calm.size:
        return np.full(len(mean), LEAST_NOISE)
    n = np.count_nonzero(~np.isnan(mean), axis=1)
    ordered = np.sort(calm, axis=1)
    last = np.count_nonzero(~np.isnan(ordered), axis=1) - 1
    low, high = (pick(ordered, (part * np.maximum(last, 0)) // 4) for part in (1, 3))
    center = middle_of(ordered, last + 1)[:, None]
    step = np.fmax(_spread(np.diff(mean, axis=1)) / np.sqrt(2), LEAST_NOISE)
    usual = OUTLYING * np.fmax((high - low) / IQR, step)[:, None]
    relative = np.clip(mean - center, -usual, usual) / step[:, None]
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
    # few reports estimate it poorly
    wider: Floats = noise * (1 + 1 / np.sqrt(np.maximum(n, 1)))
    return wider


def evidence_of_reports(
    mean: Floats, calm: Floats, noise: Floats, /, *, n_workers: int, least: float, enough: float
) -> Floats:
    """Return the log likelihood ratio of each report: slow by 2a versus not slow.

    Of a normal distribution with the worker's noise s: 2 a (e - a) / s^2, with e the report's
    excess and a = max(least / 2, ALLOWANCE * s). It is at most log(1 / p), with p the fraction of
    normal reports that are as far above the noise, of this worker or of the median worker: where
    spikes are frequent, more slow reports in a row are needed. It is never limited below `enough`.
    """
    s = noise[:, None]
    allowance = np.maximum(least / 2, ALLOWANCE * s)
    evidence: Floats = 2 * allowance * (mean - allowance) / s**2
    n = np.maximum(np.count_nonzero(~np.isnan(calm), axis=1), 1)
    for tail, following in pairwise((*TAILS, np.inf)):
        # a single report is no frequency, and a few estimate it poorly
        others = np.maximum(np.count_nonzero(calm > tail * s, axis=1) - 1, 0)
        fraction = ((others + np.sqrt(others)) / n).reshape(-1, n_workers)
        usual = np.sort(others.reshape(fraction.shape) / n.reshape(fraction.shape), axis=1)
        fraction = np.fmax(fraction, usual[:, [(n_workers - 1) // 2]]).reshape(-1, 1)
        limit = np.fmax(-np.log(np.fmax(fraction, TINY)), enough)
        band = (mean > tail * s) & (mean <= following * s)
        np.minimum(evidence, limit, out=evidence, where=band)
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
