"""Summaries with intervals: planted dependence, truncation, and what cannot be told."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.questions.defaults import numbers_by_default
from traceana import iteration_cov, summarize_cov, summarize_cov_pooled, summarize_cov_series
from traceana.errors import DataError
from traceana.stats.time_blocks import autocorrelation

if TYPE_CHECKING:
    from traceana.store import Store

NAMES = ("p05", "p25", "median", "p75", "p95")
BOUNDS = [f"{name}_ci_{end}" for name in NAMES for end in ("low", "high")]


def make_series(hold: int = 1, n: int = 600, jobs: int = 3, seed: int = 0) -> pl.DataFrame:
    """CoV of jobs with each value held for some ticks."""
    rng = np.random.default_rng(seed)
    return pl.concat(
        pl.DataFrame(
            {
                "job_id": f"job_{job}",
                "time_s": 10.0 * np.arange(n),
                "cov": np.repeat(rng.gamma(2, 0.2 * (job + 1), n // hold + 1), hold)[:n],
            }
        )
        for job in range(jobs)
    )


def test_columns_begin_with_the_summary_and_bounds_hold_the_quantiles() -> None:
    cov = make_series()
    result = summarize_cov_series(cov)
    summary = summarize_cov(cov)
    assert_frame_equal(result.select(summary.columns), summary)
    assert result.columns[summary.width :] == [
        *(*BOUNDS, "right_truncated", "autocorrelation", "effective_n", "note")
    ]
    pooled = summarize_cov_pooled(cov)
    summary = summarize_cov(cov, by=())
    assert_frame_equal(pooled.select(summary.columns), summary)
    lengths = ("length_p25", "length_median", "length_p75")
    assert pooled.columns[summary.width :] == [
        *(*BOUNDS, "n_jobs", "n_right_truncated", *lengths, "note")
    ]
    for frame in (result, pooled):
        for name in NAMES:
            assert (frame[f"{name}_ci_low"] <= frame[name]).all()
            assert (frame[name] <= frame[f"{name}_ci_high"]).all()


def test_held_values_widen_the_interval_and_shrink_the_effective_size() -> None:
    free, held = (summarize_cov_series(make_series(hold)) for hold in (1, 10))
    assert free["effective_n"].mean() == pytest.approx(600, rel=0.25)
    assert held["effective_n"].mean() == pytest.approx(60, rel=0.3)
    width = [frame["median_ci_high"] - frame["median_ci_low"] for frame in (free, held)]
    assert (width[1] > 1.5 * width[0]).all()
    values = make_series(10).filter(pl.col("job_id") == "job_1")["cov"]
    expected = autocorrelation(values, lags=10).tolist()
    assert held["autocorrelation"][1].to_list() == pytest.approx(expected, rel=1e-12)


def test_the_order_of_rows_does_not_matter() -> None:
    cov = make_series()
    shuffled = cov.sample(fraction=1, shuffle=True, seed=3)
    first = summarize_cov_pooled(cov)
    # a mean depends on the order of its sum
    assert_frame_equal(summarize_cov_pooled(shuffled), first, rel_tol=1e-12)
    assert_frame_equal(summarize_cov_pooled(cov.lazy()), first)
    series = summarize_cov_series(cov)
    assert_frame_equal(summarize_cov_series(shuffled), series, rel_tol=1e-12)


def test_jobs_that_reach_the_tables_end_are_told_apart() -> None:
    sizes = {"a": 2, "b": 4, "c": 6, "d": 10, "e": 10}
    cov = pl.concat(
        pl.DataFrame({"job_id": job, "time_s": 10.0 * np.arange(n), "cov": np.arange(n) / 10})
        for job, n in sizes.items()
    )
    result = summarize_cov_series(cov, cut_at=90)
    assert result["right_truncated"].to_list() == [False, False, False, True, True]
    pooled = summarize_cov_pooled(cov, cut_at=90).row(0, named=True)
    assert (pooled["n_jobs"], pooled["n_right_truncated"]) == (5, 2)
    # S falls to 4/5, 3/5, 2/5 at 2, 4, 6 and is known no further
    assert [pooled[f"length_{q}"] for q in ("p25", "median", "p75")] == [4, 6, None]
    unknown = summarize_cov_pooled(cov).row(0, named=True)
    assert unknown["n_right_truncated"] is unknown["length_median"] is None
    assert summarize_cov_series(cov)["right_truncated"].null_count() == 5


def test_a_job_whose_last_ticks_have_no_value_is_cut_all_the_same() -> None:
    cov = pl.DataFrame({"job_id": "a", "time_s": [0.0, 10, 20], "cov": [0.1, 0.2, None]})
    assert summarize_cov_series(cov, cut_at=20)["right_truncated"].to_list() == [True]
    assert summarize_cov_pooled(cov, cut_at=20)["n_right_truncated"].item() == 1


def test_what_cannot_be_told_is_null_and_says_why() -> None:
    cov = pl.DataFrame(
        {
            "job_id": ["few"] * 3 + ["flat"] * 5 + ["none"] * 2,
            "time_s": [0.0, 10, 20, 0, 10, 20, 30, 40, 0, 10],
            "cov": [0.1, 0.2, 0.3, *[0.1] * 5, None, math.nan],
        }
    )
    result = summarize_cov_series(cov)
    assert result["note"].to_list() == [
        "fewer than four values",
        "all values are equal",
        "fewer than four values",
    ]
    assert result["n"].to_list() == [3, 5, 0]
    unknown = result.select("autocorrelation", "effective_n", *BOUNDS)
    assert set(unknown.null_count().row(0)) == {3}
    alone = summarize_cov_pooled(cov.filter(pl.col("job_id") == "few"))
    assert alone["note"].item() == "fewer than two jobs have a value: no interval"
    assert set(alone.select(BOUNDS).null_count().row(0)) == {1}
    assert alone["median"].item() == 0.2
    for summarize in (summarize_cov_series, summarize_cov_pooled):
        floats = summarize(cov).select(pl.selectors.float())
        assert not any(column.is_nan().any() for column in floats)


def test_nothing_in_is_no_error() -> None:
    cov = make_series().clear()
    assert summarize_cov_series(cov).is_empty()
    assert summarize_cov_series(cov, by=())["note"].item() == "fewer than four values"
    pooled = summarize_cov_pooled(cov, cut_at=1).row(0, named=True)
    assert (pooled["n_jobs"], pooled["length_median"]) == (0, None)


@pytest.mark.parametrize(
    ("change", "options", "text"),
    [
        (pl.lit(0.0).alias("time_s"), {}, r"1800 row\(s\) share their \(job_id, time_s\)"),
        (pl.lit(None, pl.Float64).alias("time_s"), {}, r"time_s is null in 1800 row\(s\)"),
        (-pl.col("cov"), {}, "its values must lie from 0"),
        (pl.col("cov"), {"confidence": 95}, "confidence must lie between 0 and 1"),
        (pl.col("cov"), {"time": "sample"}, "column sample is missing"),
    ],
)
def test_what_is_no_series_is_refused(change: pl.Expr, options: dict[str, Any], text: str) -> None:
    cov = make_series().with_columns(change)
    for summarize in (summarize_cov_series, summarize_cov_pooled):
        with pytest.raises(DataError, match=text):
            summarize(cov, **options)


def test_the_pooled_median_is_covered_where_jobs_differ() -> None:
    rng = np.random.default_rng(12)
    covered = []
    for _ in range(200):
        of_job = rng.lognormal(0, 0.5, 40)
        cov = pl.DataFrame(
            {
                "job_id": np.repeat(np.arange(40), 50),
                "time_s": np.tile(np.arange(50), 40),
                "cov": np.repeat(of_job, 50) * rng.lognormal(0, 0.5, 2000),
            }
        )
        row = summarize_cov_pooled(cov).row(0, named=True)
        covered.append(row["median_ci_low"] <= 1 <= row["median_ci_high"])
    assert 0.90 <= np.mean(covered) <= 0.99  # 93 to 97 %, within two standard errors


def test_pooling_needs_jobs_to_draw() -> None:
    with pytest.raises(DataError, match="by must name the jobs"):
        summarize_cov_pooled(make_series(), by=())
    with pytest.raises(DataError, match="by cannot name effective_n"):
        summarize_cov_series(make_series().rename({"job_id": "effective_n"}), by="effective_n")


def test_the_published_table(real_store: Store) -> None:
    cov = real_store.scan("alibaba-minibatch-2020", "cov_samples")
    result = summarize_cov_series(cov, time="sample", cut_at=1999, lags=1)
    full = cov.filter(pl.len().over("job_id") == 2000).select(pl.col("job_id").unique()).collect()
    cut = result.filter("right_truncated")["job_id"]
    assert cut.to_list() == full["job_id"].sort().to_list()
    assert (result["note"].is_null() == (result["effective_n"] >= 50)).all()
    few = ["job_00", "job_07"]
    by_time = summarize_cov_series(cov.filter(pl.col("job_id").is_in(few)), cut_at=19990)
    assert by_time["right_truncated"].to_list() == [False, True]
    pooled = summarize_cov_pooled(cov, cut_at=19990)
    assert pooled["n_jobs"].item() == 100
    assert pooled["n_right_truncated"].item() == full.height


def test_two_jobs_are_too_few_for_the_interval_of_a_quantile() -> None:
    cov = pl.DataFrame({"job_id": ["a", "b"] * 4, "time_s": range(8), "cov": [0.1, 0.4] * 4})
    note = summarize_cov_pooled(cov)["note"].item()
    assert note == "too few jobs for the interval of every quantile"


def test_a_truncation_time_is_of_the_type_of_the_clock() -> None:
    seconds = pl.DataFrame({"job_id": "a", "time_s": [0.0, 10, 20], "cov": [0.1, 0.2, 0.3]})
    dates = seconds.with_columns(pl.from_epoch(pl.col("time_s").cast(pl.Int64)))
    day = datetime(1970, 1, 1, 0, 0, 20)  # noqa: DTZ001
    for frame, right, wrong in ((seconds, 20, day), (dates, day, 20)):
        assert summarize_cov_series(frame, cut_at=right)["right_truncated"].to_list() == [True]
        assert summarize_cov_series(frame)["right_truncated"].to_list() == [None]
        with pytest.raises(DataError, match="they must agree"):
            summarize_cov_series(frame, cut_at=wrong)


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_a_truncation_time_may_be_of_another_time_zone(zone: str | None) -> None:
    at = pl.from_epoch(pl.Series([0, 10, 20])).dt.replace_time_zone("UTC")
    at = at.dt.replace_time_zone(None) if zone is None else at.dt.convert_time_zone(zone)
    cov = pl.DataFrame({"job_id": "a", "time_s": at, "cov": [0.1, 0.2, 0.3]})
    for second, is_cut in ((20, True), (21, False)):
        cut_at = datetime(1970, 1, 1, 1, 0, second, tzinfo=ZoneInfo("Africa/Lagos"))
        series = summarize_cov_series(cov, cut_at=cut_at)
        assert series["right_truncated"].to_list() == [is_cut]


def test_numbers_by_default() -> None:
    assert numbers_by_default(iteration_cov, summarize_cov_series, summarize_cov_pooled) == {
        "iteration_cov": {"min_workers": 2},
        "summarize_cov_series": {"lags": 10, "confidence": 0.95},
        "summarize_cov_pooled": {"confidence": 0.95},
    }


def test_four_equal_values_are_equal() -> None:
    cov = pl.DataFrame({"job_id": "j", "time_s": [0.0, 1, 2, 3], "cov": 0.1})
    assert summarize_cov_series(cov)["note"].to_list() == ["all values are equal"]


@pytest.mark.parametrize(
    ("seed", "n", "least", "note"),
    [
        (40, 24, 19.5, "fewer than 20 effective time steps: no interval"),
        (12, 24, 20.4, "fewer than 50 effective time steps: intervals may be too narrow"),
        (138, 60, 49.3, "fewer than 50 effective time steps: intervals may be too narrow"),
        (59, 60, 50.3, None),
    ],
)
def test_effective_time_steps_at_which_intervals_begin(
    seed: int, n: int, least: float, note: str | None
) -> None:
    values = np.random.default_rng(seed).random(60)[:n]
    cov = pl.DataFrame({"job_id": "j", "time_s": np.arange(float(n)), "cov": values})
    row = summarize_cov_series(cov).row(0, named=True)
    assert least < row["effective_n"] < least + 0.3
    assert row["note"] == note
    assert (row["median_ci_low"] is None) == (least < 20)
