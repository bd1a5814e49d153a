"""The sweep over heterogeneity: one by one, by closed form, and in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.benchmarks import batching as plain
from traceana import simulate_batching, summarize_batching, sweep_batching
from traceana.errors import DataError
from traceana.simulate import OmniLearn, Proportional, Static, Workers, frames
from traceana.simulate.batching import sweep as module
from traceana.simulate.batching.workers import LEVELS

SMALL: dict[str, Any] = {"steps": 12, "seeds": range(3), "noise_cvs": (0.0, 0.2)}


def test_without_overhead_and_noise_the_gain_is_mean_over_least_cores() -> None:
    sweep = sweep_batching(overheads_s=[0], noise_cvs=[0], controllers=["static", "oracle"])
    assert set(sweep["level"]) == set(LEVELS)
    for row in sweep.iter_rows(named=True):
        cores = LEVELS[row["level"]]
        bound = np.mean(cores) / min(cores)
        if sum(cores) == 48:  # in whole samples, 4 a core
            assert row["speedup"] == pytest.approx(bound)
            assert row["step_s"] == pytest.approx(1)
            assert row["idle_fraction"] == pytest.approx(0, abs=1e-12)
        else:
            assert bound / 1.1 < row["speedup"] <= bound + 1e-9
        assert row["adjustments"] == 0
        assert row["seed"] is None


def test_a_run_of_the_sweep_is_that_job_simulated() -> None:
    levels = {"even": (8, 8), "odd": (4, 12), "three": (4, 6, 6)}
    sweep = sweep_batching(levels, overheads_s=[0.05, 0.3], **SMALL)
    assert sweep.height == 3 * 2 * (1 + 3) * 7
    for row in sweep.filter(pl.col("seed").is_null() | (pl.col("seed") == 1)).iter_rows(named=True):
        cores = np.array(levels[row["level"]], dtype=float)
        x = np.tile(4 * cores, (12, 1))
        if row["noise_cv"]:
            sigma = np.sqrt(np.log(1.04))
            drawn = np.random.default_rng(1).standard_normal((12, len(cores)))
            x /= np.exp(sigma * drawn - sigma**2 / 2)
        job = simulate_batching(
            Workers(np.full(len(cores), row["overhead_s"]), x, tuple("abc"[: len(cores)])),
            controller=Static(cores) if row["controller"] == "static" else row["controller"],
            global_batch=192,
        )
        for name in ("time_s", "speedup", "idle_fraction"):
            assert row[name] == pytest.approx(getattr(job, name), abs=1e-12), row
        assert row["adjustments"] == job.adjustments
        assert row["samples"] == job.samples
        assert row["time_to_samples_s"] == pytest.approx(job.time_s)
        assert row["step_s"] == pytest.approx(job.time_s / 12)


def test_a_plain_loop_over_steps_workers_and_samples_gives_the_same() -> None:
    expected = plain.plain_sweep(steps=40, seeds=2)
    sweep = sweep_batching(
        controllers=plain.CONTROLLERS,
        overheads_s=plain.OVERHEADS,
        noise_cvs=[plain.CV],
        seeds=range(2),
        steps=40,
    )
    assert sweep.height == len(expected) == 160
    for level, a, seed, controller, *found in sweep.select(
        "level", "overhead_s", "seed", "controller", "time_s", "adjustments"
    ).rows():
        time_s, adjustments = expected[level, a, seed, controller]
        assert found == [pytest.approx(time_s, rel=1e-9), adjustments], (level, controller)


def test_parts_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sweep_batching(**SMALL)
    told: list[float] = []
    monkeypatch.setattr(module, "_BLOCK", 1)  # a seed at a time
    assert sweep_batching(**SMALL, progress=told.append).equals(whole)
    assert told == sorted(told)
    assert told[-1] == 1


def test_a_drifting_global_batch_has_its_own_time_to_samples() -> None:
    slides = Proportional(keeps_global_batch=False, name="slides")
    sweep = sweep_batching(
        {"a": (8, 24)}, controllers=[slides], overheads_s=[0], noise_cvs=[0], steps=10
    )
    row = sweep.row(0, named=True)
    # times 96 / 32 and 96 / 96, mean 2: batches become 64 and 192, 2 s each
    assert row["samples"] == 192 + 9 * 256
    assert row["time_to_samples_s"] == pytest.approx(3 + 7 * 2)


def test_a_negative_batch_is_told() -> None:
    free = OmniLearn(bounds=(0, float("inf")))
    sweep = sweep_batching(
        {"a": (24, 23.9, 0.1)}, controllers=[free], overheads_s=[0], noise_cvs=[0], steps=2
    )
    assert sweep["note"].to_list() == [
        "a batch size is negative in 1 settings; no job could run it"
    ]
    # batches of 96, 96 and 0
    zero = sweep_batching(
        {"a": (24, 23.9, 5.92)}, controllers=[free], overheads_s=[0], noise_cvs=[0], steps=2
    )
    assert zero["note"].to_list() == [None]


def test_the_summary_is_mean_and_t_interval_over_seeds() -> None:
    sweep = sweep_batching({"a": (8, 40)}, controllers=["proportional"], **SMALL)
    of_noise = summarize_batching(sweep.filter(noise_cv=0.2)).filter(overhead_s=0.1)
    x = sweep.filter(noise_cv=0.2, overhead_s=0.1)["speedup"].to_numpy()
    half = 4.302653 * x.std(ddof=1) / np.sqrt(3)  # t of 2 degrees, 97.5 %
    row = of_noise.row(0, named=True)
    assert row["speedup"] == pytest.approx(x.mean())
    assert row["speedup_ci_low"] == pytest.approx(x.mean() - half)
    assert row["speedup_ci_high"] == pytest.approx(x.mean() + half)
    assert row["n"] == 3
    still = summarize_batching(sweep.filter(noise_cv=0))
    assert still["speedup_ci_low"].null_count() == still.height == 3


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"seeds": []}, r"seeds must be 1 to 100,000 whole numbers from 0 on; found \[\]"),
        ({"seeds": [1, 1]}, r"seeds must be one or more distinct values; found \[1, 1\]"),
        ({"controllers": ["magic"]}, "no controller is called 'magic'; there are uniform"),
        ({"controllers": ["oracle", "oracle"]}, "different names"),
        ({"noise_cvs": [-1]}, "noise_cvs must be from 0"),
        ({"overheads_s": [float("nan")]}, "overheads_s must be from 0"),
        ({"samples_per_core_s": 0}, "samples_per_core_s must be from"),
        ({"global_batch": 3}, "cannot be split over 4 workers with 1 to inf samples each; 4 or mo"),
        ({"steps": 1.5}, "steps must be a whole number"),
    ],
)
def test_impossible_sweeps_are_one_line(arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(DataError, match=line) as told:
        sweep_batching(**arguments)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("levels", [{}, {"a": ()}, {"a": (0, 1)}, {"a": (float("inf"), 1)}])
def test_impossible_levels_are_one_line(levels: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="cores"):
        sweep_batching(levels)


def test_a_sweep_that_passed_through_another_engine_is_summarized() -> None:
    sweep = sweep_batching({"1/2": (1, 2)}, seeds=[1, 2], steps=5, global_batch=30)
    expected = summarize_batching(sweep)
    assert_frame_equal(summarize_batching(sweep.to_pandas()), expected)
    with pytest.raises(DataError, match="summarize_batching: column note is missing"):
        summarize_batching(sweep.drop("note"))


def test_levels_are_as_their_names_have_them() -> None:
    for name, cores in LEVELS.items():
        assert name == "/".join(map(str, cores))
    # section IV-A and slide 5 of the paper
    assert {"13/13/13", "9/12/18", "2/17/20", "11/4/24"} <= set(LEVELS)


def test_defaults_of_a_sweep() -> None:
    levels = {"uneven": [36.0, 12.0]}
    default = sweep_batching(levels, controllers=["uniform"], seeds=[1])
    explicit = sweep_batching(
        levels,
        controllers=["uniform"],
        seeds=[1],
        overheads_s=[0, 0.1, 0.2],
        noise_cvs=[0, 0.1],
        global_batch=192,
        samples_per_core_s=4,
        steps=200,
        min_batch=1,
    )
    assert default.equals(explicit)
    for value, fits in ((1e-12, True), (0.9e-12, False), (1e12, True), (1.1e12, False)):
        few = {"level": [value, value]}
        if fits:
            found = sweep_batching(few, controllers=["uniform"], seeds=[1], steps=2)
            assert found["mean_over_min"].unique().to_list() == [1]
        else:
            with pytest.raises(DataError):
                sweep_batching(few, controllers=["uniform"], seeds=[1], steps=2)


def test_noise_of_a_variation_of_one_has_mean_and_deviation_one() -> None:
    table, keys = np.zeros((1, 2000)), [("a", 0.0, 3)]
    noise = module._noise(table, keys, 1.0, 50)
    assert noise.shape == (50, 1, 2000)
    assert noise.mean() == pytest.approx(1, abs=0.02)
    assert noise.std() == pytest.approx(1, abs=0.05)
    assert np.log(noise).std() == pytest.approx(np.sqrt(np.log(2)), rel=0.01)
    assert (module._noise(table, keys, 0.0, 2) == 1).all()


def test_runs_of_all_overheads_must_fit_into_memory() -> None:
    # each run of two workers has 22 numbers of 8 bytes per step
    uneven = {"uneven": [36.0, 12.0]}
    with pytest.raises(
        DataError, match=r"10,000,000 steps of 2 run\(s\) of 2 workers may need 3.3"
    ):
        sweep_batching(uneven, overheads_s=[0, 0.1], noise_cvs=[0], steps=10_000_000)


def test_more_seeds_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MOST_SEEDS", 3)
    options: dict[str, Any] = {"controllers": ["uniform"], "overheads_s": [0.1], "steps": 2}
    found = sweep_batching({"a": [2, 1]}, noise_cvs=[0.1], seeds=range(3), **options)
    assert found.height == 3
    with pytest.raises(DataError, match="seeds must be 1 to 3"):
        sweep_batching({"a": [2, 1]}, noise_cvs=[0.1], seeds=range(4), **options)


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_a_seed_is_a_whole_number_from_0_on(seed: Any) -> None:
    with pytest.raises(DataError, match="seeds must be 1 to 100,000 whole numbers from 0 on"):
        sweep_batching({"a": [2, 1]}, controllers=["uniform"], steps=2, seeds=[seed])
