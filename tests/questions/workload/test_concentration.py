"""Concentration against closed forms, a double sum, and numpy on the published clusters."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana import concentration, lorenz_curve
from traceana.errors import DataError
from traceana.store import Store


def jobs_of(gpu_hours: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"runtime_s": [3600.0 * hours for hours in gpu_hours], "gpus": 1.0})


def test_equal_jobs_are_not_concentrated() -> None:
    row = concentration(jobs_of([3.0] * 40)).row(0, named=True)
    assert (row["n"], row["gpu_hours"], row["note"]) == (40, 120, None)
    assert row["gini"] == pytest.approx(0, abs=1e-12)
    assert row["fraction_of_top_1_percent"] == pytest.approx(0.01)
    assert row["fraction_of_top_10_percent"] == pytest.approx(0.1)
    assert row["fraction_of_lower_half"] == pytest.approx(0.5)


@pytest.mark.parametrize("n", [1, 2, 5, 200])
def test_one_job_that_has_all(n: int) -> None:
    row = concentration(jobs_of([0.0] * (n - 1) + [7.0])).row(0, named=True)
    assert row["gini"] == pytest.approx((n - 1) / n, abs=1e-12)
    # a tenth of n jobs, of which the largest counts in part where it is less than one
    assert row["fraction_of_top_10_percent"] == pytest.approx(min(1, n / 10))


def test_a_line_from_nothing() -> None:
    # 1..n: gini (n^2 - 1) / 3n over the mean (n + 1) / 2, halved
    n = 100
    row = concentration(jobs_of([float(i) for i in range(1, n + 1)])).row(0, named=True)
    assert row["gini"] == pytest.approx((n - 1) / (3 * n), rel=1e-12)
    assert row["fraction_of_top_10_percent"] == pytest.approx(sum(range(91, 101)) / 5050)
    assert row["fraction_of_lower_half"] == pytest.approx(sum(range(1, 51)) / 5050)


@given(hours=st.lists(st.floats(0, 1e4), min_size=1, max_size=40).filter(lambda x: sum(x) > 1e-3))
@settings(max_examples=30, deadline=None)
def test_gini_is_half_the_relative_mean_difference(hours: list[float]) -> None:
    x = np.array(hours)
    row = concentration(jobs_of(hours)).row(0, named=True)
    difference = np.abs(x[:, None] - x).mean()
    assert row["gini"] == pytest.approx(difference / (2 * x.mean()), abs=1e-9)
    assert -1e-12 <= row["gini"] <= (len(x) - 1) / len(x) + 1e-12
    curve = lorenz_curve(jobs_of(hours), points=41)
    below, held = curve["fraction_of_jobs"].to_numpy(), curve["fraction_of_gpu_hours"].to_numpy()
    assert (held[0], held[-1]) == (0, pytest.approx(1))
    assert np.all(held <= below + 1e-12)
    assert np.all(np.diff(held, 2) >= -1e-12)
    assert row["fraction_of_lower_half"] == pytest.approx(held[20], abs=1e-12)
    assert row["fraction_of_top_10_percent"] == pytest.approx(1 - held[36], abs=1e-12)


def test_without_gpu_hours_there_is_a_reason_and_no_curve() -> None:
    jobs = pl.DataFrame(
        {"cluster": ["x", "x", "y", "z"], "runtime_s": [None, 60.0, 0.0, 60.0]}
    ).with_columns(gpus=pl.when(cluster="x").then(None).otherwise(1.0))
    x, y, z = concentration(jobs, by="cluster").iter_rows(named=True)
    assert (x["jobs"], x["n_missing"], x["gpu_hours"], x["gini"]) == (2, 2, None, None)
    assert (y["n"], y["gpu_hours"], y["gini"]) == (1, 0, None)
    assert x["note"] == y["note"] == "no GPU-hours"
    assert (z["gini"], z["fraction_of_top_1_percent"], z["note"]) == (0, 0.01, None)
    assert lorenz_curve(jobs, by="cluster", points=3).rows() == [
        ("z", 0, 0),
        ("z", 0.5, 0.5),
        ("z", 1, 1),
    ]


def test_jobs_that_requested_no_gpu_are_not_among_those_compared() -> None:
    # 3 h and 1 h: the mean absolute difference over all pairs is 1 h, over twice the mean of 2 h
    jobs = pl.DataFrame({"runtime_s": [3 * 3600.0, 3600.0, 7200.0, 60.0], "gpus": [1, 1, 0, 0]})
    row = concentration(jobs).row(0, named=True)
    assert (row["jobs"], row["n"], row["n_missing"], row["gini"]) == (4, 2, 2, 0.25)
    assert row["fraction_of_lower_half"] == 0.25
    assert lorenz_curve(jobs, points=3)["fraction_of_gpu_hours"].to_list() == [0, 0.25, 1]


def test_a_curve_of_one_point_is_refused() -> None:
    with pytest.raises(DataError, match="points must be a whole number from 2 to"):
        lorenz_curve(jobs_of([1.0]), points=1)


def test_the_published_clusters(real_store: Store) -> None:
    jobs = real_store.scan("microsoft-itp-2021", "jobs").collect()
    result = concentration(jobs, by="cluster")
    assert result.height == 10
    for row in result.iter_rows(named=True):
        part = jobs.filter(cluster=row["cluster"])
        x = np.sort(part["gpus"].to_numpy() * part["runtime_s"].to_numpy() / 3600)
        n = len(x)
        curve = np.concatenate(([0], np.cumsum(x))) / x.sum()
        # twice the area between the curve and the diagonal
        area = np.trapezoid(curve, dx=1 / n)
        assert row["gini"] == pytest.approx(1 - 2 * area, rel=1e-10)
        top = 1 - np.interp([0.99 * n, 0.9 * n], np.arange(n + 1), curve)
        assert row["fraction_of_top_1_percent"] == pytest.approx(top[0], rel=1e-9)
        assert row["fraction_of_top_10_percent"] == pytest.approx(top[1], rel=1e-9)


def test_a_curve_has_from_2_to_a_million_points() -> None:
    assert lorenz_curve(jobs_of([1.0, 3.0])).height == 101
    assert lorenz_curve(jobs_of([1.0, 3.0]), points=2)["fraction_of_gpu_hours"].to_list() == [0, 1]
    assert lorenz_curve(jobs_of([0.0]), points=1_000_000).is_empty()
    for points in (1, 1_000_001, 2.0):
        with pytest.raises(DataError, match="points must be a whole number from 2 to 1,000,000"):
            lorenz_curve(jobs_of([0.0]), points=points)  # type: ignore[arg-type]
