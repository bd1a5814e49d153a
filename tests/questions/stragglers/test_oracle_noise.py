"""The gain of the oracle that noise alone gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.questions.stragglers.analyze import oracle_by_noise

if TYPE_CHECKING:
    from pathlib import Path


def test_workers_that_differ_in_level_alone_gain_by_their_noise(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n, k = 4000, 8
    level = rng.lognormal(0, 0.5, k)
    value = level * (1 + 0.05 * rng.standard_normal((n, k)))
    samples = pl.DataFrame(
        {
            "job_id": "a",
            "worker_id": np.tile([str(one) for one in range(k)], n),
            "time_s": np.repeat(np.arange(n) * 10.0, k),
            "batch_time": value.ravel(),
        }
    )
    traceana.add_table(samples, trace="mine", table="worker_samples", store=tmp_path)
    found = oracle_by_noise(traceana.open_store(tmp_path).trace("mine"))
    # the mean maximum of 8 normal values is 1.4236 (Harter, 1961); the harmonic mean is 1 - cv^2
    exact = (1 + 0.05 * 1.4236) / (1 - 0.05**2)
    assert found == {"a": pytest.approx(exact, rel=0.003)}
