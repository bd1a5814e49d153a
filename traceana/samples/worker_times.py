"""Mini-batch times of a synchronous job's workers, and the table of their variation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.samples.draw import apportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORKERS: Final = 10
DDOF: Final = 1
COV_JOBS: Final = 100
COV_COLUMNS: Final = 2000
COV_SAMPLES: Final = 82_739
"""Samples of all rows of the real table."""

_CUT_ROWS: Final = 8  # drawn rows that reach the last column
_FEWEST_SAMPLES: Final = 20


@dataclass(frozen=True)
class Episode:
    """A worker is slower by a factor from its first to its last tick, both included."""

    worker: int
    first: int
    last: int
    slow_down: float


def draw_times(
    rng: np.random.Generator,
    levels: NDArray[np.float64],
    *,
    ticks: int,
    noise: float,
    episodes: list[Episode] | None = None,
) -> NDArray[np.float64]:
    """Draw mini-batch times, one row a tick and one column a worker, sampled and held.

    A worker reports when its episode begins and when it is over, so that its times show both.
    """
    times = levels * np.exp(noise * rng.standard_normal((ticks, len(levels))))
    reports = rng.random(times.shape) < rng.uniform(0.3, 0.9)
    reports[0] = True
    for episode in episodes or []:
        times[episode.first : episode.last + 1, episode.worker] *= episode.slow_down
        reports[[episode.first, min(episode.last + 1, ticks - 1)], episode.worker] = True
    tick = np.arange(ticks)[:, None]
    reported_at = np.maximum.accumulate(np.where(reports, tick, 0), axis=0)
    held: NDArray[np.float64] = np.take_along_axis(times, reported_at, axis=0)
    return held


def cov_over_workers(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficient of variation of each tick, as far as the table has columns."""
    cov: NDArray[np.float64] = times.std(axis=1, ddof=DDOF) / times.mean(axis=1)
    return cov[:COV_COLUMNS]


def draw_cov_table(
    rng: np.random.Generator, cov_of_job: dict[str, NDArray[np.float64]], *, scale: float
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Make the table of 100 jobs, some of them given, and say which row is which given job."""
    given = sum(map(len, cov_of_job.values()))
    samples = max(round(COV_SAMPLES * scale) - given - _CUT_ROWS * COV_COLUMNS, 0)
    weights = rng.uniform(0.3, 2.2, COV_JOBS - len(cov_of_job) - _CUT_ROWS)
    lengths = apportion(samples, list(weights), least=_FEWEST_SAMPLES)
    lengths = np.append(np.minimum(lengths, COV_COLUMNS - 1), [COV_COLUMNS] * _CUT_ROWS)
    rows = list(cov_of_job.values())
    for ticks in lengths:
        spread = 10 ** rng.uniform(-1.7, 0.4)  # from alike workers to one far slower than all
        levels = np.exp(spread * rng.standard_normal(WORKERS))
        times = draw_times(rng, levels, ticks=int(ticks), noise=0.3 * spread)
        rows.append(cov_over_workers(times))
    names = [f"job_{i:02d}" for i in range(COV_JOBS)]
    place = rng.permutation(COV_JOBS)
    cells = np.full((COV_JOBS, COV_COLUMNS), np.nan)  # what stays NaN is padding
    for at, row in zip(place, rows, strict=True):
        cells[at, : len(row)] = row
    columns = {str(i): pl.Series(cells[:, i]).fill_nan(None) for i in range(COV_COLUMNS)}
    row_of_job = {job: names[at] for job, at in zip(cov_of_job, place, strict=False)}
    return pl.DataFrame({"": names, **columns}), row_of_job
