"""CoV per tick and its summary, against numpy, certified values and what must always hold."""

from __future__ import annotations

import csv
import math
import random
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from traceana import iteration_cov, summarize_cov
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

NIST = tomllib.loads(
    (Path(__file__).parents[2] / "reference" / "nist_univariate.toml").read_text("utf-8")
)
SCHEMA = {
    "job_id": pl.String,
    "time_s": pl.Float64,
    "worker_id": pl.String,
    "batch_time": pl.Float64,
}


def ticks_of(*ticks: Sequence[float | None], job_id: str = "job") -> pl.DataFrame:
    """Samples of one job: one sequence a tick, one value a worker."""
    return pl.DataFrame(
        [
            (job_id, 10.0 * i, f"w{worker}", value)
            for i, tick in enumerate(ticks)
            for worker, value in enumerate(tick)
        ],
        schema=SCHEMA,
        orient="row",
    )


def test_a_tick_by_hand() -> None:
    # 2, 4, 4, 4, 5, 5, 7, 9: mean 5, sum of squares about it 32
    result = iteration_cov(ticks_of([2, 4, 4, 4, 5, 5, 7, 9]), ddof=0)
    assert result.columns == ["job_id", "time_s", "n_workers", "mean", "std", "cov"]
    assert result.rows() == [("job", 0.0, 8, 5.0, 2.0, 0.4)]
    sample = iteration_cov(ticks_of([2, 4, 4, 4, 5, 5, 7, 9]), ddof=1)
    assert sample["std"].item() == pytest.approx(math.sqrt(32 / 7), rel=1e-15)


@pytest.mark.parametrize("name", NIST)
@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_mean_and_deviation_have_the_certified_digits(name: str, engine: str) -> None:
    certified = NIST[name]
    values = certified.get("values") or [
        certified["first"],
        *(certified["pair"] * certified["pairs"]),
    ]
    samples: Any = ticks_of(values)
    if engine == "duckdb":
        samples = duckdb.connect().from_arrow(samples.to_arrow())
    result = iteration_cov(samples, ddof=1).row(0, named=True)
    assert result["n_workers"] == len(values)
    assert result["mean"] == pytest.approx(certified["mean"], rel=1e-13)
    assert result["std"] == pytest.approx(certified["std"], rel=10.0 ** -certified["digits"])


TICKS = st.lists(
    st.lists(st.just(0.0) | st.floats(1e-6, 1e6), min_size=2, max_size=12), min_size=1, max_size=5
)


@given(ticks=TICKS)
@settings(max_examples=30)
def test_cov_keeps_its_bounds_and_is_numpys(ticks: list[list[float]]) -> None:
    for ddof in (0, 1):
        result = iteration_cov(ticks_of(*ticks), ddof=ddof)
        assert result["n_workers"].to_list() == [len(tick) for tick in ticks]
        for tick, mean, std, cov in zip(
            ticks, result["mean"], result["std"], result["cov"], strict=True
        ):
            assert mean == pytest.approx(np.mean(tick), rel=1e-12)
            assert std == pytest.approx(np.std(tick, ddof=ddof), rel=1e-9, abs=1e-9 * mean)
            if not any(tick):
                assert cov is None
                continue
            assert cov == pytest.approx(std / mean, rel=1e-12)
            assert 0 <= cov <= math.sqrt(len(tick) - 1 + ddof) * (1 + 1e-12)


def test_the_bounds_are_reached_when_one_worker_does_all() -> None:
    alone = ticks_of([0] * 9 + [7])
    assert iteration_cov(alone, ddof=0)["cov"].item() == pytest.approx(3, rel=1e-14)
    assert iteration_cov(alone, ddof=1)["cov"].item() == pytest.approx(math.sqrt(10), rel=1e-14)


@given(ticks=TICKS, factor=st.floats(1e-3, 1e3), seed=st.integers(0, 99))
@settings(max_examples=30)
def test_neither_the_unit_nor_the_order_of_rows_matters(
    ticks: list[list[float]], factor: float, seed: int
) -> None:
    samples = ticks_of(*ticks)
    result = iteration_cov(samples, ddof=1)
    scaled = samples.with_columns(pl.col("batch_time") * factor)
    assert_frame_equal(
        iteration_cov(scaled, ddof=1).select("cov"), result.select("cov"), abs_tol=1e-9
    )
    shuffled = samples.sample(fraction=1, shuffle=True, seed=seed)
    assert_frame_equal(iteration_cov(shuffled, ddof=1), result, rel_tol=1e-9, abs_tol=1e-9)


def test_equal_workers_have_no_variation_whatever_rounding_does() -> None:
    result = iteration_cov(ticks_of([0.1] * 3, [1e7 / 3] * 7, [5e-324] * 2), ddof=1)
    assert result["std"].to_list() == result["cov"].to_list() == [0, 0, 0]


def test_missing_values_are_no_workers_and_thin_ticks_are_left_out() -> None:
    samples = ticks_of([1, None, 3, math.nan], [1, None, None, None], [None] * 4, [2, 2, 2, 2])
    result = iteration_cov(samples, ddof=0)
    assert result["time_s"].to_list() == [0.0, 30.0]
    assert result["n_workers"].to_list() == [2, 4]
    assert result["cov"].to_list() == [0.5, 0.0]
    assert iteration_cov(samples, ddof=0, min_workers=3)["time_s"].to_list() == [30.0]


def test_all_at_zero_have_no_cov() -> None:
    assert iteration_cov(ticks_of([0, 0, 0]), ddof=1).rows() == [("job", 0.0, 3, 0.0, 0.0, None)]


def test_groups_and_columns_go_by_any_name_and_null_is_a_group_of_its_own() -> None:
    samples = pl.DataFrame(
        {
            "kind": ["b", "b", "a", "a", None, None],
            "part": [1, 1, 1, 1, 2, 2],
            "step": [7, 7, 7, 7, 7, 7],
            "rank": [0, 1, 0, 1, 0, 1],
            "loss": [1, 3, 2, 2, 1, 1],
        }
    )
    result = iteration_cov(
        samples, ddof=0, by=["kind", "part"], time="step", worker="rank", value="loss"
    )
    assert result.rows() == [
        ("a", 1, 7, 2, 2.0, 0.0, 0.0),
        ("b", 1, 7, 2, 2.0, 1.0, 0.5),
        (None, 2, 7, 2, 1.0, 0.0, 0.0),
    ]
    assert iteration_cov(
        samples.filter(pl.col("part") == 2), ddof=0, by=(), time="step", worker="rank", value="loss"
    ).rows() == [(7, 2, 1.0, 0.0, 0.0)]


@pytest.mark.parametrize("samples", [ticks_of(), ticks_of([None, None]), ticks_of([math.nan] * 3)])
def test_nothing_in_gives_an_empty_frame_of_the_same_columns(samples: pl.DataFrame) -> None:
    result = iteration_cov(samples, ddof=0)
    assert result.is_empty()
    assert result.schema == iteration_cov(ticks_of([1, 2]), ddof=0).schema


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (pl.col("batch_time") - 2, "column batch_time holds -1.0; its values must lie from 0"),
        (pl.col("batch_time") / 0, "column batch_time holds inf"),
        (pl.col("batch_time").cast(pl.String), "column batch_time holds String; numbers are"),
        (
            pl.lit("w0").alias("worker_id"),
            "4 duplicate row.s. with the same .*'job', time_s 0.0, wo",
        ),
        (pl.lit(None, pl.Float64).alias("time_s"), "time_s or worker_id is null in a row with"),
        (
            pl.lit(math.nan).alias("time_s"),
            "time_s or worker_id is null in a row with a batch_time",
        ),
        (pl.lit(None, pl.String).alias("worker_id"), "time_s or worker_id is null in a row with"),
    ],
)
def test_what_cannot_be_a_sample_is_refused_in_one_line(change: pl.Expr, text: str) -> None:
    with pytest.raises(DataError, match=text) as refusal:
        iteration_cov(ticks_of([1, 2, 3], [1, 2, 3]).with_columns(change), ddof=0)
    assert "\n" not in str(refusal.value)


def test_rows_without_a_value_neither_count_nor_hide_a_repeated_worker() -> None:
    samples = pl.concat([ticks_of([1, 3]), ticks_of([None, None, None])])
    assert iteration_cov(samples, ddof=0)["n_workers"].to_list() == [2]
    with pytest.raises(DataError, match="1 duplicate row"):
        iteration_cov(pl.concat([samples, ticks_of([1])]), ddof=0)
    timeless = samples.tail(3).with_columns(time_s=pl.lit(None, pl.Float64))
    assert iteration_cov(pl.concat([samples, timeless]), ddof=0).height == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ddof": 2}, "ddof must be 0 .population. or 1 .sample.; it is 2"),
        (
            {"ddof": 0, "min_workers": 1},
            "min_workers must be a whole number from 2 to .*; it is 1",
        ),
        ({"ddof": 0, "worker": "rank"}, "column rank is missing; found job_id, time_s, worker_id"),
        ({"ddof": 0, "by": "time_s"}, "column time_s is named for more than one part"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        iteration_cov(ticks_of([1, 2]), **options)


def test_ddof_has_no_default() -> None:
    with pytest.raises(TypeError, match="ddof"):
        iteration_cov(ticks_of([1, 2]))  # type: ignore[call-arg]


def test_a_summary_by_hand() -> None:
    cov = pl.DataFrame(
        {
            "job_id": ["a"] * 6 + ["b"] * 2,
            "cov": [0.1, 0.2, 0.5, 1.0, 1.5, None, None, math.nan],
        }
    )
    summary = summarize_cov(cov)
    assert summary.columns == [
        "job_id",
        "n",
        "n_missing",
        "mean",
        "p05",
        "p25",
        "median",
        "p75",
        "p95",
        "max",
        "fraction_above_0_1",
        "fraction_above_0_5",
        "fraction_above_1",
    ]
    assert summary.row(0)[:3] == ("a", 5, 1)
    # type 7: the q-quantile of five values lies 4 q places above the first
    expected = (0.66, 0.12, 0.2, 0.5, 1.0, 1.4, 1.5, 0.8, 0.4, 0.2)
    assert summary.row(0)[3:] == pytest.approx(expected, rel=1e-12)
    assert summary.row(1) == ("b", 0, 2, *[None] * 10)
    pooled = summarize_cov(cov, by=())
    assert pooled.row(0) == pytest.approx((5, 3, *expected), rel=1e-12)
    assert summarize_cov(cov.clear(), by=()).rows() == [(0, 0, *[None] * 10)]
    assert summarize_cov(cov.clear()).is_empty()


@given(values=st.lists(st.floats(0, 10), min_size=1, max_size=40))
@settings(max_examples=30)
def test_a_summarys_quantiles_are_numpys_and_in_order(values: list[float]) -> None:
    summary = summarize_cov(pl.DataFrame({"cov": values}), by=()).row(0, named=True)
    found = [summary[name] for name in ("p05", "p25", "median", "p75", "p95", "max")]
    expected = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95, 1])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)
    for name, limit in (
        ("fraction_above_0_1", 0.1),
        ("fraction_above_0_5", 0.5),
        ("fraction_above_1", 1),
    ):
        assert summary[name] == sum(value > limit for value in values) / len(values)


@pytest.mark.parametrize("bad", [-0.1, math.inf])
def test_a_summary_refuses_what_is_no_cov(bad: float) -> None:
    with pytest.raises(DataError, match="its values must lie from 0"):
        summarize_cov(pl.DataFrame({"cov": [0.1, bad]}), by=())


def read_job(real_data: Path, job_id: str) -> dict[float, list[tuple[str, float]]]:
    ticks = defaultdict(list)
    path = real_data / "alibaba-minibatch-2020" / f"{job_id}_norm.csv"
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            ticks[float(row["time"])].append((row["worker"], float(row["batch_time_norm"])))
    return ticks


@pytest.mark.parametrize("job_id", ["job_1", "job_2", "job_3", "job_4"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_published_jobs_tick_by_tick(real_data: Path, job_id: str, ddof: int) -> None:
    ticks = read_job(real_data, job_id)
    rows = [
        (job_id, time, worker, value)
        for time, tick in ticks.items()
        # one row of job_2 is published twice
        for worker, value in dict.fromkeys(tick)
    ]
    random.Random(0).shuffle(rows)
    result = iteration_cov(pl.DataFrame(rows, schema=SCHEMA, orient="row"), ddof=ddof)
    expected = []
    for time, tick in sorted(ticks.items()):
        values = [value for _, value in dict.fromkeys(tick)]
        if len(values) >= 2:
            std, mean = np.std(values, ddof=ddof), np.mean(values)
            expected.append((job_id, time, len(values), mean, std, std / mean))
    assert_frame_equal(
        result, pl.DataFrame(expected, schema=result.schema, orient="row"), rel_tol=1e-12
    )


def test_the_row_published_twice_is_refused_by_name(real_data: Path) -> None:
    rows = [
        ("job_2", time, worker, value)
        for time, tick in read_job(real_data, "job_2").items()
        for worker, value in tick
    ]
    with pytest.raises(DataError, match=r"1 duplicate row\(s\) .*'job_2', time_s 2381.0, wor"):
        iteration_cov(pl.DataFrame(rows, schema=SCHEMA, orient="row"), ddof=0)


def test_the_published_cov_table(real_data: Path) -> None:
    path = real_data / "alibaba-minibatch-2020" / "coefficient_variation.csv"
    with path.open(encoding="utf-8", newline="") as file:
        _, *lines = csv.reader(file)
    jobs = {name: np.array([float(cell) for cell in cells if cell]) for name, *cells in lines}
    cov = pl.DataFrame(
        {"job_id": list(jobs), "cov": [values.tolist() for values in jobs.values()]}
    ).explode("cov")
    summary = summarize_cov(cov)
    assert summary["job_id"].to_list() == sorted(jobs)
    for row in summary.iter_rows(named=True):
        values = jobs[row["job_id"]]
        assert (row["n"], row["n_missing"]) == (len(values), 0)
        assert row["mean"] == pytest.approx(values.mean(), rel=1e-12)
        assert row["p95"] == pytest.approx(np.quantile(values, 0.95), rel=1e-12)
        assert row["fraction_above_0_1"] == (values > 0.1).mean()
    pooled = summarize_cov(cov, by=()).row(0, named=True)
    everything = np.concatenate(list(jobs.values()))
    assert pooled["n"] == len(everything) == 82739
    assert pooled["median"] == pytest.approx(np.median(everything), rel=1e-12)
    assert pooled["fraction_above_1"] == (everything > 1).mean()
