"""Hazards of causes and outcomes by a horizon, with reference values of R and lifelines."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.errors import DataError
from traceana.questions.failures.hazards import _over_clusters

# leukemia (R: survival::aml), maintained and not
TIMES = [9, 13, 13, 18, 23, 28, 31, 34, 45, 48, 161, 5, 5, 8, 8, 12, 16, 23, 27, 30, 33, 43, 45]
ENDED = "11011011010" + "111110111111"
AML = pl.DataFrame(
    {
        "runtime_s": np.array(TIMES, dtype=float),
        "status": ["failed" if flag == "1" else "running" for flag in ENDED],
        "x": [0] * 11 + [1] * 12,
        "user": [row % 6 for row in range(23)],
    }
)
# without ties, as their treatment in robust errors differs
APART = AML.with_columns(
    runtime_s=np.array(TIMES) + 0.5 * np.isin(np.arange(23), [2, 12, 14, 17, 22])
)


def fit(frame: pl.DataFrame, **options: Any) -> dict[str, Any]:
    found = traceana.cause_specific_hazards(frame, features="x", causes="failed", **options)
    return found.row(0, named=True)


def test_the_hazard_ratio_is_that_of_r() -> None:
    # coxph(Surv(time, status) ~ x, aml): 0.9155, se 0.5119, p 0.0737
    row = fit(AML)
    assert (row["n"], row["n_events"]) == (23, 18)
    assert row["log_hazard"] == pytest.approx(0.915532, abs=2e-6)
    assert row["std_error"] == pytest.approx(0.511934, abs=2e-6)
    assert row["pvalue"] == pytest.approx(0.0737, abs=5e-5)


def test_errors_over_clusters_are_those_of_refits() -> None:
    row = fit(APART, cluster="user")
    assert row["log_hazard"] == pytest.approx(0.879863, abs=2e-6)
    # CoxPHFitter().fit(..., cluster_col="user") of lifelines, times m / (m - 1) of six clusters
    assert row["std_error"] == pytest.approx(0.323338 * np.sqrt(6 / 5), rel=0.01)
    assert row["note"].endswith("units of equal size: interval and p are approximate")
    rng = np.random.default_rng(3)
    user, x = rng.integers(0, 20, 500), rng.random(500)
    ran = rng.exponential(np.exp(rng.standard_normal(20)[user] - x))
    jobs = pl.DataFrame({"user": user, "x": x, "runtime_s": ran, "status": "failed"})
    without = [fit(jobs.filter(pl.col("user") != one))["log_hazard"] for one in range(20)]
    row = fit(jobs, cluster="user")
    exact = np.sqrt(19 / 20 * ((np.array(without) - row["log_hazard"]) ** 2).sum())
    assert row["std_error"] == pytest.approx(exact, rel=0.1)
    two = fit(jobs.with_columns(day=pl.int_range(500) % 30), cluster=["user", "day"])
    assert two["std_error"] > row["std_error"]


def test_delayed_entry_is_that_of_lifelines() -> None:
    entry = np.array(([0, 0, 4] * 8)[:23], dtype=float)
    entry[[20, 9]] = 20, 25
    row = fit(APART.with_columns(entry_s=entry), entry="entry_s")
    assert row["log_hazard"] == pytest.approx(0.873146, abs=2e-6)
    assert row["std_error"] == pytest.approx(0.510864, abs=2e-6)


def test_watching_for_a_shorter_time_changes_rates_and_not_hazards() -> None:
    rng = np.random.default_rng(5)
    n = 4000
    kind = np.repeat(["fast", "slow"], n // 2)
    scale = np.where(kind == "fast", 1.0, 4.0)
    # a fifth fails, of both kinds, and what completes late is cut at 2
    ends, fails = rng.exponential(scale), rng.random(n) < 0.2
    jobs = pl.DataFrame(
        {
            "kind": kind,
            "runtime_s": np.minimum(ends, 2.0),
            "status": np.where(ends > 2, "running", np.where(fails, "failed", "completed")),
        }
    )
    found = traceana.cause_specific_hazards(jobs, features="kind")
    ratios = found.drop_nulls("hazard_ratio")["hazard_ratio"].to_list()
    assert ratios == pytest.approx([0.25, 0.25], rel=0.2) or ratios == pytest.approx(
        [4, 4], rel=0.2
    )
    assert (found["pvalue_adjusted"].drop_nulls() < 1e-6).all()


def test_outcomes_by_a_horizon_count_what_still_runs() -> None:
    jobs = pl.DataFrame(
        {
            "g": list("aaaab"),
            "runtime_s": [10.0, 20, 30, 40, 5],
            "status": ["failed", "running", "completed", "completed", "failed"],
        }
    )
    found = traceana.outcome_by_horizon(jobs, by="g", horizon_s=30, events=("failed", "completed"))
    a = found.filter(g="a").select("event", "fraction", "rate_of_ended", "n_not_ended").rows()
    # 1/4 failed; 3/4 of them left, of which one of two completes at 30
    assert a == [
        ("completed", 0.375, pytest.approx(2 / 3), 1),
        ("failed", 0.25, pytest.approx(1 / 3), 1),
    ]
    assert found.filter(g="a", event="failed")["note"].item().startswith("25 % of the rows")
    assert found.filter(g="b", event="failed")["note"].item() is None


def test_an_entry_at_0_is_none() -> None:
    """Also where rows end at 0: all are at risk then."""
    at_once = AML.with_columns(runtime_s=(pl.col("runtime_s") - 13).clip(0), entry_s=0.0)
    assert fit(at_once, entry="entry_s") == fit(at_once)


def test_rows_at_risk_that_are_alike_give_no_finite_ratio() -> None:
    rows = {"x": [1, 0, 0], "runtime_s": [1.0, 2, 3], "status": ["running", "failed", "failed"]}
    with pytest.raises(DataError, match="no finite hazard ratios"):
        traceana.cause_specific_hazards(pl.DataFrame(rows), features="x", causes="failed")


def test_a_cause_that_never_happens_has_no_model() -> None:
    found = traceana.cause_specific_hazards(AML, features="x")
    assert found.filter(cause="completed")["note"].to_list() == ["no row completed"]
    with pytest.raises(DataError, match="features names no column"):
        traceana.cause_specific_hazards(AML, features=())


def test_a_group_without_a_runtime_has_no_outcome() -> None:
    jobs = pl.DataFrame(
        {"g": ["a", "a", "b"], "runtime_s": [10.0, 20.0, None], "status": ["failed"] * 3}
    )
    found = traceana.outcome_by_horizon(jobs, by="g", horizon_s=15, events="failed")
    assert found.select("g", "n", "fraction").rows() == [("a", 2, 0.5), ("b", 0, None)]


def test_hazards_where_every_row_ended_are_those_of_the_closed_form() -> None:
    x = np.repeat([0.0, 1.0], 400)
    ran = np.random.default_rng(5).exponential(1 / np.exp(np.log(3) * x))
    rows = pl.DataFrame({"x": x, "runtime_s": ran, "status": "failed", "user": "u"})
    [row] = traceana.cause_specific_hazards(rows, features="x", causes="failed").rows(named=True)
    assert row["ci_low"] < 3 < row["ci_high"]
    assert 'cluster="user"' in row["note"]


def test_a_level_that_never_ends_by_a_cause_is_noted_by_that_cause() -> None:
    rows = pl.DataFrame(
        {
            "g": ["a"] * 4 + ["b"] * 4,
            "runtime_s": [1.0, 2, 3, 4] * 2,
            "status": ["completed", "failed"] * 2 + ["failed"] * 4,
        }
    )
    found = traceana.cause_specific_hazards(rows, features="g", causes="completed")
    [note] = found.filter(level="b")["note"]
    assert note == "no row of the 4 completed: no finite hazard ratio; rows excluded"


def test_a_level_with_few_events_is_noted() -> None:
    jobs = pl.DataFrame(
        {
            "x": ["a"] * 60 + ["b"] * 40,
            "runtime_s": np.random.default_rng(1).permutation(np.arange(1.0, 101)),
            "status": ["failed"] * 40 + ["running"] * 57 + ["failed"] * 3,
        }
    )
    row = fit(jobs)
    assert (row["level"], row["n_events"]) == ("b", 3)
    assert row["note"] == "fewer than 5 events: interval and p are approximate"


def test_memory_of_errors_over_a_cluster_per_row_is_bounded() -> None:
    # one matrix of 30 x 30 per cluster, all at once, is 144 MB
    rng = np.random.default_rng(1)
    scores, away = rng.normal(size=(2, 20_000, 30))
    information = away.T @ away
    tracemalloc.start()
    variance, effective = _over_clusters(scores, away, information, np.arange(20_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
    # of independent rows: the sandwich of White
    inverse = np.linalg.inv(information)
    sandwich = np.diag(inverse @ scores.T @ scores @ inverse)
    np.testing.assert_allclose(variance, sandwich, rtol=0.01)
    weight = away**2
    expected = weight.sum(axis=0) ** 2 / (weight**2).sum(axis=0) - 1
    np.testing.assert_allclose(effective, expected)
