"""What samples and options the detection of stragglers accepts, and how it refuses others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.questions.defaults import numbers_by_default
from tests.questions.stragglers.test_detect import CALM, calm, noisy, samples_of
from traceana import detect_stragglers, iteration_cov, straggler_attributes
from traceana.errors import DataError
from traceana.questions.stragglers import blocks
from traceana.simulate import replay_batching


def test_every_engine_gives_the_same() -> None:
    value = noisy(np.random.default_rng(10), (4, 100))
    value[1, 30:60] *= 2
    samples = samples_of(value)
    result = detect_stragglers(samples)
    arrow = samples.to_arrow()
    for other in (duckdb.connect().from_arrow(arrow), samples.to_pandas(), arrow):
        found_too = detect_stragglers(other)
        assert_frame_equal(found_too.episodes, result.episodes, rel_tol=1e-12)
        assert_frame_equal(found_too.levels, result.levels, rel_tol=1e-12)
        assert_frame_equal(found_too.jobs, result.jobs, rel_tol=1e-12)


def test_columns_go_by_any_name() -> None:
    value = calm()
    value[4, 20:40] *= 2
    samples = samples_of(value).select(
        pl.lit("a").alias("kind"),
        (pl.col("time_s") / 10).cast(pl.Int32).alias("step"),
        pl.col("worker_id").str.slice(1).cast(pl.Int64).alias("rank"),
        pl.col("batch_time").cast(pl.Int32).alias("took"),
    )
    options: dict[str, Any] = {"time": "step", "worker": "rank", "value": "took"}
    result = detect_stragglers(samples, by="kind", **options)
    assert result.episodes.row(0)[:4] == ("a", 4, 20.0, 39.0)
    alone = detect_stragglers(samples, by=(), **options)
    assert_frame_equal(alone.episodes, result.episodes.drop("kind"))
    assert_frame_equal(alone.jobs, result.jobs.drop("kind"))


def test_the_ticks_are_those_of_the_variation() -> None:
    value = noisy(np.random.default_rng(11), (4, 50))
    ticks = iteration_cov(samples_of(value), ddof=0)
    slowest = value.max(axis=0).sum()
    slowdown = detect_stragglers(samples_of(value)).jobs["slowdown"].item()
    assert slowdown == pytest.approx(slowest / ticks["mean"].sum(), rel=1e-12)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (-pl.col("batch_time"), "column batch_time holds -100.0; its values must lie from 0"),
        (pl.col("batch_time") / 0, "column batch_time holds inf"),
        (pl.col("batch_time").cast(pl.String), "column batch_time holds String; numbers are"),
        (pl.col("time_s").cast(pl.String), "column time_s has type String; time= needs numbers"),
        (pl.lit("w0").alias("worker_id"), "15 duplicate row.s. with the same .*'w0'"),
        (pl.lit(None, pl.Float64).alias("time_s"), "time_s or worker_id is null or infinite"),
        (pl.lit(float("inf")).alias("time_s"), "time_s or worker_id is null or infinite"),
        (pl.lit(-float("inf")).alias("batch_time"), "column batch_time holds -inf"),
        (pl.lit(None, pl.String).alias("worker_id"), "time_s or worker_id is null or infinite"),
    ],
)
def test_what_cannot_be_a_sample_is_refused_in_one_line(change: pl.Expr, text: str) -> None:
    with pytest.raises(DataError, match=text) as refusal:
        detect_stragglers(samples_of(calm(4, 5)).with_columns(change))
    assert "\n" not in str(refusal.value)


def test_a_large_job_whose_workers_hardly_share_a_tick_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks, "ROWS_AT_ONCE", 5000)
    value = noisy(np.random.default_rng(12), (20, 30))
    together = samples_of(value)
    number = pl.col("worker_id").str.slice(1).cast(pl.Int64)
    apart = together.with_columns(pl.col("time_s") + number / 100)
    with pytest.raises(DataError, match="the 20 workers of job_id 'job' rarely share") as no:
        detect_stragglers(pl.concat([together.with_columns(job_id=pl.lit("a")), apart]))
    assert "\n" not in str(no.value)
    rounded = apart.with_columns((pl.col("time_s") // 10) * 10)
    assert_frame_equal(detect_stragglers(rounded).jobs, detect_stragglers(together).jobs)


@pytest.mark.parametrize(
    ("rows_at_once", "sparsest", "refused"),
    [(11_999, 19, True), (12_000, 19, False), (11_999, 20, False)],
)
def test_a_job_is_too_sparse_above_both_limits(
    rows_at_once: int, sparsest: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(blocks, "SPARSEST", sparsest)
    # 20 workers at 600 times have 12,000 places for 600 samples
    number = pl.col("worker_id").str.slice(1).cast(pl.Int64)
    apart = samples_of(calm(20, 30)).with_columns(pl.col("time_s") + number / 100)
    if refused:
        with pytest.raises(DataError, match="the 20 workers of job_id 'job' rarely share"):
            detect_stragglers(apart)
    else:
        assert detect_stragglers(apart).jobs["n_workers"].to_list() == [20]


@pytest.mark.parametrize("n_workers", [4, 12])
def test_a_small_job_whose_workers_share_no_tick_has_a_note(n_workers: int) -> None:
    value = calm(n_workers, 40)
    value[1, 10:20] *= 3
    number = pl.col("worker_id").str.slice(1).cast(pl.Int64)
    result = detect_stragglers(samples_of(value).with_columns(pl.col("time_s") + number / 100))
    assert result.episodes.is_empty()
    assert result.levels["median"].to_list() == [CALM] * n_workers
    assert result.jobs["note"].item().startswith("no two workers share a time")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"slow_level": 1}, "slow_level must be a ratio above 1, such as 1.1; it is 1"),
        ({"min_severity": 0.9}, "min_severity must be a ratio above 1, such as 1.1; it is 0.9"),
        ({"min_reports": 0}, "min_reports must be a whole number and at least 1; it is 0"),
        (
            {"max_gap_reports": -1},
            "max_gap_reports must be a whole number and at least 0; it is -1",
        ),
        (
            {"min_duration_s": float("nan")},
            "min_duration_s must be a number and at least 0; it is nan",
        ),
        ({"evidence": 0}, "evidence must be a number and at least 1e-09; it is 0"),
        ({"value": "took"}, "column took is missing; found job_id, worker_id, time_s"),
        ({"by": "cluster"}, "column cluster is missing"),
        ({"time": "tick"}, "column tick is missing"),
        ({"worker": "rank"}, "column rank is missing"),
        ({"by": "worker_id", "worker": "job_id"}, "by cannot name worker_id: the result has"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        detect_stragglers(samples_of(calm(2, 5)), **options)


def test_datetimes_integers_and_categories_are_accepted() -> None:
    value = calm()
    value[4, 20:40] *= 2
    samples = samples_of(value)
    result = detect_stragglers(samples)
    start = datetime(2026, 3, 1, tzinfo=UTC)
    other = samples.select(
        pl.col("job_id").cast(pl.Categorical),
        pl.col("worker_id").str.slice(1).cast(pl.Int64),
        pl.lit(start) + pl.duration(seconds=pl.col("time_s")),
        "batch_time",
    ).rename({"literal": "time_s"})
    for frame in (other, other.lazy(), duckdb.connect().from_arrow(other.to_arrow())):
        dated = detect_stragglers(frame)
        onset, end = dated.episodes.select("onset_s", "end_s").row(0)
        assert (onset, end) == (start.timestamp() + 200, start.timestamp() + 390)
        assert dated.episodes["worker_id"].to_list() == [4]
        numbers = ["slowdown", "episodes_fraction", "levels_fraction"]
        assert_frame_equal(dated.jobs.select(numbers), result.jobs.select(numbers))
    cov = iteration_cov(other, ddof=0)
    assert cov["time_s"][0] == start
    replay = replay_batching(other, episodes=dated.episodes)
    assert replay.episodes["n_steps"].to_list() == [20] * 5


def test_the_parameter_of_a_missing_column_is_named() -> None:
    frame = samples_of(calm(2, 5)).rename({"time_s": "step"})
    for ask in (detect_stragglers, lambda rows: iteration_cov(rows, ddof=0)):
        with pytest.raises(
            DataError, match=r"column time_s is missing; found .*; pass time='step'"
        ):
            ask(frame)


def test_numbers_by_default() -> None:
    assert numbers_by_default(detect_stragglers, straggler_attributes) == {
        "detect_stragglers": {
            "slow_level": 1.1,
            "min_severity": 1.15,
            "min_reports": 3,
            "min_duration_s": 0,
            "max_gap_reports": 2,
            "evidence": 14,
        },
        "straggler_attributes": {"min_explained": 0.5, "resamples": 999, "rng": 1},
    }
