"""Episodes in which a worker is slower than usual and slower than its peers, and noise alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from traceana.questions.stragglers.blocks import Counts, coming_report, over, read_reports
from traceana.stats.arrays import Booleans, Floats
from traceana.stats.quantiles import median_present, middle_of, peers_at_rank, peers_median, pick
from traceana.stats.segments import highest_rise, rising_stretches

QUICK_PEER: Final = 0.25  # quantile of the peers that represents them at a time
FASTEST: Final = 1 / 32
"""Lower bound of the ratio to the usual value, because zero has no logarithm."""
LEAST_NOISE: Final = 0.005  # lower bound of a worker's noise, relative to its usual value
FOLLOWS: Final = 0.9  # a worker follows its job if that reduces its variation below this fraction
ALLOWANCE: Final = 0.75  # excess, in units of a worker's noise, with zero evidence
BLOCKS: Final = (1, 4, 16)  # reports per block: autocorrelated noise does not average out over it

IQR: Final = 1.349  # interquartile range of the standard normal distribution
FEWEST_BLOCKS: Final = 5  # minimum number of blocks to estimate a standard deviation
TINY: Final = 1e-9  # lower bound of a frequency, because zero has no logarithm
OUTLYING: Final = 3
"""Standard deviations beyond which a report is clipped, so that spikes are no lasting noise."""
TAILS: Final = (2, 3, 4)
"""Excess, in units of a worker's noise, above which the frequency of reports is counted."""


def log_ratio(value: Floats, usual: Floats, /) -> Floats:
    """Return the log ratio of each value (..., time) to the usual (...); NaN if that is 0."""
    logarithm: Floats = np.log(np.maximum(over(value, usual[..., None]), FASTEST))
    return logarithm


def excess_over_peers(
    block: Floats, as_peer: Floats, calm: Booleans, /
) -> tuple[Floats, Floats, Floats]:
    """Return severity, excess over the peers' and theirs: log ratios (job, worker, time)."""
    across = np.ascontiguousarray(as_peer.swapaxes(1, 2))
    ordered = np.sort(across, axis=-1)
    others = np.count_nonzero(~np.isnan(ordered), axis=-1) - 1
    rank = (QUICK_PEER * np.maximum(others - 1, 0)).astype(np.intp)
    peers = np.ascontiguousarray(peers_at_rank(across, ordered, rank).swapaxes(1, 2))
    peers[np.isnan(block) | (others < 1)[:, None]] = np.nan
    # a low quantile is below the usual value; subtract its own median
    peers -= _usual(peers, calm)
    moved = block - peers
    excess = block - np.maximum(peers, 0)
    # recompute the usual value of a worker that follows the job
    moved -= _usual(moved, calm)
    follows = (_size(moved, calm) < FOLLOWS * _size(excess, calm))[..., None]
    return np.where(follows, moved, block), np.where(follows, moved, excess), peers


def noise_of_reports(mean: Floats, calm: Floats, /, *, n_workers: int) -> Floats:
    """Return the noise of a worker's reports, including autocorrelated noise.

    The standard deviation of successive differences (1.4826 * MAD), times the largest ratio over
    blocks of 1, 4 and 16 clipped reports; each is the lower median over a job's workers.
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
        n_reported = np.count_nonzero(~np.isnan(ordered), axis=1)
        middle = pick(ordered, np.maximum(n_reported - 1, 0) // 2)
        factor = np.fmax(factor, middle * np.sqrt(size))
    noise = step * np.repeat(factor, n_workers)
    # few reports estimate it poorly
    wider: Floats = noise * (1 + 1 / np.sqrt(np.maximum(n, 1)))
    return wider


def evidence_of_reports(
    mean: Floats, calm: Floats, noise: Floats, /, *, n_workers: int, least: float, enough: float
) -> Floats:
    """Return the log likelihood ratio of each report: 2 a (e - a) / s^2, slow by 2a versus not.

    With a = max(least / 2, ALLOWANCE * s), at most log(1 / p), p being the fraction of normal
    reports as far above the noise; never limited below `enough`.
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


def _usual(values: Floats, calm: Booleans) -> Floats:
    """Return the median of the usual samples of each worker (..., 1)."""
    return median_present(values if calm.all() else np.where(calm, values, np.nan))[..., None]


def _size(excess: Floats, calm: Booleans) -> Floats:
    """Return the sum of the absolute values of usual samples."""
    size: Floats = np.abs(excess).sum(axis=-1, where=calm & ~np.isnan(excess))
    return size


def _spread(deviation: Floats) -> Floats:
    return 1.4826 * median_present(np.abs(deviation))


FIRST_PASS: Final = 0.5
"""Fraction of the evidence and of the logarithm of severity required in the first pass."""
PAUSE_STEPS: Final = 30
"""Median sampling intervals without a sample of the worker that end an episode."""
LONGEST_EDGE: Final = 10
"""Maximum reports by which workers enter or leave a slowdown of the whole job at other times."""


@dataclass(frozen=True)
class Rules:
    """Thresholds of an episode, as in :func:`traceana.detect_stragglers`."""

    min_severity: float
    min_reports: int
    min_duration_s: float
    max_gap_reports: int
    evidence: float


@dataclass(frozen=True)
class Stretch:
    """An episode by its positions in a block: times from first to last, both included."""

    job: int
    worker: int
    first: int
    last: int
    n_reports: int
    severity: float
    excess: float

    @property
    def cells(self) -> tuple[int, int, slice]:
        """Its place in an array of (job, worker, time)."""
        return self.job, self.worker, slice(self.first, self.last + 1)


def find_stretches(value: Floats, time_s: Floats, rules: Rules, /) -> list[Stretch]:
    """Return the episodes of the workers of some jobs."""
    easier = replace(
        rules,
        evidence=rules.evidence * FIRST_PASS,
        min_severity=rules.min_severity**FIRST_PASS,
        min_duration_s=0.0,
    )
    least = math.log(rules.min_severity)
    suspected = _search(value, value, time_s, easier, least)
    jobs = np.unique(np.array([stretch.job for stretch in suspected], dtype=np.intp))
    if not len(jobs):
        return []
    # what the first pass finds with half of the evidence is excluded from the usual values
    calm = value.copy()
    for stretch in suspected:
        calm[stretch.cells] = np.nan
    stretches = _search(value[jobs], calm[jobs], time_s[jobs], rules, least)
    return [replace(stretch, job=int(jobs[stretch.job])) for stretch in stretches]


def _search(
    value: Floats, calm: Floats, time_s: Floats, rules: Rules, least: float
) -> list[Stretch]:
    _, n_workers, n_ticks = value.shape
    usual = median_present(calm)
    usual = np.where(np.isnan(usual), median_present(value), usual)
    log_ratios = log_ratio(value, usual)
    reported = ~np.isnan(log_ratios)
    paired = (reported & (np.count_nonzero(reported, axis=1) > 1)[:, None]).reshape(-1, n_ticks)
    flat = value.reshape(-1, n_ticks)
    reports = read_reports(flat, paired, usual.ravel())
    coming = coming_report(flat, paired, reports)
    # a repeated value is old: a peer that reports a slowdown of the job late is in it already
    as_peer = (
        log_ratios
        if coming is flat
        else np.fmax(log_ratios, log_ratio(coming.reshape(value.shape), usual))
    )
    is_calm = ~np.isnan(calm)
    severity, excess, peers = (
        numbers.reshape(-1, n_ticks) for numbers in excess_over_peers(log_ratios, as_peer, is_calm)
    )
    present = excess[paired]
    mean = reports.at_begin(present)
    calm_mean = mean
    if calm is not value:
        is_present_calm = is_calm.reshape(-1, n_ticks)[paired]
        calm_mean = reports.at_begin(np.where(is_present_calm, present, np.nan))
    noise = noise_of_reports(mean, calm_mean, n_workers=n_workers)
    # the first pass suspects any min_reports slow reports in a row
    enough = rules.evidence / rules.min_reports if calm is value else 0
    evidence = evidence_of_reports(
        mean, calm_mean, noise, n_workers=n_workers, least=least, enough=enough
    )
    evidence /= rules.evidence
    # limit the evidence of one report, for and against
    scores = np.clip(evidence, -1 / (rules.max_gap_reports + 1), 1 / rules.min_reports)
    scores = np.where(np.isnan(scores), 0, scores)
    alarmed = np.flatnonzero(highest_rise(scores) >= 1 - 1e-9)
    stretches: list[Stretch] = []
    for series in map(int, alarmed):
        job, worker = divmod(series, n_workers)
        of_series = [numbers[series] for numbers in (scores, severity, excess, peers)]
        stretches += _stretches(job, worker, rules, time_s[job], reports.of(series), *of_series)
    return stretches


def _stretches(
    job: int,
    worker: int,
    rules: Rules,
    time_s: Floats,
    reports: tuple[Counts, Counts],
    *of_series: Floats,
) -> Iterator[Stretch]:
    (first, last), (scores, severity, excess, peers) = reports, of_series
    longest = PAUSE_STEPS * np.nanmedian(np.diff(time_s))
    pauses = np.flatnonzero(time_s[first[1:]] - time_s[last[:-1]] > longest) + 1
    for begin, end in zip([0, *pauses], [*pauses, len(first)], strict=True):
        for a, b in rising_stretches(scores[begin:end], threshold=1):
            from_tick, to_tick = int(first[begin + a]), int(last[begin + b])
            ticks = slice(from_tick, to_tick + 1)
            typical = (float(np.exp(np.nanmedian(x[ticks]))) for x in (severity, excess))
            stretch = Stretch(job, worker, from_tick, to_tick, b - a + 1, *typical)
            lasts = time_s[to_tick] - time_s[from_tick] >= rules.min_duration_s
            slow = min(stretch.severity, stretch.excess) >= rules.min_severity
            if lasts and slow and not _leads_or_lags(stretch, excess, peers, rules):
                yield stretch


def _leads_or_lags(stretch: Stretch, excess: Floats, peers: Floats, rules: Rules) -> bool:
    """Return whether a stretch is the edge of a slowdown of the whole job, of peers nearby."""
    half = math.log(stretch.severity) / 2
    edge = -(-LONGEST_EDGE * (stretch.last - stretch.first + 1) // stretch.n_reports)  # samples
    nearby = peers[max(stretch.first - edge, 0) : stretch.last + 1 + edge] > half
    if np.count_nonzero(nearby) <= edge / 4:
        return False
    excess_inside = excess[stretch.first : stretch.last + 1]
    together = peers[stretch.first : stretch.last + 1] > half
    lasting = np.count_nonzero(together) > edge
    if lasting and np.nanmedian(excess_inside[together]) >= math.log(rules.min_severity):
        return False
    return int(np.count_nonzero(excess_inside[~together] > half)) <= edge


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
    z = np.moveaxis(fresh, -1, 0).copy()
    for before, after in pairwise(z):  # scipy.signal's lfilter is as fast, but slow to import
        after[:] += noise.rho * before
    z = np.moveaxis(z, 0, -1)
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

    reports: list[Floats]  # of each worker, without its episodes
    is_new: Booleans  # whether a sample is a report: a repeated value is none
    base: Floats  # (worker, time): sum of both medians
    rho: float
    inflation: float
    effective: float  # effectively independent times


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


def _reports(residual: Floats, is_new: Booleans) -> list[Floats]:
    return [of[new & ~np.isnan(of)] for of, new in zip(residual, is_new, strict=True)]


def _autocorrelation(reports: Sequence[Floats]) -> tuple[float, float]:
    """Return the lag-1 autocorrelation (Marriott and Pope, Biometrika 41), and its part of s."""
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


NOISE_BLOCKS: Final = 8
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
    changes: Booleans


def measure_levels(calm: Floats, slow_level: float, /) -> Levels:
    """Return the median of each worker, and its ratio to the median of the others' medians.

    The 95 % interval is from the medians of blocks of consecutive times, by balanced repeated
    replication with t quantiles. `calm`: (job, worker, time), NaN if missing or in an episode.
    """
    n_jobs, n_workers, n_times = calm.shape
    median = median_present(calm)
    ratio = over(median, peers_median(median))
    length = max(n_times // NOISE_BLOCKS, 1)
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


def _changes(logarithm: Floats, slow_level: float) -> Booleans:
    """Return whether a worker's ratio to its peers differs between blocks: (job, block, worker)."""
    over_time = (logarithm - peers_median(logarithm)).swapaxes(1, 2)
    low, high = np.fmin.reduce(over_time, axis=2), np.fmax.reduce(over_time, axis=2)
    # a drift does not show in second differences, and a step in two of them
    noise = median_present(np.abs(np.diff(over_time, n=2, axis=-1))) / (0.6745 * np.sqrt(6))
    noise = np.fmax(noise, median_present(noise)[:, None])
    changes: Booleans = (
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


def measure_noise(calm: Floats, /) -> tuple[Floats, Booleans]:
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
