"""Random variation of a job: the slowdown it causes alone, and whether workers share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.stats.order import median_present

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceana.questions.stragglers.reports import Floats

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
