"""Sample of workers' mini-batch times with planted stragglers: `alibaba-minibatch-2020`.

A worker's time is its level, times its slow-down while an episode lasts, times noise; it is
sampled every 10 s and held until the worker reports again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tests.generator.draw import MINIBATCH_KEY, apportion, generator
from tests.generator.files import MARK, write_tables

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

WORKERS: Final = 10
DDOF: Final = 1
COV_JOBS: Final = 100
COV_COLUMNS: Final = 2000
COV_SAMPLES: Final = 82_739
"""Samples of all rows of the real table."""

_CUT_ROWS: Final = 8  # drawn rows that reach the last column
_FEWEST_SAMPLES: Final = 20
_STEP_S: Final = 10
_FEWEST_TICKS: Final = 200  # of a job file, so that an episode has some samples


@dataclass(frozen=True)
class Episode:
    """A worker is slower by a factor from its first to its last tick, both included."""

    worker: int
    first: int
    last: int
    slow_down: float


@dataclass(frozen=True)
class Job:
    """A job file: its size, its noise, the levels and the episodes to plant."""

    name: str
    gpu: int
    ticks: int  # with all ten workers, in the real file
    noise: float  # standard deviation of the logarithm
    slow_levels: tuple[float, ...]  # of as many workers; the others are within a few percent of 1
    episodes: tuple[tuple[float, float, float], ...]  # from, to (fractions of the job), slow-down
    lacks: int | None = None  # a tick at which one worker is missing
    tail: bool = False  # ends with a single worker and one duplicated row


JOBS: Final = (
    Job("job_1", 25, 300, 0.02, (), ((0.45, 0.6, 1.9),)),
    Job("job_2", 20, 238, 0.015, (1.3, 1.35, 1.45), (), tail=True),
    Job(
        "job_3",
        25,
        249,
        0.02,
        (1.28,),
        ((0.3, 0.5, 1.6), (0.31, 0.5, 1.5), (0.32, 0.52, 1.8), (0.3, 0.48, 1.7), (0.7, 0.8, 2.0)),
        lacks=0,
    ),
    Job(
        "job_4",
        50,
        2183,
        0.04,
        (4.0,) * 5,
        ((0.2, 0.26, 2.2), (0.4, 0.5, 2.5), (0.75, 0.8, 2.0)),
        lacks=-1,
    ),
)


def write_minibatch(folder: Path, *, scale: float, seed: int) -> dict[str, int]:
    """Write the job files, the CoV table and the planted truth; return the rows by CSV."""
    tables: dict[str, pl.DataFrame] = {}
    truth: dict[str, Any] = {}
    cov_of_job: dict[str, NDArray[np.float64]] = {}
    for i, job in enumerate(JOBS):
        rng = generator(seed, MINIBATCH_KEY, i)
        ticks = max(round(job.ticks * scale), _FEWEST_TICKS)
        levels, episodes = _plant(rng, job, ticks)
        times = _draw_times(rng, levels, ticks=ticks, noise=job.noise, episodes=episodes)
        tables[f"{job.name}_norm.csv"] = _job_file(job, times)
        whole = times[1:] if job.lacks == 0 else times[:-1] if job.lacks == -1 else times
        cov_of_job[job.name] = _cov_over_workers(whole)
        truth[job.name] = {
            "levels": {str(worker): float(level) for worker, level in enumerate(levels)},
            "episodes": [
                {
                    "worker": str(episode.worker),
                    "onset_s": 1 + _STEP_S * episode.first,
                    "end_s": 1 + _STEP_S * episode.last,
                    "severity": episode.slow_down,
                }
                for episode in episodes
            ],
        }
    rng = generator(seed, MINIBATCH_KEY, len(JOBS))
    table, row_of_job = _draw_cov_table(rng, cov_of_job, scale=scale)
    tables["coefficient_variation.csv"] = table
    for job in JOBS:
        truth[job.name]["cov_table"] = {
            "row": row_of_job[job.name],
            "ddof": DDOF,
            "first_sample_at_s": 1 + _STEP_S * (job.lacks == 0),
        }
    truth = {"synthetic": True, "meaning": _MEANING, "jobs": truth}
    (folder / f"{MARK}truth.json").write_text(json.dumps(truth, indent=2) + "\n")
    return write_tables(folder, tables)


_MEANING: Final = {
    "levels": "a worker's usual mini-batch time, before scaling; about 1, or persistently slow",
    "onset_s": "time of the first slow sample",
    "end_s": "time of the last slow sample",
    "severity": "mini-batch time over the worker's own usual one while the episode lasts",
    "cov_table": "row of the CoV table computed from the job's times before they were rounded",
}


def _plant(
    rng: np.random.Generator, job: Job, ticks: int
) -> tuple[NDArray[np.float64], list[Episode]]:
    """Give levels to workers, and episodes to workers that are not slow anyway."""
    levels = rng.uniform(0.97, 1.03, WORKERS)
    workers = rng.permutation(WORKERS)
    slow = len(job.slow_levels)
    levels[workers[:slow]] *= job.slow_levels
    return levels, [
        Episode(int(worker), round(start * ticks), round(end * ticks), slow_down)
        for worker, (start, end, slow_down) in zip(workers[slow:], job.episodes, strict=False)
    ]


def _job_file(job: Job, times: NDArray[np.float64]) -> pl.DataFrame:
    """Lay the times out as published, scaled so that the largest is 1000."""
    ticks = len(times)
    clock = np.repeat(1 + _STEP_S * np.arange(ticks), WORKERS)
    worker = np.tile(np.arange(WORKERS), ticks)
    value = np.round(times / times.max() * 1000).astype(np.int64).ravel()
    if job.lacks is not None:
        lacking = 0 if job.lacks == 0 else len(value) - 1
        clock, worker, value = (np.delete(a, lacking) for a in (clock, worker, value))
    if job.tail:
        # the workers end one after the other, the last one goes on; its last step is shorter
        left = [*range(4), *range(3), *range(2), *[0] * 13]
        after = [1] * 4 + [2] * 3 + [3] * 2 + [4, 5, 6, 7, 7, *range(8, 16)]
        late = int(clock[-1]) + _STEP_S * np.array(after)
        late[-1] -= _STEP_S // 2
        clock, worker = np.append(clock, late), np.append(worker, left)
        value = np.append(value, value[-WORKERS:][left])
    return pl.DataFrame(
        {
            "": np.arange(len(value)),
            "worker": worker,
            "gpu": np.full(len(value), job.gpu),
            "time": clock,
            "batch_time_norm": value,
        }
    )


def _draw_times(
    rng: np.random.Generator,
    levels: NDArray[np.float64],
    *,
    ticks: int,
    noise: float,
    episodes: list[Episode] | None = None,
) -> NDArray[np.float64]:
    """Draw mini-batch times, one row per tick and one column per worker, sampled and held.

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


def _cov_over_workers(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficient of variation of each tick, as far as the table has columns."""
    cov: NDArray[np.float64] = times.std(axis=1, ddof=DDOF) / times.mean(axis=1)
    return cov[:COV_COLUMNS]


def _draw_cov_table(
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
        times = _draw_times(rng, levels, ticks=int(ticks), noise=0.3 * spread)
        rows.append(_cov_over_workers(times))
    names = [f"job_{i:02d}" for i in range(COV_JOBS)]
    place = rng.permutation(COV_JOBS)
    cells = np.full((COV_JOBS, COV_COLUMNS), np.nan)  # what stays NaN is padding
    for at, row in zip(place, rows, strict=True):
        cells[at, : len(row)] = row
    columns = {str(i): pl.Series(cells[:, i]).fill_nan(None) for i in range(COV_COLUMNS)}
    row_of_job = {job: names[at] for job, at in zip(cov_of_job, place, strict=False)}
    return pl.DataFrame({"": names, **columns}), row_of_job
