"""How far each worker is above its own usual and its peers', and how much that says.

The method and its blind spots: docs/explanation/stragglers.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.stats.order import median_present, peers_at_rank, pick

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceana.analysis.stragglers.reports import Floats

QUICK_PEER: Final = 0.25
"""Rank, as a share of the peers, of the one that stands for all of them at a tick."""

FASTEST: Final = 1 / 32
"""No ratio to the usual counts as less: a zero has no logarithm."""

LEAST_NOISE: Final = 0.005
"""No worker's noise is taken as less, in units of its usual."""

FOLLOWS: Final = 0.9
"""A worker follows its job where that leaves less than this share of its series."""

ALLOWANCE: Final = 0.75
"""Excess, in units of a worker's noise, that speaks neither way."""

BLOCKS: Final = (1, 4, 16)
"""Reports to a block: noise that lasts does not average out over it."""

FEWEST_BLOCKS: Final = 5
"""Blocks that a spread is measured over, at the least."""

TAILS: Final = ((0.95, 1.645), (0.98, 2.054))
"""Quantiles of the calm reports, and where the normal distribution has them."""


def log_ratio(value: Floats, usual: Floats, /) -> Floats:
    """Logarithm of each value (..., tick) over its worker's usual (...); NaN where that is 0."""
    level = usual[..., None]
    ratio = np.divide(value, level, out=np.full_like(value, np.nan), where=level > 0)
    logarithm: Floats = np.log(np.maximum(ratio, FASTEST))
    return logarithm


def excess_over_peers(
    own: Floats, as_peer: Floats, calm: NDArray[np.bool_], /
) -> tuple[Floats, Floats]:
    """How far a worker is above its own usual, and that less what its peers are above theirs.

    A quick peer stands for all, and not the middle one: half of the workers may be slow together
    without passing for a slowdown of the whole job. Peers that are quicker than usual make nobody
    slow, unless the worker is quicker with them as a rule: then its usual moves with the job.

    Parameters
    ----------
    own, as_peer
        (job, worker, tick): logarithm of the ratio to the usual, and the same as a peer is seen.
    calm
        Which samples count as usual.

    Returns
    -------
    (severity, excess)
        (job, worker, tick); NaN where a worker has no value, and the excess where it has no peer.
    """
    across = np.ascontiguousarray(as_peer.swapaxes(1, 2))
    ordered = np.sort(across, axis=-1)
    others = np.count_nonzero(~np.isnan(ordered), axis=-1) - 1
    rank = (QUICK_PEER * np.maximum(others - 1, 0)).astype(np.intp)
    peers = np.ascontiguousarray(peers_at_rank(across, ordered, rank).swapaxes(1, 2))
    peers[np.isnan(own) | (others < 1)[:, None]] = np.nan
    # a quick peer is below its usual by nature; what counts is how far it is above that
    centre = _usual(peers, calm)
    moved = own - (peers - centre)
    excess = own - np.maximum(peers - centre, 0)
    # over the job's ups and downs, what is usual for a worker that follows them is known anew
    moved -= _usual(moved, calm)
    follows = (_size(moved, calm) < FOLLOWS * _size(excess, calm))[..., None]
    return np.where(follows, moved, own), np.where(follows, moved, excess)


def noise_of_reports(mean: Floats, calm: Floats, /, *, n_workers: int) -> Floats:
    """Noise of a worker's report as it counts in the mean of many, from the data.

    The spread of the differences between successive reports, which a slow stretch hardly
    touches, times the factor by which noise that lasts exceeds them: the largest, over blocks of
    1, 4 and 16 reports, of the spread of block means times sqrt(reports), each the lower median
    over a job's workers, of which half may have long episodes. Spreads are
    1.4826 * median absolute deviation. After a first pass, not below the upper tail of what is
    left of a worker: frequent spikes are its usual.

    Parameters
    ----------
    mean, calm
        (worker of a job, report): excess, and the same without known episodes (NaN).
    n_workers
        Workers to a job.
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
            # one that stands alone makes no tail
            at = np.maximum(np.minimum((share * n_calm).astype(np.intp), n_calm - 2), 0)
            tail = np.take_along_axis(ordered, at[:, None], axis=1)[:, 0]
            noise = np.fmax(noise, (tail - centre[:, 0]) / sigmas)
    # it is not well known from few reports
    wider: Floats = noise * (1 + 1 / np.sqrt(np.maximum(n, 1)))
    return wider


def evidence_of_reports(mean: Floats, noise: Floats, /, *, least: float) -> Floats:
    """Logarithm of the likelihood ratio of each report: slow by 2a against not slow.

    Of a normal distribution with the worker's noise s: 2 a (e - a) / s^2, with e the report's
    excess and a = max(least / 2, ALLOWANCE * s).
    """
    s = noise[:, None]
    allowance = np.maximum(least / 2, ALLOWANCE * s)
    evidence: Floats = 2 * allowance * (mean - allowance) / s**2
    return evidence


def _usual(values: Floats, calm: NDArray[np.bool_]) -> Floats:
    """Median of the calm samples of each worker (..., 1)."""
    return median_present(values if calm.all() else np.where(calm, values, np.nan))[..., None]


def _size(excess: Floats, calm: NDArray[np.bool_]) -> Floats:
    """Sum of the absolute values of calm samples."""
    size: Floats = np.abs(excess).sum(axis=-1, where=calm & ~np.isnan(excess))
    return size


def _spread(deviation: Floats) -> Floats:
    return 1.4826 * median_present(np.abs(deviation))
