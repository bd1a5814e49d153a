"""Jobs found in a CoV table: planted ones, and the publisher's."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import match_cov_rows
from traceana.errors import DataError
from traceana.questions.stragglers.cov import _cov_and_bound, _read_table
from traceana.store import Store


def workers(rng: np.random.Generator, ticks: int) -> np.ndarray:
    return np.exp(rng.normal(6, 0.1, size=(ticks, 10)))


def as_samples(job: str, times: np.ndarray) -> pl.DataFrame:
    tick, worker = np.indices(times.shape)
    return pl.DataFrame(
        {
            "job_id": [job] * times.size,
            "worker_id": worker.ravel().astype(str),
            "time_s": 10.0 * tick.ravel() + 1,
            "batch_time": np.rint(times.ravel()),
        }
    )


def as_row(job: str, times: np.ndarray, ddof: int) -> pl.DataFrame:
    cov = times.std(axis=1, ddof=ddof) / times.mean(axis=1)
    return pl.DataFrame({"job_id": job, "sample": np.arange(len(cov)), "cov": cov})


@pytest.mark.parametrize("ddof", [0, 1])
def test_a_stretch_of_a_row_is_found_with_its_ddof(ddof: int) -> None:
    rng = np.random.default_rng(5)
    whole = workers(rng, 300)
    table = pl.concat([as_row("job_00", workers(rng, 400), ddof), as_row("job_01", whole, ddof)])
    matches = match_cov_rows(as_samples("job_a", whole[40:200]), table)
    right = matches.row(by_predicate=pl.col("ddof") == ddof, named=True)
    wrong = matches.row(by_predicate=pl.col("ddof") == 1 - ddof, named=True)
    assert (right["cov_job_id"], right["first_sample"], right["overlap"]) == ("job_01", 40, 160)
    assert right["fraction_within_rounding"] == 1
    assert right["max_abs_difference"] < 0.002
    # sqrt(10 / 9) - 1 = 5.4 % of a CoV near 0.1
    assert wrong["median_abs_difference"] > 0.004
    assert wrong["fraction_within_rounding"] < 0.2


def test_a_row_that_begins_within_the_job_and_a_tick_with_nine_workers() -> None:
    rng = np.random.default_rng(6)
    whole = workers(rng, 200)
    samples = as_samples("job_a", whole).filter(
        ~((pl.col("time_s") == 501) & (pl.col("worker_id") == "3"))
    )
    (match,) = match_cov_rows(samples, as_row("job_01", whole[30:], 1)).filter(ddof=1).to_dicts()
    assert (match["first_sample"], match["first_time_s"], match["overlap"]) == (0, 301.0, 169)


def test_no_row_long_enough_is_null() -> None:
    rng = np.random.default_rng(7)
    matches = match_cov_rows(as_samples("a", workers(rng, 100)), as_row("b", workers(rng, 20), 1))
    assert matches.select("job_id", "ddof").rows() == [("a", 0), ("a", 1)]
    assert all(value is None for row in matches.drop("job_id", "ddof").rows() for value in row)


def test_a_missing_column_is_named() -> None:
    times = workers(np.random.default_rng(8), 50)
    with pytest.raises(DataError, match="column cov is missing"):
        match_cov_rows(as_samples("a", times), as_row("b", times, 1).drop("cov"))


def test_three_of_the_publishers_jobs_are_rows_under_ddof_1(real_store: Store) -> None:
    """Found before by trying every shift of every row in plain Python."""
    trace = "alibaba-minibatch-2020"
    matches = match_cov_rows(
        real_store.scan(trace, "worker_samples"), real_store.scan(trace, "cov_samples")
    )
    sample = matches.filter(ddof=1)
    found = sample.select("job_id", "cov_job_id", "first_sample", "overlap").rows()
    assert found[0] == ("job_1", "job_90", 10, 300)
    assert found[2:] == [("job_3", "job_24", 201, 248), ("job_4", "job_91", 0, 2000)]
    within = sample["fraction_within_rounding"].to_list()
    assert min(within[0], within[2], within[3]) > 0.999
    assert within[1] < 0.1  # job_2 is in no row of the table
    assert max(matches.filter(ddof=0)["fraction_within_rounding"].to_list()) < 0.1


def test_the_bound_of_rounding_is_half_the_sum_of_the_derivatives() -> None:
    x = np.array([420.0, 390, 455, 401])
    samples = as_samples("a", x[None])
    for ddof in (0, 1):
        ticks = _cov_and_bound(samples, ddof)
        ends = x + 1e-4 * np.eye(4), x - 1e-4 * np.eye(4)
        above, below = (each.std(axis=1, ddof=ddof) / each.mean(axis=1) for each in ends)
        expected = np.abs((above - below) / 2e-4).sum() / 2
        assert ticks["bound"].item() == pytest.approx(expected, rel=1e-6)


def test_rows_of_30_samples_are_compared_from_the_first_that_is_known() -> None:
    whole = workers(np.random.default_rng(8), 33)
    samples = as_samples("a", whole)
    gap = (pl.col("time_s") < 30) & (pl.col("worker_id") == "3")  # of the first three ticks
    for ticks, overlap in ((33, 30), (32, None)):
        some = samples.filter(~gap, pl.col("time_s") < 10 * ticks)
        (match,) = match_cov_rows(some, as_row("r", whole, 1)).filter(ddof=1).to_dicts()
        assert match["overlap"] == overlap
        assert (match["first_sample"], match["first_time_s"]) == (
            (3, 31) if overlap else (None, None)
        )


@pytest.mark.parametrize("sample", [None, 1.5, 10_000_001])
def test_a_sample_is_a_whole_number_up_to_ten_million(sample: float | None) -> None:
    rng = np.random.default_rng(9)
    samples, table = as_samples("a", workers(rng, 40)), as_row("b", workers(rng, 40), 1)
    odd = table.with_columns(
        sample=pl.when(pl.col("sample") == 3).then(sample).otherwise(pl.col("sample") * 1.0)
    )
    with pytest.raises(DataError, match="sample must be an integer up to 10,000,000; 1 row"):
        match_cov_rows(samples, odd)


def test_sample_ten_million_is_one() -> None:
    last = pl.DataFrame({"job_id": "b", "sample": [10_000_000.0], "cov": 0.1})
    assert _read_table(last)["sample"].to_list() == [10_000_000]


def test_of_equal_rows_the_first_is_named() -> None:
    whole = workers(np.random.default_rng(10), 60)
    table = pl.concat([as_row("first", whole, 1), as_row("second", whole, 1)])
    found = match_cov_rows(as_samples("a", whole), table)
    assert found["cov_job_id"].to_list() == ["first", "first"]


def test_half_of_the_shorter_series_must_overlap() -> None:
    rng = np.random.default_rng(14)
    whole = workers(rng, 155)
    samples, table = as_samples("a", whole[:100]), as_row("b", whole[55:], 1)  # 45 in common
    assert (match_cov_rows(samples, table)["overlap"] >= 50).all()
    found = match_cov_rows(samples[:990], as_row("b", whole[50:149], 1)).filter(ddof=1)
    assert found.select("overlap", "first_sample").row(0) == (49, 0)  # of 99 each
