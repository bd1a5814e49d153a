"""The published jobs: what their publishers say of them, and levels against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from traceana import StragglerResult, detect_stragglers


@pytest.fixture(scope="module")
def samples(real_data: Path) -> pl.DataFrame:
    """The four jobs as published, the row published twice taken once."""
    folder = real_data / "alibaba-minibatch-2020"
    return pl.concat(
        pl.read_csv(folder / f"{job}_norm.csv").select(
            job_id=pl.lit(job),
            worker_id=pl.col("worker").cast(pl.String),
            time_s=pl.col("time").cast(pl.Float64),
            batch_time=pl.col("batch_time_norm").cast(pl.Float64),
        )
        for job in ("job_1", "job_2", "job_3", "job_4")
    ).unique(maintain_order=True)


@pytest.fixture(scope="module")
def result(samples: pl.DataFrame) -> StragglerResult:
    return detect_stragglers(samples)


def episodes_of(result: StragglerResult, job: str) -> pl.DataFrame:
    return result.episodes.filter(pl.col("job_id") == job)


def test_in_job_1_worker_6_emerges_in_the_middle(result: StragglerResult) -> None:
    episode = episodes_of(result, "job_1")
    assert episode["worker_id"].to_list() == ["6"]
    # the file has its first value above 700 at 1811 s, and its last above 530 at 1941 s
    assert episode["onset_s"].item() == 1811
    assert 1900 <= episode["end_s"].item() <= 1951


def test_job_2_has_levels_and_no_episode(result: StragglerResult) -> None:
    assert episodes_of(result, "job_2").is_empty()
    levels = result.levels.filter(pl.col("job_id") == "job_2")
    assert levels["ratio_to_peers"].min() == pytest.approx(0.816, abs=1e-3)
    assert levels["ratio_to_peers"].max() == pytest.approx(1.086, abs=1e-3)
    assert not levels["is_slow"].any()


def test_in_job_3_four_of_ten_slow_down_together(result: StragglerResult) -> None:
    episodes = episodes_of(result, "job_3")
    assert episodes["worker_id"].to_list() == ["6", "7", "8", "9"]
    assert episodes["n_at_once"].to_list() == [4] * 4
    assert episodes["onset_s"].is_between(2100, 2250).all()
    assert (episodes["end_s"] == 2481).all()


def test_job_4_has_two_populations_and_many_stragglers(result: StragglerResult) -> None:
    slow = result.levels.filter(pl.col("job_id") == "job_4", "is_slow")
    assert slow["worker_id"].to_list() == ["0", "5", "6", "7", "8"]
    episodes = episodes_of(result, "job_4")
    assert episodes["worker_id"].n_unique() >= 5
    late = episodes.filter(pl.col("onset_s").is_between(18500, 18900))
    assert late["worker_id"].to_list() == ["5", "6"]
    assert (late["end_s"] == 21821).all()
    assert (late["severity"] > 3).all()


@pytest.mark.parametrize("job", ["job_1", "job_2", "job_3", "job_4"])
def test_levels_and_slowdowns_are_numpys(
    samples: pl.DataFrame, result: StragglerResult, job: str
) -> None:
    mine = samples.filter(pl.col("job_id") == job)
    calm = mine
    for worker, onset, end in (
        episodes_of(result, job).select("worker_id", "onset_s", "end_s").iter_rows()
    ):
        is_episode = (pl.col("worker_id") == worker) & pl.col("time_s").is_between(onset, end)
        calm = calm.filter(~is_episode)
    values = {
        worker: calm.filter(pl.col("worker_id") == worker)["batch_time"].to_numpy()
        for worker in sorted(mine["worker_id"].unique())
    }
    medians = np.array([np.median(series) for series in values.values()])
    levels = result.levels.filter(pl.col("job_id") == job)
    assert levels["worker_id"].to_list() == list(values)
    assert levels["median"].to_list() == medians.tolist()
    expected = [m / np.median(np.delete(medians, place)) for place, m in enumerate(medians)]
    assert levels["ratio_to_peers"].to_list() == pytest.approx(expected, rel=1e-12)
    ticks = [tick["batch_time"].to_numpy() for tick in mine.partition_by("time_s")]
    slowest = sum(tick.max() for tick in ticks)
    of_job = result.jobs.filter(pl.col("job_id") == job).row(0, named=True)
    mean, median = (sum(f(tick) for tick in ticks) for f in (np.mean, np.median))
    assert of_job["slowdown"] == pytest.approx(slowest / mean, rel=1e-12)
    assert of_job["slowdown_median"] == pytest.approx(slowest / median, rel=1e-12)
