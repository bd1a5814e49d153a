"""What stragglers cost, in closed form, what is not defined, and the summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.signal import lfilter

from tests.questions.stragglers.test_detect import CALM, calm, noisy, samples_of
from traceana import StragglerResult, detect_stragglers


def job_of(result: StragglerResult) -> dict[str, Any]:
    return result.jobs.row(0, named=True)


def test_an_episode_is_all_of_the_slowdown_where_there_is_nothing_else() -> None:
    # n workers of which one takes s times as long in a share f of the ticks:
    # max is 1 + f (s - 1), mean is 1 + f (s - 1) / n, median 1
    n, s, f = 8, 2.5, 0.25
    value = calm(n, 200)
    value[3, 100:150] *= s
    job = job_of(detect_stragglers(samples_of(value)))
    extra = f * (s - 1)
    assert job["slowdown"] == pytest.approx((1 + extra) / (1 + extra / n), rel=1e-12)
    assert job["slowdown_median"] == pytest.approx(1 + extra, rel=1e-12)
    assert job["slowdown_without_episodes"] == pytest.approx(1, rel=1e-12)
    assert (job["episodes_fraction"], job["levels_fraction"]) == pytest.approx((1, 0), abs=1e-9)


def test_a_level_is_all_of_the_slowdown_where_there_is_nothing_else() -> None:
    value = calm(4)
    value[1] *= 3
    result = detect_stragglers(samples_of(value))
    job = job_of(result)
    assert job["slowdown"] == pytest.approx(3 / 1.5, rel=1e-12)
    assert job["slowdown_without_either"] == pytest.approx(1, rel=1e-12)
    assert (job["episodes_fraction"], job["levels_fraction"]) == pytest.approx((0, 1), abs=1e-9)
    assert result.levels["lost_fraction"].to_list() == [0, 1, 0, 0]


def test_two_levels_become_one() -> None:
    value = calm(6)
    value[::2] *= 4
    job = job_of(detect_stragglers(samples_of(value)))
    assert job["slowdown"] == pytest.approx(4 / 2.5, rel=1e-12)
    assert job["slowdown_without_either"] == pytest.approx(1, rel=1e-12)


def test_levels_and_episodes_share_the_slowdown() -> None:
    # calm but for a worker of level 2, and one that takes 4 times as long in half of 200 ticks
    value = calm(5, 200)
    value[0] *= 2
    value[4, 60:120] *= 4
    job = job_of(detect_stragglers(samples_of(value)))
    assert job["slowdown"] == pytest.approx((140 * 2 + 60 * 4) / (140 * 1.2 + 60 * 1.8))
    assert job["slowdown_without_episodes"] == pytest.approx(2 / 1.2)
    assert job["slowdown_without_either"] == pytest.approx(1)
    assert job["episodes_fraction"] + job["levels_fraction"] == pytest.approx(1)


def test_waiting_is_shared_by_those_waited_for() -> None:
    value = calm(4, 100)
    value[0, :50] *= 2
    value[1, :10] *= 2
    result = detect_stragglers(samples_of(value))
    # alone: 40 ticks of 2 - 5 / 4; two together: 10 ticks of 2 - 6 / 4, half each
    alone, both = 40 * 0.75, 10 * 0.5
    expected = [(alone + both / 2) / (alone + both), both / 2 / (alone + both), 0, 0]
    assert result.levels["lost_fraction"].to_list() == pytest.approx(expected)


def test_slowdowns_of_ragged_jobs_are_numpys() -> None:
    rng = np.random.default_rng(1)
    value = noisy(rng, (7, 150), 0.3)
    value[rng.random(value.shape) < 0.3] = np.nan
    value[:, -20:] = np.nan
    value[5, -20:] = CALM  # a tail of one worker counts
    job = job_of(detect_stragglers(samples_of(value)))
    slowest = np.nanmax(value, axis=0).sum()
    assert job["slowdown"] == pytest.approx(slowest / np.nanmean(value, axis=0).sum(), rel=1e-12)
    expected = slowest / np.nanmedian(value, axis=0).sum()
    assert job["slowdown_median"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "of_job", "of_worker"),
    [
        (np.full((1, 9), 5.0), "one worker has no peers", "one worker has no peers"),
        (np.full((3, 9), 5.0), "no time is lost", "the job loses no time"),
        (np.zeros((3, 9)), "all values are 0", "the worker's median is 0"),
        (np.where(np.eye(3) == 1, 5.0, np.nan), "no two workers share a time", "the job loses no"),
    ],
    ids=["one worker", "constant", "zeros", "no common tick"],
)
def test_what_is_not_defined_is_null_with_its_reason(
    value: np.ndarray[Any, Any], of_job: str, of_worker: str
) -> None:
    result = detect_stragglers(samples_of(value))
    assert result.episodes.is_empty()
    assert result.jobs["episodes_fraction"].to_list() == [None]
    assert result.jobs["note"].item().startswith(of_job)
    assert all(note.startswith(of_worker) for note in result.levels["note"])
    for frame in (result.levels, result.jobs):
        assert not frame.select(pl.selectors.float().is_nan().any()).row(0).count(True)


def test_a_job_or_worker_without_a_value_is_told_and_counted() -> None:
    full = samples_of(calm(3, 20))
    bare = samples_of(calm(2, 20), job="none").with_columns(batch_time=pl.lit(None, pl.Float64))
    silent = pl.when(pl.col("worker_id") != "w1").then("batch_time")
    result = detect_stragglers(pl.concat([full.with_columns(batch_time=silent), bare]))
    assert result.jobs["n_workers"].to_list() == [2, 0]
    assert result.jobs["n_missing"].to_list() == [20, 40]
    assert result.jobs["slowdown"].to_list() == [1, None]
    assert result.jobs["note"].to_list()[1] == "no value"
    assert result.levels["n_missing"].to_list() == [0, 20, 0, 20, 20]
    assert result.levels.row(1, named=True)["note"] == "no value"
    assert result.levels.row(1, named=True)["median"] is None
    words = full.with_columns(batch_time=pl.lit(None, pl.String))
    assert detect_stragglers(words).jobs["note"].to_list() == ["no value"]


def test_zeros_among_values_are_quick_samples() -> None:
    value = calm()
    value[2, ::5] = 0
    value[2, 100:104] = 0
    value[1, 50:70] *= 2
    result = detect_stragglers(samples_of(value))
    assert result.episodes.select("worker_id", "onset_s", "end_s").rows() == [("w1", 500.0, 690.0)]


def test_no_row_gives_frames_of_the_same_columns() -> None:
    result = detect_stragglers(samples_of(calm()))
    empty = detect_stragglers(samples_of(calm()).clear())
    for name in ("episodes", "levels", "jobs"):
        assert getattr(empty, name).is_empty()
        assert getattr(empty, name).schema == getattr(result, name).schema
    assert str(empty).startswith("0 jobs, 0 workers")


def test_the_columns_are_those_of_the_contract() -> None:
    result = detect_stragglers(samples_of(calm()))
    assert result.episodes.columns[:8] == [
        "job_id",
        "worker_id",
        "onset_s",
        "end_s",
        "duration_s",
        "n_samples",
        "severity",
        "ratio_to_peers",
    ]
    assert result.levels.columns[:5] == [
        "job_id",
        "worker_id",
        "median",
        "ratio_to_peers",
        "is_slow",
    ]
    assert result.jobs.columns[:6] == [
        "job_id",
        "n_workers",
        "slowdown",
        "slowdown_median",
        "n_episodes",
        "n_slow_workers",
    ]


def test_the_summary_is_short_and_says_what_there_is() -> None:
    # 20 of 200 ticks at 3 of mean 2, the others at 2 of mean 1.2
    value = calm(5)
    value[0] *= 2
    value[1:3, 20:40] *= 3
    text = str(detect_stragglers(samples_of(value)))
    assert text.splitlines() == [
        "1 job, 5 workers",
        "episodes: 2, in 1 of 1 job; up to 2 at once; severity median 3, maximum 3",
        "levels:   1 persistent straggler, in 1 of 1 job",
        "slowdown: median 1.64, maximum 1.64 (sum of the slowest over sum of the mean)",
        "noise:    median 1, maximum 1 (slowdown without stragglers)",
    ]
    quiet = str(detect_stragglers(samples_of(calm())))
    assert "episodes: none\nlevels:   no persistent straggler" in quiet
    assert "note:     1 job: no time is lost" in quiet


def test_samples_of_equal_time_are_weighted_by_iterations() -> None:
    times = {0: (1.0, 1.0), 10: (1.0, 4.0)}
    rows = [("a", t, w, x) for t, pair in times.items() for w, x in enumerate(pair)]
    samples = pl.DataFrame(
        rows, schema=["job_id", "time_s", "worker_id", "batch_time"], orient="row"
    )
    jobs = detect_stragglers(samples).jobs
    # per sample (1 + 4) / (1 + 2.5); 10 s have 10 iterations of 1 s, or 2.5 of 4 s
    assert jobs["slowdown"].item() == pytest.approx(5 / 3.5)
    assert jobs["slowdown_iterations"].item() == pytest.approx(20 / (10 * 1 + 2.5 * 2.5))


def test_alike_workers_have_no_loss_by_levels_and_no_noise_where_nothing_can_be_told() -> None:
    rng = np.random.default_rng(5)
    fresh = rng.normal(size=(260, 8)) * 0.3 * np.sqrt(1 - 0.9**2)
    x = np.exp(lfilter([1.0], [1.0, -0.9], fresh, axis=0)[200:])
    step, worker = np.divmod(np.arange(x.size), 8)
    samples = pl.DataFrame(
        {"job_id": "a", "time_s": 10 * step, "worker_id": worker, "batch_time": x.ravel()}
    )
    jobs = detect_stragglers(samples).jobs
    assert jobs["slowdown_noise"].item() is None
    assert jobs["levels_fraction"].item() == 0
