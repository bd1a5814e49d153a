"""Independent units of a cohort, and outcomes by a runtime where many rows have not ended."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.cohorts.cohort import BLOCK, form_cohort
from traceana.cohorts.horizon import outcome_cohort
from traceana.questions.failures.analyze import (
    analyze_outcomes,
    fit_failure_model,
    incidence_at_equal_size,
)
from traceana.questions.failures.overall import overall_failure
from traceana.questions.failures.section_competing_risks import build
from traceana.questions.runtimes.analyze import median_above
from traceana.store import Trace

DAY_S = 86_400.0


def trace_of(jobs: pl.DataFrame, store: Path) -> Trace:
    traceana.add_table(jobs, trace="planted", table="jobs", store=store)
    return traceana.open_store(store).trace("planted")


def test_without_users_the_units_are_blocks_of_days(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    day = np.repeat(np.arange(40), 25)
    level = rng.normal(size=40)[day]
    runtime = np.exp(7 + level + 0.1 * rng.normal(size=1000))
    submit = day * DAY_S + rng.uniform(0, DAY_S, 1000)
    jobs = pl.DataFrame({
        "job_id": [f"j{i}" for i in range(1000)], "submit_s": submit, "start_s": submit,
        "end_s": submit + runtime, "runtime_s": runtime, "status": "completed", "gpus": 1.0,
    })  # fmt: skip
    cohort = form_cohort(trace_of(jobs, tmp_path))
    assert cohort.cluster == BLOCK
    assert cohort.block_s == DAY_S
    assert cohort.rows[BLOCK].n_unique() == 40
    assert "40 blocks of 1 d" in cohort.independence


@pytest.fixture
def watched(tmp_path: Path) -> Trace:
    """Two GPU types on which a fifth of the jobs fails early; those of A100 complete later."""
    rng, n, window = np.random.default_rng(3), 3000, 2 * DAY_S
    a100, fails = rng.random(n) < 0.5, rng.random(n) < 0.2
    completes = np.where(a100, 259_200, 40_000) * np.exp(0.6 * rng.normal(size=n))
    runtime = np.where(fails, rng.exponential(1800, n), completes)
    submit = np.sort(rng.uniform(0, window, n))
    cut = submit + runtime > window
    jobs = pl.DataFrame({
        "job_id": [f"j{i}" for i in range(n)], "user": [f"u{i}" for i in rng.integers(0, 60, n)],
        "gpu_type": np.where(a100, "A100", "T4"), "gpus": rng.choice([1.0, 2, 4], n),
        "submit_s": submit, "start_s": submit,
        "end_s": np.where(cut, np.nan, submit + runtime),
        "runtime_s": np.where(cut, np.nan, runtime),
        "status": np.where(cut, "running", np.where(fails, "failed", "completed")),
    }).with_columns(pl.col("end_s", "runtime_s").fill_nan(None))  # fmt: skip
    return trace_of(jobs, tmp_path)


def test_failures_are_compared_by_a_runtime_where_many_jobs_still_run(watched: Trace) -> None:
    naive = traceana.failure_rates(form_cohort(watched).rows, "gpu_type")
    low, high = naive["rate"].min(), naive["rate"].max()
    assert high > 2 * low  # type: ignore[operator]
    cohort = outcome_cohort(watched)
    assert cohort.horizon_s == DAY_S
    assert (cohort.rows["watched_s"] >= DAY_S).all()
    [found], tests, _ = analyze_outcomes(watched)[0][:1], *analyze_outcomes(watched)[1:]
    assert found.rates["rate"].to_list() == pytest.approx([0.2, 0.2], abs=0.04)
    assert found.horizon is not None
    assert found.horizon["fraction"].to_list() == pytest.approx([0.2, 0.2], abs=0.04)
    assert not found.comparisons  # runtimes of ended jobs are those of short ones
    failure = tests.row(0, named=True)
    assert failure["pvalue_adjusted"] > 0.05
    assert found.hazards is not None
    completed = found.hazards.filter(cause="completed").row(0, named=True)
    assert completed["pvalue_adjusted"] < 0.001
    model, _ = fit_failure_model(watched)
    assert model is not None
    assert (model.odds_ratios["pvalue_adjusted"].drop_nulls() > 0.05).all()
    overall = overall_failure(watched)
    assert overall.is_censored
    assert overall.incidence is not None
    assert overall.incidence["horizon_s"] == DAY_S


def test_a_trace_that_has_ended_keeps_its_rows(tmp_path: Path) -> None:
    jobs = pl.DataFrame({
        "job_id": ["a", "b", "c"], "submit_s": [0.0, 1, 2], "start_s": [0.0, 1, 2],
        "end_s": [9.0, 9, 9], "runtime_s": [9.0, 8, 7],
        "status": ["failed", "completed", "completed"],
    })  # fmt: skip
    cohort = outcome_cohort(trace_of(jobs, tmp_path))
    assert cohort.horizon_s is None
    assert cohort.cluster is None  # a few seconds are no ten blocks


def test_no_section_states_a_difference_between_the_types(watched: Trace, tmp_path: Path) -> None:
    only = ("consumers", "outcomes", "failure-model", "competing-risks", "workload")
    page = traceana.build_report(watched.store, out=tmp_path / "page", only=only, formats="md")
    text = page.read_text()
    assert "times as often" not in text
    assert "They differ" not in text
    assert "| A100 |" in text


def test_failures_of_groups_are_compared_at_equal_gpus(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 3000
    large = rng.random(n) < 0.5
    # A requests 8 GPUs in 8 of 10 jobs, B in 2; of 8 GPUs .5 fail, else .1, of A 0.1 fewer
    first = rng.random(n) < np.where(large, 0.8, 0.2)
    fails = rng.random(n) < np.where(large, 0.6, 0.2) - 0.1 * first
    start = rng.uniform(0, 60 * DAY_S, n)
    ran = rng.exponential(3600, n)
    jobs = pl.DataFrame(
        {"job_id": [str(one) for one in range(n)], "gpus": np.where(large, 8.0, 1.0),
         "gpu_type": np.where(first, "A", "B"), "submit_s": start, "start_s": start,
         "end_s": start + ran, "runtime_s": ran,
         "status": np.where(fails, "failed", "completed")}
    )  # fmt: skip
    trace = trace_of(jobs, tmp_path)
    crude = fails[first].mean() - fails[~first].mean()
    assert crude > 0.1
    found = incidence_at_equal_size(trace, "gpu_type", ("A", "B"), DAY_S)
    assert found is not None
    assert found[0] == pytest.approx(-0.1, abs=0.04)
    assert found[1] < -0.1 < found[2] < 0
    assert incidence_at_equal_size(trace, "gpus", (1.0, 8.0), DAY_S) is None
    [finding] = build([trace]).findings
    assert "Simpson" in getattr(finding, "text", finding)


def test_a_median_of_longer_jobs_compares_with_a_log_without_short_ones(tmp_path: Path) -> None:
    ran = np.random.default_rng(4).exponential(1000, 2001)
    jobs = pl.DataFrame(
        {"job_id": [str(one) for one in range(2001)], "submit_s": np.arange(2001.0),
         "start_s": np.arange(2001.0), "end_s": np.arange(2001) + ran, "runtime_s": ran,
         "status": "completed", "gpus": 1.0}
    )  # fmt: skip
    median, n = median_above(form_cohort(trace_of(jobs, tmp_path)), 600.0)
    assert n == (ran >= 600).sum()
    assert median == pytest.approx(np.median(ran[ran >= 600]), rel=0.01)
