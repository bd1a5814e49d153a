"""ElasticFlow's figure 9 on traces drawn by the rules of the published generator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from traceana import simulate_schedule
from traceana.simulate.schedule.profiles import read_profiles
from traceana.store import Capacity

PROFILES = Path(__file__).parents[4] / "shared" / "published" / "elasticflow" / "throughputs_A100"


def draw(n: int, seed: int) -> pl.DataFrame:
    """Draw jobs: Poisson arrivals, log-uniform durations, deadlines by uniform tightness."""
    rng = np.random.default_rng(seed)
    profiles = read_profiles(PROFILES)
    pairs = [pair for pair in profiles if pair[0] != "resnet50_cifar10"]
    submit = np.concatenate([[0], np.cumsum(rng.exponential(1500, n - 1))]).astype(int)
    gpus = rng.choice([1, 2, 4, 8, 16], n, p=[0.83, 0.03, 0.03, 0.1, 0.01])
    long = rng.random(n) >= 0.8
    runtime = 60 * 10 ** np.where(long, rng.uniform(2.5, 4, n), rng.uniform(1, 2.5, n))
    chosen = [pairs[at] for at in rng.integers(len(pairs), size=n)]
    rates = [profiles[pair].rate(int(each)) for pair, each in zip(chosen, gpus, strict=True)]
    return pl.DataFrame(
        {
            "job_id": np.arange(n),
            "submit_s": submit,
            "runtime_s": runtime.astype(int),
            "gpus": gpus,
            "model": [model for model, _ in chosen],
            "batch_size": [batch_size for _, batch_size in chosen],
            "iterations": (runtime * rates).astype(int),
            "deadline_s": submit + (rng.uniform(0.5, 1.5, n) * runtime).astype(int),
        }
    )


@pytest.mark.skipif(not PROFILES.is_dir(), reason="the publisher's profiles are not here")
@pytest.mark.parametrize(
    ("policy", "gpus", "printed"),
    [
        ("edf", 64, 0.026),
        ("edf", 128, 0.118),
        ("edf_admission", 64, 0.203),
        ("edf_admission", 128, 0.326),
        ("edf_admission", 256, 0.658),
        ("edf_elastic", 128, 0.835),
    ],
)
def test_printed_fractions_are_among_those_of_drawn_traces(
    policy: str, gpus: int, printed: float
) -> None:
    cluster = {"all": Capacity(nodes=gpus // 8, gpus_per_node=8, slot_s=240.0)}
    found = [
        simulate_schedule(draw(1000, seed), policy=policy, profiles=PROFILES, capacity=cluster)
        .groups["fraction_met"]
        .item()
        for seed in ((1, 2) if policy == "edf_elastic" else (1, 2, 3, 4))
    ]
    assert min(found) - 0.02 <= printed <= max(found) + 0.02
