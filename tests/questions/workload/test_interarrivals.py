"""Evenness of arrivals against closed forms, drawn processes and numpy on published clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from traceana import interarrival_curve, interarrivals
from traceana.errors import DataError
from traceana.store import Store


def row_of(times: Any, **options: Any) -> dict[str, Any]:
    return interarrivals(pl.DataFrame({"submit_s": times}), **options).row(0, named=True)


def test_a_clockwork() -> None:
    row = row_of([60.0 * i for i in range(601)])
    assert (row["jobs"], row["n"], row["mean_s"], row["max_s"]) == (601, 600, 60, 60)
    assert (row["cv"], row["burstiness"], row["fraction_zero"]) == (0, -1, 0)
    assert row["memory"] is None  # a correlation of equal numbers is none


def test_by_hand() -> None:
    # times between submissions: 1, 3, 1, 3; a mean of 2, a variance of 4/3
    row = row_of([8.0, 0.0, 1.0, 5.0, 4.0])
    assert row["cv"] == pytest.approx((4 / 3) ** 0.5 / 2)
    assert row["burstiness"] == pytest.approx((row["cv"] - 1) / (row["cv"] + 1))
    assert row["memory"] == pytest.approx(-1)


def test_a_poisson_process_is_neither_even_nor_bursty() -> None:
    rng = np.random.default_rng(11)
    n = 200_000
    row = row_of(np.cumsum(rng.exponential(30, n)))
    # standard errors: about 1 / sqrt(n) for cv and memory
    assert row["cv"] == pytest.approx(1, abs=5 / n**0.5)
    assert row["burstiness"] == pytest.approx(0, abs=3 / n**0.5)
    assert row["memory"] == pytest.approx(0, abs=5 / n**0.5)
    assert row["median_s"] == pytest.approx(30 * np.log(2), rel=0.02)


def test_batches_of_jobs_are_bursts() -> None:
    # ten jobs at once, once an hour: n = 1000 gaps nearly, a tenth of them an hour, the rest 0
    row = row_of(np.repeat(3600.0 * np.arange(100), 10))
    p = 99 / 999
    assert row["fraction_zero"] == pytest.approx(1 - p)
    assert row["cv"] == pytest.approx(((1 - p) / p * 999 / 998) ** 0.5)
    assert row["burstiness"] > 0.4


def test_groups_missing_times_and_reasons() -> None:
    jobs = pl.DataFrame(
        {
            "cluster": ["a", "a", "b", "b", "b", "b", None],
            "submit_s": [1.0, 5.0, 7.0, 7.0, 7.0, None, None],
        }
    )
    a, b, unnamed = interarrivals(jobs, by="cluster").iter_rows(named=True)
    assert (a["jobs"], a["n"], a["mean_s"], a["cv"]) == (2, 1, 4, None)
    assert a["note"] == "fewer than 3 submissions"
    assert (b["jobs"], b["n_missing"], b["n"], b["fraction_zero"]) == (4, 1, 2, 1)
    assert (b["cv"], b["burstiness"], b["note"]) == (None, None, "all at one time")
    assert (unnamed["cluster"], unnamed["n_missing"], unnamed["n"]) == (None, 1, 0)
    assert unnamed["mean_s"] is unnamed["fraction_zero"] is None
    assert unnamed["note"] == "fewer than 3 submissions"


def test_a_curve_is_the_share_of_times_that_are_longer() -> None:
    # times between submissions: 0, 1, 1, 100, of which the mean is 25.5
    jobs = pl.DataFrame({"submit_s": [5, 5, 6, 7, 107, None]})
    assert interarrival_curve(jobs, points=2)["gap_s"].to_list() == pytest.approx([0, 1, 100])
    curve = interarrival_curve(jobs, points=3)
    assert curve.columns == ["n", "gap_s", "fraction_longer", "fraction_longer_poisson"]
    assert curve["n"].to_list() == [4] * 4
    np.testing.assert_allclose(curve["gap_s"], [0, 1, 10, 100], rtol=1e-12)
    assert curve["fraction_longer"].to_list() == [0.75, 0.25, 0.25, 0]
    np.testing.assert_allclose(
        curve["fraction_longer_poisson"], np.exp([0, -1 / 25.5, -10 / 25.5, -100 / 25.5])
    )


def test_a_group_without_a_time_above_0_has_no_curve() -> None:
    jobs = pl.DataFrame({"cluster": ["a", "a", "b", "b", None], "submit_s": [1.0, 1, 2, 4, 9]})
    curve = interarrival_curve(jobs, by="cluster")
    assert curve.rows() == [("b", 1, 2.0, 0.0, pytest.approx(np.exp(-1)))]
    assert interarrival_curve(jobs.head(1)).is_empty()


def test_the_published_clusters(real_store: Store) -> None:
    jobs = real_store.scan("microsoft-itp-2021", "jobs").collect()
    for row in interarrivals(jobs, by="cluster").iter_rows(named=True):
        times = np.sort(jobs.filter(cluster=row["cluster"])["submit_s"].to_numpy())
        gaps = np.diff(times)
        assert row["cv"] == pytest.approx(gaps.std(ddof=1) / gaps.mean(), rel=1e-10)
        assert row["memory"] == pytest.approx(np.corrcoef(gaps[:-1], gaps[1:])[0, 1], rel=1e-9)
        assert row["p99_s"] == pytest.approx(np.quantile(gaps, 0.99), rel=1e-12)


def test_a_curve_has_from_2_to_a_million_points() -> None:
    jobs = pl.DataFrame({"submit_s": [0.0, 10, 30, 100]})
    assert interarrival_curve(jobs).height == 201
    assert interarrival_curve(jobs, points=2)["gap_s"].to_list() == pytest.approx([10, 70])
    assert interarrival_curve(jobs[:1], points=1_000_000).is_empty()
    for points in (1, 1_000_001, 2.0):
        with pytest.raises(DataError, match="points must be a whole number from 2 to 1,000,000"):
            interarrival_curve(jobs, points=points)  # type: ignore[arg-type]


def test_several_jobs_at_one_time_have_the_quantiles_and_memory_of_their_gaps() -> None:
    times = np.sort(np.random.default_rng(5).integers(0, 150, 200)).astype(float)
    gaps = np.diff(times)
    row = row_of(times)
    assert row["p99_s"] == pytest.approx(np.quantile(gaps, 0.99))
    assert row["median_s"] == np.median(gaps)
    assert row["memory"] == pytest.approx(np.corrcoef(gaps[:-1], gaps[1:])[0, 1])
    assert row["cv"] == pytest.approx(gaps.std(ddof=1) / gaps.mean())


def test_two_times_have_a_variance() -> None:
    # times between submissions: 1, 3
    assert row_of([0.0, 1, 4])["cv"] == pytest.approx(2**0.5 / 2)


@pytest.mark.parametrize("times", [[0.0, 1, 4, 7], [0.0, 3, 6, 7], [0.0, 3, 6, 6]])
def test_times_that_are_equal_on_one_side_have_no_memory(times: list[float]) -> None:
    assert row_of(times)["memory"] is None
