"""Delayed entry, censoring and restricted means, against results by hand and closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from traceana import cumulative_incidence, kaplan_meier, workload_summary
from traceana.cohorts.cohort import form_cohort
from traceana.cohorts.observation import observe
from traceana.errors import DataError
from traceana.store.manifest import Manifest

if TYPE_CHECKING:
    from traceana.store import Store

# at risk: 3 at 2 s (two enter later, one after 4 s), 3 at 4 s, 3 at 5 s, 1 at 8 s
ROWS = pl.DataFrame(
    {
        "entry_s": [0.0, 0, 1, 3, 2, 4],
        "runtime_s": [2.0, 3, 4, 5, 6, 8],
        "observed": [True, False, True, True, False, True],
        "status": ["completed", "failed", "failed", "completed", "running", "completed"],
    }
)
SEEN: dict[str, Any] = {"entry": "entry_s", "observed": "observed"}


def test_six_rows_by_hand() -> None:
    found = kaplan_meier(ROWS, horizon_s=6, **SEEN)
    assert found.curves["time_s"].to_list() == [2, 4, 5, 8]
    assert found.curves["n_at_risk"].to_list() == [3, 3, 3, 1]
    np.testing.assert_allclose(found.curves["survival"], [2 / 3, 4 / 9, 8 / 27, 0], atol=1e-15)
    row = found.groups.row(0, named=True)
    assert (row["n"], row["n_events"], row["n_censored"], row["n_truncated"]) == (6, 4, 2, 4)
    assert row["median_s"] == 4
    assert row["restricted_mean_s"] is None
    assert row["note"] == "fewer than 10 rows at risk at the horizon: no restricted mean"
    many = kaplan_meier(pl.concat([ROWS] * 10), horizon_s=6, **SEEN).groups.row(0, named=True)
    # areas: 2 + 4/3 + 4/9 + 8/27; after each event 56, 20 and 8 27ths, each with d/(n(n-d)) = 1/60
    assert many["restricted_mean_s"] == pytest.approx(110 / 27)
    # t(59) and 60/59 of the variance
    half = 2.000995 * np.sqrt(60 / 59 * (56**2 + 20**2 + 8**2) / 60) / 27
    assert many["restricted_ci_low"] == pytest.approx(110 / 27 - half, rel=1e-6)


def test_a_row_that_ends_at_its_entry_is_at_risk_then() -> None:
    rows = pl.DataFrame({"entry_s": [0.0, 4, 0], "runtime_s": [2.0, 4, 4], "ended": [True] * 3})
    found = kaplan_meier(rows, entry="entry_s", observed="ended", status=None).curves
    assert found.select("time_s", "n_at_risk", "survival").rows() == [(2, 2, 0.5), (4, 2, 0)]


def test_competing_events_of_six_rows_by_hand() -> None:
    found = cumulative_incidence(ROWS, **SEEN)
    last = {row["event"]: row["incidence"] for row in found.groups.iter_rows(named=True)}
    assert last["completed"] == pytest.approx(1 / 3 + 4 / 27 + 8 / 27)
    assert last["failed"] == pytest.approx(2 / 9)


def test_clusters_of_one_row_have_the_jackknife_of_the_rows() -> None:
    rows = ROWS.with_row_index("user")
    found = kaplan_meier(rows, cluster="user", **SEEN).curves.filter(pl.col("survival") > 0)
    for step in found.iter_rows(named=True):
        left_out = []
        for user in range(6):
            rest = kaplan_meier(rows.filter(pl.col("user") != user), **SEEN).curves
            before = rest.filter(pl.col("time_s") <= step["time_s"])["survival"]
            left_out.append(before[-1] if len(before) else 1.0)
        s = step["survival"]
        error = np.sqrt(5 / 6 * ((np.array(left_out) - s) ** 2).sum())
        if step["ci_low"] is None:
            continue
        half = (np.log(-np.log(step["ci_low"])) - np.log(-np.log(s))) * s * -np.log(s)
        assert half / 2.5705818 == pytest.approx(error, rel=1e-6)  # t(5)


def test_complete_rows_have_the_mean_and_its_error() -> None:
    x = np.random.default_rng(5).lognormal(3, 1, 200)
    rows = pl.DataFrame({"runtime_s": x})
    row = kaplan_meier(rows, status=None, horizon_s=2 * x.max()).groups.row(0, named=True)
    assert row["restricted_mean_s"] == pytest.approx(x.mean())
    half = row["restricted_mean_s"] - row["restricted_ci_low"]
    assert half == pytest.approx(1.971957 * x.std(ddof=1) / np.sqrt(200), rel=1e-6)
    beyond = kaplan_meier(
        rows.with_columns(observed=pl.col("runtime_s") < x.max()),
        status=None,
        observed="observed",
        horizon_s=2 * x.max(),
    )
    assert beyond.groups["restricted_mean_s"].item() is None


def test_planted_truncation_is_undone() -> None:
    # exponential runtimes of mean 1, seen only if they last beyond a uniform entry
    rng = np.random.default_rng(6)
    x, entry = rng.exponential(1, 40_000), rng.uniform(-1, 2, 40_000).clip(0)
    rows = pl.DataFrame({"runtime_s": x, "entry_s": entry}).filter(pl.col("runtime_s") > entry)
    found = kaplan_meier(rows, status=None, entry="entry_s", quantiles=(0.25, 0.5, 0.9))
    for row in found.quantiles.iter_rows(named=True):
        truth = -np.log(1 - row["quantile"])
        assert row["ci_low"] - 0.02 < truth < row["ci_high"] + 0.02
    naive = kaplan_meier(rows, status=None).groups["median_s"].item()
    assert naive > 1.2 * np.log(2)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"entry_s": [0.0, 0, 1, 3, 2, 9]}, "entry_s exceeds runtime_s by 1"),
        ({"observed": [True, None, True, True, False, True]}, "observed must be True"),
    ],
)
def test_bad_observations_are_refused(columns: dict[str, list[float]], text: str) -> None:
    with pytest.raises(DataError, match=text):
        kaplan_meier(ROWS.with_columns(**{k: pl.Series(v) for k, v in columns.items()}), **SEEN)


def test_rows_before_the_window_and_at_its_end() -> None:
    rows = pl.DataFrame(
        {
            "status": ["completed", "running", "running", None],
            "start_s": [5.0, 20, 8, 30],
            "end_s": [15.0, 90, 100, None],
            "runtime_s": [10.0, 70, 92, None],
        }
    )
    stated = Manifest(trace="t", title="T", window_start_s=10, window_end_s=100, window="stated")
    seen, observation = observe(rows, stated)
    assert seen["entry_s"].to_list() == [5, 0, 2, 0]
    assert seen["observed"].to_list() == [True, True, False, False]  # the last has no end
    assert seen["duration_s"].to_list() == [10, 70, 92, 70]
    assert (observation.n, observation.n_truncated, observation.n_censored) == (4, 2, 2)
    derived = Manifest(
        trace="t", title="T", window_start_s=5, window_end_s=100, lists_only_survivors=True
    )
    assert observe(rows, derived)[1].start_s == 15


def test_a_running_row_without_a_recorded_end_is_censored() -> None:
    # as in accounting records: the time elapsed so far, and no end
    rows = pl.DataFrame(
        {
            "status": ["completed", "running", "running"],
            "start_s": [5.0, 20, 60],
            "end_s": [15.0, None, None],
            "runtime_s": [10.0, 80, 40],
        }
    )
    window = Manifest(trace="t", title="T", window_start_s=5, window_end_s=100)
    seen, observation = observe(rows, window)
    assert seen["observed"].to_list() == [True, False, False]
    assert observation.n_censored == 2
    assert "2 still ran at its end" in observation.describe("jobs")


def test_unlisted_jobs_are_estimated_from_the_listed() -> None:
    rng = np.random.default_rng(7)
    start, runtime = rng.uniform(0, 100, 20_000), rng.exponential(20, 20_000)
    listed = start + runtime <= 100
    rows = pl.DataFrame({"submit_s": start[listed], "runtime_s": runtime[listed]})
    window = Manifest(trace="t", title="T", window_start_s=0, window_end_s=100, window="stated")
    estimate = observe(rows, window)[1].n_unlisted
    assert estimate == pytest.approx((~listed).sum(), rel=0.15)


def test_published_pods(real_store: Store) -> None:
    cohort = form_cohort(real_store.trace("alibaba-openb-2023"))
    observation = cohort.observation
    assert observation is not None
    assert (observation.start_s, observation.end_s) == (9_964_972, 12_902_960)
    assert (observation.n_truncated, observation.n_censored) == (33, 34)
    summary = workload_summary(cohort.rows, **SEEN).row(0, named=True)
    assert summary["runtime_s_mean"] is None  # not estimable
    assert summary["runtime_s_median"] == 610
    assert summary["runtime_s_restricted_mean"] == pytest.approx(5600, rel=0.03)
    whole = cohort.rows.filter("observed", pl.col("entry_s") == 0)
    assert workload_summary(whole)["runtime_s_mean"].item() == pytest.approx(5161, abs=1)
