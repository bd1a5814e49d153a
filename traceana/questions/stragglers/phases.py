"""Periods in which all workers of a job are slow, and steps in which all stall."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from traceana.questions.stragglers.analyze import clock, synchronized, worker_samples
from traceana.stats.arrays import Floats
from traceana.stats.quantiles import median_present
from traceana.stats.segments import deviating_ranks
from traceana.store import Trace

_BINS: Final = 100
_CLEAR: Final = 0.01
_SLOW: Final = 1.05
_ALL: Final = 0.9
"""p over all jobs, ratio to the other steps, and fraction of the workers of a slow phase."""
_STALL: Final = 2.0
_FEWEST, _MOST = 5, 0.05
"""Ratio to a worker's median time in a stall; number of stalls, and their fraction of the steps."""
_REGULAR: Final = 0.05
"""Range of the steps between regular stalls, over their median."""


def slow_phases(trace: Trace, /) -> list[dict[str, Any]]:
    """Return the slow phase of each job that has one, the most costly first.

    The median worker's time of up to 100 equal bins of steps has a segment that differs from the
    rest (:func:`~traceana.stats.segments.deviating_ranks`, p below 0.01 times the number of jobs),
    and is slower by 5 %; nine tenths of the workers are slower in it by at least half as much.
    Of 40 jobs of 300 steps whose workers share an AR(1) process of 3 % at r = 0, 0.5, 0.9 and 0.97,
    0, 0, 0 and 4 have one.
    """
    phases, jobs = [], _times(trace)
    for job, steps, times in jobs:
        phase = _slow_phase(times, len(jobs))
        if phase is not None:
            first, last = steps[[phase["first"], phase["last"]]]
            phases.append(phase | {"job_id": job, "first": first, "last": last})
    return sorted(phases, key=lambda phase: -float(phase["cost"]))


def common_stalls(trace: Trace, /) -> list[dict[str, Any]]:
    """Return the stalls of each job that has some, the most costly first.

    In a step with a stall nine tenths of the workers take more than twice their median time. There
    are five such steps or more, and at most a twentieth of all; a slow phase has more.
    """
    stalls = []
    for job, steps, times in _times(trace):
        slow = (times > _STALL * median_present(times.T)).sum(axis=1)
        is_stall = slow >= _ALL * np.count_nonzero(~np.isnan(times), axis=1)
        places = np.flatnonzero(is_stall)
        if not _FEWEST <= len(places) <= _MOST * len(times):
            continue
        if np.median(np.diff(places)) <= 1:  # one phase, as at the start
            continue
        slowest, apart = np.nanmax(times, axis=1), np.diff(steps.to_numpy()[places])
        usual = float(np.median(slowest[~is_stall]))
        row = {"job_id": job, "n": len(places), "n_steps": len(times), "apart": np.median(apart)}
        row["is_regular"] = bool(np.ptp(apart) <= _REGULAR * np.median(apart))
        row["ratio"] = float(np.median(slowest[places])) / usual
        row["cost"] = float((slowest[places] - usual).sum() / slowest.sum())
        stalls.append(row)
    return sorted(stalls, key=lambda row: -float(row["cost"]))


def _times(trace: Trace) -> list[tuple[str, pl.Series, Floats]]:
    """Return each job's steps, of two workers or more, and its times (step, worker)."""
    time, jobs = clock(trace), []
    samples = worker_samples(trace).drop_nulls("batch_time")
    samples = samples.join(synchronized(trace), on="job_id", how="anti")
    for (job,), rows in samples.group_by("job_id", maintain_order=True):
        wide = rows.pivot("worker_id", index=time, values="batch_time", aggregate_function="first")
        wide = wide.sort(time)
        times = wide.drop(time).to_numpy().astype(np.float64)
        kept = np.count_nonzero(~np.isnan(times), axis=1) > 1
        jobs.append((str(job), wide[time].filter(pl.Series(kept)), times[kept]))
    return jobs


def _slow_phase(times: Floats, jobs: int) -> dict[str, Any] | None:
    """Return the slow phase of a job's times (step, worker), if it has one."""
    middle = median_present(times)
    if len(middle) < 2 * _BINS:
        return None
    width = len(middle) // _BINS
    bins = median_present(middle[: _BINS * width].reshape(_BINS, width))
    # a difference that is not stated, as of a few slow workers, is none
    segment = deviating_ranks(np.maximum(bins, np.quantile(bins, 0.25) * (1 + _SLOW) / 2))
    if segment.pvalue * jobs >= _CLEAR:
        return None
    inside = np.zeros(_BINS, bool)
    inside[segment.first : segment.after] = True
    if segment.after == _BINS and np.median(bins[inside]) < np.median(bins[~inside]):
        inside = ~inside  # slow from the start
    usual, slow = np.median(bins[~inside]), np.median(bins[inside])
    if slow < _SLOW * usual:
        return None
    # the steps next to the bins, above the mean of both levels
    low, high = np.flatnonzero(inside)[[0, -1]]
    begin, end = max(low - 1, 0) * width, min(high + 2, _BINS) * width
    above = np.sign(middle[begin:end] - (usual + slow) / 2)
    sums = np.concatenate([[0.0], np.cumsum(above)])
    last = int(np.argmax(sums - np.minimum.accumulate(sums)))
    first = int(np.argmin(sums[:last]))
    phase = slice(begin + first, begin + last)
    rest = np.delete(times, phase, axis=0)
    ratios = median_present(times[phase].T) / median_present(rest.T)
    ratio = float(np.median(middle[phase]) / np.median(np.delete(middle, phase)))
    ratios = ratios[~np.isnan(ratios)]
    n_slow = int(np.count_nonzero(ratios > 1 + (ratio - 1) / 2))
    if n_slow < _ALL * len(ratios):
        return None
    slowest = np.nanmax(times, axis=1)
    return {
        "first": phase.start,
        "last": phase.stop - 1,
        "ratio": ratio,
        "n_workers": len(ratios),
        "n_slow": n_slow,
        "cost": float(slowest[phase].sum() * (1 - 1 / ratio) / slowest.sum()),
        "pvalue": segment.pvalue,
    }
