"""What noise makes by itself: episodes, and levels of workers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import scipy  # scipy.signal is slow to import and loaded when used
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from traceana.questions.stragglers.blocks import over
from traceana.questions.stragglers.episodes import Rules, Stretch, find_stretches
from traceana.stats.arrays import Floats
from traceana.stats.quantiles import median_present, peers_median

ALPHA: Final = 0.05
"""Probability of an episode from the noise of a job, over all its workers and times."""
FEWEST_EFFECTIVE: Final = 10
"""Effectively independent times below which noise and a straggler look the same."""
_RESAMPLES: Final = (19, 39)
_CELLS: Final = 4_000_000
_MOST_CELLS: Final = 2_000_000
_LEAST_NOISE: Final = 1e-9
_FEWEST: Final = 3  # reports of a worker that show autocorrelation


def keep_beyond_chance(
    value: Floats, time_s: Floats, stretches: Sequence[Stretch], rules: Rules, /
) -> tuple[list[Stretch], NDArray[np.intp]]:
    """Return the episodes beyond what the noise of their job makes, and how many are not, by job.

    An episode is kept if its area, log(severity) * reports, exceeds the largest of 95 % of 19 to 39
    jobs made of the noise, which is autoregressive of order 1. Large jobs are not tested.
    """
    dropped = np.zeros(len(value), dtype=np.intp)
    kept: list[Stretch] = []
    for job in sorted({stretch.job for stretch in stretches}):
        of_job = [stretch for stretch in stretches if stretch.job == job]
        if value[job].size > _MOST_CELLS:
            kept += of_job
            continue
        areas = _largest_areas(value[job], time_s[job], of_job, rules)
        for stretch in of_job:
            larger = int((areas >= _area(stretch) * (1 - 1e-9)).sum())
            if (1 + larger) / (1 + len(areas)) <= ALPHA:
                kept.append(stretch)
            else:
                dropped[job] += 1
    return kept, dropped


def _area(stretch: Stretch) -> float:
    return stretch.n_reports * math.log(min(stretch.severity, stretch.excess))


def _largest_areas(x: Floats, time_s: Floats, stretches: Sequence[Stretch], rules: Rules) -> Floats:
    """Return the largest area of an episode in each job made from the noise of one, or 0."""
    n_workers, n_times = x.shape
    resamples = int(np.clip(_CELLS // x.size, *_RESAMPLES))
    noise = _noise_of(x, stretches)
    if noise.effective < FEWEST_EFFECTIVE:
        return np.full(resamples, np.inf)
    if math.isinf(noise.effective):
        return np.zeros(resamples)
    pool = noise.inflation * np.sort(np.concatenate(noise.reports))
    if len(pool) < 2:
        return np.full(resamples, np.inf)
    rng = np.random.default_rng(1)
    fresh = rng.standard_normal((resamples, n_workers, n_times))
    fresh[..., 1:] *= math.sqrt(1 - noise.rho**2)
    z = scipy.signal.lfilter([1.0], [1.0, -noise.rho], fresh, axis=-1)
    place = np.cumsum(noise.is_new, axis=1) - 1  # the report of each sample
    z = np.take_along_axis(z, np.broadcast_to(place, z.shape), axis=2)
    drawn = pool[np.minimum((ndtr(z) * len(pool)).astype(np.intp), len(pool) - 1)]
    made = np.exp(drawn + noise.base)
    made = np.where(np.isnan(x), np.nan, np.where(x > 0, made, 0.0))
    areas = np.zeros(resamples)
    for stretch in find_stretches(made, np.broadcast_to(time_s, (resamples, n_times)), rules):
        areas[stretch.job] = max(areas[stretch.job], _area(stretch))
    return areas


class _Noise(NamedTuple):
    """Noise of a job: logarithms around the medians of their worker and time."""

    reports: list[Floats]
    """Of each worker, without its episodes."""
    is_new: NDArray[np.bool_]
    """Whether a sample is a report: a repeated value is none."""
    base: Floats
    """(worker, time): sum of both medians."""
    rho: float
    inflation: float
    effective: float
    """Effectively independent times."""


def effective_times(x: Floats, /) -> float:
    """Return the effectively independent times of the noise of a job, (worker, time)."""
    return _noise_of(x).effective


def _noise_of(x: Floats, stretches: Sequence[Stretch] = (), /) -> _Noise:
    logs = np.log(np.where(x > 0, x, np.nan))
    usual = median_present(logs)[:, None]
    common = median_present(np.ascontiguousarray((logs - usual).T))
    base = usual + np.where(np.isnan(common), 0, common)
    residual = logs - base
    is_new = np.ones(x.shape, dtype=bool)
    is_new[:, 1:] = x[:, 1:] != x[:, :-1]
    is_new |= np.isnan(x)
    rho, inflation = _autocorrelation(_reports(residual, is_new))
    for stretch in stretches:
        residual[stretch.worker, stretch.first : stretch.last + 1] = np.nan
    reports = _reports(residual, is_new)
    effective = max(map(len, reports), default=0) * (1 - rho) / (1 + rho)
    if np.median([np.ptp(report) if len(report) else 0.0 for report in reports]) < _LEAST_NOISE:
        effective = math.inf  # most workers do not vary
    return _Noise(reports, is_new, base, rho, inflation, effective)


def _reports(residual: Floats, is_new: NDArray[np.bool_]) -> list[Floats]:
    return [of[new & ~np.isnan(of)] for of, new in zip(residual, is_new, strict=True)]


def _autocorrelation(reports: Sequence[Floats]) -> tuple[float, float]:
    """Return the lag-1 autocorrelation, and what the estimated means take off the deviation.

    The median over workers of that of their normal scores, corrected for the estimated mean of n
    reports (Marriott and Pope, Biometrika 41, 1954); the root of 1 - (1 + r) / (1 - r) / n.
    """
    correlations, n = [], 1
    for report in reports:
        if len(report) < _FEWEST:
            continue
        score = ndtri((report.argsort().argsort() + 0.5) / len(report))
        correlations.append(float(score[1:] @ score[:-1] / (score @ score)))
        n = max(n, len(report))
    if not correlations:
        return 0.0, 1.0
    r = float(np.median(correlations))
    r = float(np.clip(r + (1 + 4 * r) / n, 0.0, 0.98))
    return r, 1 / math.sqrt(max(1 - (1 + r) / (1 - r) / n, 0.25))


BLOCKS: Final = 8
"""Minimum blocks of consecutive times that a job is cut into, if it has as many times."""
_SIGNS: Final = hadamard(32)[:, 1:].astype(float)  # 31 orthogonal columns, balanced
_SMALLEST_P: Final = 1e-12
_RANGE: Final = 4.3  # 95 % quantile of the range of eight standard normal numbers


class Levels(NamedTuple):
    """Of (job, worker): median, its ratio to the peers' with interval and p, whether it changes."""

    median: Floats
    ratio_to_peers: Floats
    ci_low: Floats
    ci_high: Floats
    pvalue: Floats
    changes: NDArray[np.bool_]


def measure_levels(calm: Floats, slow_level: float, /) -> Levels:
    """Return the median of each worker, and its ratio to the median of the others' medians.

    The 95 % interval is from the medians of blocks of consecutive times, by balanced repeated
    replication with t quantiles. `calm`: (job, worker, time), NaN if missing or in an episode.
    """
    n_jobs, n_workers, n_times = calm.shape
    median = median_present(calm)
    ratio = over(median, peers_median(median))
    length = max(n_times // BLOCKS, 1)
    n_blocks = min(n_times // length, _SIGNS.shape[1])
    blocks = calm[..., : n_blocks * length].reshape(n_jobs, n_workers, n_blocks, length)
    few = 2 * np.count_nonzero(~np.isnan(blocks), axis=-1) < length
    of_block = np.where(few, np.nan, median_present(blocks))
    with np.errstate(divide="ignore"):
        logarithm = np.log(np.where(of_block > 0, of_block, np.nan))
        log_median = np.log(np.where(median > 0, median, np.nan))
    measured = ~np.isnan(logarithm)
    n = np.maximum(np.count_nonzero(measured, axis=-1), 1)
    mean = np.nansum(logarithm, axis=-1) / n
    deviation = np.where(measured, logarithm - mean[..., None], 0) / n[..., None]
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


def _changes(logarithm: Floats, slow_level: float) -> NDArray[np.bool_]:
    """Return whether a worker's ratio to its peers differs between blocks: (job, block, worker)."""
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


TRIPLES: Final = 32  # maximum triples of consecutive times from each third of the job
FEWEST: Final = 10  # minimum times of a third; a shorter job is taken as a whole
SYNCHRONIZED: Final = 0.7
"""Ratio of the workers' own to their common variation below which they move as one, as behind a
barrier of 3 % jitter where compute times vary by 8 %."""

SAME_LEVEL: Final = 1.05
"""Ratio of the slowest to the fastest level below which workers have one level."""
_LEAST: Final = 1e-9


def measure_noise(calm: Floats, /) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the slowdown expected from noise alone, and whether the workers move as one.

    Noise is what is left without levels and shared variation; with F its distribution, the largest
    of n values has F^n. Workers move as one if it is small against their common second
    differences. `calm`: (job, worker, time), NaN if missing or in an episode.
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
    x = over(x, _mean(x, 3)[..., None])
    relative = over(x, _mean(x, 1)[:, None]) - 1
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
    deviation = np.nansum(np.abs(relative), axis=(1, 2, 3)) / np.maximum(n[:, 0], 1)
    high, low = np.fmax.reduce(level, axis=1), np.fmin.reduce(level, axis=1)
    as_one = (shared > _LEAST) & (deviation < SYNCHRONIZED * shared) & (high < SAME_LEVEL * low)
    return slowdown, as_one & (per_time > 1)


def _mean(values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """Return the mean of the present values; NaN if there is none."""
    total = np.nansum(values, axis=axis)
    return over(total, np.count_nonzero(~np.isnan(values), axis=axis).astype(float))


def _mean_count(values: Floats, axis: int) -> Floats:
    """Return the mean number of present values along an axis, of each job, where there is any."""
    n = np.count_nonzero(~np.isnan(values), axis=axis).reshape(len(values), -1)
    mean: Floats = n.sum(axis=1) / np.maximum(np.count_nonzero(n, axis=1), 1)
    return mean
