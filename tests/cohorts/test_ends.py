"""Every end has one class, whatever a scheduler calls it."""

from __future__ import annotations

import polars as pl
import pytest

import traceana
from traceana.cohorts.ends import CLASSES


@pytest.mark.parametrize(
    ("status", "reason", "runtime", "expected"),
    [
        ("failed", "TIMEOUT", 60.0, "user limit"),
        ("failed", "out_of_memory", 60.0, "user limit"),
        ("failed", "OOMKilled", 60.0, "user limit"),
        ("failed", "DeadlineExceeded", 60.0, "user limit"),
        ("failed", "NODE_FAIL", 60.0, "machine"),
        ("cancelled", "PREEMPTED", 60.0, "scheduler"),
        ("cancelled", "Evicted", 60.0, "scheduler"),
        ("cancelled", "EvictionByEvictionAPI", 60.0, "scheduler"),
        ("failed", "Evicted", 60.0, "user limit"),
        ("failed", "NodeLost", 60.0, "machine"),
        ("failed", "NodeShutdown", 60.0, "machine"),
        ("failed", "DeletionByTaintManager", 60.0, "machine"),
        ("failed", "UnexpectedAdmissionError", None, "machine"),
        ("cancelled", "CANCELLED by 7", 60.0, "removed while running"),
        ("cancelled", "CANCELLED by 7", None, "removed before start"),
        ("cancelled", None, 60.0, "removed while running"),
        ("failed", "FAILED", 60.0, "job"),
        ("failed", None, None, "job"),
        ("completed", "COMPLETED", 60.0, None),
        ("running", "RUNNING", None, None),
        (None, "TIMEOUT", 60.0, None),
    ],
)
def test_class_of_an_end(
    status: str | None, reason: str | None, runtime: float | None, expected: str | None
) -> None:
    types = {"status": pl.String, "end_reason": pl.String, "runtime_s": pl.Float64}
    rows = [{"status": status, "end_reason": reason, "runtime_s": runtime}]
    found = traceana.with_end_class(pl.DataFrame(rows, schema=types))["end_class"].item()
    assert found == expected
    assert found is None or found in CLASSES


def test_without_reasons_the_status_decides() -> None:
    found = traceana.with_end_class(pl.DataFrame({"status": ["failed", "cancelled"]}))
    assert found["end_class"].to_list() == ["job", "removed before start"]
