"""Queueing delays by hand and against the standard library on the published pods."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from traceana import queueing_delay
from traceana.errors import DataError
from traceana.store import Store

JOBS = pl.DataFrame(
    {
        "qos": ["a", "a", "a", "a", "b", "b"],
        "submit_s": [0.0, 10.0, 20.0, 30.0, 5.0, None],
        "start_s": [0.0, 14.0, 30.0, None, None, 7.0],
    }
)


def test_delays_by_hand() -> None:
    a, b = queueing_delay(JOBS, by="qos").iter_rows(named=True)
    assert (a["jobs"], a["n"], a["n_no_start"], a["n_no_submit"]) == (4, 3, 1, 0)
    assert (a["mean_s"], a["median_s"], a["p75_s"], a["max_s"]) == (14 / 3, 4, 7, 10)
    assert (a["fraction_zero"], a["note"]) == (1 / 3, None)
    assert (b["jobs"], b["n"], b["n_no_start"], b["n_no_submit"]) == (2, 0, 1, 1)
    assert b["note"] == "no job has both submit_s and start_s"
    assert b["mean_s"] is b["max_s"] is b["fraction_zero"] is None


def test_a_start_before_submission_is_refused() -> None:
    with pytest.raises(DataError, match="a job starts before it was submitted: start_s is below"):
        queueing_delay(JOBS.with_columns(start_s=pl.col("start_s") / 2))


def test_the_published_pods(real_store: Store, real_data: Path) -> None:
    path = real_data / "alibaba-openb-2023" / "openb_pod_list_default.csv"
    with path.open(encoding="utf-8", newline="") as file:
        pods = list(csv.DictReader(file))
    delays = [
        float(pod["scheduled_time"]) - float(pod["creation_time"])
        for pod in pods
        if pod["scheduled_time"]
    ]
    row = queueing_delay(real_store.scan("alibaba-openb-2023", "jobs")).row(0, named=True)
    assert (row["n"], row["n_no_start"]) == (len(delays), len(pods) - len(delays))
    assert row["mean_s"] == pytest.approx(np.mean(delays), rel=1e-12)
    for name, q in {
        "median_s": 0.5,
        "p75_s": 0.75,
        "p90_s": 0.9,
        "p95_s": 0.95,
        "p99_s": 0.99,
    }.items():
        assert row[name] == pytest.approx(np.quantile(delays, q), rel=1e-12)
    # 897 pending pods waited until they were deleted
    assert (row["p90_pending_s"], row["p99_pending_s"]) == (278, 3069)
    assert (row["p90_s"], row["p99_s"]) < (278, 3069)
    assert row["fraction_zero"] == delays.count(0) / len(delays)


def test_a_trace_without_starts_has_no_delay_and_says_so(real_store: Store) -> None:
    row = queueing_delay(real_store.scan("microsoft-itp-2021", "jobs")).row(0, named=True)
    assert (row["n"], row["n_no_start"], row["median_s"]) == (0, 69351, None)
    assert row["note"] == "no job has both submit_s and start_s"
