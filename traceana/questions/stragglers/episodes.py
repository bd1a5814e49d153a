"""Episodes in which a worker is slower than usual and slower than its peers.

The method and its limits: docs/explanation/stragglers.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traceana.questions.stragglers.blocks import Counts, coming_report, over, read_reports
from traceana.stats.arrays import Floats
from traceana.stats.quantiles import median_present, middle_of, peers_at_rank, pick
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
    block: Floats, as_peer: Floats, calm: NDArray[np.bool_], /
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


def _usual(values: Floats, calm: NDArray[np.bool_]) -> Floats:
    """Return the median of the usual samples of each worker (..., 1)."""
    return median_present(values if calm.all() else np.where(calm, values, np.nan))[..., None]


def _size(excess: Floats, calm: NDArray[np.bool_]) -> Floats:
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
    calm = value[jobs]  # a copy
    for stretch in suspected:
        ticks = slice(stretch.first, stretch.last + 1)
        calm[np.searchsorted(jobs, stretch.job), stretch.worker, ticks] = np.nan
    stretches = _search(value[jobs], calm, time_s[jobs], rules, least)
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
    return [
        stretch
        for series in map(int, alarmed)
        for stretch in _stretches(
            series // n_workers,
            series % n_workers,
            rules,
            scores=scores[series],
            severity=severity[series],
            excess=excess[series],
            peers=peers[series],
            time_s=time_s[series // n_workers],
            reports=reports.of(series),
        )
    ]


def _stretches(
    job: int,
    worker: int,
    rules: Rules,
    *,
    scores: Floats,
    severity: Floats,
    excess: Floats,
    peers: Floats,
    time_s: Floats,
    reports: tuple[Counts, Counts],
) -> Iterator[Stretch]:
    first, last = reports
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
