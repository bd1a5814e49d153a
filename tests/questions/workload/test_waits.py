"""Waits against size, load and time; seasonality and drift: planted truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.questions.trends.by_period import outages
from traceana.questions.trends.changes import changes_and_drift
from traceana.questions.trends.gaps import slope_over_time
from traceana.questions.workload import section
from traceana.questions.workload.analyze import adjusted_waits
from traceana.questions.workload.demand import seasonality

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

DAY_S = 86_400.0


def planted(seed: int, n: int = 1200, days: int = 40) -> pl.DataFrame:
    """Twice the GPUs halves the rate of starts; a tenth of the jobs are pending when last seen."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, days * DAY_S, n))
    gpus = 2.0 ** rng.integers(0, 4, n)
    wait = rng.exponential(600 * gpus)
    pending = wait > np.quantile(wait, 0.9)
    start = submit + wait
    jobs = pl.DataFrame(
        {
            "job_id": [str(one) for one in range(n)],
            "submit_s": submit,
            "start_s": start,
            "end_s": np.where(pending, submit + np.quantile(wait, 0.9), start + 60),
            "gpus": gpus,
            "status": np.where(pending, "pending", "completed"),
        }
    )
    return jobs.with_columns(start_s=pl.when(pl.col("status") != "pending").then("start_s"))


def test_pending_jobs_are_censored_waits(tmp_path: Path) -> None:
    ratios, covered, rejected = [], 0, 0
    for seed in range(12):
        store = tmp_path / str(seed)
        traceana.add_table(planted(seed), trace="mine", table="jobs", store=store)
        found = adjusted_waits(traceana.open_store(store).trace("mine"))
        assert found is not None
        size = found.row(by_predicate=pl.col("feature") == "GPUs doubled", named=True)
        assert (size["n"], size["n_events"]) == (1200, 1080)
        ratios.append(size["hazard_ratio"])
        covered += size["ci_low"] < 0.5 < size["ci_high"]
        rest = found.filter(pl.col("feature") != "GPUs doubled").drop_nulls("pvalue_adjusted")
        assert rest.height >= 4
        rejected += (rest["pvalue_adjusted"] < 0.05).any()
    assert np.mean(ratios) == pytest.approx(0.5, rel=0.02)  # of exponential waits
    assert covered >= 9  # of 12, 11.4 expected: fewer with a probability of 0.2 %
    assert rejected <= 3  # 0.6 expected: more with a probability of 0.3 %


def test_cycles_are_found_whatever_the_phase_and_not_in_bursts() -> None:
    rng = np.random.default_rng(3)
    hour = np.arange(60 * 24)
    for phase in (0, 7):
        rate = 5 * (1 + 0.5 * np.sin(2 * np.pi * (hour + phase) / 24))
        counts = rng.poisson(rate)
        daily, weekly = seasonality(np.repeat(hour, counts) * 3600.0).rows(named=True)
        assert daily["pvalue"] == pytest.approx(0.001)
        assert daily["amplitude"] == pytest.approx(0.5 / np.sqrt(2), rel=0.1)
        assert weekly["pvalue"] > 0.01
    bursts = np.repeat(hour, rng.poisson(np.repeat(rng.lognormal(0, 1.5, 240), 6)))
    assert (seasonality(bursts * 3600.0)["pvalue"] > 0.01).all()
    assert seasonality(hour[:100] * 3600.0).is_empty()


def test_days_without_jobs_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    def count(roots: NDArray[np.float64], *_: object) -> float:
        held.append(len(roots))
        return 0.5

    monkeypatch.setattr("traceana.questions.workload.demand._pvalue", count)
    daily, weekly = seasonality([0.0, 5.0, 1e9, 9.2e9]).rows(named=True)  # the year 2261
    assert held == [2, 2]
    # the last day and week are not whole
    assert (daily["n_cycles"], daily["n"]) == (9_200_000_000 // 86_400, 3)
    assert (weekly["n_cycles"], weekly["n"]) == (9_200_000_000 // (7 * 86_400), 3)


def test_a_planted_drift_is_within_its_interval() -> None:
    rng = np.random.default_rng(4)
    day = np.repeat(np.arange(60), 30)
    runtime = np.exp(rng.normal(7, 0.3, len(day)) + 0.1 * day / 7)
    jobs = pl.DataFrame(
        {
            "start_s": day * DAY_S,
            "runtime_s": runtime,
            "gpus": 1.0,
            "status": "completed",
            "user": [f"u{one % 5}" for one in range(len(day))],
        }
    )
    lost = outages(jobs)
    outcomes = ("completed",), ("failed",)
    _, found = changes_and_drift(jobs, outcomes, timezone=None, window=None, lost=lost)
    row = found.row(by_predicate=pl.col("measure") == "runtime", named=True)
    assert row["ci_low"] < np.expm1(0.1) < row["ci_high"]
    assert row["pvalue"] < 0.001
    few = slope_over_time(np.arange(5) / 7, np.arange(5.0), np.zeros(5, dtype=int))
    assert few[0] == pytest.approx(7)
    assert np.isnan(few[1])
    assert few[-1]


def test_a_log_of_weeks_states_on_what_waits_depend(tmp_path: Path) -> None:
    # exponential waits, those of class slow twice as long: a hazard ratio of 0.5
    rng = np.random.default_rng(5)
    submit = np.sort(rng.uniform(0, 40 * DAY_S, 3000))
    gpus, qos = 2.0 ** rng.integers(0, 4, 3000), rng.choice(["fast", "slow"], 3000)
    start = submit + rng.exponential(np.where(qos == "slow", 600, 300))
    jobs = pl.DataFrame({"submit_s": submit, "start_s": start, "gpus": gpus, "qos": qos})
    jobs = jobs.with_columns(
        end_s=pl.col("start_s") + 60,
        runtime_s=60.0,
        status=pl.lit("completed"),
        job_id=pl.int_range(pl.len()).cast(pl.String),
    )
    traceana.add_table(jobs, trace="own", table="jobs", store=tmp_path)
    trace = traceana.open_store(tmp_path).trace("own")
    fit = adjusted_waits(trace)
    assert fit is not None
    row = fit.row(by_predicate=pl.col("level") == "slow", named=True)
    assert row["ci_low"] < 0.5 < row["ci_high"]
    [told] = [one for one in section.build([trace]).findings if "hazard ratio of the start" in one]
    assert "QoS class slow versus fast 0." in told
