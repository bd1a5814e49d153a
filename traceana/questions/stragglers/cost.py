"""Cost of slow workers for a synchronous job, which waits for the slowest at each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceana.stats.order import middle_of, peers_median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.questions.stragglers.episodes import Stretch
    from traceana.questions.stragglers.levels import Levels
    from traceana.questions.stragglers.reports import Counts, Floats


@dataclass(frozen=True)
class Cost:
    """(job): slowdowns, also without episodes and without either; (job, worker): the others."""

    slowdown: Floats
    slowdown_median: Floats
    without_episodes: Floats
    without_either: Floats
    lost_share: Floats
    saved: Floats
    """Fraction of the job's time without the level of this worker alone."""


def measure_cost(value: Floats, levels: Levels, stretches: Sequence[Stretch], /) -> Cost:
    """Return slowdowns as measured, without the episodes, and without the levels as well."""
    slowest, mean = _over_workers(value)
    slowdown = _ratio(slowest, mean)
    slowdown_median = _ratio(slowest, _median_over_workers(value))
    even = value.copy()
    for job in sorted({stretch.job for stretch in stretches}):
        peers = peers_median(np.ascontiguousarray(value[job].T)).T
        for stretch in stretches:
            if stretch.job == job:
                ticks = slice(stretch.first, stretch.last + 1)
                mine = value[job, stretch.worker, ticks]
                even[job, stretch.worker, ticks] = np.fmin(mine, peers[stretch.worker, ticks])
    changed = even != value  # NaN is never equal and stays NaN
    without_episodes = _ratio(*_over_workers(even)) if stretches else slowdown
    slower = np.fmax(levels.ratio_to_peers, 1)[..., None]
    even = np.where(changed, even, even / slower)
    return Cost(
        slowdown,
        slowdown_median,
        without_episodes,
        _ratio(*_over_workers(even)),
        _lost_share(value, slowest, mean),
        _saved(value, slowest, levels.ratio_to_peers),
    )


def at_once(shape: tuple[int, ...], stretches: Sequence[Stretch], /) -> tuple[Counts, list[int]]:
    """Return the maximum number of workers in an episode at one time, by job and by episode."""
    number = np.zeros((shape[0], shape[2]), dtype=np.intp)
    for stretch in stretches:
        number[stretch.job, stretch.first : stretch.last + 1] += 1
    of_stretch = [int(number[s.job, s.first : s.last + 1].max()) for s in stretches]
    return number.max(axis=1, initial=0), of_stretch


def _over_workers(value: Floats) -> tuple[Floats, Floats]:
    """Return the maximum and mean over the workers at each time; NaN if there is no value."""
    n = np.count_nonzero(~np.isnan(value), axis=1)
    total = np.nansum(value, axis=1)
    mean = np.divide(total, n, out=np.full_like(total, np.nan), where=n > 0)
    return np.fmax.reduce(value, axis=1, initial=np.nan), mean


def _median_over_workers(value: Floats) -> Floats:
    ordered = np.sort(np.ascontiguousarray(value.swapaxes(1, 2)), axis=-1)
    return middle_of(ordered, np.count_nonzero(~np.isnan(ordered), axis=-1))


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return the ratio of the sums over time; NaN if the second is 0."""
    total, part = np.nansum(above, axis=-1), np.nansum(below, axis=-1)
    ratio: Floats = np.divide(total, part, out=np.full_like(total, np.nan), where=part > 0)
    return ratio


def _lost_share(value: Floats, slowest: Floats, mean: Floats) -> Floats:
    """Return the fraction of the waiting time in which each worker is the slowest."""
    waited_for = value == slowest[:, None]
    together = np.maximum(np.count_nonzero(waited_for, axis=1), 1)
    lost = np.nan_to_num((slowest - mean) / together)
    mine = np.einsum("jwt,jt->jw", waited_for, lost)
    total = mine.sum(axis=1, keepdims=True)
    share: Floats = np.divide(mine, total, out=np.full_like(mine, np.nan), where=total > 0)
    return share


def _saved(value: Floats, slowest: Floats, ratio: Floats) -> Floats:
    """Return the fraction of the job's time saved if each slower worker had its peers' level."""
    total = np.nansum(slowest, axis=-1)
    saved = np.zeros(ratio.shape)
    for job, worker in zip(*np.nonzero(ratio > 1), strict=True):
        own = value[job, worker]
        at = np.flatnonzero(own == slowest[job])  # elsewhere nothing changes
        if total[job] > 0 and len(at):
            others = np.delete(value[job][:, at], worker, axis=0)
            left = np.fmax.reduce(others, axis=0, initial=0.0)
            saved[job, worker] = (
                own[at] - np.fmax(left, own[at] / ratio[job, worker])
            ).sum() / total[job]
    return np.where(np.isnan(ratio), np.nan, saved)
