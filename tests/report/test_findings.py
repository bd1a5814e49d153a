"""What the sections on outcomes conclude from planted truths."""

from pathlib import Path

import numpy as np
import polars as pl

from traceana.cohorts.cohort import form_cohort
from traceana.ingesters import add_table
from traceana.page.finding import Finding
from traceana.questions.failures import section_competing_risks, section_model
from traceana.questions.failures.analyze import analyze_outcomes, variance_between_units
from traceana.questions.failures.section_model import findings_of, state_overall
from traceana.questions.runtimes.fit import analyze_runtime_distributions
from traceana.questions.trends import section as section_trends
from traceana.report import build_report
from traceana.store import open_store

TRACE = "somewhere-2031"


def findings(jobs: pl.DataFrame, folder: Path) -> list[str]:
    n = jobs.height
    rng = np.random.default_rng(7)
    start = rng.uniform(0, 1e6, n)
    times = {"submit_s": start, "start_s": start, "runtime_s": rng.lognormal(6, 1.5, n)}
    columns = {name: values for name, values in times.items() if name not in jobs.columns}
    rows = jobs.with_columns(job_id=pl.format("j{}", pl.int_range(n)), **columns)
    add_table(rows, trace=TRACE, table="jobs", store=folder / "store", title="Our jobs")
    session = open_store(folder / "store")
    groupings, tests, _ = analyze_outcomes(session.trace(TRACE))
    cohort = form_cohort(session.trace(TRACE))
    return [state_overall(cohort), *findings_of(cohort, groupings[0], tests)]


def jobs_of(queue: np.ndarray, failed: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"queue": queue, "status": np.where(failed, "failed", "completed")})


def test_rates_are_named_and_not_called_negligible(tmp_path: Path) -> None:
    # 10 and 10.6 % of 120,000 each: significant, V = .01
    queue = np.repeat(["a", "b"], 120_000)
    failed = np.concatenate([np.arange(120_000) < k for k in (12_000, 12_720)])
    text = " ".join(findings(jobs_of(queue, failed), tmp_path))
    assert "Cramér's V" not in text  # of the rates; those of runtimes have another measure
    assert "a: 10 %" in text
    assert "b: 11 %" in text


def test_few_jobs_do_not_tell(tmp_path: Path) -> None:
    queue = np.repeat(["a", "b"], 15)
    failed = np.concatenate([np.arange(15) < k for k in (4, 7)])
    text = " ".join(findings(jobs_of(queue, failed), tmp_path))
    assert " by queue is inconclusive (Cramér's V 0." in text


def test_a_group_that_never_completes_is_named_and_judged_apart(tmp_path: Path) -> None:
    # 200 of "low" failed, none completed; "a" and "b" fail alike
    queue = np.repeat(["low", "a", "b"], [300, 200, 200])
    status = np.concatenate(
        [
            np.repeat(["failed", "cancelled", "pending"], [200, 70, 30]),
            np.repeat(["failed", "completed"], 100),
            np.repeat(["completed", "failed"], 100),
        ]
    )
    text = " ".join(findings(pl.DataFrame({"queue": queue, "status": status}), tmp_path))
    assert "low: 100 % (200 of 200; none is recorded as completed)" in text
    assert "Jobs not counted: 70 cancelled, 30 pending." in text


def test_cancelled_jobs_neither_complete_nor_fail(tmp_path: Path) -> None:
    queue = np.tile(["a", "b"], 150)
    status = np.repeat(["failed", "cancelled", "completed"], 100)
    text = " ".join(findings(pl.DataFrame({"queue": queue, "status": status}), tmp_path))
    assert "a: 50 %" in text
    assert "50 of 100" in text
    assert "Jobs not counted: 100 cancelled." in text


def test_all_tests_of_a_trace_are_one_family(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    jobs = jobs_of(rng.choice(["a", "b", "c"], 900), rng.random(900) < 0.4)
    findings(jobs.with_columns(gpus=pl.Series(rng.choice([1.0, 2, 8], 900))), tmp_path)
    _, tests, _ = analyze_outcomes(open_store(tmp_path / "store").trace(TRACE))
    assert tests.height == 6
    ordered = tests.sort("pvalue")
    # Holm by hand: the running maximum of (m - i) p, at most 1
    holm = np.minimum(np.maximum.accumulate(np.arange(6, 0, -1) * ordered["pvalue"].to_numpy()), 1)
    np.testing.assert_allclose(ordered["pvalue_adjusted"].to_numpy(), holm)


def test_the_interval_of_the_median_runtime_is_over_users(tmp_path: Path) -> None:
    # log runtime: variance 1 between 60 users, 1 within; the mean of 3,000 has an error of
    # sqrt(1/60 + 1/3000) = 0.13 over users, and of sqrt(2/3000) = 0.026 over rows
    rng = np.random.default_rng(3)
    user = rng.integers(0, 60, 3000)
    runtime = np.exp(6 + rng.normal(size=60)[user] + rng.normal(size=3000))
    running = np.arange(3000) % 10 == 0  # the median of a log in which few run is exact
    status = np.where(running, "running", "completed")
    ended = pl.Series(np.where(running, np.nan, runtime)).fill_nan(None)
    jobs = pl.DataFrame(
        {"status": status, "submit_s": 0.0, "start_s": 0.0, "runtime_s": ended, "user": user}
    )
    findings(jobs.with_columns(pl.format("u{}", "user").alias("user")), tmp_path)
    session = open_store(tmp_path / "store")
    found = analyze_runtime_distributions(session.trace(TRACE)).median
    assert found is not None
    middle, low, high = np.log(np.array(found, dtype=float))
    assert low < middle < high
    assert 0.4 < high - low < 0.8  # 4 times 0.13 is 0.52, 4 times 0.026 is 0.10


def test_the_variance_between_users_is_measured(tmp_path: Path) -> None:
    # log runtime: half of the variance between 60 users; failure does not depend on the user
    rng = np.random.default_rng(4)
    user = rng.integers(0, 60, 3000)
    runtime = np.exp(6 + rng.normal(size=60)[user] + rng.normal(size=3000))
    jobs = jobs_of(rng.choice(["a", "b"], 3000), rng.random(3000) < 0.3)
    users = pl.format("u{}", pl.Series(user)).alias("user")
    findings(jobs.with_columns(users, runtime_s=pl.Series(runtime)), tmp_path)
    found = variance_between_units(open_store(tmp_path / "store").trace(TRACE))
    assert found["log runtime"].ci_low < 0.5 < found["log runtime"].ci_high
    assert found["log runtime"].n_clusters == 60
    assert found["failure"].ci_high < 0.03


def test_a_correlation_whose_sign_reverses_within_groups_is_stated(tmp_path: Path) -> None:
    # queue "big" runs 20 times longer and requests more GPUs; within a queue more GPUs run shorter
    rng = np.random.default_rng(5)
    queue = np.repeat(["big", "small"], 400)
    gpus = np.where(queue == "big", rng.integers(5, 9, 800), rng.integers(1, 5, 800))
    level = np.where(queue == "big", 9.0, 4.0)
    runtime = np.exp(level - 0.3 * gpus + rng.normal(size=800) * 0.2)
    jobs = pl.DataFrame({"queue": queue, "gpus": gpus.astype(float), "status": "completed"})
    findings(jobs.with_columns(runtime_s=pl.Series(runtime)), tmp_path)
    options = {"out": tmp_path / "out", "only": "correlations", "formats": "md"}
    page = build_report(tmp_path / "store", **options).read_text()  # type: ignore[arg-type]
    assert "; of opposite sign within queue big -0." in page


def test_without_groups_each_end_within_a_day_is_stated(tmp_path: Path) -> None:
    status = ["completed"] * 50 + ["failed"] * 30 + ["cancelled"] * 20
    jobs = pl.DataFrame({"status": status, "runtime_s": [100.0] * 100})
    findings(jobs, tmp_path)
    [finding] = section_competing_risks.build(
        [open_store(tmp_path / "store").trace(TRACE)]
    ).findings
    assert getattr(finding, "heading", "").endswith(
        "within 1 d of runtime, 50 % completed, 30 % failed and 20 % were cancelled"
    )
    assert "n = 100)" in finding


def test_features_that_rise_together_are_not_said_to_have_no_effect(tmp_path: Path) -> None:
    gpus = np.tile([1.0, 2.0, 4.0, 8.0], 200)
    status = np.where(np.arange(800) // 4 % 5 == 0, "failed", "completed")
    findings(pl.DataFrame({"status": status, "gpus": gpus, "cpus": 8 * gpus}), tmp_path)
    first, *_ = section_model.build([open_store(tmp_path / "store").trace(TRACE)]).findings
    assert "no single feature clearly predicts failure" in getattr(first, "heading", "")


def test_gpus_that_no_job_holds_are_a_cost(tmp_path: Path) -> None:
    # 2 of 8 GPUs for two days: 96 of 384 GPU-hours
    times = {"submit_s": [0.0], "start_s": [0.0], "runtime_s": [172_800.0]}
    jobs = pl.DataFrame({"status": ["completed"], "gpus": [2.0], **times})
    machines = pl.DataFrame({"machine_id": ["m"], "gpus": [8.0]})
    findings(jobs, tmp_path)
    add_table(machines, trace=TRACE, table="machines", store=tmp_path / "store")
    found = section_trends.build([open_store(tmp_path / "store").trace(TRACE)]).findings
    [idle] = [one for one in found if isinstance(one, Finding) and "were idle" in one]
    assert idle.cost_gpu_h == 288


def test_no_number_has_a_sign_of_nothing_and_thousands_are_separated() -> None:
    of_equal, _ = section_competing_risks._of_equal_size((-1e-5, -2e-4, 2e-4), 0.0)
    assert of_equal == "; with the same GPUs 0.0 (95 % CI 0.0 to 0.0)"
