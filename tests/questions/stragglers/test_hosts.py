"""The host of a slow worker is stated."""

from __future__ import annotations

import numpy as np
import polars as pl

from traceana import open_store
from traceana.ingesters.ingestion import store_frames
from traceana.questions.stragglers import section
from traceana.stats.arrays import Floats
from traceana.store import Trace


def times(seed: int, *, steps: int = 1000, workers: int = 12) -> Floats:
    """Times of workers with noise of 2 %."""
    draw = np.random.default_rng(seed)
    return np.asarray(0.5 * np.exp(draw.normal(0, 0.02, (steps, workers))))


def stored(values: Floats) -> Trace:
    steps, workers = values.shape
    samples = pl.DataFrame(
        {
            "job_id": "job",
            "worker_id": [f"{worker}" for _ in range(steps) for worker in range(workers)],
            "step": np.repeat(np.arange(steps), workers),
            "host": [f"h{worker // 4}" for _ in range(steps) for worker in range(workers)],
            "batch_time": values.ravel(),
        }
    )
    return open_store(store_frames({"worker_samples": samples})).trace("frames")


def test_the_host_of_a_slow_worker_is_named() -> None:
    values = times(3)
    values[:, 5] *= 1.2
    first = section.build([stored(values)]).findings[0]
    assert "worker 5 on host h1 of job, 1.2" in first
    assert getattr(first, "alert", "").startswith("frames: worker 5 on host h1 of job is 1.2")
