"""What an episode costs and how soon it is over, by hand and on the four real jobs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import detect_stragglers, replay_batching
from traceana.errors import DataError
from traceana.simulate.batching.replay import RecordedJob, with_and_without
from traceana.store import Store

TICKS = 20


def two_workers(slow: slice = slice(5, 12)) -> pl.DataFrame:
    """Both take 3, but worker b 6 in its episode, at ticks 5 to 11 on a clock of 10 s."""
    times = np.full((TICKS, 2), 3.0)
    times[slow, 1] = 6
    return pl.DataFrame(
        {
            "job_id": "j",
            "worker_id": ["a", "b"] * TICKS,
            "time_s": np.repeat(10.0 * np.arange(TICKS), 2),
            "batch_time": times.ravel(),
        }
    )


def episode(worker: str = "b", onset_s: float = 50, end_s: float = 110) -> pl.DataFrame:
    return pl.DataFrame({"job_id": "j", "worker_id": worker, "onset_s": onset_s, "end_s": end_s})


def test_by_hand() -> None:
    result = replay_batching(two_workers(), episodes=episode(), batch=60, within=0.01)
    rows = {row["controller"]: row for row in result.episodes.iter_rows(named=True)}
    # uniform pays 6 for 3 at 7 ticks; b at half of its rate leaves (80, 40), 4 each, to the oracle;
    # the loop pays 6 once and is late by a tick at the end too: 80 samples of a take 4, not 3
    expected = {
        "uniform": (42, 21, 1.0, 0, 1.5, None),
        "proportional": (6 + 6 * 4, 9, 9 / 21, 1, 30 / 28, 1),
        "oracle": (28, 7, 7 / 21, 0, 1, 0),
    }
    for name, (time, cost, share, after, ratio, steps) in expected.items():
        row = rows[name]
        assert row["n_steps"] == 7
        assert row["time"] == pytest.approx(time)
        assert row["cost"] == pytest.approx(cost)
        assert row["cost_fraction"] == pytest.approx(share)
        assert row["cost_after"] == pytest.approx(after)
        assert row["ratio_to_oracle"] == pytest.approx(ratio)
        assert row["recovery_steps"] == steps
        assert row["recovery_s"] == (None if steps is None else 10 * steps)
        assert row["note"] is None
    assert rows["proportional"]["fraction_within"] == pytest.approx(6 / 7)


def test_steps_and_workers_are_those_of_the_job() -> None:
    result = replay_batching(two_workers(), controllers=["proportional"], batch=60)
    steps = result.steps["step_time"].to_list()
    assert steps == pytest.approx([3.0] * 5 + [6.0] + [4.0] * 7 + [3.0] * 7)
    assert result.episodes.is_empty()
    workers = {row["worker_id"]: row for row in result.workers.iter_rows(named=True)}
    assert workers["a"]["mean_batch"] == pytest.approx(60 + 20 * 7 / TICKS)
    assert workers["a"]["median"] == pytest.approx(3)
    assert workers["a"]["p95"] == pytest.approx(4)
    # b: 13 ticks of 3 s less one with 40 samples (2 s), one of 6 s, six of 4 s
    assert workers["b"]["busy_fraction"] == pytest.approx((12 * 3 + 2 + 6 + 6 * 4) / sum(steps))
    assert "j: proportional" in str(result)


def test_what_cannot_be_told_has_a_note() -> None:
    always = replay_batching(
        two_workers(), episodes=episode(onset_s=-1, end_s=1e6), controllers=["uniform"]
    ).episodes.row(0, named=True)
    assert always["cost"] is None
    assert always["note"] == "the worker has no sample outside its episodes"
    never = replay_batching(
        two_workers(), episodes=episode(onset_s=1, end_s=2), controllers=["uniform"]
    ).episodes.row(0, named=True)
    assert never["time"] is None
    assert never["note"] == "no time of the episode has all workers"
    for start in (50, 110):  # an episode of one time
        one = replay_batching(two_workers(), episodes=episode(onset_s=start, end_s=start))
        assert one.episodes["note"].is_null().all()
    with pytest.raises(DataError, match="an end not before its onset"):
        replay_batching(two_workers(), episodes=episode(onset_s=51, end_s=50))
    other = episode().with_columns(job_id=pl.lit("elsewhere"))
    assert replay_batching(two_workers(), episodes=other).episodes.is_empty()


def test_mistakes_are_one_line() -> None:
    for wrong, line in (
        (episode().drop("end_s"), "episodes: column end_s is missing"),
        (episode("z"), "j has no worker 'z'; it has a, b"),
        (episode(end_s=0), "an end not before"),
        (
            episode().with_columns(onset_s=pl.lit("x")),
            "episodes: column onset_s holds String",
        ),
    ):
        with pytest.raises(DataError, match=line) as told:
            replay_batching(two_workers(), episodes=wrong)
        assert "\n" not in str(told.value)
    with pytest.raises(DataError, match="within must be from 0"):
        replay_batching(two_workers(), within=-1)
    with pytest.raises(DataError, match="different names"):
        replay_batching(two_workers(), controllers=["uniform", "uniform"])


def test_real_jobs(real_store: Store) -> None:
    samples = real_store.scan("alibaba-minibatch-2020", "worker_samples").collect()
    found = detect_stragglers(samples).episodes
    controllers = ["uniform", "oracle"]
    result = replay_batching(samples, episodes=found, controllers=controllers)
    assert result.jobs.equals(replay_batching(samples, controllers=controllers).jobs)
    assert result.episodes.height == 2 * found.height
    wide = {
        job: group.pivot("worker_id", index="time_s", values="batch_time").drop_nulls()
        for (job,), group in samples.group_by("job_id")
    }
    for row in result.episodes.filter(controller="uniform").iter_rows(named=True):
        job, worker = wide[row["job_id"]], row["worker_id"]
        inside = job.filter(pl.col("time_s").is_between(row["onset_s"], row["end_s"]))
        own = found.filter(job_id=row["job_id"], worker_id=worker)
        outside = job.filter(
            ~pl.any_horizontal(
                pl.col("time_s").is_between(start, end)
                for start, end in own.select("onset_s", "end_s").rows()
            )
        )
        usual = outside[worker].median()
        calm = inside.with_columns(pl.col(worker).clip(upper_bound=usual)).drop("time_s")
        slowest = float(inside.drop("time_s").max_horizontal().sum())
        assert row["time"] == pytest.approx(slowest)
        assert row["cost"] == pytest.approx(slowest - float(calm.max_horizontal().sum()))
        assert row["cost_after"] == 0
    # hindsight never takes longer than any other split, to within the whole samples
    assert (result.episodes["ratio_to_oracle"] >= 1).all()


def test_three_good_steps_in_a_row_are_a_recovery() -> None:
    # b takes 6, but 3 at tick 7: uniform batches are good there alone
    samples = two_workers().with_columns(
        batch_time=pl.when(pl.col("time_s") == 70).then(3.0).otherwise("batch_time")
    )
    for slow, steps, good in (
        # good from the second step on: three in a row are there from 4 steps on
        (slice(5, 8), None, 2 / 3),
        (slice(5, 9), 1, 3 / 4),
        (slice(5, 12), 1, 6 / 7),
    ):
        end_s = 10.0 * (slow.stop - 1)
        found = replay_batching(
            two_workers(slow), episodes=episode(end_s=end_s), batch=60, within=0
        ).episodes.filter(controller="proportional")
        assert found["recovery_steps"].item() == steps
        assert found["fraction_within"].item() == pytest.approx(good)
    three = replay_batching(
        two_workers(slice(6, 9)), episodes=episode(onset_s=60, end_s=80), batch=60, within=0
    ).episodes
    assert three.filter(controller="oracle")["recovery_steps"].item() == 0
    # 6 is half as much again as 4: within .5 of it
    for within, good in ((0.5, 1), (0.49, 1 / 7)):
        replay = replay_batching(samples, episodes=episode(), batch=60, within=within)
        rows = dict(replay.episodes.select("controller", "fraction_within").iter_rows())
        assert rows["uniform"] == pytest.approx(good)


def test_episodes_may_name_the_job_as_the_samples_do_or_not() -> None:
    renamed = two_workers().rename({"job_id": "run"})
    whole = replay_batching(two_workers(), episodes=episode()).episodes
    for own in (episode(), episode().rename({"job_id": "run"})):
        assert replay_batching(renamed, by="run", episodes=own).episodes.equals(whole)
    for value, fits in ((1e-12, True), (0.99e-12, False), (1e12, True), (1.01e12, False)):
        times = two_workers().with_columns(batch_time=pl.lit(value))
        if fits:
            assert replay_batching(times, controllers=["uniform"]).jobs["speedup"].item() == 1
        else:
            with pytest.raises(DataError, match="must be a finite number above 0"):
                replay_batching(times)


def test_without_an_episode_a_worker_takes_its_usual_time() -> None:
    times = two_workers()["batch_time"].to_numpy().reshape(TICKS, 2)
    job = RecordedJob("j", ("a", "b"), np.linspace(0, 190, TICKS), times, 0)
    assert (
        with_and_without(job, episode().drop("job_id").head(0)).tolist() == times[:, None].tolist()
    )
    both = with_and_without(job, episode().drop("job_id"))
    assert both.shape == (TICKS, 2, 2)
    assert both[:, 0].tolist() == times.tolist()
    assert (both[:, 1] == 3).all()
