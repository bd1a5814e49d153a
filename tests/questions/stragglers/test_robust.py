"""Spikes, changing levels, barriers and staggered slowdowns, all planted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from tests.questions.stragglers.test_detect import noisy, samples_of
from traceana import StragglerResult, detect_stragglers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CANNOT_TELL = "cannot tell: times may include synchronization; measure compute time"


def jobs_of(value: NDArray[Any]) -> pl.DataFrame:
    """Samples of jobs from (job, worker, time)."""
    return pl.concat([samples_of(job, job=f"job_{place:03d}") for place, job in enumerate(value)])


def autoregressive(
    rng: np.random.Generator, shape: tuple[int, ...], coefficient: float
) -> NDArray[Any]:
    z = rng.standard_normal(shape)
    for time in range(1, shape[-1]):
        fresh = np.sqrt(1 - coefficient**2) * z[..., time]
        z[..., time] = coefficient * z[..., time - 1] + fresh
    return z


@pytest.mark.parametrize(("frequency", "n_workers"), [(0.03, 4), (0.1, 13)])
def test_an_episode_is_found_among_isolated_spikes(frequency: float, n_workers: int) -> None:
    n_jobs, length, severity = 40, 40, 1.5
    rng = np.random.default_rng(61_803)
    value = noisy(rng, (n_jobs, n_workers, 300), 0.05)
    value *= np.where(rng.random(value.shape) < frequency, 3, 1)
    onsets = rng.integers(20, 240, n_jobs)
    for job, onset in enumerate(onsets):
        value[job, 1, onset : onset + length] *= severity
    episodes = detect_stragglers(jobs_of(value)).episodes.with_columns(
        planted=pl.col("job_id").replace_strict(
            {f"job_{job:03d}": 10.0 * onset for job, onset in enumerate(onsets.tolist())}
        )
    )
    hits = episodes.filter(
        pl.col("worker_id") == "w1",
        pl.col("onset_s") <= pl.col("planted") + 10 * length,
        pl.col("end_s") >= pl.col("planted"),
    )
    assert hits["job_id"].n_unique() >= 0.95 * n_jobs
    assert episodes.height - hits.height <= 0.05 * n_jobs
    assert hits["severity"].median() == pytest.approx(severity, rel=0.03)
    assert (hits["onset_s"] - hits["planted"]).abs().median() == pytest.approx(0, abs=10)


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], NDArray[Any]]] = {
    "normal": lambda rng, shape: 1 + 0.1 * rng.standard_normal(shape),
    "lognormal": lambda rng, shape: rng.lognormal(0, 0.2, shape),
    "gamma": lambda rng, shape: rng.gamma(25, 1 / 25, shape),
    "exponential": lambda rng, shape: 1 + 0.2 * rng.exponential(1, shape),
    "Student": lambda rng, shape: np.maximum(1 + 0.05 * rng.standard_t(3, shape), 0.1),
    "uniform": lambda rng, shape: rng.uniform(0.7, 1.3, shape),
    "AR(0.5)": lambda rng, shape: 1 + 0.08 * autoregressive(rng, shape, 0.5),
    "AR(0.9)": lambda rng, shape: 1 + 0.08 * autoregressive(rng, shape, 0.9),
}


@pytest.mark.parametrize("law", LAWS)
def test_noise_of_any_law_has_no_episode(law: str) -> None:
    rng = np.random.default_rng(27_182)
    result = detect_stragglers(jobs_of(100 * LAWS[law](rng, (60, 8, 250))))
    assert result.episodes.is_empty()
    assert not result.levels["is_slow"].any()
    assert result.jobs["note"].null_count() == 60


def test_half_of_the_evidence_is_enough_to_suspect_a_long_episode() -> None:
    # 30 of 100 steps count as noise as long as they are not suspected
    for seed in range(2):
        times = noisy(np.random.default_rng(seed), (5, 100), cv=0.1)
        times[2, 35:65] *= 1.3
        (row,) = detect_stragglers(samples_of(times)).episodes.rows(named=True)
        assert row["worker_id"] == "w2"
        assert (row["onset_s"], row["end_s"]) == pytest.approx((350, 650), abs=60)


@pytest.mark.parametrize("max_offset", [3, 5, 8])
@pytest.mark.parametrize("cv", [0.03, 0.1])
def test_a_slowdown_of_the_whole_job_may_begin_at_other_times(max_offset: int, cv: float) -> None:
    rng = np.random.default_rng(31_415)
    value = noisy(rng, (30, 9, 300), cv)
    begin = rng.integers(50, 200, (30, 1, 1)) + rng.integers(0, max_offset + 1, (30, 9, 1))
    time = np.arange(300)
    value *= np.where((time >= begin) & (time < begin + 30), 2, 1)
    value[0, 4, 240:280] *= 1.5  # and a straggler at another time
    episodes = detect_stragglers(jobs_of(value)).episodes
    assert episodes.select("job_id", "worker_id").rows() == [("job_000", "w4")]


def level_of(result: StragglerResult, worker: str = "w2") -> pl.DataFrame:
    return result.levels.filter(pl.col("worker_id") == worker)


TIME = np.arange(400)
PARTS = {
    "first half": np.where(TIME < 200, 1.6, 1),
    "last half": np.where(TIME >= 200, 1.6, 1),
    "first two thirds": np.where(TIME < 270, 1.6, 1),
    "drift up": 1 + 0.9 * TIME / 400,
    "drift down": 1.9 - 0.9 * TIME / 400,
}


@pytest.mark.parametrize(("part", "cv"), [*zip(PARTS, (0.02, 0.1, 0.02, 0.1, 0.1), strict=True)])
def test_a_worker_slow_for_a_part_is_no_persistent_straggler(part: str, cv: float) -> None:
    value = noisy(np.random.default_rng(16_180), (20, 7, 400), cv)
    value[:, 2] *= PARTS[part]
    result = detect_stragglers(jobs_of(value))
    level = level_of(result)
    assert level["is_slow"].sum() <= 1
    # an episode, or a note that the level changes
    told = (level["n_episodes"] > 0) | level["note"].str.starts_with("slow in a part").fill_null(
        value=False
    )
    assert told.all()


@pytest.mark.parametrize("whole_job", [1.0, 1 + 0.15 * np.sin(TIME / 40), 1 + TIME / 400])
def test_a_worker_slow_all_along_is_one_in_spite_of_episodes(whole_job: Any) -> None:
    value = noisy(np.random.default_rng(14_142), (20, 7, 400), 0.1) * whole_job
    value[:, 2] *= 1.4
    value[:, 2, 150:200] *= 1.8
    level = level_of(detect_stragglers(jobs_of(value)))
    assert level["is_slow"].all()
    assert level["n_episodes"].to_list() == [1] * 20
    assert level["ratio_to_peers"].median() == pytest.approx(1.4, rel=0.03)


@pytest.mark.parametrize("coefficient", [0.0, 0.5])
def test_the_interval_of_a_level_covers_it(coefficient: float) -> None:
    rng = np.random.default_rng(57_721)
    level = rng.lognormal(0, 0.2, (80, 6, 1))
    noise = 0.1 * autoregressive(rng, (80, 6, 240), coefficient)
    found = detect_stragglers(jobs_of(100 * level * np.exp(noise))).levels
    true = np.array(
        [
            [one / np.median(np.delete(job, place)) for place, one in enumerate(job)]
            for job in level[..., 0]
        ]
    ).ravel()
    covered = (found["ci_low"].to_numpy() <= true) & (true <= found["ci_high"].to_numpy())
    assert 0.93 <= covered.mean() <= 0.98


@pytest.mark.parametrize("jitter", [0.0, 0.002, 0.01, 0.03])
def test_times_that_include_a_barrier_are_not_judged(jitter: float) -> None:
    rng = np.random.default_rng(11_235)
    compute = noisy(rng, (10, 8, 200), 0.08)
    compute[:, 3, 60:120] *= 1.7
    compute[:, 5] *= 1.3
    barrier = np.repeat(compute.max(axis=1, keepdims=True), 8, axis=1)
    barrier *= 1 + jitter * rng.standard_normal(barrier.shape)
    result = detect_stragglers(jobs_of(barrier))
    assert result.jobs["note"].to_list() == [CANNOT_TELL] * 10
    for name in (
        "slowdown",
        "slowdown_excess",
        "n_episodes",
        "n_slow_workers",
        "episodes_fraction",
    ):
        assert result.jobs[name].null_count() == 10
    assert result.levels["is_slow"].null_count() == 80
    assert "none" not in str(result)
    assert CANNOT_TELL in str(result)
    measured = detect_stragglers(jobs_of(compute))
    assert measured.jobs["note"].null_count() == 10
    assert level_of(measured, "w5")["is_slow"].all()
    assert (level_of(measured, "w3")["n_episodes"] == 1).all()


@pytest.mark.parametrize(
    "whole_job", [1 + 0.4 * np.sin(TIME / 8), np.where(TIME % 50 == 0, 5, 1), 1 + TIME / 400]
)
def test_a_job_that_changes_as_a_whole_is_judged(whole_job: NDArray[Any]) -> None:
    value = noisy(np.random.default_rng(8_128), (10, 5, 400), 0.02) * whole_job
    assert detect_stragglers(jobs_of(value)).jobs["note"].null_count() == 10


# expected maximum of n standard normal numbers (Harter, Biometrika 48, 1961)
MAXIMA = {2: 0.56419, 3: 0.84628, 5: 1.16296, 10: 1.53875, 20: 1.86748}


@pytest.mark.parametrize(
    ("n_workers", "cv"), [*zip(MAXIMA, (0.03, 0.1, 0.03, 0.1, 0.03), strict=True)]
)
def test_the_slowdown_of_noise_is_the_expected_maximum(n_workers: int, cv: float) -> None:
    rng = np.random.default_rng(17_320)
    value = 100 * (1 + cv * rng.standard_normal((30, n_workers, 200)))
    expected = 1 + cv * MAXIMA[n_workers]
    jobs = detect_stragglers(jobs_of(value)).jobs
    assert jobs["slowdown_noise"].mean() == pytest.approx(expected, abs=0.04 * cv)
    assert jobs["slowdown_excess"].mean() == pytest.approx(0, abs=0.04 * cv)
    # neither levels nor episodes nor what the job does as a whole are noise
    value[:, 0] *= 2
    value[:, 1, 50:90] *= 3
    value *= 1 + 0.3 * np.sin(np.arange(200) / 20)
    jobs = detect_stragglers(jobs_of(value)).jobs
    assert jobs["slowdown_noise"].mean() == pytest.approx(expected, abs=0.1 * cv)
    excess = jobs["slowdown"] - jobs["slowdown_noise"]
    assert jobs["slowdown_excess"].to_list() == pytest.approx(excess.to_list())


def test_ten_workers_with_lognormal_noise_of_ten_percent() -> None:
    # E[max] / E[x] by numerical integration of x d(F^10)
    value = 100 * np.random.default_rng(22_360).lognormal(0, 0.1, (40, 10, 300))
    jobs = detect_stragglers(jobs_of(value)).jobs
    assert jobs["slowdown_noise"].mean() == pytest.approx(1.1625, abs=0.003)
