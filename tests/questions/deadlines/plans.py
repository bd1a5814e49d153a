"""Jobs and plans with a planted throughput."""

from __future__ import annotations

import numpy as np
import polars as pl

RATES = {("m", 64, 1.0): 6.25, ("m", 64, 4.0): 12.5, ("m", 128, 1.0): 3.5}


def planted(n: int = 300, *, seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Plans and jobs: iterations are floor(rate * runtime), tightness uniform on [0.5, 1.5)."""
    rng = np.random.default_rng(seed)
    cells = list(RATES)
    chosen = [cells[i] for i in rng.integers(len(cells), size=n)]
    runtime = rng.integers(600, 90_000, n).astype(float)
    submit = rng.integers(0, 10**6, n).astype(float)
    rate = np.array([RATES[cell] for cell in chosen])
    ids = [f"j{i}" for i in range(n)]
    jobs = pl.DataFrame(
        {
            "cluster": ["c"] * n,
            "job_id": ids,
            "submit_s": submit,
            "runtime_s": runtime,
            "gpus": [cell[2] for cell in chosen],
        }
    )
    plans = pl.DataFrame(
        {
            "cluster": ["c"] * n,
            "job_id": ids,
            "model": [cell[0] for cell in chosen],
            "batch_size": [cell[1] for cell in chosen],
            "iterations": np.floor(rate * runtime).astype(int),
            "deadline_s": np.floor(submit + rng.uniform(0.5, 1.5, n) * runtime),
        }
    )
    return plans, jobs
