"""The column by which workers are compared."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.questions.stragglers.analyze import clock

OFFSET = pl.col("worker_id").cast(pl.Float64) / 1000
STEPS = pl.DataFrame(
    [
        {"job_id": "a", "worker_id": str(worker), "step": step, "batch_time": 1.0}
        for step in range(10)
        for worker in range(4)
    ]
).with_columns(time_s=10.0 * pl.col("step") + OFFSET)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (STEPS, "step"),
        (STEPS.with_columns(time_s=10.0 * pl.col("step")), "time_s"),
        (STEPS.with_columns(pl.col("step") % 5), "time_s"),  # steps are repeated after a restart
        (STEPS.with_columns(step=pl.when(pl.col("step") > 1).then("step")), "time_s"),
        (STEPS.drop("time_s"), "step"),
    ],
)
def test_workers_that_share_no_time_are_compared_by_step(
    rows: pl.DataFrame, expected: str, tmp_path: Path
) -> None:
    traceana.add_table(rows, trace="mine", table="worker_samples", store=tmp_path)
    assert clock(traceana.open_store(tmp_path).trace("mine")) == expected
