"""One decision of each controller, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from traceana import simulate_batching
from traceana.errors import DataError
from traceana.simulate import Measured, OmniLearn, Proportional, Saturating, Static, Workers
from traceana.simulate.batching.controllers import CONTROLLERS, Seen
from traceana.simulate.batching.workers import earliest, whole

if TYPE_CHECKING:
    from traceana.stats.arrays import Floats, Integers


def seen(batches: list[int], times: list[float], total: int, n_steps: int = 1) -> Seen:
    b, t = np.array(batches), np.array(times)
    return Seen(b, t, t, n_steps, 0 * t, b / t, total, 1, np.inf)


def test_defaults() -> None:
    assert Measured() == Measured(after=10)
    assert Proportional() == Proportional(dead_band=0, averages=False, keeps_global_batch=True)
    assert OmniLearn() == OmniLearn(dead_band=0.2, bounds=(16, 96))


def test_measured_adjusts_once_after_its_steps() -> None:
    for after in (1, 10):
        controller = Measured(after=after)
        for n_steps in (after - 1, after, after + 1):
            now = seen([60, 60], [1, 3], 120, n_steps)
            expected = [90, 30] if n_steps == after else [60, 60]
            assert controller.adjust(now).tolist() == expected
    with pytest.raises(DataError, match="after must be at least 1"):
        Measured(after=0)


def test_an_estimate_is_of_a_worker_or_of_each_run() -> None:
    setting = seen([0, 0], [1, 1], 12)
    runs = replace(setting, overhead_s=np.zeros((3, 2)))
    assert Static([1, 2]).first(setting).tolist() == [4, 8]
    assert Static([1, 2]).first(runs).tolist() == [[4, 8]] * 3
    assert Static([[1, 2], [2, 1], [1, 1]]).first(runs).tolist() == [[4, 8], [8, 4], [6, 6]]
    assert Static([1e-12, 1e12]).first(replace(setting, min_batch=0)).tolist() == [0, 12]
    for wrong in ([1, 2, 3], [[1, 2]], [0.9e-12, 1], [1.1e12, 1], [1, np.nan]):
        with pytest.raises(DataError, match="the static estimate must be 2 finite numbers"):
            Static(wrong).first(runs)


def test_a_change_is_of_the_new_batch_also_where_it_is_one() -> None:
    # times of 1 and 3 at (2, 2): (2, 2 / 3) of the mean time of 2, so (3, 1) of 4
    now = seen([2, 2], [1, 3], 4)
    for band, expected in ((0.9, [3, 1]), (1.0, [3, 1]), (1.01, [2, 2])):
        assert Proportional(dead_band=band).adjust(now).tolist() == expected


def test_remaining_samples_go_where_they_are_done_first() -> None:
    # batches of one: a sample takes 2, 3 and 1; (1.2, .8, 2.4) of the mean of 2 and of a sum of 4
    now = seen([1, 1, 1], [2, 3, 1], 5)
    wanted = np.array([1 / 2, 1 / 3, 1]) * 5 / (1 / 2 + 1 / 3 + 1)  # 1.36, .91, 2.73
    floors = np.maximum(np.floor(wanted), [0, 0, 0])
    done = (floors + 1) * np.array([2, 3, 1])  # 4, 3, 3: the second, then the third
    assert done.tolist() == [4, 3, 3]
    assert Proportional().adjust(replace(now, min_batch=0)).tolist() == [1, 1, 3]
    # OmniLearn moves those outside its bands, and gives each worker the same part of the rest
    moved = seen([20, 60, 40], [1, 3, 2], 120)
    # the mean time of 2: 40, 40 and 40; all but the last move, and no sample is left
    assert OmniLearn(bounds=(0, np.inf)).adjust(moved).tolist() == [40, 40, 40]
    clipped = OmniLearn(bounds=(0, 30)).adjust(moved)
    # 30, 30 and 40 of 120: 20 more, of which 20 / 3 each; the remaining two go to the smallest
    assert clipped.tolist() == [37, 37, 46]


def test_omnilearn_moves_at_its_dead_band() -> None:
    # times of 3 and 1.5: the mean of 2.25 makes 45 and 90 of 60, a change of a third of each
    now = seen([60, 60], [3, 1.5], 120)
    found = OmniLearn(dead_band=1 / 3, bounds=(0, np.inf)).adjust(now)
    # less 7.5 each: the remaining sample takes 38 * .05 s, or 83 * .025 s
    assert found.tolist() == [38, 82]
    assert OmniLearn(dead_band=0.334, bounds=(0, np.inf)).adjust(now).tolist() == [60, 60]


def test_whole_batches_are_filled_one_by_one() -> None:
    split = np.array([[1.5, 2.5, 3.0], [0.9, 0.1, 6.0], [2.0, 2.0, 3.0]])
    per_sample = np.array([[1.0, 1.0, 1.0], [5.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    found = whole(split, 7, per_sample_s=per_sample, max_batch=np.inf)
    # (1, 2, 3) and one: at 2 by the first; (0, 0, 6) and one: the second at 1; nothing is left
    assert found.tolist() == [[2, 2, 3], [0, 1, 6], [2, 2, 3]]
    for unit in (1e-3, 7.0):
        assert whole(split, 7, per_sample_s=unit * per_sample, max_batch=np.inf).tolist() == [
            [2, 2, 3],
            [0, 1, 6],
            [2, 2, 3],
        ]
    full = whole(np.array([2.0, 0.5]), 4, per_sample_s=np.array([1.0, 9.0]), max_batch=2)
    assert full.tolist() == [2, 2]
    # a fixed time counts once
    late = whole(
        np.array([0.0, 0.0]), 3, per_sample_s=np.ones(2), fixed_s=np.array([1.5, 0]), max_batch=9
    )
    assert late.tolist() == [1, 2]


def test_half_batches_and_defaults_of_a_run() -> None:
    assert Saturating(0)(np.array([4]), np.array([8.0])).tolist() == [8]
    assert Saturating(4)(np.array([4]), np.array([8.0])).tolist() == [4]
    assert Saturating(1e12).half_batch == 1e12
    for wrong in (-0.1, 1.1e12, np.nan):
        with pytest.raises(DataError, match="half_batch must be from 0 to 1e"):
            Saturating(wrong)
    crew = [(0.1, 100.0), (0.1, 300.0)]
    assert simulate_batching(crew, controller="uniform").steps["samples"].to_list() == [128] * 100


def test_the_busy_share_is_of_the_time_of_all_steps() -> None:
    found = simulate_batching([(0, 100), (0, 300)], controller="uniform", steps=7)
    assert found.workers["busy_fraction"].to_list() == pytest.approx([1, 1 / 3])
    assert found.workers["mean_iteration_s"].to_list() == pytest.approx([0.64, 0.64 / 3])
    assert found.time_s == pytest.approx(7 * 0.64)
    assert found.idle_fraction == pytest.approx(1 / 3)
    assert found.steps["idle_fraction"].to_list() == pytest.approx([1 / 3] * 7)


def test_speeds_and_splits_have_limits() -> None:
    def crew(speed: float) -> Workers:
        return Workers(0.0, [1.0, 1.0], speed=lambda batches, _: np.full(batches.shape, speed))

    for speed in (1e-12, 1e12):
        assert simulate_batching(crew(speed), controller="uniform", steps=2).speedup == 1
    for speed in (0.9e-12, 1.1e12):
        with pytest.raises(DataError, match="speed must return samples/s from"):
            simulate_batching(crew(speed), controller="uniform", steps=2)

    def times(batches: Integers) -> Floats:
        result: Floats = batches.astype(float) * np.array([1.0, 3])
        return result

    # 20,000 samples of 300 runs of two workers are 12 million times
    with pytest.raises(DataError, match="needs 12,000,000 times for a step"):
        earliest(times, 20_002, (300, 2), min_batch=1, max_batch=np.inf)
    least = earliest(times, 6, (2, 2), min_batch=3, max_batch=9)
    assert least.tolist() == [[3, 3], [3, 3]]
    more = earliest(times, 9, (2, 2), min_batch=1, max_batch=5)
    # done at 5 and 4 * 3 s: the first is full
    assert more.tolist() == [[5, 4], [5, 4]]


def test_the_damped_controller_and_who_gets_the_remaining_sample() -> None:
    damped = Proportional(dead_band=0.2, averages=True, name="damped")
    assert CONTROLLERS["damped"]() == damped
    # 10.8 and 2.2 of 13: one sample more takes 11 * .1 s, or 3 * .5 s
    now = seen([10, 2], [1, 1], 13)
    assert Proportional().adjust(now).tolist() == [11, 2]
    assert OmniLearn(bounds=(0, np.inf), dead_band=0).adjust(now).tolist() == [11, 2]


def test_mean_times_are_those_since_the_last_change() -> None:
    class Watch:
        name, settles = "watch", False

        def __init__(self) -> None:
            self.means: list[list[float]] = []

        def first(self, _setting: Seen) -> Integers:
            return np.array([2, 4])

        def adjust(self, now: Seen) -> Integers:
            self.means.append(now.mean_times_s.tolist())
            return np.array([4, 2]) if now.n_steps >= 2 else now.batches

    watch = Watch()
    speeds = np.array([[1.0, 1], [2, 1], [1, 2], [2, 2], [1, 1]])
    simulate_batching(Workers(0.0, speeds), controller=watch, global_batch=6, steps=5)
    # 2 and 4 s, then 1 and 4; after the change 4 and 1, then 2 and 1
    assert watch.means == [[2, 4], [1.5, 4], [4, 1], [3, 1]]


def test_notes_and_limits_of_a_single_run() -> None:
    # (2, 1) of 3 would become (1, 2): by 100 and 50 %
    crew = [(0.0, 1.0), (0.0, 2.0)]
    found = simulate_batching(crew, controller=Proportional(dead_band=2), global_batch=3, steps=5)
    assert (found.note or "").endswith("a batch size would change by up to 100 %")
    with pytest.raises(DataError, match=r"1,000,000,000 steps of 1 run\(s\) of 2 workers"):
        simulate_batching(crew, controller="uniform", steps=10**9)
