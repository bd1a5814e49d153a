"""Dynamic batching: closed forms, what always holds, and impossible settings."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from traceana import implied_throughput_ratio, published_gains, simulate_batching
from traceana.errors import DataError
from traceana.simulate import Measured, OmniLearn, Proportional, Smoothed, Static, Uniform, Workers
from traceana.simulate.batching.controllers import CONTROLLERS, Seen
from traceana.simulate.batching.sweep import largest_gain
from traceana.simulate.batching.workers import SPLITS, share

workers = st.lists(st.tuples(st.floats(0, 0.5), st.floats(1, 1000)), min_size=1, max_size=6)


def batches_at(result: pl.DataFrame, step: int) -> list[int]:
    return result.filter(pl.col("step") == step)["batch"].to_list()


def test_the_slides_example() -> None:
    # b = (64, 64), t = (0.5, 1): delta = (+32, -16), and the global batch grows from 128 to 144
    slides = Proportional(keeps_global_batch=False)
    result = simulate_batching([(0, 128.0), (0, 64.0)], controller=slides, steps=5)
    assert batches_at(result.batches, 0) == [64, 64]
    assert batches_at(result.batches, 1) == [96, 48]
    assert result.steps["samples"].to_list() == [128, 144, 144, 144, 144]
    assert result.steps["step_s"].to_list() == [1.0, 0.75, 0.75, 0.75, 0.75]


def test_without_overhead_one_step_equalises_and_the_gain_is_mean_over_least() -> None:
    x = [100.0, 200.0, 300.0]
    result = simulate_batching(
        [(0, rate) for rate in x], controller="proportional", global_batch=600, steps=1000
    )
    assert result.adjustments == 1
    assert batches_at(result.batches, 1) == [100, 200, 300]
    assert result.workers["mean_iteration_s"].to_numpy()[1:] == pytest.approx(1, abs=0.01)
    after = result.steps["step_s"].to_list()[1:]
    assert set(after) == {1.0}
    assert result.steps["step_s"][0] / after[0] == pytest.approx(np.mean(x) / min(x))


@settings(max_examples=30)
@given(x=st.lists(st.floats(50, 1000), min_size=2, max_size=6))
def test_without_scaling_back_the_global_batch_grows(x: list[float]) -> None:
    # sum of b mean(t) / t at equal b and t = b / x: K b mean(x) mean(1 / x), never less than K b
    slides = Proportional(keeps_global_batch=False)
    crew = [(0.0, rate) for rate in x]
    total = 1000 * len(x)
    result = simulate_batching(crew, controller=slides, global_batch=total, steps=2)
    growth = np.mean(x) * np.mean(1 / np.array(x))
    assert growth >= 1 - 1e-12
    # each batch is rounded to a whole sample
    assert result.steps["samples"][1] == pytest.approx(total * growth, abs=len(x) / 2 + 1e-6)


def test_overhead_contracts_towards_equal_times() -> None:
    # near the fixed point of two equal overheads an error in b shrinks by a / t a step
    a, x = 1.0, np.array([3.0, 1.0])
    total = 2_000_000
    result = simulate_batching(
        [(a, rate) for rate in x * 1e6], controller="proportional", global_batch=total, steps=13
    )
    equal_s = (total + a * x.sum() * 1e6) / (x.sum() * 1e6)
    target = x[0] * 1e6 * (equal_s - a)
    errors = [batches_at(result.batches, step)[0] - target for step in range(13)]
    shrinks = [abs(later / now) for now, later in pairwise(errors)]
    assert shrinks[-1] == pytest.approx(a / equal_s, rel=0.02)


def test_the_oracle_is_the_best_of_all_whole_splits() -> None:
    crew = [(0.3, 5.0), (0.1, 2.0), (0.0, 9.0)]
    total = 17
    best = min(
        max(a + b / x for b, (a, x) in zip(split, crew, strict=True))
        for split in product(range(1, total), repeat=3)
        if sum(split) == total
    )
    result = simulate_batching(crew, controller="oracle", global_batch=total, steps=1)
    assert result.time_s == pytest.approx(best)


def test_restoring_by_equal_parts_can_make_a_batch_negative_and_says_so() -> None:
    crew = [(0, 1000.0), (0, 1000.0), (0, 1.0)]
    free = OmniLearn(bounds=(0, float("inf")))
    result = simulate_batching(crew, controller=free, global_batch=192, steps=2)
    # t = (0.064, 0.064, 64): wanted = 64 * 21.376 / t = (21376, 21376, 21.4); each gives up a third
    # of the excess over 192
    assert min(batches_at(result.batches, 1)) < 0
    assert result.note is not None
    longer = simulate_batching(crew, controller=free, global_batch=192, steps=50)
    assert longer.adjustments == 1, "what no job can run is left as it is"
    with pytest.raises(DataError, match="the workers are too unlike"):
        simulate_batching([(0, 1e12), (0, 1e-12)], controller=free)
    bounded = simulate_batching(crew, controller="omnilearn", global_batch=192, steps=50)
    assert bounded.note is None


def test_omnilearns_defaults_are_those_of_the_authors() -> None:
    assert (OmniLearn().bounds, OmniLearn().dead_band) == ((16, 96), 0.2)


def test_a_worker_without_samples_can_run() -> None:
    zero, seen = np.zeros(3), np.array([0.4, 1, 1])
    setting = Seen(np.array([0, 64, 64]), seen, seen, 1, zero, seen, 128, 0, np.inf)
    # rates (0, 64, 64) and a mean time of 0.8: moved to 51.2, and a third of the rest to each
    assert OmniLearn(bounds=(0, 96)).adjust(setting).tolist() == [8, 60, 60]


def test_shares_at_a_bound_leave_the_rest_to_the_others() -> None:
    np.testing.assert_allclose(share(100, [1, 1, 8], min_batch=0, max_batch=60), [20, 20, 60])
    both = share(100, [1, 10, 10, 79], min_batch=5, max_batch=40)
    np.testing.assert_allclose(both, [5, 27.5, 27.5, 40])
    both = share(100, [1, 3], offsets=[0, 20], min_batch=0, max_batch=np.inf)
    np.testing.assert_allclose(both, [30, 70])
    late = share(100, [1, 3, 1], offsets=[0, 20, 200], min_batch=0, max_batch=np.inf)
    np.testing.assert_allclose(late, [30, 70, 0])  # 30 / 1 = (70 + 20) / 3


def test_the_last_sample_goes_to_the_worker_that_ends_first() -> None:
    # 32.5 and 97.5: 33 / 1 is later than 98 / 3
    job = simulate_batching([(0, 1), (0, 3)], controller=Static([1, 3]), global_batch=130, steps=1)
    assert job.workers["batch_first"].to_list() == [32, 98]


@settings(max_examples=30)
@given(
    crew=workers,
    name=st.sampled_from(sorted(CONTROLLERS)),
    size=st.integers(1, 80),
    part=st.floats(0, 1),
)
def test_global_batch_and_bounds_are_kept(
    crew: list[tuple[float, float]], name: str, size: int, part: float
) -> None:
    total = size * len(crew)
    low, high = max(1, round(part * size)), 3 * size
    result = simulate_batching(
        crew, controller=name, global_batch=total, min_batch=low, max_batch=high, steps=12
    )
    sums = result.batches.group_by("step").agg(pl.col("batch", "gradient_weight").sum())
    assert (sums["batch"] == total).all()
    assert sums["gradient_weight"].to_numpy() == pytest.approx(1)
    if name != "omnilearn":
        assert result.batches["batch"].min() >= low  # type: ignore[operator]
        assert result.batches["batch"].max() <= high  # type: ignore[operator]
    if result.note is None:
        assert (result.steps["step_s"] > 0).all()
        assert 0 <= result.idle_fraction < 1


@settings(max_examples=30)
@given(
    crew=workers,
    size=st.integers(8, 200),
    name=st.sampled_from(["measured", "proportional", "damped"]),
)
def test_at_rest_no_one_is_worse_than_uniform_by_more_than_a_sample(
    crew: list[tuple[float, float]], size: int, name: str
) -> None:
    # with r = b / t at any batches, t of b' is at most b' / r, all b' / r are total / sum(r), and
    # that is at most the largest t, as the total is sum(r t)
    even = simulate_batching(crew, controller="uniform", global_batch=size * len(crew), steps=1)
    best = simulate_batching(crew, controller="oracle", global_batch=size * len(crew), steps=1)
    assert best.time_s <= even.time_s * (1 + 1e-12)
    loop = simulate_batching(crew, controller=name, global_batch=size * len(crew), steps=60)
    sample_s = 1 / min(x for _, x in crew)
    assert loop.steps["step_s"][-1] <= even.time_s + sample_s


def test_a_change_of_throughput_is_followed_one_step_later() -> None:
    x = np.array([[10.0, 10.0]] * 3 + [[10.0, 5.0]] * 3)
    crew = Workers(np.zeros(2), x, ("fast", "hurt"))
    loop = simulate_batching(crew, controller="proportional", global_batch=30)
    # t = (1.5, 1.5) until worker `hurt` halves; the step after has b = (20, 10), 2 s each
    assert loop.steps["step_s"].to_list() == [1.5, 1.5, 1.5, 3.0, 2.0, 2.0]
    hindsight = simulate_batching(crew, controller="oracle", global_batch=30)
    assert hindsight.steps["step_s"].to_list() == [1.5, 1.5, 1.5, 2.0, 2.0, 2.0]
    once = simulate_batching(crew, controller=Static([1, 1]), global_batch=30)
    assert once.steps["step_s"].to_list() == [1.5, 1.5, 1.5, 3.0, 3.0, 3.0]


def test_settled_steps_are_those_that_would_have_been_run() -> None:
    crew = [(0.05, 128.0), (0.05, 64.0), (0.1, 30.0)]
    varying = Workers(
        np.array([a for a, _ in crew]), np.tile([x for _, x in crew], (400, 1)), ("a", "b", "c")
    )
    for name in CONTROLLERS:
        short = simulate_batching(crew, controller=name, steps=400)
        long = simulate_batching(varying, controller=name)
        assert short.steps.equals(long.steps)
        assert short.workers["mean_iteration_s"].to_numpy() == pytest.approx(
            long.workers["mean_iteration_s"].to_numpy()
        )


def test_time_to_samples_is_when_the_step_ends() -> None:
    result = simulate_batching([(0, 10.0)], controller="uniform", global_batch=5, steps=10)
    assert result.time_to_samples(11) == pytest.approx(1.5)
    assert result.time_to_samples(51) is None


def test_implied_ratio_is_the_gains_inverse() -> None:
    # mean(x) / min(x) = (2 r + 2) / 4 = 2.1 at r = 3.2
    assert implied_throughput_ratio(2.1, fast=2, slow=2) == pytest.approx(3.2)
    assert largest_gain(3.2, fast=2, slow=2) == pytest.approx(2.1)
    # a tenth of the uniform step is overhead: simulate a gain and get its ratio back
    a, slow, ratio = 0.1, 1.0 / 0.9, 7.0
    even, best = a + 1 / slow, a + 2 / (slow * (1 + ratio))
    assert implied_throughput_ratio(even / best, overhead_fraction=a) == pytest.approx(ratio)
    assert implied_throughput_ratio(4, overhead_fraction=0.25) is None


def test_published_overhead_put_back_into_the_model() -> None:
    # what 1.2 leaves to overhead at the ratio of FLOPS
    cnn = published_gains().filter(id="batching-cpu-gpu-cnn").row(0, named=True)
    phi = cnn["overhead_at_flops"]
    crew = [(phi, 1 / (1 - phi)), (phi, cnn["flops_ratio"] / (1 - phi))]
    even, best = (
        max(a + b / x for b, (a, x) in zip(split, crew, strict=True))
        for split in ((1, 1), (2 / (1 + cnn["flops_ratio"]), 2 - 2 / (1 + cnn["flops_ratio"])))
    )
    assert even == pytest.approx(1)
    assert even / best == pytest.approx(1.2)


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=5),
    st.sampled_from(["uniform", "proportional", "smoothed"]),
)
def test_without_a_barrier_mean_staleness_is_the_number_of_other_workers(
    cores: list[int], controller: str
) -> None:
    found = simulate_batching([(0.0, float(each)) for each in cores], controller=controller)
    free = found.asynchronous
    rates = 1 / free["iteration_s"].to_numpy()
    mean = np.average(free["staleness"].to_numpy(), weights=rates)
    assert mean == pytest.approx(len(cores) - 1)
    assert free["samples_per_s"].sum() == pytest.approx(sum(cores))


def test_the_controller_of_the_paper_settles_within_two_adjustments() -> None:
    for split in SPLITS.values():
        found = simulate_batching([(0.0, float(each)) for each in split], controller="smoothed")
        assert found.adjustments <= 2  # figure 4a
        best = sum(split) / len(split) / min(split)
        assert best / 1.1 < found.speedup <= best


def test_an_upper_bound_is_learned_where_throughput_falls() -> None:
    def speed(batches: NDArray[np.int64], x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x * np.where(batches > 80, 0.4, 1.0)

    crew = Workers(0.0, [100.0, 300.0], speed=speed)
    learned, always = (
        simulate_batching(crew, controller=name) for name in ("smoothed", "proportional")
    )
    # one step at 96 samples, where the fast worker is slower, and back to 64
    assert learned.workers["batch_last"].to_list() == [64, 64]
    assert learned.adjustments == 2 < always.adjustments
    for wrong in (0.0, 1.1):
        with pytest.raises(DataError, match="weight must be above 0"):
            Smoothed(weight=wrong)


def test_noise_within_the_dead_band_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    samples_per_s = 100 * rng.uniform(0.99, 1.01, (100, 3))
    found = simulate_batching(Workers(0.0, samples_per_s), controller="smoothed")
    assert found.adjustments == 0


class Half:
    """Half of a controller."""

    name = "half"

    def adjust(self, seen: object) -> object:
        return seen


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"controller": "magic"}, "no controller is called 'magic'; there are uniform, measured"),
        ({"controller": "uniform", "min_batch": 100}, "cannot be split over 2 workers"),
        ({"controller": "uniform", "global_batch": 1}, "with 1 to inf samples each; 2 or more can"),
        ({"controller": "uniform", "max_batch": 10}, "2 to 20 can"),
        ({"controller": "uniform", "max_batch": 70.5}, "bounds must be whole numbers"),
        ({"controller": "uniform", "max_batch": float("nan")}, "bounds must be whole numbers"),
        ({"controller": "uniform", "min_batch": 0}, "with 1 <= min_batch <= max_batch"),
        ({"controller": "uniform", "global_batch": 9.5}, "global_batch must be a whole number"),
        ({"controller": Static([1, float("inf")])}, "must be 2 finite numbers above 0"),
        ({"controller": "static"}, "static, given as Static"),
        ({"controller": 3}, "no controller is called 3; there are uniform"),
        ({"controller": Half()}, "not a class, with name, settles, first"),
        ({"controller": Static([1, 2, 3])}, "must be 2 finite numbers above 0"),
        (
            {"controller": "uniform", "steps": 0},
            "steps must be a whole number from 1 to 1,0",
        ),
    ],
)
def test_impossible_settings_are_one_line(arguments: dict[str, object], line: str) -> None:
    with pytest.raises(DataError, match=line) as told:
        simulate_batching([(0, 1.0), (0, 2.0)], **arguments)  # type: ignore[arg-type]
    assert "\n" not in str(told.value)


def test_impossible_controllers_are_one_line() -> None:
    for make, line in (
        (lambda: Proportional(dead_band=float("nan")), "dead_band must be at least 0"),
        (lambda: OmniLearn(bounds=(9, 8)), "min_batch <= max_batch"),
        (lambda: Measured(after=0), "after must be at least 1"),
    ):
        with pytest.raises(DataError, match=line):
            make()


@dataclass(frozen=True)
class Halves(Uniform):
    """A user's mistake: halves of samples."""

    name: str = "halves"

    def adjust(self, seen: Seen, /) -> Any:
        return seen.batches / 2


@dataclass(frozen=True)
class TakesNothing:
    name: str = "mine"
    settles: bool = True

    def first(self) -> None: ...

    def adjust(self) -> None: ...


def test_a_controller_that_cannot_be_called_is_told() -> None:
    for wrong in (TakesNothing(), Uniform):
        with pytest.raises(DataError, match=r"first\(setting\) and adjust\(seen\)"):
            simulate_batching([(0, 1), (0, 2)], controller=wrong)  # type: ignore[arg-type]


def test_a_controller_that_returns_no_whole_numbers_is_told() -> None:
    with pytest.raises(DataError, match="controller halves must return whole numbers"):
        simulate_batching([(0, 1.0), (0, 2.0)], controller=Halves())


@pytest.mark.parametrize(
    "crew",
    [
        *([(0, 0.0)], [(0, -1.0)], [(0, float("inf"))], [(0, 1e300)], [(-1, 1.0)]),
        *([(float("inf"), 1.0)], [(0, float("nan"))], [], [(1, 2, 3)]),
    ],
)
def test_impossible_workers_are_one_line(crew: list[tuple[float, float]]) -> None:
    with pytest.raises(DataError) as told:
        simulate_batching(crew, controller="uniform")
    assert "\n" not in str(told.value)


def test_a_number_at_its_largest_is_allowed_and_only_one_beyond_is_named() -> None:
    at_most = [(0.0, 1e12), (0.0, 1e12)]
    assert simulate_batching(at_most, controller=Static([1e12, 1e12])).speedup == 1
    with pytest.raises(DataError, match=r"found 2e\+12"):
        simulate_batching([(0.0, 1e12), (0.0, 2e12)], controller="uniform")
    with pytest.raises(DataError, match="found 0"):
        simulate_batching([(0.0, 1e-12), (0.0, 0.0)], controller="uniform")
