"""Stragglers planted in made-up jobs, and what must hold whatever the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from traceana import StragglerResult, detect_stragglers
from traceana.errors import DataError
from traceana.questions.stragglers import blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

CALM = 100.0


def samples_of(value: NDArray[Any], *, job: str = "job", step_s: float = 10.0) -> pl.DataFrame:
    """Samples of one job from (worker, tick); NaN is no row."""
    worker, tick = np.indices(value.shape)
    return pl.DataFrame(
        {
            "job_id": [job] * value.size,
            "worker_id": [f"w{number}" for number in worker.ravel()],
            "time_s": tick.ravel() * step_s,
            "batch_time": value.ravel(),
        }
    ).filter(pl.col("batch_time").is_not_nan())


def calm(n_workers: int = 6, n_ticks: int = 200) -> NDArray[Any]:
    return np.full((n_workers, n_ticks), CALM)


def noisy(
    rng: np.random.Generator, shape: tuple[int, ...], cv: float = 0.05, hold: int = 1
) -> NDArray[Any]:
    value = CALM * np.exp(cv * rng.standard_normal(shape))
    return np.repeat(value, hold, axis=-1)[..., : shape[-1]]


def found(result: StragglerResult) -> list[tuple[str, float, float]]:
    return [tuple(row) for row in result.episodes.select("worker_id", "onset_s", "end_s").rows()]


@given(
    severity=st.sampled_from([1.2, 1.5, 2.0, 5.0]),
    onset=st.integers(0, 150),
    length=st.integers(3, 90),
    n_workers=st.integers(3, 12),
    units=st.sampled_from([(0.1, 1e-4), (1.0, 0.05), (10.0, 1.0), (60.0, 1e6)]),
)
@settings(max_examples=30, deadline=None)
def test_without_noise_onset_and_end_are_exact(
    severity: float, onset: int, length: int, n_workers: int, units: tuple[float, float]
) -> None:
    step_s, unit = units
    length = min(length, 200 - onset)
    if length < 3:
        return
    value = calm(n_workers)
    value[1, onset : onset + length] *= severity
    result = detect_stragglers(samples_of(value * unit, step_s=step_s))
    row = result.episodes.row(0, named=True)
    assert result.episodes.height == 1
    assert (row["worker_id"], row["n_samples"], row["n_at_once"]) == ("w1", length, 1)
    assert row["onset_s"] == pytest.approx(onset * step_s)
    assert row["end_s"] == pytest.approx((onset + length - 1) * step_s)
    assert row["duration_s"] == pytest.approx(row["end_s"] - row["onset_s"])
    for name in ("severity", "ratio_to_peers", "excess"):
        assert row[name] == pytest.approx(severity, rel=1e-9)


def test_of_two_workers_each_is_the_others_peer() -> None:
    value = noisy(np.random.default_rng(2), (2, 200), 0.03)
    value[1, 100:130] *= 1.4
    value[:, 150:180] *= 2
    result = detect_stragglers(samples_of(value))
    assert found(result) == [("w1", 1000.0, 1290.0)]
    slowdown = value.max(axis=0).sum() / value.mean(axis=0).sum()
    assert result.jobs["slowdown"].item() == pytest.approx(slowdown)
    assert result.jobs["note"].item() is None


@pytest.mark.parametrize("n_slow", [1, 4, 5])
def test_up_to_half_of_the_workers_may_be_slow_together(n_slow: int) -> None:
    rng = np.random.default_rng(3)
    value = noisy(rng, (10, 300))
    value[:n_slow, 120:160] *= 1.4
    result = detect_stragglers(samples_of(value))
    assert result.episodes["worker_id"].to_list() == [f"w{worker}" for worker in range(n_slow)]
    assert (result.episodes["onset_s"] - 1200).abs().max() == pytest.approx(0, abs=20)
    assert (result.episodes["end_s"] - 1590).abs().max() == pytest.approx(0, abs=20)
    assert result.episodes["n_at_once"].to_list() == [n_slow] * n_slow
    assert result.jobs["max_at_once"].item() == n_slow


@pytest.mark.parametrize("hold", [1, 4])
@pytest.mark.parametrize("cv", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("kind", ["steady", "step", "wave", "drift", "two populations"])
def test_jobs_without_a_straggler_have_no_episode(hold: int, cv: float, kind: str) -> None:
    tick = np.arange(360)
    of_job = {
        "step": np.where((tick >= 100) & (tick < 180), 2.0, 1.0),
        "wave": 1 + 0.4 * np.sin(tick / 30),
        "drift": 1 + tick / 500,
    }.get(kind, np.ones(360))
    rng = np.random.default_rng(4)
    value = noisy(rng, (20, 10, 360), cv, hold) * of_job
    if kind == "two populations":
        value[:, ::2] *= 4
    jobs = pl.concat([samples_of(job, job=f"job_{place}") for place, job in enumerate(value)])
    result = detect_stragglers(jobs)
    assert result.episodes.is_empty()
    assert result.jobs["n_slow_workers"].unique().to_list() == [5 * (kind == "two populations")]


@pytest.mark.parametrize("kind", ["step", "wave", "drift"])
def test_a_straggler_is_found_whatever_its_job_does_as_a_whole(kind: str) -> None:
    tick = np.arange(360)
    of_job = {
        "step": np.where((tick >= 100) & (tick < 180), 2.0, 1.0),
        "wave": 1 + 0.4 * np.sin(tick / 30),
        "drift": 1 + tick / 500,
    }[kind]
    value = noisy(np.random.default_rng(5), (10, 360), 0.03) * of_job
    value[7, 40:60] *= 1.5
    value[8, 300:330] *= 1.5
    result = detect_stragglers(samples_of(value))
    assert found(result) == [("w7", 400.0, 590.0), ("w8", 3000.0, 3290.0)]
    assert result.episodes["excess"].to_list() == pytest.approx([1.5, 1.5], rel=0.05)


def test_a_worker_slow_all_along_is_a_level_and_no_episode() -> None:
    value = noisy(np.random.default_rng(6), (5, 200))
    value[2] *= 1.6
    result = detect_stragglers(samples_of(value))
    assert result.episodes.is_empty()
    assert result.levels["is_slow"].to_list() == [False, False, True, False, False]
    medians = np.median(value, axis=1)
    for worker, ratio in enumerate(result.levels["ratio_to_peers"]):
        others = np.delete(medians, worker)
        assert ratio == pytest.approx(medians[worker] / np.median(others), rel=1e-12)
    assert result.levels["median"].to_list() == pytest.approx(medians.tolist())


def test_one_report_held_for_long_is_one_observation() -> None:
    value = noisy(np.random.default_rng(7), (6, 240), hold=6)
    value[3, 60:66] *= 3
    assert detect_stragglers(samples_of(value)).episodes.is_empty()
    value[3, 120:138] *= 3
    assert found(detect_stragglers(samples_of(value))) == [("w3", 1200.0, 1370.0)]


def test_gaps_are_merged_and_short_ones_left_out() -> None:
    value = calm()
    value[0, 50:70] *= 2
    value[0, 58:60] = CALM
    value[1, 20:22] *= 9
    samples = samples_of(value)
    assert found(detect_stragglers(samples)) == [("w0", 500.0, 690.0)]
    split = detect_stragglers(samples, max_gap_reports=1)
    assert found(split) == [("w0", 500.0, 570.0), ("w0", 600.0, 690.0)]
    shorter = detect_stragglers(samples, min_reports=2)
    assert ("w1", 200.0, 210.0) in found(shorter)
    assert found(detect_stragglers(samples, min_duration_s=191)) == []
    assert found(detect_stragglers(samples, min_severity=2.1)) == []


def test_workers_that_come_late_leave_early_or_pause() -> None:
    value = calm(6, 300)
    value[0, :100] = np.nan
    value[1, 200:] = np.nan
    value[2, 100:180] = np.nan
    value[0, 150:170] *= 2
    value[1, 190:200] *= 2
    value[2, 90:100] *= 2
    value[2, 180:190] *= 2
    result = detect_stragglers(samples_of(value))
    assert found(result) == [
        ("w0", 1500.0, 1690.0),
        ("w1", 1900.0, 1990.0),
        ("w2", 900.0, 990.0),  # the pause of 80 ticks ends it
        ("w2", 1800.0, 1890.0),
    ]
    assert result.levels["n_samples"].to_list() == [200, 200, 220, 300, 300, 300]


def test_a_fluctuating_worker_needs_a_larger_excess() -> None:
    rng = np.random.default_rng(8)
    value = np.concatenate([noisy(rng, (5, 300), 0.02), noisy(rng, (5, 300), 0.25)])
    value[[0, 5], 100:112] *= 1.35
    assert found(detect_stragglers(samples_of(value))) == [("w0", 1000.0, 1110.0)]


JOBS = st.integers(0, 2**32).map(
    lambda seed: (
        noisy(np.random.default_rng(seed), (5, 120), 0.08)
        * np.where(np.indices((5, 120))[0] == 2, np.repeat([1, 1.7, 1], 40), 1)
    )
)


@given(value=JOBS, factor=st.floats(1e-6, 1e6))
@settings(max_examples=15, deadline=None)
def test_the_unit_of_the_value_does_not_matter(value: NDArray[Any], factor: float) -> None:
    result = detect_stragglers(samples_of(value))
    scaled = detect_stragglers(samples_of(value * factor))
    assert_frame_equal(scaled.episodes, result.episodes, rel_tol=1e-6)
    same = result.levels.drop("median")
    assert_frame_equal(scaled.levels.drop("median"), same, rel_tol=1e-6, abs_tol=1e-9)
    assert_frame_equal(scaled.jobs, result.jobs, rel_tol=1e-6, abs_tol=1e-9)


@given(value=JOBS, seed=st.integers(0, 99), shift=st.integers(-(10**6), 10**6))
@settings(max_examples=15, deadline=None)
def test_neither_the_order_of_rows_nor_names_nor_the_clock_matter(
    value: NDArray[Any], seed: int, shift: int
) -> None:
    samples = samples_of(value)
    result = detect_stragglers(samples)
    assert "w2" in result.episodes["worker_id"]
    changed = samples.sample(fraction=1, shuffle=True, seed=seed).with_columns(
        pl.col("time_s") + shift, pl.col("worker_id").str.replace("w", "other ")
    )
    back = detect_stragglers(changed)
    name = pl.col("worker_id").str.replace("other ", "w")
    episodes = back.episodes.with_columns(name, pl.col("onset_s", "end_s") - shift)
    assert_frame_equal(episodes, result.episodes, rel_tol=1e-9)
    levels = back.levels.with_columns(name, pl.col("last_s") - shift)
    assert_frame_equal(levels, result.levels, rel_tol=1e-9)
    assert_frame_equal(back.jobs, result.jobs, rel_tol=1e-9)


def test_jobs_do_not_touch_each_other_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    parts = []
    for place in range(12):
        value = noisy(rng, (int(rng.integers(2, 6)), int(rng.integers(40, 90))))
        value[0, 10:20] *= 1 + place % 3
        parts.append(samples_of(value, job=f"job_{place:02d}"))
    parts.append(parts[0].with_columns(job_id=pl.lit(None, pl.String)))
    together = pl.concat(parts)
    alone = [detect_stragglers(part) for part in parts]
    whole = detect_stragglers(together.sample(fraction=1, shuffle=True, seed=1))
    monkeypatch.setattr(blocks, "ROWS_AT_ONCE", 500)
    cut = detect_stragglers(together.lazy())
    for name in ("episodes", "levels", "jobs"):
        expected = pl.concat([getattr(result, name) for result in alone])
        assert_frame_equal(getattr(whole, name), expected, rel_tol=1e-12)
        assert_frame_equal(getattr(cut, name), expected, rel_tol=1e-12)


@pytest.mark.parametrize("n_workers", [2, 3, 10])
@pytest.mark.parametrize("factor", [0.6, 1.5])
def test_a_job_that_changes_for_good_has_no_episode(n_workers: int, factor: float) -> None:
    # at the middle: the usual of some workers is of the time before, and of others after
    value = noisy(np.random.default_rng(13), (120, n_workers, 360), 0.1)
    value[..., 180:] *= factor
    jobs = pl.concat([samples_of(job, job=f"job_{place}") for place, job in enumerate(value)])
    # a likelihood ratio of e^14 is reached by chance in about 360 n_workers e^-14 of the jobs,
    # .001 to .003: with 120 jobs at most one, except with probability .01 to .05
    assert detect_stragglers(jobs).episodes.height <= 1


@pytest.mark.parametrize(("n_workers", "n_slow"), [(3, 1), (10, 1), (10, 4)])
def test_workers_that_turn_slow_for_good_are_found(n_workers: int, n_slow: int) -> None:
    value = noisy(np.random.default_rng(14), (n_workers, 360), 0.1)
    value[:n_slow, 210:] *= 1.5
    episodes = detect_stragglers(samples_of(value)).episodes
    assert episodes["worker_id"].to_list() == [f"w{number}" for number in range(n_slow)]
    assert episodes["onset_s"].is_between(2070, 2130).all()
    assert (episodes["end_s"] >= 3560).all()


def test_by_default_the_evidence_is_14() -> None:
    rng = np.random.default_rng(49)
    value = noisy(rng, (4, 120), 0.1)
    value[1, 50:57] *= 1.45  # the evidence is between 14 and 15
    samples = samples_of(value)
    default = detect_stragglers(samples).episodes
    same, more = (detect_stragglers(samples, evidence=least).episodes for least in (14.0, 15.0))
    assert default.equals(same)
    assert (default.height, more.height) == (1, 0)


@pytest.mark.parametrize("step_s", [1e-3, 10.0])
def test_an_episode_shorter_than_a_second_is_one(step_s: float) -> None:
    value = calm(4)
    value[1, 50:53] = [200, 800, 400]
    result = detect_stragglers(samples_of(value, step_s=step_s))
    assert found(result) == [("w1", 50 * step_s, 52 * step_s)]
    row = result.episodes.row(0, named=True)
    assert (row["severity"], row["excess"]) == pytest.approx((4, 4))  # the median of 2, 8 and 4
    assert row["n_reports"] == 3


def test_an_episode_may_be_exactly_as_severe_and_long_as_is_asked() -> None:
    value = calm(4)
    value[1, 50:60] *= 2
    samples = samples_of(value)
    assert found(detect_stragglers(samples, min_severity=2, min_duration_s=90))
    assert not found(detect_stragglers(samples, min_severity=2, min_duration_s=91))


@pytest.mark.parametrize("options", [{"slow_level": 1}, {"min_severity": 0.9}])
def test_a_ratio_that_is_not_slow_is_refused(options: Any) -> None:
    with pytest.raises(DataError, match="must be a ratio above 1"):
        detect_stragglers(samples_of(calm(2, 9)), **options)


@pytest.mark.parametrize(("absent", "episodes"), [(29, 1), (30, 2)])
def test_a_pause_is_longer_than_30_sampling_intervals(absent: int, episodes: int) -> None:
    value = calm(6, 300)
    value[2, 90 : 110 + absent] *= 2
    value[2, 100 : 100 + absent] = np.nan
    assert len(found(detect_stragglers(samples_of(value)))) == episodes
