"""Moments of an iteration, in any order of the rows and on any clock."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from traceana import iteration_cov
from traceana.errors import DataError


def make_jobs(*, jobs: int = 7, ticks: int = 11, workers: int = 3) -> pl.DataFrame:
    """Whole jobs tick by tick; more than ten jobs and workers do not come in the order of text."""
    row = np.arange(jobs * ticks * workers)
    return pl.DataFrame(
        {
            "job_id": [f"job_{i}" for i in row // (ticks * workers)],
            "time_s": 10.0 * (row // workers % ticks) + 1,
            "worker_id": [f"w{i}" for i in row % workers],
            "batch_time": np.random.default_rng(0).gamma(20, 25, len(row)),
        }
    )


def cov(rows: pl.DataFrame, **options: Any) -> pl.DataFrame:
    return iteration_cov(rows, ddof=1, **options)


def test_moments_are_numpys_in_any_order_of_the_rows() -> None:
    rows = make_jobs(jobs=12, workers=11)
    found = cov(rows)
    values = rows["batch_time"].to_numpy().reshape(12, 11, 11)
    expected = (values.std(axis=2, ddof=1) / values.mean(axis=2)).ravel()
    names = rows.select("job_id", "time_s").unique(maintain_order=True).with_columns(cov=expected)
    assert_frame_equal(found.select("job_id", "time_s", "cov"), names.sort("job_id", "time_s"))
    assert_frame_equal(cov(rows.sample(fraction=1, shuffle=True, seed=1)), found)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("batch_time", -1.0, "batch_time"),
        ("batch_time", math.inf, "batch_time"),
        ("worker_id", None, "is null in a row with a batch_time"),
        ("time_s", None, "is null in a row with a batch_time"),
        ("worker_id", "w0", "duplicate row"),
    ],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_fault_late_in_the_rows_is_named(
    column: str, value: object, said: str, *, shuffle: bool
) -> None:
    rows = make_jobs(jobs=1, ticks=9)
    last = pl.int_range(pl.len()) == pl.len() - 2
    rows = rows.with_columns(pl.when(last).then(pl.lit(value)).otherwise(column).alias(column))
    with pytest.raises(DataError, match=said):
        cov(rows.sample(fraction=1, shuffle=True, seed=1) if shuffle else rows)


@pytest.mark.parametrize(
    "clock",
    [
        pl.col("time_s").cast(pl.Int32),
        pl.lit(datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC))
        + pl.duration(seconds=pl.col("time_s").cast(pl.Int64)),
    ],
)
def test_any_clock_keeps_its_type(clock: pl.Expr) -> None:
    rows = make_jobs().with_columns(time_s=clock)
    assert cov(rows)["time_s"].dtype == rows["time_s"].dtype


def test_several_columns_or_none_name_the_job() -> None:
    rows = make_jobs(jobs=4)
    both = rows.with_columns(site=pl.col("job_id").str.slice(4).cast(pl.Int64) % 2)
    found = cov(both, by=("job_id", "site"))
    assert found["cov"].to_list() == cov(rows)["cov"].to_list()
    alone = rows.filter(job_id="job_1")
    assert cov(alone.drop("job_id"), by=())["cov"].to_list() == cov(alone)["cov"].to_list()
