"""Planted early failures, time limits, repeated runs and predictable runtimes reach the page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import traceana


def test_the_page_states_what_was_planted(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    n = 2000
    job = rng.integers(20, size=n)
    fails = rng.random(n) < 0.2
    runtime = np.exp(np.linspace(5, 9, 20))[job] * rng.lognormal(0, 0.2, n)
    runtime = np.where(fails, rng.uniform(1, 60, n), runtime)
    submit = np.sort(rng.uniform(0, 3e6, n))
    jobs = pl.DataFrame(
        {
            "job_id": [f"{i}" for i in range(n)],
            "user": [f"u{one % 10}" for one in job],
            "job_name": [f"n{one}" for one in job],
            "status": np.where(fails, "failed", "completed"),
            "submit_s": submit,
            "start_s": submit,
            "end_s": submit + runtime,
            "runtime_s": runtime,
            "gpus": 8.0,
            "time_limit_s": np.where(np.arange(n) < 500, runtime, 4 * runtime),
        }
    )
    store = tmp_path / "store"
    traceana.add_table(jobs, trace="mine", table="jobs", store=store, title="Ours")
    only = ["hazards", "runtime-prediction"]
    traceana.build_report(store, out=tmp_path / "page", only=only)
    page = (tmp_path / "page" / "index.md").read_text()
    assert "25 % of jobs reach their time limit" in page
    hours = runtime.sum() * 8 / 3600
    lost = (runtime * fails).sum() * 8 / 3600
    useful = f"{100 * (1 - lost / hours):.1f} %"
    assert f"Of {hours:,.0f} GPU-hours {useful} went to completed jobs" in page
    assert re.search(r"predicts runtimes \d+ % better than the median of all earlier jobs", page)
    early = fails.sum() / (np.minimum(runtime, 60).sum() / 3600)
    [row] = [line for line in page.splitlines() if line.startswith("| failed | 0 s | 1 min |")]
    _, _, _, _, _, events, _, per_hour, *_ = (cell.strip() for cell in row.split("|"))
    assert (events, per_hour) == (f"{fails.sum()}", f"{early:.3g}")


def page_of(jobs: pl.DataFrame, folder: Path, **facts: float) -> str:
    mapping = folder / "mine.toml"
    columns = "\n".join(f'{name} = "{name}"' for name in jobs.columns)
    stated = "\n".join(f"{name} = {value}" for name, value in facts.items())
    mapping.write_text(f"[trace]\n{stated}\n[jobs]\n{columns}\n")
    store = folder / "store"
    traceana.add_table(jobs, trace="mine", table="jobs", store=store, mapping=mapping)
    traceana.build_report(store, out=folder / "page", only=["hazards"])
    return (folder / "page" / "index.md").read_text()


def test_hours_of_jobs_at_their_limit_are_those_within_the_window(tmp_path: Path) -> None:
    # of the job at its limit of 10 h, 4 h are before the window; the other job has 6 h
    start = 2_000_000_000.0
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"],
            "status": ["failed", "completed"],
            "submit_s": [start - 14_400, start],
            "start_s": [start - 14_400, start],
            "end_s": [start + 21_600, start + 21_600],
            "runtime_s": [36_000.0, 21_600.0],
            "gpus": [4.0, 4.0],
            "time_limit_s": [36_000.0, 86_400.0],
        }
    )
    page = page_of(jobs, tmp_path, window_start_s=start, window_end_s=start + 30_000)
    assert "50 % of jobs reach their time limit, with 50 % of GPU-hours" in page
    assert "Of 48 GPU-hours 50 % went to completed jobs and 50 % to unsuccessful jobs" in page


def test_equal_first_and_last_hazards_do_not_hide_a_peak(tmp_path: Path) -> None:
    # 0.3 failures per hour, but 3 per hour from 1 to 10 min of runtime
    rng = np.random.default_rng(1)
    n = 6000
    until = rng.exponential(1, n)  # cumulative hazard at which a job fails
    peak = 3 / 60 * 9
    hours = np.select(
        [until < 0.3 / 60, until < 0.3 / 60 + peak],
        [until / 0.3, 1 / 60 + (until - 0.3 / 60) / 3],
        10 / 60 + (until - 0.3 / 60 - peak) / 0.3,
    )
    completed = rng.exponential(3, n)
    failed = hours < completed
    runtime = 3600 * np.minimum(hours, completed)
    submit = np.sort(rng.uniform(0, 3e6, n)) + 2_000_000_000
    jobs = pl.DataFrame(
        {
            "job_id": [f"{at}" for at in range(n)],
            "user": [f"u{at % 40}" for at in range(n)],
            "status": np.where(failed, "failed", "completed"),
            "submit_s": submit,
            "start_s": submit,
            "end_s": submit + runtime,
            "runtime_s": runtime,
            "gpus": 1.0,
        }
    )
    page = page_of(jobs, tmp_path)
    assert re.search(r"Jobs fail [\d.]+ times as often per hour of runtime from 1 min to 10", page)
    [(low, high)] = re.findall(r" \(([\d.]+) to ([\d.]+) times by the limits of both", page)
    assert float(low) < 10 < float(high)
    # 1 - exp(-3 * 9 / 60) = 36 % of those that run for a minute
    [part] = re.findall(r"(\d+) % of the jobs that run for 1 min fail before 10 min", page)
    assert int(part) == pytest.approx(36, abs=2)


def test_jobs_that_reach_a_limit_of_a_day_are_no_failures_after_a_day(tmp_path: Path) -> None:
    """40 jobs reach their limit of 1 d some seconds late; 30 of 1,000 fail in the first minute.

    Counted as failures, the 40 would be a hazard of nearly all jobs that run for 1 d.
    """
    n = 1000
    at = np.arange(n)
    early, late = at < 30, at >= n - 40
    runtime = np.where(early, 30.0, np.where(late, 86_400.0 + at % 30 + 1, 5000.0 + at))
    fails_later = (at >= 30) & (at < 50)  # 20 after more than 1 h
    jobs = pl.DataFrame(
        {
            "job_id": [f"{i}" for i in range(n)],
            "status": np.where(early | late | fails_later, "failed", "completed"),
            "end_reason": np.where(late, "TIMEOUT", np.where(early, "FAILED", "COMPLETED")),
            "submit_s": 1000.0 * at,
            "start_s": 1000.0 * at,
            "end_s": 1000.0 * at + runtime,
            "runtime_s": runtime,
            "gpus": 1.0,
        }
    )
    page = page_of(jobs, tmp_path)
    assert "3.0 % of jobs fail before 1 min of runtime" in page
    assert "of the jobs that run for 1 h fail before 6 h of runtime" in page
    assert "otherwise, such as at a limit." in page
    assert "run for 1 d fail" not in page
    of_limit = "| failed at a limit of the request | 1 d | 2 d | 40 | 40 |"
    assert of_limit in page
