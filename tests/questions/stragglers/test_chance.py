"""Stragglers against the noise of their own job."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import detect_stragglers


def frame(value: np.ndarray) -> pl.DataFrame:
    job, worker, time = (axis.ravel() for axis in np.indices(value.shape))
    columns = {"job_id": job, "worker_id": worker, "time_s": 10.0 * time}
    return pl.DataFrame(columns | {"batch_time": value.ravel()})


def autoregressive(rng: np.random.Generator, shape: tuple[int, ...], rho: float) -> np.ndarray:
    z = rng.standard_normal(shape)
    for tick in range(1, shape[-1]):
        z[..., tick] = rho * z[..., tick - 1] + np.sqrt(1 - rho**2) * z[..., tick]
    return z


@pytest.mark.parametrize("kind", ["autoregressive", "lognormal", "exponential"])
def test_identical_workers_have_no_stragglers(kind: str) -> None:
    rng = np.random.default_rng(4)
    value = rng.exponential(1, (30, 10, 60))
    if kind == "autoregressive":
        value = np.exp(0.1 * autoregressive(rng, (30, 10, 60), 0.9))
    elif kind == "lognormal":
        value = np.exp(0.5 * rng.standard_normal((20, 64, 60)))
    jobs = detect_stragglers(frame(value)).jobs
    # at most 5 % of the jobs each, and chance
    assert (jobs["n_episodes"] > 0).sum() <= 3
    assert (jobs["n_slow_workers"] > 0).sum() <= 3
    if kind == "autoregressive":
        assert jobs["note"].str.starts_with("cannot tell").sum() > 3


def test_a_slow_period_beyond_autocorrelated_noise_is_kept() -> None:
    rng = np.random.default_rng(5)
    value = np.exp(0.05 * autoregressive(rng, (10, 10, 200), 0.5))
    value[:, 3, 50:90] *= 1.3
    episodes = detect_stragglers(frame(value)).episodes
    assert episodes.group_by("job_id", "worker_id").len().height == 10
    assert episodes["worker_id"].unique().to_list() == [3]


@pytest.mark.parametrize("level", [1.05, 1.1, 1.15])
def test_every_level_beyond_noise_is_stated_with_interval_and_cost(level: float) -> None:
    rng = np.random.default_rng(6)
    value = 1 + 0.05 * rng.standard_normal((20, 10, 200))
    value[:, 0] *= level
    levels = detect_stragglers(frame(value)).levels
    slow = levels.filter(worker_id=0)
    assert slow["is_slower"].sum() >= 18
    assert levels.filter(pl.col("worker_id") > 0)["is_slower"].sum() <= 2
    covered = slow.select(pl.lit(level).is_between(pl.col("ci_low"), pl.col("ci_high")).mean())
    assert covered.item() >= 0.85
    one = value[0]
    without = np.vstack([one[:1] / slow["ratio_to_peers"][0], one[1:]])
    saved = 1 - np.minimum(one, without).max(axis=0).sum() / one.max(axis=0).sum()
    assert slow["saved"][0] == pytest.approx(saved)


def test_a_worker_that_vanishes_is_said() -> None:
    value = 1 + 0.02 * np.random.default_rng(7).standard_normal((1, 4, 100))
    value[0, 2, 60:] = np.nan
    found = detect_stragglers(frame(value))
    notes = found.levels.sort("worker_id")["note"].to_list()
    assert notes == [
        None,
        None,
        "ended early: no value after 9.83 min, the last 40 % of the job",
        None,
    ]
    assert found.levels.sort("worker_id")["last_s"].to_list() == [990, 990, 590, 990]
