"""Predicted runtimes: no look into the future, and scores against closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.errors import DataError
from traceana.ingesters import add_table
from traceana.questions.runtimes.section import build_predictions
from traceana.store import open_store


def planted(rng: np.random.Generator, n: int = 3000) -> pl.DataFrame:
    """Thirty jobs with a median of their own, submitted over and over."""
    job = rng.integers(30, size=n)
    medians = np.exp(np.linspace(4, 10, 30))
    submit = np.sort(rng.uniform(0, 1e7, n))
    runtime = medians[job] * rng.lognormal(0, 0.2, n)
    return pl.DataFrame(
        {
            "user": [f"u{one % 6}" for one in job],
            "job_name": [f"j{one}" for one in job],
            "submit_s": submit,
            "runtime_s": runtime,
            "end_s": submit + runtime,
        }
    )


def scores(found: pl.DataFrame, column: str) -> dict[tuple[str, float], float]:
    return {(p, q): x for p, q, x in found.select("predictor", "quantile", column).iter_rows()}


def test_earlier_runs_of_the_same_job_predict_its_runtime() -> None:
    found = traceana.predict_runtimes(planted(np.random.default_rng(1)), cluster="user")
    skill, coverage = scores(found, "skill"), scores(found, "coverage")
    assert skill["all", 0.5] == 0
    assert 0.7 < skill["last", 0.5] < skill["quantile", 0.5] < 1
    assert all(coverage["quantile", q] == pytest.approx(q, abs=0.05) for q in (0.1, 0.5, 0.9))
    assert coverage["last", 0.9] == pytest.approx(0.5, abs=0.05)
    row = found.filter(predictor="quantile", quantile=0.5).row(0, named=True)
    assert row["ci_low"] < row["skill"] < row["ci_high"] < 1
    assert row["n"] == 1500
    assert row["with_history"] > 0.95


def test_the_pinball_loss_is_that_of_the_definition() -> None:
    jobs = planted(np.random.default_rng(2), 400)
    found = traceana.predict_runtimes(jobs, quantiles=[0.9], same="job_name", split=0.3)
    at = float(np.quantile(jobs["submit_s"], 0.3, method="lower"))
    losses = []
    for row in jobs.filter(pl.col("submit_s") > at).iter_rows(named=True):
        done = jobs.filter(pl.col("end_s") <= row["submit_s"], job_name=row["job_name"])
        if done.height:
            predicted = float(np.quantile(done["runtime_s"], 0.9))
        else:
            predicted = float(np.quantile(jobs.filter(pl.col("end_s") <= at)["runtime_s"], 0.9))
        off = row["runtime_s"] - predicted
        losses.append(0.9 * off if off > 0 else -0.1 * off)
    assert scores(found, "pinball_s")["quantile", 0.9] == pytest.approx(np.mean(losses))


def test_without_columns_all_jobs_are_runs_of_the_same() -> None:
    jobs = planted(np.random.default_rng(4), 200)
    alone = traceana.predict_runtimes(jobs, same=())
    together = traceana.predict_runtimes(jobs.with_columns(job_name=pl.lit("j")), same="job_name")
    assert alone.equals(together)


def test_a_run_that_has_not_ended_is_not_known() -> None:
    jobs = pl.DataFrame(
        {
            "user": "u",
            "job_name": ["a", "a", "b", "b"],
            "submit_s": [0.0, 1.0, 50.0, 60.0],
            "runtime_s": [10.0, 100.0, 7.0, 5.0],
        }
    ).with_columns(end_s=pl.col("submit_s") + pl.col("runtime_s"))
    later = pl.DataFrame(
        {"user": "u", "job_name": "a", "submit_s": [90.0], "runtime_s": [40.0], "end_s": [130.0]}
    )
    found = traceana.predict_runtimes(pl.concat([jobs, later]), quantiles=[0.5], split=0.8)
    # the second run of a still runs at 90 s: the last one that ended took 10 s
    assert found["n"].to_list() == [1] * 4
    assert scores(found, "pinball_s")["last", 0.5] == pytest.approx(15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantiles": [0]}, "quantiles must lie"),
        ({"quantiles": 0.5}, "quantiles must be"),
        ({"split": 1}, "split must lie"),
        ({"same": "name"}, "column name is missing"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], message: str) -> None:
    jobs = planted(np.random.default_rng(3), 50)
    with pytest.raises(DataError, match=message):
        traceana.predict_runtimes(jobs, **options)
    with pytest.raises(DataError, match="no job ended before the split"):
        traceana.predict_runtimes(jobs.head(0))


def test_jobs_without_earlier_runs_decide_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 400
    names = pl.DataFrame(
        {name: [f"{i}" for i in range(n)] for name in ("job_id", "user", "job_name")}
    )
    submit, runtime = np.arange(n) * 3600.0, rng.uniform(60, 600, n)
    jobs = names.with_columns(
        submit_s=submit, start_s=submit, end_s=submit + runtime, runtime_s=runtime
    )
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    content = build_predictions([open_store(tmp_path).trace("mine")])
    (finding,) = content.findings
    assert finding.startswith("mine: no later job has an earlier run of the same user and name (")
