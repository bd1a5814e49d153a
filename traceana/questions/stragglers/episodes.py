"""Episodes in which a worker is slower than usual and slower than its peers.

The method and its limits: docs/explanation/stragglers.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.questions.stragglers.excess import (
    evidence_of_reports,
    excess_over_peers,
    log_ratio,
    noise_of_reports,
)
from traceana.questions.stragglers.reports import coming_report, read_reports
from traceana.stats.order import median_present
from traceana.stats.segments import highest_rise, rising_stretches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceana.questions.stragglers.reports import Counts, Floats

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
    """Return the episodes of the workers of some jobs.

    There are two passes: what the first finds, with half of the evidence, is excluded from the
    usual values in the second, so that a long episode neither raises them nor counts as noise.
    """
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
    calm = value[jobs]  # a copy
    for stretch in suspected:
        ticks = slice(stretch.first, stretch.last + 1)
        calm[np.searchsorted(jobs, stretch.job), stretch.worker, ticks] = np.nan
    found = _search(value[jobs], calm, time_s[jobs], rules, least)
    return [replace(stretch, job=int(jobs[stretch.job])) for stretch in found]


def _search(
    value: Floats, calm: Floats, time_s: Floats, rules: Rules, least: float
) -> list[Stretch]:
    _, n_workers, n_ticks = value.shape
    usual = median_present(calm)
    usual = np.where(np.isnan(usual), median_present(value), usual)
    own = log_ratio(value, usual)
    known = ~np.isnan(own)
    paired = (known & (np.count_nonzero(known, axis=1) > 1)[:, None]).reshape(-1, n_ticks)
    flat = value.reshape(-1, n_ticks)
    reports = read_reports(flat, paired, usual.ravel())
    coming = coming_report(flat, paired, reports)
    # a repeated value is old: a peer that reports a slowdown of the job late is in it already
    as_peer = own if coming is flat else np.fmax(own, log_ratio(coming.reshape(value.shape), usual))
    is_calm = ~np.isnan(calm)
    severity, excess, peers = (
        numbers.reshape(-1, n_ticks) for numbers in excess_over_peers(own, as_peer, is_calm)
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
            stretch = Stretch(
                job,
                worker,
                from_tick,
                to_tick,
                b - a + 1,
                float(np.exp(np.nanmedian(severity[ticks]))),
                float(np.exp(np.nanmedian(excess[ticks]))),
            )
            lasts = time_s[to_tick] - time_s[from_tick] >= rules.min_duration_s
            slow = min(stretch.severity, stretch.excess) >= rules.min_severity
            if lasts and slow and not _leads_or_lags(stretch, excess, peers, rules):
                yield stretch


def _leads_or_lags(stretch: Stretch, excess: Floats, peers: Floats, rules: Rules) -> bool:
    """Return whether a stretch is the edge of a slowdown of the whole job.

    It is if the peers are half as slow for a while in it or right before or after it, and the
    worker is slower than they are in a few reports only, when they are not slow.
    """
    half = math.log(stretch.severity) / 2
    edge = -(-LONGEST_EDGE * (stretch.last - stretch.first + 1) // stretch.n_reports)  # samples
    nearby = peers[max(stretch.first - edge, 0) : stretch.last + 1 + edge] > half
    if np.count_nonzero(nearby) <= edge / 4:
        return False
    own = excess[stretch.first : stretch.last + 1]
    together = peers[stretch.first : stretch.last + 1] > half
    lasting = np.count_nonzero(together) > edge
    if lasting and np.nanmedian(own[together]) >= math.log(rules.min_severity):
        return False
    return int(np.count_nonzero(own[~together] > half)) <= edge
