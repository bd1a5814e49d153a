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

from traceana.samples.draw import MINIBATCH_KEY, generator
from traceana.samples.files import MARK, write_tables
from traceana.samples.worker_times import (
    DDOF,
    WORKERS,
    Episode,
    cov_over_workers,
    draw_cov_table,
    draw_times,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_STEP_S: Final = 10
_FEWEST_TICKS: Final = 200  # of a job file, so that an episode has some samples


@dataclass(frozen=True)
class Job:
    """A job file: its size, its noise, the levels and the episodes to plant."""

    name: str
    gpu: int
    ticks: int  # with all ten workers, in the real file
    noise: float  # standard deviation of the logarithm
    slow_levels: tuple[float, ...]  # of as many workers; the others are within a few percent of 1
    episodes: tuple[tuple[float, float, float], ...]  # from, to (shares of the job), slow-down
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
        times = draw_times(rng, levels, ticks=ticks, noise=job.noise, episodes=episodes)
        tables[f"{job.name}_norm.csv"] = _job_file(job, times)
        whole = times[1:] if job.lacks == 0 else times[:-1] if job.lacks == -1 else times
        cov_of_job[job.name] = cov_over_workers(whole)
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
    table, row_of_job = draw_cov_table(rng, cov_of_job, scale=scale)
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
