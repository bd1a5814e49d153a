"""Rows at risk at given runtimes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import kaplan_meier, rows_at_risk
from traceana.errors import DataError


def test_rows_at_risk_run_at_least_that_long() -> None:
    frame = pl.DataFrame(
        {
            "gpu_type": ["T4", "T4", "T4", "V100", "V100", None],
            "status": ["completed", "running", "running", "failed", None, "failed"],
            "runtime_s": [10.0, 20, None, 5, 7, None],
        }
    )
    found = rows_at_risk(frame, (20, 0, 10, 10), by="gpu_type")
    assert found.rows() == [
        ("T4", 0, 2),
        ("T4", 10, 2),
        ("T4", 20, 1),
        ("V100", 0, 2),
        ("V100", 10, 0),
        ("V100", 20, 0),
        (None, 0, 0),
        (None, 10, 0),
        (None, 20, 0),
    ]
    assert rows_at_risk(frame, []).columns == ["time_s", "n_at_risk"]
    assert rows_at_risk(frame.clear(), [1])["n_at_risk"].to_list() == [0]
    for wrong in (-1, float("nan"), float("inf"), "1"):
        with pytest.raises(DataError, match="times_s must be numbers of seconds from 0 on"):
            rows_at_risk(frame, [wrong])  # type: ignore[list-item]
    with pytest.raises(DataError, match="by cannot name time_s"):
        rows_at_risk(frame.rename({"gpu_type": "time_s"}), [1], by="time_s")


def test_at_the_times_of_ends_rows_at_risk_are_those_of_the_curves() -> None:
    rng = np.random.default_rng(8)
    frame = pl.DataFrame(
        {
            "status": rng.choice(["completed", "failed", "running"], 80),
            "runtime_s": rng.integers(0, 30, 80).astype(float),
        }
    )
    curves = kaplan_meier(frame).curves
    found = rows_at_risk(frame, curves["time_s"].to_list())
    assert found["n_at_risk"].to_list() == curves["n_at_risk"].to_list()
