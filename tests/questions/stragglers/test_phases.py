"""Slow phases of all workers, and the hosts of slow workers, are stated as planted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import open_store
from traceana.ingesters.ingestion import store_frames
from traceana.questions.stragglers import section
from traceana.questions.stragglers.analyze import common_stalls, slow_phases
from traceana.questions.stragglers.section_variation import build_attributes
from traceana.stats.arrays import Floats
from traceana.store import Trace


def times(seed: int, *, steps: int = 1000, workers: int = 12, r: float = 0.0) -> Floats:
    """Times of workers with noise of 2 %, and an AR(1) process of 3 % that all share."""
    draw = np.random.default_rng(seed)
    shared = draw.normal(0, 0.03, steps)
    for at in range(1, steps):
        shared[at] = r * shared[at - 1] + np.sqrt(1 - r * r) * shared[at]
    noise = draw.normal(0, 0.02, (steps, workers))
    return np.asarray(0.5 * np.exp(noise + shared[:, None] * (r > 0)))


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


@pytest.mark.parametrize(("first", "last"), [(643, 731), (0, 149), (800, 999)])
def test_the_interval_in_which_all_workers_are_slow_is_stated(first: int, last: int) -> None:
    values = times(1)
    values[first : last + 1] *= 1.3
    [phase] = slow_phases(stored(values))
    assert abs(phase["first"] - first) <= 1
    assert abs(phase["last"] - last) <= 1
    assert phase["ratio"] == pytest.approx(1.3, rel=0.01)
    assert (phase["n_slow"], phase["n_workers"]) == (12, 12)
    n = last - first + 1
    assert phase["cost"] == pytest.approx(0.3 * n / (1000 + 0.3 * n), rel=0.02)
    texts = [str(one) for one in section.build([stored(values)]).findings]
    span = f"from step {phase['first']} to {phase['last']}"
    assert any(f"all 12 workers of job were 1.30 times as slow {span}" in text for text in texts)


def test_some_slow_workers_and_noise_are_no_phase_of_all() -> None:
    values = times(2)
    values[300:500, :4] *= 1.5
    texts = [str(one) for one in section.build([stored(values)]).findings]
    assert not any("workers of job were" in text for text in texts)
    assert "all of the episodes are on host h0, from step 300 to 499" in texts[0]


def test_the_host_of_a_slow_worker_is_named() -> None:
    values = times(3)
    values[:, 5] *= 1.2
    first = section.build([stored(values)]).findings[0]
    assert "worker 5 on host h1 of job, 1.2" in first
    assert getattr(first, "alert", "").startswith("frames: worker 5 on host h1 of job is 1.2")


def test_chance_makes_few_phases() -> None:
    """At most 3.1 % of series of any autocorrelation have p below 0.01."""
    found = sum(
        bool(slow_phases(stored(times(seed, steps=300, workers=3, r=r))))
        for r in (0.0, 0.5, 0.9, 0.97)
        for seed in range(25)
    )
    assert found <= 8  # more have p < 0.01 at 3.1 %


def test_steps_in_which_all_workers_stall_at_regular_intervals_are_stated() -> None:
    values = times(4)
    values[99::100] += 4.5  # ten checkpoints of 9 usual steps
    [stalls] = common_stalls(stored(values))
    assert (stalls["n"], stalls["apart"], stalls["is_regular"]) == (10, 100, True)
    assert stalls["ratio"] == pytest.approx(10, rel=0.1)
    assert stalls["cost"] == pytest.approx(90 / 1090, rel=0.05)
    [text] = [one for one in section.build([stored(values)]).findings if "stalled" in one]
    assert "all workers of job stalled together 10 times, every 100 steps: " in text
    values = times(4)
    values[[50, 80, 300, 301, 700, 990]] += 4.5
    [text] = [one for one in section.build([stored(values)]).findings if "stalled" in one]
    assert "stalled together 6 times, irregularly" in text


def test_stalls_of_single_workers_are_not_those_of_all() -> None:
    values, draw = times(5), np.random.default_rng(5)
    values[np.arange(99, 1000, 100), draw.integers(0, 12, 10)] += 4.5
    assert common_stalls(stored(values)) == []


def test_slow_first_steps_are_no_stalls_that_recur() -> None:
    values = times(4, steps=400)
    values[:10] *= 6
    assert common_stalls(stored(values)) == []
    values[:10] /= 6
    values[::50] *= 6
    assert [(row["n"], row["apart"]) for row in common_stalls(stored(values))] == [(8, 50)]


@pytest.mark.parametrize("drift", [0.3, 0.0])
def test_a_host_that_becomes_slower_is_stated_with_its_first_and_last_ratio(drift: float) -> None:
    values = times(5, steps=400)
    values[:, 4:8] *= (1.1 * (drift == 0) or 1) + drift * np.arange(400)[:, None] / 400
    trace = stored(values)
    first, last = (
        np.median(values[part, 4:8]) / np.median(np.delete(values[part], range(4, 8), axis=1))
        for part in (slice(0, 40), slice(360, 400))
    )
    text = f"It became slower: {first:.2f} times the others' time in the first tenth, {last:.2f} in"
    [finding] = build_attributes([trace]).findings
    assert "host h1 explains" in str(finding).lower()
    assert (text in finding) == bool(drift)
    assert not any("-0" in one for one in section.build([trace]).findings)


@pytest.mark.parametrize(("steps", "where"), [([500], "1 time"), ([500, 501, 502], "3 times")])
def test_one_long_stall_of_all_workers_is_stated(steps: list[int], where: str) -> None:
    values = times(4)
    values[steps] += 100  # 200 usual steps of 0.5 s
    [stalls] = common_stalls(stored(values))
    assert stalls["cost"] == pytest.approx(200 * len(steps) / (1000 + 200 * len(steps)), rel=0.05)
    [text] = [one for one in section.build([stored(values)]).findings if "stalled" in one]
    last = steps[-1]
    assert f"all workers of job stalled together {where}, from step 500 to {last}: " in text
    values[steps], values[:3] = values[100], 100  # as a slow start
    assert common_stalls(stored(values)) == []
    values[:3] = values[600] = values[100]
    values[600] *= 3  # too short to matter
    assert common_stalls(stored(values)) == []


def test_a_worker_that_is_slow_in_a_part_of_the_job_is_an_alert() -> None:
    values = times(4)
    values[400:, 5] *= 1.4
    [finding] = build_attributes([stored(values)]).findings
    assert getattr(finding, "alert", "").startswith("frames: worker 5 costs ")
    [none] = build_attributes([stored(times(4))]).findings
    assert not getattr(none, "alert", "")
