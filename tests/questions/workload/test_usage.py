"""GPU-hours by group."""

from __future__ import annotations

import polars as pl
import pytest

import traceana
from traceana.errors import DataError

JOBS = pl.DataFrame(
    {
        "user": ["ann", "ann", "bob", "bob", None],
        "queue": ["a", "b", "a", "a", "a"],
        "gpus": [1.0, 2.0, 4.0, None, 1.0],
        "runtime_s": [3600.0, 1800.0, 7200.0, 60.0, 3600.0],
        "status": ["completed", "failed", "cancelled", "failed", "running"],
    }
)


def test_hours_and_losses_are_summed_by_hand() -> None:
    found = traceana.gpu_hours_by(JOBS, "user")
    rows = {row["user"]: row for row in found.rows(named=True)}
    assert found["user"].to_list() == ["bob", "ann", None]  # the largest first
    assert [rows[user]["gpu_hours"] for user in ("bob", "ann", None)] == [8, 2, 1]
    assert rows["bob"]["fraction_of_all"] == pytest.approx(8 / 11)
    assert (rows["bob"]["cancelled"], rows["bob"]["failed"]) == (1, 0)
    assert (rows["ann"]["cancelled"], rows["ann"]["failed"]) == (0, 0.5)
    assert rows["bob"]["n_missing"] == 1


def test_status_may_be_the_group() -> None:
    by_status = traceana.gpu_hours_by(JOBS, "status").select("status", "gpu_hours")
    assert dict(by_status.iter_rows()) == {
        "cancelled": 8,
        "completed": 1,
        "running": 1,
        "failed": 1,
    }


@pytest.mark.parametrize("engine", ["lazy", "pandas"])
def test_other_engines_give_the_same(engine: str) -> None:
    frame = JOBS.lazy() if engine == "lazy" else JOBS.to_pandas()
    assert traceana.gpu_hours_by(frame, "user").equals(traceana.gpu_hours_by(JOBS, "user"))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(DataError, match="runtime_s is missing"):
        traceana.gpu_hours_by(JOBS.drop("runtime_s"), "user")


def test_shares_of_less_than_an_hour_and_of_none() -> None:
    jobs = pl.DataFrame(
        {
            "user": ["a", "a", "a", "b"],
            "gpus": [1.0, 1, 1, 0],
            "runtime_s": [400.0, 500, 300, 100],
            "status": ["failed", "cancelled", "completed", "failed"],
        }
    )
    a, b = traceana.gpu_hours_by(jobs, "user").rows(named=True)
    assert (a["failed"], a["cancelled"]) == pytest.approx((1 / 3, 5 / 12))
    assert a["gpu_hours"] == 0.333333333333  # the digits that no order of the sum changes
    assert (b["gpu_hours"], b["failed"], b["cancelled"]) == (0, None, None)


def test_no_gpu_hours_have_no_shares() -> None:
    found = traceana.gpu_hours_by(JOBS.with_columns(runtime_s=0.0), "queue")
    assert found.select("gpu_hours", "fraction_of_all", "failed", "cancelled").unique().rows() == [
        (0, None, None, None)
    ]
