"""Runtime ratios by hand, against numpy, and that they average 1 in every group."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.store.test_frames import ENGINES
from traceana import runtime_ratio, summarize_runtime_ratio
from traceana.errors import DataError
from traceana.store import Store

JOBS = pl.DataFrame(
    {
        "job_id": list("abcdefgh"),
        "user": ["x", "x", "y", None, "x", None, "z", "y"],
        "runtime_s": [10.0, 30.0, 5.0, 7.0, None, 21.0, 0.0, math.nan],
        "gpus": [1, 2, 3, 4, 5, 6, 7, 8],
    }
)


def test_by_hand() -> None:
    result = runtime_ratio(JOBS, by="user")
    expected = [0.5, 1.5, 1.0, 0.5, None, 1.5, None, None]
    assert result["runtime_ratio"].to_list() == expected
    # the frame itself is kept, row by row, a NaN as the null that it stands for
    assert_frame_equal(result.drop("runtime_ratio"), JOBS.fill_nan(None))


def test_a_column_of_another_name_and_several_or_no_groups() -> None:
    jobs = JOBS.rename({"runtime_s": "hours"})
    result = runtime_ratio(jobs, by=(), runtime="hours")
    assert result["runtime_ratio"][0] == pytest.approx(10 / np.mean([10, 30, 5, 7, 21, 0]))
    one_each = runtime_ratio(jobs, by=["user", "gpus"], runtime="hours")["runtime_ratio"]
    assert one_each.to_list() == [1, 1, 1, 1, None, 1, None, None]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", None]), st.none() | st.just(0.0) | st.floats(1e-99, 1e99)
        ),
        max_size=20,
    )
)
def test_ratios_average_one_in_every_group(rows: list[tuple[str | None, float | None]]) -> None:
    jobs = pl.DataFrame(rows, schema={"g": pl.String, "runtime_s": pl.Float64}, orient="row")
    result = runtime_ratio(jobs, by="g")
    assert_frame_equal(result.select("g", "runtime_s"), jobs)
    for _, own in result.group_by("g"):
        known = own.drop_nulls("runtime_s")
        if known["runtime_s"].sum() > 0:
            assert known["runtime_ratio"].mean() == pytest.approx(1, rel=1e-9)
            assert own["runtime_ratio"].count() == known.height
        else:
            assert own["runtime_ratio"].count() == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_values(engine: str) -> None:
    jobs = JOBS.with_columns(runtime_s=pl.col("runtime_s").fill_nan(None))
    for rows in (jobs, jobs.filter(pl.col("runtime_s").is_not_null())):
        for by in ("user", ("user", "gpus"), ()):
            result = runtime_ratio(ENGINES[engine](rows), by=by)
            assert_frame_equal(result, runtime_ratio(rows, by=by), rel_tol=1e-12, abs_tol=0)


def test_the_summary_is_numpys() -> None:
    rng = np.random.default_rng(5)
    runtime = {"long": rng.lognormal(9, 0.2, 400), "short": rng.lognormal(3, 1.5, 400)}
    names = np.repeat(list(runtime), 400)
    jobs = pl.DataFrame({"g": names, "runtime_s": np.concatenate(list(runtime.values()))})
    result = summarize_runtime_ratio(jobs, by="g")
    ratios = runtime_ratio(jobs, by="g")
    for row in result.rows(named=True):
        values = runtime[row["g"]]
        ratio = ratios.filter(g=row["g"])["runtime_ratio"].to_numpy()
        assert row["n"] == 400
        assert row["mean_s"] == pytest.approx(values.mean(), rel=1e-12)
        assert row["cov"] == pytest.approx(values.std(ddof=1) / values.mean(), rel=1e-12)
        assert row["cov"] == pytest.approx(ratio.std(ddof=1), rel=1e-12)
        found = [row[name] for name in ("p05", "p25", "median", "p75", "p95", "p99", "max")]
        expected = np.quantile(ratio, [0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1])
        assert found == pytest.approx(expected.tolist(), rel=1e-12)


def test_the_summary_says_why_a_number_is_missing() -> None:
    unknown = pl.DataFrame([("i", "w", None, 9)], schema=JOBS.schema, orient="row")
    jobs = pl.concat([JOBS, unknown])
    result = summarize_runtime_ratio(jobs, by="user").select(
        "user", "n", "mean_s", "cov", "median", "n_missing", "note"
    )
    assert result.rows() == [
        ("w", 0, None, None, None, 1, "no runtime"),
        ("x", 2, 20.0, pytest.approx(math.sqrt(0.5)), 1.0, 1, None),
        ("y", 1, 5.0, None, 1.0, 1, "one runtime has no standard deviation"),
        ("z", 1, 0.0, None, None, 0, "every runtime is 0"),
        (None, 2, 14.0, pytest.approx(math.sqrt(0.5)), 1.0, 0, None),
    ]


@pytest.mark.parametrize(
    ("jobs", "by", "text"),
    [
        (JOBS, "cluster", "column cluster is missing; found job_id, user, runtime_s, gpus"),
        (JOBS.drop("runtime_s"), "user", "column runtime_s is missing"),
        (JOBS.with_columns(runtime_s=pl.lit(math.inf)), "user", "column runtime_s holds inf"),
        (JOBS.with_columns(runtime_s=pl.lit(-1.0)), "user", "column runtime_s holds -1.0"),
        (JOBS.with_columns(runtime_s=pl.lit("1")), "user", "column runtime_s holds String"),
        (JOBS, "runtime_s", "column runtime_s is named for more than one part"),
    ],
)
def test_bad_tables_are_refused_by_both(jobs: pl.DataFrame, by: str, text: str) -> None:
    for ask in (runtime_ratio, summarize_runtime_ratio):
        with pytest.raises(DataError, match=text):
            ask(jobs, by=by)


def test_a_ratio_that_is_there_is_not_overwritten() -> None:
    with pytest.raises(DataError, match="the frame has a column runtime_ratio"):
        runtime_ratio(JOBS.with_columns(runtime_ratio=1.0), by="user")
    with pytest.raises(DataError, match="by cannot name note"):
        summarize_runtime_ratio(JOBS.rename({"user": "note"}), by="note")


@pytest.mark.parametrize(
    ("trace", "by"), [("alibaba-openb-2023", "qos"), ("microsoft-itp-2021", "cluster")]
)
def test_the_published_traces_average_one(real_store: Store, trace: str, by: str) -> None:
    jobs = real_store.scan(trace, "jobs")
    result = runtime_ratio(jobs, by=by)
    means = result.group_by(by).agg(pl.col("runtime_ratio").mean())["runtime_ratio"]
    assert means.to_list() == pytest.approx([1] * len(means), rel=1e-9)
    assert result["runtime_ratio"].count() == jobs.collect()["runtime_s"].count()


def test_means_below_1e_150_have_no_ratio() -> None:
    jobs = pl.DataFrame({"g": ["a", "b", "b"], "runtime_s": [1e-150, 9e-151, 9e-151]})
    found = summarize_runtime_ratio(jobs, by="g")
    assert found["median"].to_list() == [1, None]
    assert found["note"].to_list() == [
        "one runtime has no standard deviation",
        "the mean runtime is too close to 0 for a ratio",
    ]
