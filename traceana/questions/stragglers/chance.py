"""Episodes that the noise of the job makes by itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtr, ndtri

from traceana.questions.stragglers.episodes import find_stretches
from traceana.stats.order import median_present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceana.questions.stragglers.episodes import Rules, Stretch
    from traceana.questions.stragglers.reports import Floats

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

    The noise is the logarithm of a value minus the median of its worker and that of its time. Its
    autocorrelation and distribution, without the episodes, make 19 to 39 jobs of as many
    workers and times: autoregressive of order 1 from report to report, with the same missing and
    repeated values. Episodes are searched in these in the same way. One is kept if its area, the
    logarithm of its severity times its reports, is larger than the largest of all but 5 % of them.
    Jobs with fewer than 10 effectively independent times have none, and those of more than two
    million values are not tested.
    """
    dropped = np.zeros(len(value), dtype=np.intp)
    kept: list[Stretch] = []
    for job in sorted({stretch.job for stretch in stretches}):
        own = [stretch for stretch in stretches if stretch.job == job]
        n_times = int(np.count_nonzero(~np.isnan(time_s[job])))
        x = value[job, :, :n_times]
        if x.size > _MOST_CELLS:
            kept += own
            continue
        areas = _largest_areas(x, time_s[job, :n_times], own, rules)
        for stretch in own:
            larger = int((areas >= _area(stretch) * (1 - 1e-9)).sum())
            if (1 + larger) / (1 + len(areas)) <= ALPHA:
                kept.append(stretch)
            else:
                dropped[job] += 1
    return kept, dropped


def _area(stretch: Stretch) -> float:
    return stretch.n_reports * math.log(min(stretch.severity, stretch.excess))


def _largest_areas(x: Floats, time_s: Floats, own: Sequence[Stretch], rules: Rules) -> Floats:
    """Return the largest area of an episode in each job made from the noise of one, or 0."""
    n_workers, n_times = x.shape
    resamples = int(np.clip(_CELLS // x.size, *_RESAMPLES))
    noise = _noise_of(x, own)
    if noise.effective < FEWEST_EFFECTIVE:
        return np.full(resamples, np.inf)
    if math.isinf(noise.effective):
        return np.zeros(resamples)
    reports, is_new, base, rho = noise.reports, noise.is_new, noise.base, noise.rho
    pool = noise.inflation * np.sort(np.concatenate(reports))
    if len(pool) < 2:
        return np.full(resamples, np.inf)
    rng = np.random.default_rng(1)
    fresh = rng.standard_normal((resamples, n_workers, n_times))
    fresh[..., 1:] *= math.sqrt(1 - rho**2)
    z = lfilter([1.0], [1.0, -rho], fresh, axis=-1)
    place = np.cumsum(is_new, axis=1) - 1  # the report of each sample
    z = np.take_along_axis(z, np.broadcast_to(place, z.shape), axis=2)
    drawn = pool[np.minimum((ndtr(z) * len(pool)).astype(np.intp), len(pool) - 1)]
    made = np.exp(drawn + base)
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
    reports = [own[new & ~np.isnan(own)] for own, new in zip(residual, is_new, strict=True)]
    rho, inflation = _autocorrelation(reports)
    calm = residual.copy()
    for stretch in stretches:
        calm[stretch.worker, stretch.first : stretch.last + 1] = np.nan
    reports = [own[new & ~np.isnan(own)] for own, new in zip(calm, is_new, strict=True)]
    longest = max((len(own) for own in reports), default=0)
    effective = longest * (1 - rho) / (1 + rho)
    if np.median([np.ptp(own) if len(own) else 0.0 for own in reports]) < _LEAST_NOISE:
        effective = math.inf  # most workers do not vary
    return _Noise(reports, is_new, base, rho, inflation, effective)


def _autocorrelation(reports: Sequence[Floats]) -> tuple[float, float]:
    """Return the lag-1 autocorrelation, and what the estimated means take off the deviation.

    The median over workers of that of their normal scores, corrected for the estimated mean of n
    reports (Marriott and Pope, Biometrika 41, 1954). The deviation around the mean is too small by
    the root of 1 - (1 + r) / (1 - r) / n.
    """
    found, n = [], 1
    for own in reports:
        if len(own) < _FEWEST:
            continue
        score = ndtri((own.argsort().argsort() + 0.5) / len(own))
        found.append(float(score[1:] @ score[:-1] / (score @ score)))
        n = max(n, len(own))
    if not found:
        return 0.0, 1.0
    r = float(np.median(found))
    r = float(np.clip(r + (1 + 4 * r) / n, 0.0, 0.98))
    return r, 1 / math.sqrt(max(1 - (1 + r) / (1 - r) / n, 0.25))
