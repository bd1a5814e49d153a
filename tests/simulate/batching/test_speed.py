"""Workers from lists, speed by batch size, notes of dead-bands, and limits of memory."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from itertools import product

import numpy as np
import polars as pl
import pytest

from traceana import replay_batching, simulate_batching, sweep_batching
from traceana.errors import DataError
from traceana.simulate import OmniLearn, Proportional, Saturating, Static, Workers


def test_workers_are_made_of_lists() -> None:
    crew = Workers([0.0, 0.5], [[10, 20], [10, 5]])
    assert crew.worker_id == ("0", "1")
    # 64 samples each: 6.4 s and .5 + 3.2 s, then 6.4 s and .5 + 12.8 s
    assert simulate_batching(crew, controller="uniform").steps["step_s"].to_list() == [6.4, 13.3]
    assert Workers(0.25, [1, 2, 3]).overhead_s.tolist() == [0.25] * 3
    for wrong in (([0.1], [1, 2]), ([], []), ([0.1, "x"], [1, 2]), ([0, 0], [[1, 2], [3]])):
        with pytest.raises(DataError):
            Workers(*wrong)
    with pytest.raises(DataError, match="must be unique"):
        Workers(0, [1, 2], ["a", "a"])


@pytest.mark.parametrize("controller", ["uniform", "proportional", "oracle", "measured"])
def test_saturation_is_an_overhead(controller: str) -> None:
    """a + b / (x b / (b + h)) = (a + h / x) + b / x."""
    x, a, half = np.array([100.0, 300.0, 50.0]), np.array([0.1, 0.0, 0.2]), 24
    grows = simulate_batching(Workers(a, x, speed=Saturating(half)), controller=controller)
    fixed = simulate_batching(Workers(a + half / x, x), controller=controller)
    np.testing.assert_allclose(grows.steps["step_s"], fixed.steps["step_s"], rtol=1e-9)
    assert grows.batches["batch"].equals(fixed.batches["batch"])


def test_the_oracle_of_a_speed_function_is_that_of_all_splits() -> None:
    x, a = np.array([7.0, 20.0, 11.0]), np.array([0.3, 0.0, 0.1])

    def stepwise(batches: np.ndarray, samples_per_s: np.ndarray) -> np.ndarray:
        return samples_per_s * np.where(batches <= 8, 1.0, 0.4)  # out of fast memory

    crew = Workers(a, x, speed=stepwise)
    job = simulate_batching(crew, controller="oracle", global_batch=21, max_batch=13, steps=1)
    splits = [
        (b, c, 21 - b - c) for b, c in product(range(1, 14), repeat=2) if 1 <= 21 - b - c <= 13
    ]
    rates = {split: np.where(np.array(split) <= 8, x, 0.4 * x) for split in splits}
    best = min((a + np.array(split) / rate).max() for split, rate in rates.items())
    assert job.time_s == pytest.approx(best)
    with pytest.raises(DataError, match="speed must return samples/s"):
        simulate_batching(Workers(0, [1, 2], speed=lambda b, x: -b * x), controller="uniform")
    slow = Workers(0, [1, 2], speed=lambda b, x: 1e-12 + 0 * b * x)
    slower = Workers(0, [1, 2], speed=lambda b, x: 9e-13 + 0 * b * x)
    assert simulate_batching(slow, controller="uniform", steps=1).time_s == pytest.approx(64e12)
    with pytest.raises(DataError, match="samples/s from 1e-12 to"):
        simulate_batching(slower, controller="uniform", steps=1)


@pytest.mark.parametrize("controller", [Proportional(dead_band=0.2), OmniLearn()])
def test_a_dead_band_that_keeps_a_controller_from_acting_is_noted(controller: Proportional) -> None:
    # 1 / 1.1 of the mean time and 1 / .9: 64 becomes 58 and 70, up to a tenth
    job = simulate_batching([(0.0, 90.0), (0.0, 110.0)], controller=controller)
    assert job.adjustments == 0
    assert job.note is not None
    assert job.note.startswith("the dead band of 0.2 kept all batch sizes")
    assert job.note.endswith("up to 10 %")
    assert simulate_batching([(0, 1), (0, 3)], controller=controller).note is None
    assert simulate_batching([(0, 1), (0, 1)], controller=controller).note is None
    rows = pl.DataFrame(
        [("j", w, t, v) for t in range(5) for w, v in (("a", 1.0), ("b", 1.1))],
        schema=["job_id", "worker_id", "time_s", "batch_time"],
        orient="row",
    )
    assert "the dead band" in replay_batching(rows, controllers=[controller]).jobs["note"][0]


def test_what_does_not_fit_into_memory_is_refused() -> None:
    with pytest.raises(DataError, match=r"1,000,000,000 steps .* pass at most [\d,]+ steps$"):
        simulate_batching([(0, 1), (0, 2)], controller="proportional", steps=10**9)
    with pytest.raises(DataError, match="GiB of memory"):
        sweep_batching(steps=10**8)
    # a split compares workers in pairs
    with pytest.raises(DataError, match=r"20,000 workers .* pass fewer workers"):
        simulate_batching([(0, 1)] * 20_000, controller="proportional", steps=1)
    for wrong in ({"steps": 10**30}, {"global_batch": 10**30}, {"max_batch": 10**30}):
        with pytest.raises(DataError, match="1,000,000,000,000"):
            simulate_batching([(0, 1), (0, 2)], controller="uniform", **wrong)
    with pytest.raises(DataError, match="seeds must be 1 to 100,000"):
        sweep_batching(seeds=range(10**30))
    with pytest.raises(DataError, match="static estimate"), warnings.catch_warnings():
        simulate_batching([(0, 1), (0, 2)], controller=Static([1e308, 1e308]))


def test_a_replay_takes_datetimes_and_frames_of_other_engines() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = pl.DataFrame(
        [
            (1, worker, start + timedelta(seconds=10 * tick), 1.0 + worker)
            for tick in range(4)
            for worker in (0, 1)
        ],
        schema=["job_id", "worker_id", "time_s", "batch_time"],
        orient="row",
    )
    replay = replay_batching(rows.to_pandas(), controllers=["oracle"])
    assert replay.steps["time_s"].diff().drop_nulls().to_list() == [10.0] * 3
    assert replay.steps["time_s"][0] == start.timestamp()
    endless = rows.with_columns(time_s=pl.lit(float("inf")))
    with pytest.raises(DataError, match="samples: column time_s must be finite"):
        replay_batching(endless)
    with pytest.raises(DataError, match="pass time='seconds'"):
        replay_batching(rows.rename({"time_s": "seconds"}))
