"""Independent units of a cohort, and outcomes by a runtime where many rows have not ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import t

import traceana
from traceana.cohorts.cohort import BLOCK, form_cohort, outcome_cohort
from traceana.questions.correlations import section as correlations
from traceana.questions.failures.analyze import (
    analyze_outcomes,
    fit_failure_model,
    incidence_difference,
)
from traceana.questions.failures.hazards import overall_failure
from traceana.questions.failures.section import build as outcomes_section
from traceana.questions.failures.section_competing_risks import build
from traceana.questions.failures.section_model import build as model_section
from traceana.questions.runtimes.fit import analyze_runtime_distributions
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
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(1000)],
            "submit_s": submit,
            "start_s": submit,
            "end_s": submit + runtime,
            "runtime_s": runtime,
            "gpus": 1.0,
            "status": ["failed", "completed", "completed", "completed"] * 250,
        }
    )
    cohort = form_cohort(trace_of(jobs, tmp_path))
    assert cohort.cluster == BLOCK
    assert cohort.block_s == DAY_S
    assert cohort.rows[BLOCK].n_unique() == 40
    assert "40 blocks of 1 d" in cohort.independence
    # a limit of the intervals stands beside the finding
    limitations = outcomes_section([cohort.trace]).limitations
    assert limitations.endswith(
        "Dependence may go unnoticed in fewer than 60 days (or shorter units), so intervals may be "
        "too narrow."
    )


@pytest.mark.parametrize("of_days", [True, False])
def test_days_that_differ_beside_users_are_units_as_well(of_days: bool, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(2), 3600
    day, user = rng.integers(0, 90, n), rng.integers(0, 60, n)
    level = rng.normal(size=90)[day] if of_days else rng.normal(size=60)[user]
    submit = day * DAY_S + rng.uniform(0, DAY_S, n)
    fails = level + rng.normal(size=n) < -1
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(n)],
            "user": [f"u{one}" for one in user],
            "submit_s": submit,
            "start_s": submit,
            "end_s": submit + 60,
            "runtime_s": 60.0,
            "status": np.where(fails, "failed", "completed"),
            "gpus": 1.0,
        }
    )
    trace = trace_of(jobs, tmp_path)
    cohort = form_cohort(trace)
    assert cohort.cluster == "user"
    assert cohort.unit_columns == (("user", BLOCK) if of_days else ("user",))
    assert ("and the 90 blocks of 1 d of submission" in cohort.independence) is of_days
    # the page of one trace states the units as well
    options: Any = {"only": ("outcomes",), "formats": "md"}
    page = traceana.build_report(trace.store, out=tmp_path / "page", **options).read_text()
    assert page.count("Confidence intervals treat the 60 users") == 1
    rate = overall_failure(trace).rate
    width = rate["ci_high"] - rate["ci_low"]

    def error(*units: np.ndarray) -> float:
        _, code = np.unique(np.stack(units), axis=1, return_inverse=True)
        return float(np.linalg.norm(np.bincount(code, fails - fails.mean()))) / n

    days = day if of_days else np.arange(n)
    exact = (error(user) ** 2 + error(days) ** 2 - error(user, days) ** 2) ** 0.5
    exact = exact if of_days else error(user)
    assert width == pytest.approx(2 * 1.99 * exact, rel=0.05)
    assert (width > 2 * 2 * 1.99 * error(user)) is of_days


def test_tails_of_runtimes_are_over_users_and_days(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(2), 3600
    day, user = rng.integers(0, 90, n), rng.integers(0, 60, n)
    ran = np.exp(
        7 + rng.normal(size=90)[day] + 0.7 * rng.normal(size=60)[user] + rng.normal(size=n)
    )
    submit = day * DAY_S + rng.uniform(0, DAY_S, n)
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(n)],
            "user": [f"u{one}" for one in user],
            "submit_s": submit,
            "start_s": submit,
            "end_s": submit + ran,
            "runtime_s": ran,
            "status": "completed",
            "gpus": 1.0,
        }
    )
    tail = analyze_runtime_distributions(trace_of(jobs, tmp_path)).tail
    assert tail is not None
    row = tail.row(-1, named=True)  # the most values
    found = np.log(row["ci_high"] / row["ci_low"])
    units = [user, day, user * 90 + day]
    one_way = [
        traceana.tail_index(ran, k=row["k"], cluster=pl.Series(unit)).row(0, named=True)
        for unit in units
    ]
    users, days, both = (np.log(one["ci_high"] / one["ci_low"]) ** 2 for one in one_way)
    assert users + days - both > 2 * users
    assert found == pytest.approx(np.sqrt(users + days - both), rel=0.02)


@pytest.fixture
def watched(tmp_path: Path) -> Trace:
    """Two GPU types on which a fifth of the jobs fails early; those of A100 complete later."""
    rng, n, window = np.random.default_rng(3), 3000, 2 * DAY_S
    a100, fails = rng.random(n) < 0.5, rng.random(n) < 0.2
    completes = np.where(a100, 259_200, 40_000) * np.exp(0.6 * rng.normal(size=n))
    runtime = np.where(fails, rng.exponential(1800, n), completes)
    submit = np.sort(rng.uniform(0, window, n))
    cut = submit + runtime > window
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(n)],
            "user": [f"u{i}" for i in rng.integers(0, 60, n)],
            "gpu_type": np.where(a100, "A100", "T4"),
            "gpus": rng.choice([1.0, 2, 4], n),
            "submit_s": submit,
            "start_s": submit,
            "end_s": np.where(cut, np.nan, submit + runtime),
            "runtime_s": np.where(cut, np.nan, runtime),
            "status": np.where(cut, "running", np.where(fails, "failed", "completed")),
        }
    ).with_columns(pl.col("end_s", "runtime_s").fill_nan(None))
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
    model, _ = fit_failure_model(watched)
    assert model is not None
    assert (model.odds_ratios["pvalue_adjusted"].drop_nulls() > 0.05).all()
    overall = overall_failure(watched)
    assert overall.is_censored
    assert overall.incidence is not None
    assert overall.incidence["horizon_s"] == DAY_S


def test_a_trace_that_has_ended_keeps_its_rows(tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_s": [0.0, 1, 2],
            "start_s": [0.0, 1, 2],
            "end_s": [9.0, 9, 9],
            "runtime_s": [9.0, 8, 7],
            "status": ["failed", "completed", "completed"],
        }
    )
    cohort = outcome_cohort(trace_of(jobs, tmp_path))
    assert cohort.horizon_s is None
    assert cohort.cluster is None  # a few seconds are no ten blocks


def test_no_section_states_a_difference_between_the_types(watched: Trace, tmp_path: Path) -> None:
    only = ("consumers", "outcomes", "failure-model", "competing-risks", "workload")
    page = traceana.build_report(watched.store, out=tmp_path / "page", only=only, formats="md")
    text = page.read_text()
    assert "times as often" not in text
    assert "A100 and " in text  # the two curves are compared
    assert ", which is inconclusive" in text
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
        {
            "job_id": [str(one) for one in range(n)],
            "gpus": np.where(large, 8.0, 1.0),
            "gpu_type": np.where(first, "A", "B"),
            "submit_s": start,
            "start_s": start,
            "end_s": start + ran,
            "runtime_s": ran,
            "status": np.where(fails, "failed", "completed"),
        }
    )
    trace = trace_of(jobs, tmp_path)
    crude = fails[first].mean() - fails[~first].mean()
    assert crude > 0.1
    found = incidence_difference(trace, "gpu_type", ("A", "B"), DAY_S, True)
    assert found is not None
    assert found[0] == pytest.approx(-0.1, abs=0.04)
    assert found[1] < -0.1 < found[2] < 0
    assert incidence_difference(trace, "gpus", (1.0, 8.0), DAY_S, True) is None
    [finding] = build([trace]).findings
    # the first sentence, which the summary repeats, has both
    first_sentence = str(finding).partition("). ")[0]
    assert "; with the same GPUs 1" in first_sentence  # 10 points, of B above A
    assert first_sentence.endswith("so the sign changes (Simpson's paradox")


def test_a_difference_that_sizes_explain_is_not_the_heading_alone(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(4), 3000
    large = rng.random(n) < 0.5
    first = rng.random(n) < np.where(large, 0.8, 0.2)
    start, ran = rng.uniform(0, 60 * DAY_S, n), rng.exponential(3600, n)
    jobs = pl.DataFrame(
        {
            "job_id": [str(one) for one in range(n)],
            "gpus": np.where(large, 8.0, 1.0),
            "gpu_type": np.where(first, "A", "B"),
            "submit_s": start,
            "start_s": start,
            "end_s": start + ran,
            "runtime_s": ran,
            "user": [f"u{one % 60}" for one in range(n)],
            "status": np.where(rng.random(n) < np.where(large, 0.4, 0.1), "failed", "completed"),
        }
    )
    [finding] = build([trace_of(jobs, tmp_path)]).findings
    heading = getattr(finding, "heading", "")
    assert heading.endswith("fail within 1 d, but with the same GPUs no difference is clear")


def test_a_difference_of_groups_that_share_users_is_left_out_user_by_user(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    user = rng.integers(0, 25, 2000)
    first = rng.random(2000) < 0.5
    # jobs of a user fail alike on both types: their difference varies less than either rate
    fails = rng.random(2000) < rng.beta(1, 3, 25)[user]
    start = rng.uniform(0, 60 * DAY_S, 2000)
    jobs = pl.DataFrame(
        {
            "job_id": [str(one) for one in range(2000)],
            "user": [f"u{one}" for one in user],
            "gpu_type": np.where(first, "A", "B"),
            "submit_s": start,
            "start_s": start,
            "end_s": start + 60,
            "runtime_s": 60.0,
            "status": np.where(fails, "failed", "completed"),
        }
    )
    found = incidence_difference(trace_of(jobs, tmp_path), "gpu_type", ("A", "B"), DAY_S, False)
    assert found is not None

    def difference(kept: np.ndarray) -> float:
        return float(fails[kept & first].mean() - fails[kept & ~first].mean())

    without = np.array([difference(user != one) for one in range(25)])
    error = np.sqrt(24 / 25 * ((without - difference(user >= 0)) ** 2).sum())
    n = np.bincount(user)
    reach = float(t(n.sum() ** 2 / (n**2).sum() - 1).ppf(0.975))
    assert found[0] == pytest.approx(difference(user >= 0))
    assert found[2] - found[0] == pytest.approx(reach * error)
    assert found[0] - found[1] == pytest.approx(reach * error)
    both = [np.sqrt(fails[part].var() / part.sum()) for part in (first, ~first)]
    of_users = traceana.failure_rates(jobs, "gpu_type", cluster="user")
    wide = (of_users["ci_high"] - of_users["ci_low"]).to_numpy() / 2
    assert np.hypot(*both) < error < np.hypot(*wide) / 2


def test_collinear_features_lead_with_what_they_do_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    n = 1500
    cpus = np.exp(rng.normal(size=n))
    memory = cpus * np.exp(0.02 * rng.normal(size=n))
    fails = rng.random(n) < 1 / (1 + np.exp(1.5 - np.log2(cpus)))
    start = rng.uniform(0, 60 * DAY_S, n)
    jobs = pl.DataFrame(
        {
            "job_id": [str(one) for one in range(n)],
            "user": [f"u{one % 90}" for one in range(n)],
            "cpus": cpus,
            "memory_gib": memory,
            "submit_s": start,
            "start_s": start,
            "end_s": start + 60,
            "runtime_s": 60.0,
            "status": np.where(fails, "failed", "completed"),
        }
    )
    first, *_ = model_section([trace_of(jobs, tmp_path)]).findings
    assert "CPUs and memory (GiB) are together associated with failure (p < 0.001" in str(first)
    assert str(first).endswith("; not certain of each alone: CPUs and memory (GiB).")
    assert "only together" in getattr(first, "heading", "")


def test_runtimes_that_began_before_the_window_are_not_compared(tmp_path: Path) -> None:
    # type A: jobs of 1 h that start in the window, and long ones that run into it
    n, late = 400, 12
    start = np.concatenate([np.linspace(12, 28, 2 * n) * DAY_S, np.full(late, 5 * DAY_S)])
    ran = np.concatenate([np.tile([3600.0, 3601.0], n), np.full(late, 8 * DAY_S)])
    jobs = pl.DataFrame(
        {
            "job_id": [str(one) for one in range(len(ran))],
            "submit_s": start,
            "start_s": start,
            "gpu_type": ["A", "B"] * n + ["A"] * late,
            "end_s": start + ran,
            "runtime_s": ran,
            "status": "completed",
            "gpus": 1.0,
        }
    )
    trace_of(jobs, tmp_path)
    manifest = tmp_path / "planted" / "manifest.json"
    ends = {"window": "stated", "window_start_s": 10 * DAY_S, "window_end_s": 30 * DAY_S}
    manifest.write_text(json.dumps(json.loads(manifest.read_text("utf-8")) | ends), "utf-8")
    trace = traceana.open_store(tmp_path).trace("planted")
    [found] = analyze_outcomes(trace)[0][:1]
    groups = found.comparisons["completed"].groups
    assert groups["n"].to_list() == [n, n]
    assert found.runtimes.groups["n_truncated"].sum() == late


@pytest.mark.parametrize("most_named", [10_000, 10])
def test_jobs_without_a_user_are_no_values_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_named: int
) -> None:
    monkeypatch.setattr("traceana.cohorts.cohort._MOST_NAMED", most_named)
    # 24 users have jobs that end; 60 services without a user still run
    rng = np.random.default_rng(2)
    n = 960
    submit = np.concatenate([np.sort(rng.uniform(0, 100_000, n)), np.zeros(60)])
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{at}" for at in range(n + 60)],
            "user": [f"u{at % 24}" for at in range(n)] + [None] * 60,
            "submit_s": submit,
            "start_s": submit,
            "runtime_s": [*rng.lognormal(6, 1, n), *[100_000.0] * 60],
            "gpus": [*(2.0 ** rng.integers(0, 4, n)), *[1.0] * 60],
            "status": ["completed"] * n + ["running"] * 60,
        }
    )
    trace = trace_of(jobs, tmp_path)
    cohort = form_cohort(trace)
    assert cohort.units == "24 users and 60 jobs without one"
    # the schema of a million names would be hashed each time that it is looked at
    assert (cohort.rows["user"].dtype == pl.Int64) == (most_named == 10)
    texts = " ".join(map(str, correlations.build([trace]).findings))
    assert "n = 960, 24 users)" in texts
