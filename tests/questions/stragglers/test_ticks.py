"""The three ways to a tick's moments agree, and each knows when it does not apply."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from traceana import iteration_cov
from traceana.errors import DataError
from traceana.questions.stragglers import ticks as ticks_module
from traceana.questions.stragglers import ticks_on_grid
from traceana.questions.stragglers.ticks_in_order import _ROW, _join, moments_in_order
from traceana.questions.stragglers.ticks_on_grid import moments_on_grid
from traceana.store.frames import clean_columns

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = (["job_id"], "time_s", "worker_id", "batch_time")


def make_jobs(
    *, jobs: int = 7, ticks: int = 11, workers: int = 3, step: float = 10.0, seed: int = 0
) -> pl.DataFrame:
    """Whole jobs tick by tick; more than ten jobs and workers do not come in the order of text."""
    row = np.arange(jobs * ticks * workers)
    return pl.DataFrame(
        {
            "job_id": [f"job_{i}" for i in row // (ticks * workers)],
            "time_s": step * (row // workers % ticks) + 1,
            "worker_id": [f"w{i}" for i in row % workers],
            "batch_time": np.random.default_rng(seed).gamma(20, 25, len(row)),
        }
    )


def by_group(rows: pl.DataFrame, *, ddof: int) -> pl.DataFrame:
    frame = clean_columns(nw.from_native(rows.lazy()), ("batch_time",))
    return ticks_module._moments_by_group(frame, *COLUMNS, ddof=ddof)


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"jobs": 12, "workers": 11},  # job_10 before job_2, w10 before w2
        {"jobs": 1, "ticks": 30_000, "workers": 7},  # ticks that lie in two batches
        {"step": math.pi},
        {"jobs": 2, "ticks": 2, "workers": 2},
    ],
)
def test_whole_jobs_in_order_come_out_the_same_three_ways(shape: dict[str, Any], ddof: int) -> None:
    rows = make_jobs(**shape)
    expected = by_group(rows, ddof=ddof)
    in_order = moments_in_order(rows.lazy(), *COLUMNS, ddof=ddof)
    assert in_order is not None
    assert_frame_equal(in_order, expected, rel_tol=1e-12, abs_tol=0)
    shuffled = rows.sample(fraction=1, shuffle=True, seed=3)
    assert moments_in_order(shuffled.lazy(), *COLUMNS, ddof=ddof) is None
    on_grid = moments_on_grid(shuffled.lazy(), *COLUMNS, ddof=ddof)
    assert on_grid is not None
    assert_frame_equal(on_grid, expected, rel_tol=1e-12, abs_tol=0)


@pytest.mark.parametrize("rows_in_a_batch", [1, 2, 3, 4, 50])
def test_ticks_are_whole_wherever_batches_end(
    rows_in_a_batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_jobs(jobs=3, ticks=5, workers=4)

    def in_pieces(frame: pl.LazyFrame, **_: object) -> list[pl.DataFrame]:
        return list(frame.collect().iter_slices(rows_in_a_batch))

    monkeypatch.setattr(pl.LazyFrame, "collect_batches", in_pieces)
    result = moments_in_order(rows.lazy(), *COLUMNS, ddof=1)
    assert result is not None
    assert_frame_equal(result, by_group(rows, ddof=1), rel_tol=1e-12, abs_tol=0)


def in_cell(row: int, column: str, value: object) -> Callable[[pl.DataFrame], pl.DataFrame]:
    def change(rows: pl.DataFrame) -> pl.DataFrame:
        here = pl.int_range(pl.len()) == row
        return rows.with_columns(pl.when(here).then(pl.lit(value)).otherwise(column).alias(column))

    return change


OUT_OF_ORDER: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "a row is missing": lambda rows: pl.concat([rows.head(40), rows.slice(41)]),
    "two workers change places": lambda rows: rows[[0, 1, 2, 4, 3, *range(5, rows.height)]],
    "a tick is missing in its midst": lambda rows: rows[[*range(8), *range(10, rows.height), 8, 9]],
    "two ticks change places": lambda rows: rows[[*range(3, 6), *range(3), *range(6, rows.height)]],
    "a job comes twice": lambda rows: pl.concat([rows.slice(33), rows.head(33)])[
        [*range(6), *range(33, rows.height), *range(6, 33)]
    ],
    "a value is missing": in_cell(50, "batch_time", None),
    "a value is NaN": in_cell(50, "batch_time", math.nan),
    "a worker is of another name": in_cell(50, "worker_id", "new"),
}


@pytest.mark.parametrize("change", OUT_OF_ORDER.values(), ids=OUT_OF_ORDER)
def test_rows_that_are_not_quite_in_order_are_not_taken_as_such(
    change: Callable[[pl.DataFrame], pl.DataFrame],
) -> None:
    rows = change(make_jobs())
    assert moments_in_order(rows.lazy(), *COLUMNS, ddof=0) is None
    expected = by_group(rows, ddof=0)
    on_grid = moments_on_grid(rows.lazy(), *COLUMNS, ddof=0)
    assert on_grid is not None
    assert_frame_equal(on_grid, expected, rel_tol=1e-12, abs_tol=0)
    result = iteration_cov(rows, ddof=0).select(expected.columns)
    assert_frame_equal(result, expected.filter(pl.col("n_workers") > 1), rel_tol=1e-12, abs_tol=0)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (in_cell(50, "batch_time", -1.0), "column batch_time holds -1.0"),
        (in_cell(50, "batch_time", math.inf), "column batch_time holds inf"),
        (in_cell(50, "time_s", None), "time_s or worker_id is null in a row"),
        (in_cell(50, "time_s", math.nan), "time_s or worker_id is null in a row"),
        (in_cell(50, "worker_id", None), "time_s or worker_id is null in a row"),
        (
            in_cell(50, "worker_id", "w1"),
            "1 duplicate row.*'job_1', time_s 51.0, worker_id 'w1'",
        ),
        (lambda rows: pl.concat([rows, rows.tail(3)]), "3 duplicate row"),
        (lambda rows: pl.concat([rows, rows]), "231 duplicate row"),
    ],
)
def test_a_fault_late_in_the_rows_is_named(
    change: Callable[[pl.DataFrame], pl.DataFrame], text: str, *, shuffle: bool
) -> None:
    rows = change(make_jobs())
    if shuffle:
        rows = rows.sample(fraction=1, shuffle=True, seed=1)
    with pytest.raises(DataError, match=text):
        iteration_cov(rows, ddof=0)


@given(
    cells=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)), min_size=1),
    seed=st.integers(0, 99),
    ordered=st.booleans(),
)
@settings(max_examples=60)
def test_jobs_with_gaps_are_the_same_however_they_lie(
    cells: set[tuple[int, int, int]], seed: int, *, ordered: bool
) -> None:
    rng = np.random.default_rng(seed)
    rows = pl.DataFrame(
        sorted(cells), schema=["job_id", "time_s", "worker_id"], orient="row"
    ).with_columns(batch_time=rng.gamma(4, 100, len(cells)))
    if not ordered:
        rows = rows.sample(fraction=1, shuffle=True, seed=seed)
    expected = by_group(rows, ddof=0)
    for way in (moments_in_order, moments_on_grid):
        result = way(rows.lazy(), *COLUMNS, ddof=0)
        if result is not None:
            assert_frame_equal(result, expected, rel_tol=1e-10, abs_tol=1e-10)


@pytest.mark.parametrize(
    "clock",
    [
        pl.col("time_s").cast(pl.Int32),
        pl.col("time_s").cast(pl.UInt64),
        (pl.col("time_s") * 1e12).cast(pl.Int64),
        pl.from_epoch(pl.col("time_s").cast(pl.Int64), time_unit="s"),
        pl.duration(seconds=pl.col("time_s")),
        pl.col("time_s").cast(pl.Decimal(10, 2)),
    ],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_any_clock_keeps_its_type(clock: pl.Expr, *, shuffle: bool) -> None:
    rows = make_jobs()
    expected = iteration_cov(rows, ddof=1)
    told = rows.with_columns(clock.alias("time_s"))
    if shuffle:
        told = told.sample(fraction=1, shuffle=True, seed=1)
    result = iteration_cov(told, ddof=1)
    assert result.schema["time_s"] == told.schema["time_s"]
    assert result["time_s"].to_list()[:11] == told["time_s"].unique().sort().to_list()
    drop = ("time_s",)
    assert_frame_equal(result.drop(drop), expected.drop(drop), rel_tol=1e-12, abs_tol=0)


@pytest.mark.parametrize("first_missing", [None, math.nan])
def test_a_job_without_a_name_is_a_job_of_its_own_in_order_too(
    first_missing: float | None,
) -> None:
    rows = make_jobs(jobs=3)
    number = rows["job_id"].str.slice(4).cast(pl.Float64)
    for nameless in (0.0, 2.0):
        named = pl.Series("job_id", [first_missing if n == nameless else n for n in number])
        result = iteration_cov(rows.with_columns(named), ddof=0)
        jobs = [n for n in (0.0, 1.0, 2.0) if n != nameless] + [None]
        assert result["job_id"].unique(maintain_order=True).to_list() == jobs
        assert result.height == 33


def test_several_columns_or_none_name_the_job() -> None:
    rows = make_jobs(jobs=4).with_columns(
        site=pl.col("job_id").is_in(["job_0", "job_3"]).cast(pl.Int8)
    )
    result = iteration_cov(rows, ddof=0, by=["site", "job_id"])
    assert result.columns[:3] == ["site", "job_id", "time_s"]
    assert result["job_id"].unique(maintain_order=True).to_list() == [
        *("job_1", "job_2", "job_0", "job_3")
    ]
    one = rows.filter(pl.col("job_id") == "job_2")
    alone = iteration_cov(one, ddof=0, by=())
    assert_frame_equal(alone, result.filter(pl.col("job_id") == "job_2")[:, 2:])


@pytest.mark.parametrize("unseen", [1e300, 7.25, 2.0, 1e9])
@pytest.mark.parametrize("column", ["job_id", "time_s", "worker_id", "site"])
def test_labels_that_the_first_rows_lack_are_found(
    column: str, unseen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticks_on_grid, "_SAMPLE", 100)
    rows = make_jobs().with_columns(site=pl.lit(5, pl.Int64))
    new = pl.lit(unseen).cast(rows.schema[column], strict=False)
    late = rows.tail(1).with_columns(
        pl.when(new.is_null()).then(pl.lit(0, pl.Int64)).otherwise(new).alias(column)
    )
    rows = pl.concat([rows, late], how="vertical_relaxed")
    columns = (["site", "job_id"], *COLUMNS[1:])
    expected = ticks_module._moments_by_group(nw.from_native(rows.lazy()), *columns, ddof=0)
    result = moments_on_grid(rows.lazy(), *columns, ddof=0)
    assert result is not None
    assert_frame_equal(result, expected, rel_tol=1e-12, abs_tol=0)


def test_values_that_are_no_labels_have_no_codes() -> None:
    for labels in ([0.5, 1.5, 2.5], [1, 2, 10**9], [1, 2, 5]):
        codes = ticks_on_grid._Codes(pl.Series("x", labels))
        np.testing.assert_array_equal(codes.of(pl.Series([labels[2], labels[0]])), [2, 0])
        for other in (0, 1.25, 3, 10**10):
            assert codes.of(pl.Series([labels[0], other], strict=False)) is None


def test_a_thin_grid_is_not_laid_out() -> None:
    row = np.arange(200)
    rows = pl.DataFrame(
        {
            "job_id": [f"job_{i}" for i in row // 2],
            "time_s": row // 2 * datetime.timedelta(days=1).total_seconds(),
            "worker_id": row % 2,
            "batch_time": row + 1.0,
        }
    )
    assert moments_on_grid(rows.lazy(), *COLUMNS, ddof=0) is None
    assert iteration_cov(rows, ddof=0)["n_workers"].to_list() == [2] * 100


@pytest.mark.parametrize("first", ["a", None])
def test_a_time_cut_by_a_job_is_two_ticks(first: str | None) -> None:
    # the second time of the first job is one worker, and that of the other one the two others
    samples = pl.DataFrame(
        {
            "job_id": [first] * 4 + ["b"] * 5,
            "worker_id": [0, 1, 2] * 3,
            "time_s": [0.0] * 3 + [1.0] * 3 + [2.0] * 3,
            "batch_time": [1.0, 2, 6, 4, 5, 7, 3, 3, 9],
        },
        schema_overrides={"job_id": pl.String},
    )
    found = iteration_cov(samples, ddof=1).select("job_id", "time_s", "n_workers", "mean")
    expected = [(first, 0, 3, 3), ("b", 1, 2, 6), ("b", 2, 3, 5)]
    assert found.rows() == sorted(expected, key=lambda row: (row[0] is None, row[0] or "", row[1]))


def test_a_time_that_comes_twice_is_not_in_order() -> None:
    ticks = pl.DataFrame({"time_s": [1.0, 1.0, 2.0], "mean": [1.0, 2, 3]})
    assert _join(pl.DataFrame({_ROW: [0]}), ticks, 3, "time_s") is None
    # those of two jobs do not ascend
    both = _join(pl.DataFrame({_ROW: [0, 3], "job_id": ["a", "b"]}), ticks, 3, "time_s")
    assert both is not None
    assert both.rows() == [("a", 1, 1), ("b", 1, 2), ("b", 2, 3)]
