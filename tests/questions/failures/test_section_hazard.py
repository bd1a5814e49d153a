"""Planted early failures, time limits, repeated runs and predictable runtimes reach the page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl

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
    [row] = [line for line in page.splitlines() if line.startswith("| 0 s | 1 min |")]
    _, _, _, events, _, per_hour, *_ = (cell.strip() for cell in row.split("|"))
    assert (events, per_hour) == (f"{fails.sum()}", f"{early:.3g}")
