"""Recorded workers replayed: by hand, and on the four real jobs."""

from __future__ import annotations

import polars as pl
import pytest

from traceana import replay_batching
from traceana.errors import DataError
from traceana.store import Store


def samples(*rows: tuple[str, float, float]) -> pl.DataFrame:
    frame = pl.DataFrame(rows, schema=["worker_id", "time_s", "batch_time"], orient="row")
    return frame.with_columns(job_id=pl.lit("j"))


def test_by_hand() -> None:
    # worker b takes 2 at both ticks, a takes 1; the tick where only a reported is left out
    ticks = [("a", 0.0, 1.0), ("b", 0.0, 2.0), ("a", 5.0, 9.0), ("a", 9.0, 1.0), ("b", 9.0, 2.0)]
    table = replay_batching(
        samples(*ticks), controllers=["uniform", "proportional", "oracle"], batch=3
    ).jobs
    time = dict(table.select("controller", "time").iter_rows())
    assert set(table["n_excluded"]) == {1}
    # 6 samples at rates 3 and 1.5: (4, 2) take 4/3 both
    assert time == pytest.approx({"uniform": 4.0, "proportional": 2 + 4 / 3, "oracle": 8 / 3})
    # a waits half of every step, half of the first, and never
    idle = dict(table.select("controller", "idle_fraction").iter_rows())
    assert idle == pytest.approx({"uniform": 0.25, "proportional": 1 / (4 * 5 / 3), "oracle": 0})
    share = dict(table.select("controller", "of_possible").iter_rows())
    assert share == pytest.approx({"uniform": 0, "proportional": 0.5, "oracle": 1})


def test_real_jobs(real_store: Store) -> None:
    scan = real_store.scan("alibaba-minibatch-2020", "worker_samples")
    table = replay_batching(scan, controllers=["uniform", "proportional", "oracle"]).jobs
    wide = {
        job: group.pivot("worker_id", index="time_s", values="batch_time")
        .drop_nulls()
        .drop("time_s")
        for (job,), group in scan.collect().group_by("job_id")
    }
    for row in table.iter_rows(named=True):
        if row["controller"] == "uniform":
            slowest = wide[row["job_id"]].max_horizontal().sum()
            assert row["time"] == pytest.approx(slowest, rel=1e-12)
        if row["controller"] == "oracle":
            # no split of whole samples beats the continuous one, K / sum of 1 / t a tick
            split = wide[row["job_id"]].select(10 / pl.sum_horizontal(1 / pl.all())).sum().item()
            assert split <= row["time"] <= 1.02 * split
    # in job_4 one worker is several times slower: closing the loop pays there above all
    gains = table.filter(controller="proportional").sort("speedup")
    assert gains["job_id"][-1] == "job_4"
    assert (gains["speedup"] > 1).all()


def test_mistakes_are_one_line() -> None:
    with pytest.raises(DataError, match="column batch_time is missing"):
        replay_batching(samples(("a", 0, 1)).drop("batch_time"))
    with pytest.raises(DataError, match="finite number above 0"):
        replay_batching(samples(("a", 0.0, 0.0), ("b", 0.0, 1.0)))
    with pytest.raises(DataError, match="has two rows"):
        replay_batching(samples(("a", 0.0, 1.0), ("a", 0.0, 1.0)))
    with pytest.raises(DataError, match="no job has a time at which all of two or more"):
        replay_batching(samples(("a", 0.0, 1.0), ("b", 1.0, 1.0)))


def test_a_job_of_one_worker_has_a_note_and_the_others_are_replayed() -> None:
    alone = samples(("a", 0.0, 1.0), ("a", 1.0, 1.0)).with_columns(job_id=pl.lit("i"))
    two = samples(("a", 0.0, 1.0), ("b", 0.0, 2.0))
    result = replay_batching(pl.concat([alone, two]), controllers=["oracle"])
    assert result.jobs["job_id"].to_list() == ["j", "i"]
    assert result.jobs["n_excluded"].to_list() == [0, 2]
    assert result.jobs["note"].to_list() == [
        None,
        "no time at which all of two or more workers have a sample",
    ]
    assert result.jobs["speedup"][1] is None
    assert set(result.steps["job_id"]) == set(result.workers["job_id"]) == {"j"}
    assert "i:" not in str(result)


def test_gains_and_defaults_by_hand() -> None:
    ticks = [("a", 0.0, 1.0), ("b", 0.0, 2.0), ("a", 9.0, 1.0), ("b", 9.0, 2.0)]
    names = ["uniform", "proportional", "oracle"]
    found = replay_batching(samples(*ticks), controllers=names, batch=3)
    speedups = dict(found.jobs.select("controller", "speedup").iter_rows())
    assert speedups == pytest.approx({"uniform": 1, "proportional": 4 / (10 / 3), "oracle": 1.5})
    # batches of (3, 3), then (4, 2); the oracle's are (4, 2)
    workers = found.workers.filter(controller="proportional")
    assert workers["mean_batch"].to_list() == [3.5, 2.5]
    assert workers["median"].to_list() == pytest.approx([(1 + 4 / 3) / 2, (2 + 4 / 3) / 2])
    default = replay_batching(samples(*ticks), controllers=["oracle"])
    # 128 samples in all: (86, 42) take 86 / 64
    assert default.workers["mean_batch"].to_list() == [86, 42]
    assert default.within == 0.1
    same = samples(("a", 0.0, 2.0), ("b", 0.0, 2.0))
    even = replay_batching(same, controllers=["oracle"]).jobs.row(0, named=True)
    assert (even["speedup"], even["of_possible"], even["n_steps"]) == (1, None, 1)
    alone = samples(("a", 0.0, 1.0)).with_columns(job_id=pl.lit("i"))
    none = replay_batching(pl.concat([alone, same]), controllers=["oracle"]).jobs
    assert none["n_steps"].to_list() == [1, 0]
    assert replay_batching(same, batch=1, within=0).within == 0
    assert replay_batching(same, within=1000).within == 1000
    for wrong in (-0.1, 1000.5, None):
        with pytest.raises(DataError, match="within must be from 0 to 1,000"):
            replay_batching(same, within=wrong)  # type: ignore[arg-type]
    for batch in (0, 1.5, "2"):
        with pytest.raises(DataError, match="batch must be a whole number from 1 to"):
            replay_batching(same, batch=batch)  # type: ignore[arg-type]


def test_a_slow_worker_may_have_one_sample() -> None:
    slow = samples(("a", 0.0, 1.0), ("b", 0.0, 9.0))
    found = replay_batching(slow, controllers=["oracle"], batch=2)
    assert found.workers["mean_batch"].to_list() == [3, 1]  # of 4: 1.5 and 4.5 instead of 1 and 9
    assert found.jobs["speedup"].to_list() == [2]
